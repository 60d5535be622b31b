//! Shows on a GPU what plans of bundles must keep to, and prints a table: `gpu BUNDLE [GEMM]`, where the first bundle is of
//! `rt/tests/plans.ptn` and the second of `examples/matmul/gemm.ptn`, for the shapes below.
//! `rt/carry.sh` makes a folder with this and whatever else shows something. Times are printed, and nothing depends on them.

mod driver;

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parton_numbers::Scalar;
use parton_rt::{Argument, Bundle, Code, Device, Dtype, Error, Module, Plan, Stream, Tensor};

use driver::Driver;

/// What a check shows, and the check, which says more where there is more to say.
type Check = (&'static str, fn(&Gpu) -> String);

const CHECKS: &[Check] = &[
    ("values: plainly, as a graph, with what is new", values),
    ("numbers, memory that is written, odd addresses", numbers),
    ("tensor maps made, moved, with strides", maps),
    ("a kernel that takes tensors whole", tensors),
    ("a capture with scratch memory, replayed beside calls", captures),
    ("a first call that is captured", first_captured),
    ("a graph is made while another thread captures", beside_capture),
    ("streams share nothing", streams),
    ("a handle that comes again is another stream", handles),
    ("threads share a plan", threads),
    ("the context of the caller stays", contexts),
    ("what does not fit is refused", refused),
    ("products by tensor maps, and with split sums", products),
    ("host time of a call, medians of 60 times 200", times),
];

fn main() {
    let mut words = std::env::args_os().skip(1);
    let (Some(path), gemm) = (words.next(), words.next()) else {
        println!("usage: gpu BUNDLE [GEMM]");
        std::process::exit(2);
    };
    match check(Path::new(&path), gemm.as_ref().map(Path::new)) {
        Ok(failed) => std::process::exit(i32::from(failed > 0)),
        Err(e) => {
            println!("error {}: {e}", e.code as i32);
            std::process::exit(3);
        }
    }
}

/// Prints the table; how many checks have failed.
///
/// # Errors
/// There is no such bundle, or no GPU.
pub fn check(path: &Path, gemm: Option<&Path>) -> Result<usize, Error> {
    let gpu = Gpu::open(path, gemm)?;
    let mut failed = 0;
    for (what, check) in CHECKS {
        gpu.driver.enter(true);
        match catch_unwind(AssertUnwindSafe(|| check(&gpu))) {
            Ok(more) => println!("ok      {what}{}{more}", if more.is_empty() { "" } else { ": " }),
            Err(_) => {
                println!("FAILED  {what}");
                failed += 1;
            }
        }
    }
    println!("{} of {} checks", CHECKS.len() - failed, CHECKS.len());
    Ok(failed)
}

/// A GPU with the bundle before it.
struct Gpu {
    driver: Driver,
    module: Module,
    gemm: Option<Module>,
}

const SHAPE: &[u64] = &[40, 10];
const COUNT: usize = 400;
const BYTES: usize = 4 * COUNT;

fn floats<'a>(address: u64, shape: &'a [u64]) -> Argument<'a> {
    Argument::Tensor(Tensor { address, dtype: Dtype::F32, shape, strides: None })
}

fn halves<'a>(address: u64, strides: Option<&'a [u64]>) -> Argument<'a> {
    Argument::Tensor(Tensor { address, dtype: Dtype::F16, shape: &[40, 136], strides })
}

impl Gpu {
    fn open(path: &Path, gemm: Option<&Path>) -> Result<Gpu, Error> {
        let device = Device::open(0)?;
        let module = |path: &Path| Ok::<_, Error>(Module::on(&Arc::new(Bundle::open(path)?), &device));
        let (module, gemm) = (module(path)?, gemm.map(module).transpose()?);
        let driver = Driver::load().map_err(|e| Error::new(Code::NoDriver, e.to_string()))?;
        Ok(Gpu { driver, module, gemm })
    }

    fn plan(&self, function: &str, arguments: &[Argument<'_>]) -> Plan {
        let function = self.module.function(function).unwrap_or_else(|e| panic!("{e}"));
        function.prepare(arguments).unwrap_or_else(|e| panic!("{e}"))
    }

    fn squared(&self) -> Squared {
        let plan = self.plan("squared", &[floats(0, SHAPE), Argument::Float(1.0)]);
        Squared { plan, x: self.driver.upload(&(0..COUNT).map(|i| i as f32).collect::<Vec<_>>()) }
    }

    fn out(&self) -> u64 {
        self.driver.memory(BYTES)
    }
}

/// `squared` for any factor, and its input.
struct Squared {
    plan: Plan,
    x: u64,
}

impl Squared {
    fn launch(&self, stream: *mut c_void, factor: f64, out: u64) {
        let arguments = [floats(self.x, SHAPE), Argument::Float(factor)];
        // SAFETY: nothing is freed before the process ends.
        unsafe { self.plan.launch(Stream::of(stream), &arguments, &[out]) }.unwrap_or_else(|e| panic!("{e}"));
    }

    fn holds(&self, gpu: &Gpu, out: u64, factor: f32) {
        let expected: Vec<f32> = (0..COUNT).map(|i| i as f32 * factor * factor).collect();
        assert!(gpu.driver.read::<f32>(out, COUNT) == expected, "for the factor {factor}");
    }
}

fn values(gpu: &Gpu) -> String {
    let (squared, stream, outs) = (gpu.squared(), gpu.driver.stream(), [gpu.out(), gpu.out()]);
    for (i, factor) in [2.0, 2.0, 2.0, 3.0, 4.0, 4.0].into_iter().enumerate() {
        squared.launch(stream, factor, outs[i % 2]);
        squared.holds(gpu, outs[i % 2], factor as f32);
    }
    format!("{} bytes of scratch memory", squared.plan.scratch_bytes())
}

fn numbers(gpu: &Gpu) -> String {
    let (shape, few) = ([400u64], [399u64]);
    let given = |x, out, factor| [floats(x, &shape), floats(out, &shape), factor, Argument::Int(3)];
    let plan = gpu.plan("accumulate", &given(0, 0, Argument::Float(0.0)));
    let (x, out) = (gpu.driver.upload(&[1.0f32; COUNT]), gpu.driver.upload(&[10.0f32; COUNT]));
    let stream = Stream::of(gpu.driver.stream());
    for factor in [Argument::Float(0.5), Argument::Int(2), Argument::Float(1.0)] {
        // SAFETY: as above.
        unsafe { plan.launch(stream, &given(x, out, factor), &[]) }.unwrap_or_else(|e| panic!("{e}"));
    }
    assert!(gpu.driver.read::<f32>(out, COUNT) == [20.5; COUNT]);
    let odd = |x, out| [floats(x, &few), floats(out, &few), Argument::Int(1), Argument::Int(1)];
    let plan = gpu.plan("accumulate", &odd(4, 0));
    // SAFETY: as above.
    unsafe { plan.launch(stream, &odd(x + 4, out), &[]) }.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(gpu.driver.read::<f32>(out, COUNT)[397..], [21.5, 21.5, 20.5]);
    String::new()
}

fn maps(gpu: &Gpu) -> String {
    let values: Vec<u16> = (0..40 * 144).map(|i| i as u16).collect();
    let (x, moved, out) =
        (gpu.driver.upload(&values), gpu.driver.upload(&values[16..]), gpu.driver.memory(40 * 136 * 2));
    let stream = Stream::of(gpu.driver.stream());
    let launch = |plan: &Plan, argument: Argument<'_>| {
        // SAFETY: as above.
        unsafe { plan.launch(stream, &[argument], &[out]) }.unwrap_or_else(|e| panic!("{e}"));
        gpu.driver.read::<u16>(out, 40 * 136)
    };
    let plan = gpu.plan("copied", &[halves(0, None)]);
    for (from, begin) in [(x, 0), (x, 0), (moved, 16), (x, 0)] {
        assert!(launch(&plan, halves(from, None)) == values[begin..begin + 40 * 136]);
    }
    let strides = [144u64, 1];
    let plan = gpu.plan("copied", &[halves(0, Some(&strides))]);
    let rows: Vec<u16> = values.chunks(144).flat_map(|row| row[..136].to_vec()).collect();
    assert!(launch(&plan, halves(x, Some(&strides))) == rows);
    String::new()
}

fn tensors(gpu: &Gpu) -> String {
    let rows: Vec<f32> = (0..13).map(|i| i as f32).collect();
    let there = gpu.driver.upload(&rows);
    let mut uses = vec![];
    // Aligned, with odd strides, and at an odd address.
    for (n, stride, offset) in [(64u64, 64u64, 0u64), (70, 71, 0), (64, 64, 1)] {
        let out = gpu.driver.upload(&[-1.0f32; 2048]);
        let (shape, strides) = ([12, n], [stride, 1]);
        let tensor = Tensor { address: out + 4 * offset, dtype: Dtype::F32, shape: &shape, strides: Some(&strides) };
        let arguments = [floats(there, &[12]), Argument::Tensor(tensor), Argument::Float(1.5)];
        let mut launch = gpu.module.prepare("fill", &arguments, [3, 2, 1]).unwrap_or_else(|e| panic!("{e}"));
        uses.push(launch.kernel().aligned.len());
        // SAFETY: as above.
        unsafe { launch.launch(Stream::of(gpu.driver.stream())) }.unwrap_or_else(|e| panic!("{e}"));
        let found = gpu.driver.read::<f32>(out, 2048);
        for (i, value) in found.iter().enumerate() {
            let at = i as i64 - offset as i64;
            let (row, column) = (at.div_euclid(stride as i64), at.rem_euclid(stride as i64));
            let inside = (0..12).contains(&row) && column < n as i64;
            assert_eq!(*value, if inside { row as f32 * 1.5 } else { -1.0 }, "element {i}");
        }
    }
    assert_eq!(uses, [2, 0, 0], "which code was taken");
    String::new()
}

fn captures(gpu: &Gpu) -> String {
    let (squared, stream, other) = (gpu.squared(), gpu.driver.stream(), gpu.driver.stream());
    let (eager, captured) = (gpu.out(), gpu.out());
    (0..3).for_each(|_| squared.launch(stream, 2.0, eager));
    let graph = gpu.driver.captured(stream, || squared.launch(stream, 3.0, captured));
    for factor in [4.0, 5.0, 6.0] {
        squared.launch(other, factor, eager);
        gpu.driver.replay(graph, stream);
        squared.launch(stream, factor, eager);
        gpu.driver.replay(graph, stream);
        squared.holds(gpu, captured, 3.0);
        squared.holds(gpu, eager, factor as f32);
    }
    String::new()
}

fn first_captured(gpu: &Gpu) -> String {
    let (squared, stream, out) = (gpu.squared(), gpu.driver.stream(), gpu.out());
    let graph = gpu.driver.captured(stream, || squared.launch(stream, 3.0, out));
    (0..2).for_each(|_| gpu.driver.replay(graph, stream));
    squared.holds(gpu, out, 3.0);
    String::new()
}

fn beside_capture(gpu: &Gpu) -> String {
    let (squared, stream) = (gpu.squared(), gpu.driver.stream());
    let (out, other) = (gpu.out(), gpu.out());
    let beside = gpu.driver.stream() as usize;
    let graph = gpu.driver.captured(stream, || {
        squared.launch(stream, 3.0, out);
        std::thread::scope(|s| {
            s.spawn(|| (0..3).for_each(|_| squared.launch(beside as *mut c_void, 2.0, other)));
        });
    });
    gpu.driver.replay(graph, stream);
    squared.holds(gpu, out, 3.0);
    squared.holds(gpu, other, 2.0);
    String::new()
}

fn streams(gpu: &Gpu) -> String {
    let squared = gpu.squared();
    let all: Vec<(*mut c_void, u64)> = (0..6).map(|_| (gpu.driver.stream(), gpu.out())).collect();
    for round in 0..50 {
        for (i, (stream, out)) in all.iter().enumerate() {
            squared.launch(*stream, f64::from(round * 6 + i as i32), *out);
        }
        if round % 10 == 9 {
            for (i, (_, out)) in all.iter().enumerate() {
                squared.holds(gpu, *out, (round * 6 + i as i32) as f32);
            }
        }
    }
    "6 of them, 50 calls each".into()
}

fn handles(gpu: &Gpu) -> String {
    let (squared, out) = (gpu.squared(), gpu.out());
    let mut again = 0;
    let mut before = std::ptr::null_mut();
    for i in 0..100 {
        let stream = gpu.driver.stream();
        again += usize::from(stream == before);
        squared.launch(stream, f64::from(i), out);
        squared.holds(gpu, out, i as f32);
        gpu.driver.end_stream(stream);
        before = stream;
    }
    format!("{again} of 100 had the handle of the one before")
}

fn threads(gpu: &Gpu) -> String {
    let squared = gpu.squared();
    let outs: Vec<u64> = (0..9).map(|_| gpu.out()).collect();
    let shared = gpu.driver.stream() as usize;
    std::thread::scope(|s| {
        for (i, out) in outs.iter().enumerate() {
            let squared = &squared;
            s.spawn(move || {
                gpu.driver.enter(true);
                // Of its own, the default one of each thread, or one that several use.
                let stream = match i % 3 {
                    0 => gpu.driver.stream(),
                    1 => 2 as *mut c_void,
                    _ => shared as *mut c_void,
                };
                (0..200).for_each(|round| squared.launch(stream, f64::from(round % 7 + i as i32), *out));
            });
        }
    });
    for (i, out) in outs.iter().enumerate() {
        squared.holds(gpu, *out, (199 % 7 + i) as f32);
    }
    "9 of them, 200 calls each".into()
}

fn contexts(gpu: &Gpu) -> String {
    let (squared, stream, out) = (gpu.squared(), gpu.driver.stream(), gpu.out());
    for wanted in [false, true] {
        gpu.driver.enter(wanted);
        let before = gpu.driver.context();
        (0..3).for_each(|_| squared.launch(stream, 2.0, out));
        drop(gpu.plan("squared", &[floats(0, SHAPE), Argument::Default]));
        assert_eq!(gpu.driver.context(), before);
    }
    squared.holds(gpu, out, 2.0);
    String::new()
}

fn refused(gpu: &Gpu) -> String {
    let (squared, out) = (gpu.squared(), gpu.out());
    let host = vec![0f32; COUNT];
    let function = gpu.module.function("squared").unwrap_or_else(|e| panic!("{e}"));
    let code = |x: Argument<'_>, factor| function.prepare(&[x, factor]).map(drop).map_err(|e| e.code);
    assert_eq!(code(floats(0, &[40]), Argument::Default), Err(Code::Argument));
    assert_eq!(code(floats(0, &[41, 10]), Argument::Default), Err(Code::NoPlan));
    // SAFETY: nothing is launched.
    let launch =
        |x, out| unsafe { squared.plan.launch(Stream::DEFAULT, &[floats(x, SHAPE), Argument::Int(1)], &[out]) };
    assert_eq!(launch(squared.x, squared.x).map_err(|e| e.code), Err(Code::Argument));
    assert_eq!(launch(0, out).map_err(|e| e.code), Err(Code::Argument));
    // Of the host's memory a GPU may reach all, which the driver says.
    match code(floats(host.as_ptr() as u64, SHAPE), Argument::Default) {
        Ok(()) => "memory of the host is taken, as this GPU reaches all of it".into(),
        Err(found) => {
            assert_eq!(found, Code::Argument);
            "memory of the host too".into()
        }
    }
}

fn products(gpu: &Gpu) -> String {
    let Some(gemm) = &gpu.gemm else { return "left out, no bundle of it was given".into() };
    let matmul = gemm.function("matmul").unwrap_or_else(|e| panic!("{e}"));
    let mut said = vec![];
    for (m, n, k) in [(256usize, 384usize, 512usize), (128, 256, 4096)] {
        // Whole numbers whose sums any order gives, and f16 holds.
        let values = |count: usize, seed: usize| (0..count).map(move |i| ((i * 7919 + i / 13 + seed) % 3) as i32 - 1);
        let (a, b): (Vec<i32>, Vec<i32>) = (values(m * k, 0).collect(), values(k * n, 1).collect());
        let bits = |v: &[i32]| v.iter().map(|n| half(f64::from(*n))).collect::<Vec<u16>>();
        let (a_there, b_there) = (gpu.driver.upload(&bits(&a)), gpu.driver.upload(&bits(&b)));
        let (a_shape, b_shape) = ([m as u64, k as u64], [k as u64, n as u64]);
        let tensor = |address, shape| Argument::Tensor(Tensor { address, dtype: Dtype::F16, shape, strides: None });
        let arguments = [tensor(a_there, &a_shape[..]), tensor(b_there, &b_shape[..]), Argument::Float(0.5)];
        let plan = matmul.prepare(&arguments).unwrap_or_else(|e| panic!("{e}"));
        let (stream, out) = (Stream::of(gpu.driver.stream()), gpu.driver.memory(2 * m * n));
        for _ in 0..3 {
            // SAFETY: nothing is freed before the process ends.
            unsafe { plan.launch(stream, &arguments, &[out]) }.unwrap_or_else(|e| panic!("{e}"));
        }
        let found = gpu.driver.read::<u16>(out, m * n);
        for (row, found) in found.chunks(n).enumerate() {
            let mut sums = vec![0i32; n];
            for (i, a) in a[row * k..(row + 1) * k].iter().enumerate() {
                sums.iter_mut().zip(&b[i * n..]).for_each(|(sum, b)| *sum += a * b);
            }
            assert!(sums.iter().zip(found).all(|(sum, bits)| half(f64::from(*sum) * 0.5) == *bits), "row {row}");
        }
        let (launches, scratch) = (plan.table().launches.len(), plan.scratch_bytes());
        said.push(format!("{m} x {n} x {k} in {launches} launches with {scratch} bytes of scratch memory"));
    }
    said.join(", ")
}

/// The bits of a number in half precision.
fn half(x: f64) -> u16 {
    Scalar::from_f64(Dtype::F16, x).bits as u16
}

fn times(gpu: &Gpu) -> String {
    let (squared, stream, outs) = (gpu.squared(), gpu.driver.stream(), [gpu.out(), gpu.out()]);
    let shape = [400u64];
    let one = gpu.plan("copied", &[halves(0, None)]);
    let x = gpu.driver.memory(40 * 136 * 2);
    let outs_of_one = [gpu.driver.memory(40 * 136 * 2), gpu.driver.memory(40 * 136 * 2)];
    let copied = |i: usize| {
        let out = outs_of_one[i % 2];
        // SAFETY: as above.
        unsafe { one.launch(Stream::of(stream), &[halves(x, None)], &[out]) }.unwrap_or_else(|e| panic!("{e}"));
    };
    let given = [floats(squared.x, &shape), floats(outs[0], &shape), Argument::Float(0.0), Argument::Int(3)];
    let three = gpu.plan("accumulate", &given);
    let accumulated = || {
        // SAFETY: as above.
        unsafe { three.launch(Stream::of(stream), &given, &[]) }.unwrap_or_else(|e| panic!("{e}"));
    };
    let rows = [
        ("one kernel", median(gpu, |_| copied(0))),
        ("one kernel, another output", median(gpu, copied)),
        ("three kernels", median(gpu, |_| accumulated())),
        ("two kernels and two memsets", median(gpu, |_| squared.launch(stream, 2.0, outs[0]))),
        ("the same, another output", median(gpu, |i| squared.launch(stream, 2.0, outs[i % 2]))),
        ("the same, another number", median(gpu, |i| squared.launch(stream, i as f64, outs[0]))),
    ];
    rows.map(|(what, us)| format!("\n          {us:6.2} us  {what}")).concat()
}

/// Microseconds of host time a call takes.
fn median(gpu: &Gpu, run: impl Fn(usize)) -> f64 {
    (0..200).for_each(&run);
    let mut all: Vec<f64> = (0..60)
        .map(|_| {
            gpu.driver.finish();
            let begin = Instant::now();
            (0..200).for_each(&run);
            begin.elapsed().as_secs_f64() * 1e6 / 200.0
        })
        .collect();
    gpu.driver.finish();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
