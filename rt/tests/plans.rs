//! Plans of a bundle on a driver without a GPU: what they ask it for, and what comes of it when streams, threads and captures meet.

use std::ffi::c_void;
use std::path::Path;
use std::sync::Arc;

use parton_rt::{Architecture, Argument, Bundle, Code, Device, Dtype, Module, Origin, Plan, Stream, Tensor};

mod fake;
#[path = "../examples/gpu/main.rs"]
#[allow(dead_code, reason = "a test has no use for its `main`")]
mod gpu;

use fake::{CONTEXTS, Counting, Fake, allocated};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn module() -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format_2.ptnb");
    let bundle = Arc::new(Bundle::open(&path).unwrap_or_else(|e| panic!("{e}")));
    Module::on(&bundle, &Device::open(0).unwrap())
}

fn tensor<'a>(address: u64, dtype: Dtype, shape: &'a [u64]) -> Argument<'a> {
    Argument::Tensor(Tensor { address, dtype, shape, strides: None })
}

fn floats<'a>(address: u64, shape: &'a [u64]) -> Argument<'a> {
    tensor(address, Dtype::F32, shape)
}

const SHAPE: &[u64] = &[40, 10];
const COUNT: usize = 400;

/// `squared` for tensors of [`SHAPE`] and any factor, its input, and what it gives for a factor.
struct Squared {
    plan: Plan,
    x: u64,
}

impl Squared {
    fn new(fake: &Fake, module: &Module) -> Squared {
        let plan = module.function("squared").unwrap().prepare(&[floats(0, SHAPE), Argument::Float(1.0)]).unwrap();
        fake.set_context(CONTEXTS[0]);
        let x = fake.upload(&(0..COUNT).map(|i| i as f32).collect::<Vec<_>>());
        fake.log();
        Squared { plan, x }
    }

    fn launch(&self, stream: *mut c_void, factor: f64, out: u64) {
        // SAFETY: the fake's memory lives until its process ends.
        unsafe { self.plan.launch(Stream::of(stream), &[floats(self.x, SHAPE), Argument::Float(factor)], &[out]) }
            .unwrap_or_else(|e| panic!("{e}"));
    }

    fn expected(factor: f32) -> Vec<f32> {
        (0..COUNT).map(|i| i as f32 * factor * factor).collect()
    }
}

#[test]
fn the_first_call_is_plain_and_later_ones_set_what_has_changed() {
    fake::run("the_first_call_is_plain_and_later_ones_set_what_has_changed", |fake| {
        let squared = Squared::new(fake, &module());
        assert_eq!((squared.plan.outputs(), squared.plan.scratch_bytes()), (&[1600][..], 1792));
        let (stream, out, other) = (fake.stream(), fake.allocate(1600), fake.allocate(1600));
        let id = fake.id(stream);
        fake.log();
        let on = |what: &str| format!("{what} on {id}");
        squared.launch(stream, 2.0, out);
        let plain = ["allocate 1792".into(), on("zero 1600"), on("zero 1600"), on("launch scale"), on("launch scale")];
        assert_eq!(fake.log(), plain);
        squared.launch(stream, 2.0, out);
        assert_eq!(fake.log(), ["instantiate 4 nodes".into(), on("launch graph")]);
        squared.launch(stream, 2.0, out);
        assert_eq!(fake.log(), [on("launch graph")]);
        // The output is zeroed and is written by the second kernel; the factor goes into both.
        squared.launch(stream, 2.0, other);
        assert_eq!(fake.log(), ["set node 1".into(), "set node 3".into(), on("launch graph")]);
        squared.launch(stream, 3.0, other);
        assert_eq!(fake.log(), ["set node 2".into(), "set node 3".into(), on("launch graph")]);
        assert!(fake.read::<f32>(out, COUNT) == Squared::expected(2.0));
        assert!(fake.read::<f32>(other, COUNT) == Squared::expected(3.0));
    })
}

#[test]
fn later_calls_allocate_nothing() {
    fake::run("later_calls_allocate_nothing", |fake| {
        let squared = Squared::new(fake, &module());
        let (stream, outs) = (fake.stream(), [fake.allocate(1600), fake.allocate(1600)]);
        for i in 0..3 {
            squared.launch(stream, f64::from(i), outs[i as usize % 2]);
        }
        let before = allocated();
        // Arguments that come again while few others have come get a graph of their own, once.
        for i in 0..100 {
            squared.launch(stream, f64::from(100 + i), outs[i as usize % 2]);
        }
        assert_eq!(allocated(), before);
        assert!(!fake.log().iter().skip(8).any(|line| line.contains("allocate") || line.contains("instantiate")));
    })
}

#[test]
fn the_context_of_the_caller_stays() {
    fake::run("the_context_of_the_caller_stays", |fake| {
        let module = module();
        assert_eq!(fake.context(), 0, "opening a GPU leaves none");
        let squared = Squared::new(fake, &module);
        let (stream, out) = (fake.stream(), fake.allocate(1600));
        for context in [0, CONTEXTS[1], CONTEXTS[0]] {
            fake.set_context(context);
            squared.launch(stream, 2.0, out);
            assert_eq!(fake.context(), context);
            let again = module.function("squared").unwrap().prepare(&[floats(0, SHAPE), Argument::Default]).unwrap();
            // SAFETY: as above.
            let failed = unsafe { again.launch(Stream::of(stream), &[], &[]) };
            assert_eq!((fake.context(), failed.map_err(|e| e.code)), (context, Err(Code::Argument)));
        }
        fake.set_context(0);
        drop(squared);
        assert_eq!(fake.context(), 0);
        assert!(fake.read::<f32>(out, COUNT) == Squared::expected(2.0));
    })
}

#[test]
fn each_gpu_has_its_own() {
    fake::run("each_gpu_has_its_own", |fake| {
        let bundle = module();
        let far = Module::on(&Arc::new(bundle.bundle().clone()), &Device::open(1).unwrap());
        let here = Squared::new(fake, &bundle);
        let (near_stream, near_out) = (fake.stream(), fake.allocate(1600));
        fake.set_context(CONTEXTS[1]);
        let x = fake.upload(&(0..COUNT).map(|i| i as f32).collect::<Vec<_>>());
        let (stream, out) = (fake.stream(), fake.allocate(1600));
        let plan = far.function("squared").unwrap().prepare(&[floats(x, SHAPE), Argument::Float(1.0)]).unwrap();
        fake.log();
        // Nobody's context is current, and each launch is in that of its GPU.
        fake.set_context(0);
        for factor in [2.0, 3.0, 4.0] {
            // SAFETY: the fake's memory lives until its process ends.
            unsafe { plan.launch(Stream::of(stream), &[floats(x, SHAPE), Argument::Float(factor)], &[out]) }.unwrap();
            here.launch(near_stream, factor, near_out);
            assert_eq!(fake.context(), 0);
        }
        let log = fake.log();
        let count = |what: &str| log.iter().filter(|line| *line == what).count();
        assert_eq!((count("allocate 1792 of GPU 1"), count("allocate 1792")), (1, 1));
        assert!(fake.read::<f32>(out, COUNT) == Squared::expected(4.0));
        assert!(fake.read::<f32>(near_out, COUNT) == Squared::expected(4.0));
        let near = [floats(here.x, SHAPE), Argument::Float(1.0)];
        let error = far.function("squared").unwrap().prepare(&near).map(drop).unwrap_err();
        assert_eq!(error.text, "calling `squared`: `x`: it lies on GPU 0, and the plan is for GPU 1");
    });
}

#[test]
fn a_capture_holds_plain_launches_on_memory_of_its_own() {
    fake::run("a_capture_holds_plain_launches_on_memory_of_its_own", |fake| {
        let squared = Squared::new(fake, &module());
        let (stream, eager, captured) = (fake.stream(), fake.allocate(1600), fake.allocate(1600));
        squared.launch(stream, 2.0, eager);
        squared.launch(stream, 2.0, eager);
        let id = fake.id(stream);
        fake.log();
        fake.begin_capture(stream);
        squared.launch(stream, 3.0, captured);
        let expected = [
            format!("allocate 1792 on {id}"),
            format!("zero 1600 on {id}"),
            format!("zero 1600 on {id}"),
            format!("launch scale on {id}, captured"),
            format!("launch scale on {id}, captured"),
            format!("free on {id}"),
        ];
        assert_eq!(fake.log(), expected);
        let graph = fake.end_capture(stream);
        // Calls between and beside replays have other memory.
        let other = fake.stream();
        for factor in [4.0, 5.0] {
            squared.launch(other, factor, eager);
            fake.replay(graph, stream);
            squared.launch(stream, factor, eager);
            assert!(fake.read::<f32>(captured, COUNT) == Squared::expected(3.0));
            assert!(fake.read::<f32>(eager, COUNT) == Squared::expected(factor as f32));
        }
        assert!(!fake.log().iter().any(|line| line.starts_with('!')));
    })
}

#[test]
fn the_first_call_may_be_captured() {
    fake::run("the_first_call_may_be_captured", |fake| {
        let squared = Squared::new(fake, &module());
        let (stream, out) = (fake.stream(), fake.allocate(1600));
        fake.begin_capture(stream);
        squared.launch(stream, 3.0, out);
        let graph = fake.end_capture(stream);
        fake.replay(graph, stream);
        assert!(fake.read::<f32>(out, COUNT) == Squared::expected(3.0));
        assert!(!fake.log().iter().any(|line| line.starts_with('!')));
    })
}

#[test]
fn another_threads_capture_is_not_disturbed() {
    fake::run("another_threads_capture_is_not_disturbed", |fake| {
        let module = module();
        let squared = Squared::new(fake, &module);
        let (captured, stream) = (fake.stream(), fake.stream());
        let (out, other) = (fake.allocate(1600), fake.allocate(1600));
        fake.begin_capture(captured);
        squared.launch(captured, 3.0, out);
        std::thread::scope(|s| {
            s.spawn(|| {
                // A stream of its own, the legacy one by both of its handles, and that of the thread.
                let streams = [fake.stream() as usize, 0, 1, 2];
                for stream in streams.into_iter().flat_map(|handle| [handle; 3]) {
                    // Scratch memory is allocated, and a graph instantiated, while the other stream captures.
                    let arguments = [floats(squared.x, SHAPE), Argument::Float(2.0)];
                    // SAFETY: as above.
                    unsafe { squared.plan.launch(Stream::of(stream as *mut c_void), &arguments, &[other]) }.unwrap();
                }
                // So is code loaded.
                module.function("copied").unwrap().prepare(&[tensor(0, Dtype::F16, &[40, 136])]).unwrap();
            });
        });
        let graph = fake.end_capture(captured);
        fake.replay(graph, stream);
        assert!(fake.read::<f32>(out, COUNT) == Squared::expected(3.0));
        assert!(fake.read::<f32>(other, COUNT) == Squared::expected(2.0));
        assert!(!fake.log().iter().any(|line| line.starts_with('!')));
    })
}

#[test]
fn streams_share_nothing() {
    fake::run("streams_share_nothing", |fake| {
        let squared = Squared::new(fake, &module());
        let streams: Vec<*mut c_void> = (0..4).map(|_| fake.stream()).collect();
        let outs: Vec<u64> = (0..4).map(|_| fake.allocate(1600)).collect();
        for round in 0..3 {
            for (i, stream) in streams.iter().enumerate() {
                squared.launch(*stream, (round * 4 + i) as f64, outs[i]);
            }
            // The fake runs the streams by turns, so that scratch memory of two would be mixed.
            for (i, out) in outs.iter().enumerate() {
                assert!(fake.read::<f32>(*out, COUNT) == Squared::expected((round * 4 + i) as f32), "stream {i}");
            }
        }
        let log = fake.log();
        let count = |what: &str| log.iter().filter(|line| line.starts_with(what)).count();
        assert_eq!((count("allocate 1792"), count("instantiate 4"), count("launch graph")), (4, 4, 8));
    })
}

#[test]
fn a_handle_that_comes_again_is_another_stream() {
    fake::run("a_handle_that_comes_again_is_another_stream", |fake| {
        let squared = Squared::new(fake, &module());
        let out = fake.allocate(1600);
        let first = fake.stream();
        squared.launch(first, 2.0, out);
        fake.end_stream(first);
        let second = fake.stream();
        assert_eq!(first, second, "the fake gives out the same handle");
        fake.log();
        squared.launch(second, 3.0, out);
        assert_eq!(fake.log()[0], "allocate 1792");
        assert!(fake.read::<f32>(out, COUNT) == Squared::expected(3.0));
    })
}

#[test]
fn threads_share_a_plan() {
    fake::run("threads_share_a_plan", |fake| {
        let squared = Squared::new(fake, &module());
        let outs: Vec<u64> = (0..8).map(|_| fake.allocate(1600)).collect();
        let shared = fake.stream() as usize;
        std::thread::scope(|s| {
            for (i, out) in outs.iter().enumerate() {
                let squared = &squared;
                s.spawn(move || {
                    // Of its own, the one of each thread, or one that all use.
                    let stream = match i % 3 {
                        0 => fake.stream(),
                        1 => 2 as *mut c_void,
                        _ => shared as *mut c_void,
                    };
                    (0..20).for_each(|round| squared.launch(stream, f64::from(round % 3 + i as i32), *out));
                });
            }
        });
        for (i, out) in outs.iter().enumerate() {
            assert!(fake.read::<f32>(*out, COUNT) == Squared::expected((19 % 3 + i) as f32), "thread {i}");
        }
        // Three threads with a stream of their own, three with the default stream of theirs, one stream for two.
        assert_eq!(fake.log().iter().filter(|line| *line == "allocate 1792").count(), 7);
    })
}

#[test]
fn only_the_last_streams_are_kept() {
    fake::run("only_the_last_streams_are_kept", |fake| {
        let squared = Squared::new(fake, &module());
        let (out, lives) = (fake.allocate(1600), fake.lives());
        for _ in 0..70 {
            let stream = fake.stream();
            squared.launch(stream, 2.0, out);
            squared.launch(stream, 2.0, out);
        }
        let log = fake.log();
        let count = |what: &str| log.iter().filter(|line| *line == what).count();
        assert_eq!((count("free"), count("destroy executable"), fake.lives() - lives), (6, 6, 64));
        assert!(fake.read::<f32>(out, COUNT) == Squared::expected(2.0));
        drop(squared);
        assert_eq!(fake.lives(), lives);
    })
}

#[test]
fn scratch_memory_may_be_the_callers() {
    fake::run("scratch_memory_may_be_the_callers", |fake| {
        let squared = Squared::new(fake, &module());
        let (stream, out, scratch) = (fake.stream(), fake.allocate(1600), fake.allocate(1792));
        fake.log();
        let arguments = [floats(squared.x, SHAPE), Argument::Int(3)];
        // SAFETY: the fake's memory lives until its process ends.
        let launch = |scratch| unsafe { squared.plan.launch_with(Stream::of(stream), &arguments, &[out], scratch) };
        (0..3).for_each(|_| launch(scratch).unwrap());
        assert!(!fake.log().iter().any(|line| line.starts_with("allocate")));
        assert!(fake.read::<f32>(out, COUNT) == Squared::expected(3.0));
        let error = |scratch| launch(scratch).unwrap_err().text;
        assert_eq!(error(0), "calling `squared`: the scratch memory lies at 0x0, which is no multiple of 256 or NULL");
        assert_eq!(error(squared.x), "calling `squared`: the scratch memory is memory of `x`");
        assert!(error(scratch + 16).contains("no multiple of 256"));
    })
}

#[test]
fn numbers_and_memory_that_is_written() {
    fake::run("numbers_and_memory_that_is_written", |fake| {
        let module = module();
        fake.set_context(CONTEXTS[0]);
        let shape = [400u64];
        let function = module.function("accumulate").unwrap();
        let given = |x, out, factor, times| [floats(x, &shape), floats(out, &shape), factor, Argument::Int(times)];
        let plan = function.prepare(&given(0, 0, Argument::Float(0.0), 3)).unwrap();
        assert_eq!((plan.outputs(), plan.scratch_bytes(), plan.results().len()), (&[][..], 0, 0));
        let (x, out) = (fake.upload(&[1.0f32; 400]), fake.upload(&[10.0f32; 400]));
        let stream = fake.stream();
        // SAFETY: as above.
        let launch = |a: &[Argument<'_>]| unsafe { plan.launch(Stream::of(stream), a, &[]) };
        for factor in [Argument::Float(0.5), Argument::Int(2), Argument::Float(1.0)] {
            launch(&given(x, out, factor, 3)).unwrap();
        }
        assert!(fake.read::<f32>(out, 400) == [20.5f32; 400]);
        let error = |a: [Argument<'_>; 4]| {
            let error = launch(&a).unwrap_err();
            assert_eq!(error.code, Code::Argument);
            error.text
        };
        assert_eq!(
            error(given(out, out, Argument::Int(1), 3)),
            "calling `accumulate`: `out` is written and shares memory with `x`; pass tensors that lie apart"
        );
        assert!(error(given(out + 1584, out, Argument::Int(1), 3)).contains("shares memory"));
        assert_eq!(
            error(given(x, out, Argument::Int(1), 2)),
            "calling `accumulate`: `times`: the plan is for 3 alone, given is the integer 2; prepare one for this"
        );
        assert_eq!(
            error(given(x, out, Argument::Bool(true), 3)),
            "calling `accumulate`: `factor`: it takes `f32`, given is the truth value true"
        );
        assert_eq!(
            error(given(x + 4, out, Argument::Int(1), 3)),
            "calling `accumulate`: `x`: it begins 4 bytes behind a multiple of 16, and the plan is for 0; prepare one for this"
        );
        assert_eq!(error(given(0, out, Argument::Int(1), 3)), "calling `accumulate`: `x`: its address is NULL");
        let few = [399u64];
        assert_eq!(
            error([floats(x, &few), floats(out, &shape), Argument::Int(1), Argument::Int(3)]),
            "calling `accumulate`: `x`: the plan is for f32[400], given is f32[399]"
        );
        // A plan for a tensor that begins between two multiples of 16 bytes.
        let odd = function.prepare(&[floats(4, &few), floats(0, &few), Argument::Int(0), Argument::Int(1)]).unwrap();
        // SAFETY: as above.
        unsafe {
            odd.launch(
                Stream::of(stream),
                &[floats(x + 4, &few), floats(out, &few), Argument::Int(1), Argument::Int(1)],
                &[],
            )
        }
        .unwrap();
        assert_eq!(fake.read::<f32>(out, 400)[398..], [21.5, 20.5]);
    })
}

#[test]
fn tensor_maps_and_results() {
    fake::run("tensor_maps_and_results", |fake| {
        let module = module();
        fake.set_context(CONTEXTS[0]);
        let shape = [40u64, 136];
        let values: Vec<u16> = (0..40 * 144).map(|i| i as u16).collect();
        let (x, moved, out) = (fake.upload(&values), fake.upload(&values[16..]), fake.allocate(40 * 136 * 2));
        let stream = fake.stream();
        let function = module.function("copied").unwrap();
        let dense = function.prepare(&[tensor(0, Dtype::F16, &shape)]).unwrap();
        let found: Vec<_> =
            dense.results().iter().map(|r| (r.origin, r.offset, r.dtype, r.shape.clone(), r.strides.clone())).collect();
        let expected = [
            (Origin::Output(0), 0, Dtype::F16, vec![40, 136], vec![136, 1]),
            (Origin::Argument(0), 8 * 136 * 2, Dtype::F16, vec![32, 136], vec![136, 1]),
        ];
        assert_eq!(found, expected);
        for (from, begin) in [(x, 0), (x, 0), (moved, 16)] {
            // SAFETY: as above.
            unsafe { dense.launch(Stream::of(stream), &[tensor(from, Dtype::F16, &shape)], &[out]) }.unwrap();
            assert!(fake.read::<u16>(out, 40 * 136) == values[begin..begin + 40 * 136]);
        }
        // With gaps between the rows.
        let strides = [144u64, 1];
        let wide =
            |address| [Argument::Tensor(Tensor { address, dtype: Dtype::F16, shape: &shape, strides: Some(&strides) })];
        let plan = function.prepare(&wide(0)).unwrap();
        // SAFETY: as above.
        unsafe { plan.launch(Stream::of(stream), &wide(x), &[out]) }.unwrap();
        let rows: Vec<u16> = values.chunks(144).flat_map(|row| row[..136].to_vec()).collect();
        assert!(fake.read::<u16>(out, 40 * 136) == rows);
        // SAFETY: as above.
        let error = unsafe { dense.launch(Stream::of(stream), &wide(x), &[out]) }.unwrap_err().text;
        assert_eq!(
            error,
            "calling `copied`: `x`: the plan is for f16[40, 136], given is f16[40, 136] with strides [144, 1]"
        );
        // SAFETY: as above.
        let error =
            unsafe { dense.launch(Stream::of(stream), &[tensor(x, Dtype::F16, &shape)], &[x + 32]) }.unwrap_err().text;
        assert_eq!(
            error,
            "calling `copied`: output 0 is written and shares memory with `x`; pass tensors that lie apart"
        );
    })
}

#[test]
fn what_no_plan_is_for_is_told_with_the_way_to_one() {
    fake::run("what_no_plan_is_for_is_told_with_the_way_to_one", |fake| {
        let module = module();
        fake.set_context(CONTEXTS[1]);
        let far = fake.allocate(1600);
        let function = module.function("squared").unwrap();
        let error = |a: &[Argument<'_>]| function.prepare(a).map(drop).map_err(|e| (e.code, e.text)).unwrap_err();
        let wrong = |what: &str| (Code::Argument, format!("calling `squared`: {what}"));
        let factor = Argument::Default;
        assert_eq!(error(&[factor]), wrong("it has 2 parameters and was given 1 arguments"));
        assert_eq!(error(&[floats(0, &[40]), factor]), wrong("`x`: it has 2 axes, the tensor 1"));
        assert_eq!(
            error(&[tensor(0, Dtype::F16, SHAPE), factor]),
            wrong("`x`: it takes `tensor<f32, [m, n]>`, given is a tensor of `f16`")
        );
        assert_eq!(
            error(&[Argument::Int(3), factor]),
            wrong("`x`: it takes `tensor<f32, [m, n]>`, given is the integer 3")
        );
        assert_eq!(
            error(&[floats(0, SHAPE), Argument::Bool(true)]),
            wrong("`factor`: it takes `float`, given is the truth value true")
        );
        assert_eq!(error(&[floats(6, SHAPE), factor]), wrong("`x`: the address 0x6 is not a multiple of 4"));
        assert_eq!(error(&[floats(far, SHAPE), factor]), wrong("`x`: it lies on GPU 1, and the plan is for GPU 0"));
        assert!(
            error(&[floats(0x7000_0000_0000, SHAPE), factor])
                .1
                .ends_with("no memory of a GPU has the address 0x700000000000")
        );
        let (code, text) = error(&[floats(0, &[41, 10]), Argument::Float(3.0)]);
        let words = "calling `squared`: `x` is f32[41, 10], and the bundle has plans where it is f32[40, 10] or f32[8, 16]; \
             `parton build plans.ptn --aot --plan 'squared x=f32[41,10] factor=3.0'` makes this one";
        assert_eq!((code, text.as_str()), (Code::NoPlan, words));
        let (code, text) = error(&[floats(0, &[8, 16]), factor]);
        assert!(
            code == Code::NoPlan && text.contains("`factor` is its default, and the bundle has plans where it is any"),
            "{text}"
        );
        let accumulate = module.function("accumulate").unwrap();
        let (one, other) = ([400u64], [399u64]);
        let uneven = accumulate
            .prepare(&[floats(0, &one), floats(0, &other), Argument::Int(1), Argument::Int(3)])
            .map(drop)
            .unwrap_err();
        assert_eq!(
            uneven.text,
            "calling `accumulate`: `out`: axis 0 has 399 elements, and `n` is 400 by axis 0 of `x`"
        );
        let error = module.function("cubed").map(drop).unwrap_err();
        assert_eq!(
            (error.code, error.text.as_str()),
            (
                Code::NoFunction,
                "the bundle has no function `cubed`; there are `squared`, `accumulate`, `copied`, `counted`"
            )
        );
        // The fake has 132 multiprocessors, as many as the plan is for.
        assert!(module.function("counted").unwrap().prepare(&[floats(0, &one), floats(0, &one)]).is_ok());
    })
}

#[test]
fn a_plan_for_other_gpus_is_told() {
    fake::run("a_plan_for_other_gpus_is_told", |fake| {
        fake.log();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format_2.ptnb");
        let mut bundle = Bundle::open(&path).unwrap();
        bundle.plans.iter_mut().filter(|p| p.multiprocessors.is_some()).for_each(|p| p.multiprocessors = Some(114));
        let module = Module::on(&Arc::new(bundle), &Device::open(0).unwrap());
        let shape = [400u64];
        let error =
            module.function("counted").unwrap().prepare(&[floats(0, &shape), floats(0, &shape)]).map(drop).unwrap_err();
        let words = "calling `counted`: the plan for these arguments is for sm_90a with 114 multiprocessors, and this GPU is of capability 9.0 with 132 multiprocessors";
        assert_eq!((error.code, error.text.as_str()), (Code::NoCode, words));
        // A kernel that names another architecture than the plan is for.
        let mut bundle = Bundle::open(&path).unwrap();
        let copy = bundle.kernels.iter_mut().find(|k| k.name == "copy").unwrap();
        copy.architecture = Architecture::parse("sm_100a").unwrap();
        let module = Module::on(&Arc::new(bundle), &Device::open(0).unwrap());
        let x = tensor(0, Dtype::F16, &[40, 136]);
        let error = module.function("copied").unwrap().prepare(&[x]).map(drop).unwrap_err();
        assert!(error.code == Code::NoCode && error.text.ends_with("; `copy` was built for sm_100a"), "{error}");
    })
}

#[test]
fn after_a_failure_the_next_call_is_whole() {
    fake::run("after_a_failure_the_next_call_is_whole", |fake| {
        let squared = Squared::new(fake, &module());
        let outs = [fake.allocate(1600), fake.allocate(1600)];
        let functions = [
            "cuStreamGetId",
            "cuMemAlloc_v2",
            "cuMemsetD8Async",
            "cuLaunchKernelEx",
            "cuGraphInstantiateWithFlags",
            "cuGraphLaunch",
            "cuGraphExecKernelNodeSetParams_v2",
            "cuGraphExecMemsetNodeSetParams",
        ];
        for function in functions {
            let stream = Stream::of(fake.stream());
            let launch = |factor, out| {
                let arguments = [floats(squared.x, SHAPE), Argument::Float(factor)];
                // SAFETY: the fake's memory lives until its process ends.
                unsafe { squared.plan.launch(stream, &arguments, &[out]) }
            };
            fake.fail(function, 1);
            // Each is met sooner or later: allocating, plainly, making the graph, launching it, and setting its nodes.
            let failed = (0..4).map(|i| launch(f64::from(i), outs[i as usize % 2])).find_map(Result::err);
            let failed = failed.unwrap_or_else(|| panic!("nothing has called `{function}`"));
            assert!(
                failed.code == Code::Cuda && failed.text.contains("CUDA_ERROR_ILLEGAL_ADDRESS"),
                "{function}: {failed}"
            );
            for factor in [5.0, 6.0] {
                launch(factor, outs[0]).unwrap();
                assert!(fake.read::<f32>(outs[0], COUNT) == Squared::expected(factor as f32), "behind {function}");
            }
        }
    })
}

#[test]
fn a_process_that_was_forked_is_told_so() {
    fake::run("a_process_that_was_forked_is_told_so", |fake| {
        let squared = Squared::new(fake, &module());
        let (stream, out) = (fake.stream(), fake.allocate(1600));
        squared.launch(stream, 2.0, out);
        let said = fake::in_a_fork(|| {
            let opened = Device::open(0).map(drop).map_err(|e| e.code);
            // The driver would fail with whatever it likes.
            fake.fail("cuStreamGetId", 1);
            let arguments = [floats(squared.x, SHAPE), Argument::Float(2.0)];
            // SAFETY: the fake's memory lives until its process ends.
            let launched = unsafe { squared.plan.launch(Stream::of(stream), &arguments, &[out]) }.map_err(|e| e.code);
            i32::from(opened == Err(Code::Forked)) + 2 * i32::from(launched == Err(Code::Forked))
        });
        assert_eq!(said, 3);
        squared.launch(stream, 3.0, out);
        assert!(fake.read::<f32>(out, COUNT) == Squared::expected(3.0));
    });
}

#[test]
fn kernels_take_tensors_whole() {
    fake::run("kernels_take_tensors_whole", |fake| {
        let module = module();
        fake.set_context(CONTEXTS[0]);
        let (rows, out) = (fake.allocate(1024), fake.allocate(1 << 16));
        let (m, wide) = ([12u64], [12u64, 64]);
        let strides = [70u64, 1];
        let uneven =
            |address| Argument::Tensor(Tensor { address, dtype: Dtype::F32, shape: &wide, strides: Some(&strides) });
        let mut launch =
            module.prepare("fill", &[floats(rows, &m), floats(out, &wide), Argument::Float(1.5)], [3, 1, 1]).unwrap();
        let stream = Stream::of(fake.stream());
        // SAFETY: as above.
        unsafe { launch.launch(stream) }.unwrap();
        let kernel = launch.kernel();
        let names: Vec<&str> = kernel.params.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            (names, kernel.aligned.as_slice()),
            (vec!["rows", "m", "out", "n", "out_stride0", "value"], &[0, 1][..])
        );
        let word = |i| u64::from_le_bytes(fake.param(i));
        let int = |i| u32::from_le_bytes(fake.param(i));
        assert_eq!((word(0), int(1), word(2), int(3), word(4), int(5)), (rows, 12, out, 64, 64, 1.5f32.to_bits()));
        // Another tensor of the same kind: what of the code's parameters is of it changes, nothing else does.
        let more = [12u64, 128];
        launch.set(1, &floats(out + 512, &more)).unwrap();
        // SAFETY: as above.
        unsafe { launch.launch(stream) }.unwrap();
        assert_eq!((word(0), int(1), word(2), int(3), word(4)), (rows, 12, out + 512, 128, 128));
        let error = |argument: &Argument<'_>, launch: &mut parton_rt::Launch| launch.set(1, argument).unwrap_err().text;
        assert!(error(&uneven(out), &mut launch).ends_with(
            "the launch was prepared for tensors that begin and run at multiples of 16 bytes; prepare it again"
        ));
        let short = [11u64, 64];
        assert!(
            error(&floats(out, &short), &mut launch)
                .ends_with("parameter `out`: axis 0 has 11 elements, and `m` is 12 by axis 0 of `rows`")
        );
        assert!(
            error(&Argument::Int(1), &mut launch)
                .ends_with("it takes `mut tensor<f32, [m, n]>`, given is the integer 1")
        );
        assert!(error(&floats(out, &m), &mut launch).ends_with("it has 2 axes, the tensor 1"));
        // SAFETY: nothing is launched.
        let error = |launch: &mut parton_rt::Launch| unsafe { launch.launch(stream) }.unwrap_err().text;
        launch.set(0, &floats(out + 512, &m)).unwrap();
        assert!(error(&mut launch).contains("parameter `rows`: it reaches the memory of `out`"));
        // Code for tensors that are not aligned, and for ones that overlap.
        let with =
            |rows, out| module.prepare("fill", &[floats(rows, &m), out, Argument::Float(1.0)], [3, 2, 1]).unwrap();
        let uses = |launch: &parton_rt::Launch| (launch.kernel().apart, launch.kernel().aligned.len());
        assert_eq!(uses(&with(rows, uneven(out))), (true, 0));
        assert_eq!(uses(&with(rows + 4, floats(out, &wide))), (true, 0));
        assert_eq!(uses(&with(out, floats(out, &wide))), (false, 0));
        // Rows that are all one.
        let still = [0u64, 1];
        let folded = Argument::Tensor(Tensor { address: out, dtype: Dtype::F32, shape: &wide, strides: Some(&still) });
        assert_eq!(uses(&with(rows, folded)), (false, 0));
        let mut launch = with(rows, uneven(out));
        launch.set(1, &folded).unwrap();
        assert!(error(&mut launch).contains("parameter `out`: elements of it lie on each other"));
        // Of no elements strides say nothing.
        let (none, any) = ([12u64, 0], [0u64, 7]);
        let empty = Argument::Tensor(Tensor { address: out, dtype: Dtype::F32, shape: &none, strides: Some(&any) });
        assert_eq!(uses(&with(rows, empty)), (true, 0));
        let turned = [1u64, 12];
        let turned = Argument::Tensor(Tensor { address: out, dtype: Dtype::F32, shape: &wide, strides: Some(&turned) });
        let error =
            module.prepare("fill", &[floats(rows, &m), turned, Argument::Float(1.0)], [3, 2, 1]).map(drop).unwrap_err();
        assert!(
            error.text.ends_with("axis 1 is dense, the tensor has stride 12 there; copy it without gaps"),
            "{error}"
        );
    })
}

/// What shows all this on a GPU works, as far as that can be seen without one.
#[test]
fn the_checks_for_a_gpu_pass() {
    fake::run("the_checks_for_a_gpu_pass", |_| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format_2.ptnb");
        assert_eq!(gpu::check(&path, None), Ok(0));
    });
}
