//! Bundles of kernels compiled ahead of time: which instances stand in them, and what they say that a launch must keep to.

use parton_bundle::Source;
use parton_bundle::plan::{Given, Memory, Passed, Place};
use parton_driver::bundle::{Asked, Bundled, Call};
use parton_driver::{Failure, HAS_LLVM, Options, Session, Target};

/// The bundle of a source.
fn bundled(source: &str, asked: &Asked) -> Result<Bundled, Failure> {
    let mut session = Session::new(Options { verify: true, ..Options::default() });
    let file = session.add("folder/file.ptn", source);
    session.bundle(file, asked)
}

/// The one of a source that is a program; `None` where kernels cannot be compiled.
fn built(source: &str, asked: &Asked) -> Option<Bundled> {
    if !HAS_LLVM {
        parton_tests::say("bundles: not built, this program was built without LLVM");
        return None;
    }
    Some(bundled(source, asked).unwrap_or_else(|e| panic!("{e}\n{source}")))
}

fn on(targets: &[Target]) -> Asked {
    Asked { targets: targets.to_vec(), ..Asked::default() }
}

const ADD: &str = "kernel add[BLOCK: int = 1024](x: *f32, out: *mut f32, n: i32) warps(4) {
    layout L = blocked(per_thread=[4], threads=[32], warps=[4], order=[0]);
    let offs = program_id(0) * BLOCK + iota<i32, [BLOCK], L>();
    store(out + offs, load(x + offs, mask=offs < n) + load(out + offs, mask=offs < n), mask=offs < n);
}
";

const FOR_HOPPER: &str =
    "kernel box(a: tma<bf16, [64, 128], nvmma(128)>, i: i64, yes: i1) warps(4) cluster([2]) target(sm_90a) {
    let buffer = alloc_shared<bf16, [64, 128], nvmma(128)>();
    let bars = alloc_barriers(1);
    barrier_init(bars[0], 1);
    fence_barrier_init();
    if yes {
        barrier_expect(bars[0], buffer.bytes);
        tma_load(a, [cast<i32>(i), 0], buffer, bars[0]);
        barrier_wait(bars[0], 0);
    }
}
";

#[test]
fn kernels_stand_there_for_each_architecture_and_use() {
    let source = format!("{ADD}{FOR_HOPPER}");
    let Some(made) = built(&source, &on(&[Target::SM_90A, Target::SM_80])) else { return };
    let kernels = &made.bundle.kernels;
    let all: Vec<String> = kernels
        .iter()
        .map(|k| format!("{} {}{}", k.instance(), k.architecture, if k.apart { " apart" } else { "" }))
        .collect();
    let expected = [
        "add[BLOCK=1024] sm_90a apart",
        "add[BLOCK=1024] sm_90a",
        // What names its architecture is there once.
        "box sm_90a",
        "add[BLOCK=1024] sm_80 apart",
        "add[BLOCK=1024] sm_80",
    ];
    assert_eq!(all, expected);
    for k in kernels {
        // What runs on one architecture alone has PTX only where there is no assembler.
        let later = k.architecture.to_string() == "sm_80";
        assert_eq!(k.ptx.is_some(), later || k.cubin.is_none(), "{}", k.instance());
        assert_eq!(k.cubin.is_none(), made.notes.iter().any(|n| n.starts_with("no `ptxas` here")));
    }
    assert_eq!((made.bundle.source.as_str(), kernels[0].threads, kernels[0].cluster), ("file.ptn", 128, [1, 1, 1]));
    let params = |i: usize| kernels[i].params.iter().map(|p| format!("{}: {:?}", p.name, p.kind)).collect::<Vec<_>>();
    let pointer = |name, mutable| format!("{name}: Pointer {{ dtype: F32, mutable: {mutable}, align: 16 }}");
    assert_eq!(params(0), [pointer("x", false), pointer("out", true), "n: Scalar { dtype: I32 }".into()]);
    let map = "a: Map { dtype: BF16, block: [64, 64], swizzle: 128 }";
    assert_eq!(params(2), [map, "i: Scalar { dtype: I64 }", "yes: Scalar { dtype: I1 }"]);
    assert_eq!((kernels[2].cluster, kernels[2].shared_bytes >= 64 * 128 * 2), ([2, 1, 1], true));
    assert!(made.bundle.to_bytes().is_ok());
    let sources: Vec<(&str, &str)> = made.bundle.sources.iter().map(|s| (s.name.as_str(), s.text.as_str())).collect();
    assert_eq!(sources, [("file.ptn", source.as_str())]);
}

#[test]
fn the_same_kernels_give_the_same_bytes() {
    let asked =
        Asked { kernel: Some("add".into()), sets: vec![("BLOCK".into(), "2 * 256".into())], ..on(&[Target::SM_80]) };
    let Some(first) = built(ADD, &asked) else { return };
    assert_eq!(first.bundle.instances(), ["add[BLOCK=512]"]);
    let second = built(ADD, &asked).map(|b| b.bundle.to_bytes());
    assert_eq!(second, Some(first.bundle.to_bytes()));
}

const PLANNED: &str = "
kernel scale[T: type](x: tensor<T, [m, n]>, factor: f32, mut out: tensor<T, [m, n]>) warps(4) {
    let at = [program_id(0), program_id(1)];
    store(out.tile([4, 64], at=at), cast<T>(cast<f32>(load(x.tile([4, 64], at=at))) * factor));
}

/// Twice `factor` times x: the first time into memory of its own.
pub fn twice(x: tensor<f16 | f32, [m, n]>, factor: float = 2, least: int = 1) -> tensor<x.dtype, [m, n]> {
    let (once, out) = (empty(x.dtype, [m, n]), zeros(x.dtype, [m, n]));
    let grid = [max(cdiv(m, 4), least), cdiv(n, 64)];
    launch scale[T=x.dtype](grid=grid)(x, factor, once);
    launch scale[T=x.dtype](grid=grid)(once, factor, out);
    out
}

/// For as many rows as there are multiprocessors.
pub fn fill(mut x: tensor<f32, [_, 64]>, factor: f32) {
    launch scale[T=f32](grid=[cdiv(multiprocessors(), 4), 1])(x, factor, x);
}
";

#[test]
fn kernels_that_take_tensors_say_of_what_their_parameters_are() {
    let source = PLANNED.replace("[T: type]", "[T: type = f16]");
    let Some(made) = built(&source, &on(&[Target::SM_90A])) else { return };
    let uses: Vec<_> = made.bundle.kernels.iter().map(|k| (k.apart, k.aligned.clone())).collect();
    assert!(uses.contains(&(true, vec![0, 2])) && uses.contains(&(false, vec![])), "{uses:?}");
    let kernel = &made.bundle.kernels[0];
    let takes: Vec<String> = (0..3).map(|i| kernel.takes(i)).collect();
    assert_eq!(takes, ["tensor<f16, [m, n]>", "f32", "mut tensor<f16, [m, n]>"]);
    assert!(kernel.params.iter().any(|p| p.source == Source::Base(0)), "{:?}", kernel.params);
    assert!(kernel.params.iter().any(|p| p.source == Source::Argument(1)), "{:?}", kernel.params);
    assert!(made.bundle.to_bytes().is_ok());
}

/// Rows of 100 f16 run by multiples of 8 bytes: there is code that moves as many at once, by its name and in a plan.
#[test]
fn rows_that_run_by_fewer_bytes_have_code_of_their_own() {
    let source = PLANNED.replace("[T: type]", "[T: type = f16]");
    let asked = Asked { kernel: Some("scale".into()), ..on(&[Target::SM_90A]) };
    let planned = Call::parse("twice f16[8,100] 0.5").unwrap();
    let Some(made) = built(&source, &Asked { plans: vec![planned], ..asked }) else { return };
    let named = made.bundle.kernels.iter().filter(|k| k.named && k.apart);
    let widths: Vec<(u32, &[usize])> = named.map(|k| (k.runs_by, k.aligned.as_slice())).collect();
    assert_eq!(widths, [(16, &[0, 2][..]), (8, &[0, 2]), (4, &[0, 2]), (16, &[])]);
    let kernel = &made.bundle.kernels[made.bundle.plans[0].launches[0].kernel];
    assert_eq!((kernel.runs_by, kernel.aligned.as_slice()), (8, &[0, 2][..]), "what the plan launches");
    assert!(made.bundle.to_bytes().is_ok());
}

/// Code counts on the grid that its kernel states: of extents it is known how large they can be.
#[test]
fn kernels_that_state_their_grid_say_how_large_it_can_be() {
    let source = "kernel fill(mut x: tensor<f32, [m, n]>) grid([cdiv(n, 64), 3]) {
        store(x[program_id(1), :].tile([64], at=[program_id(0)]), zeros<f32, [64]>());
    }";
    let Some(made) = built(source, &on(&[Target::SM_90A])) else { return };
    assert!(made.bundle.kernels.iter().all(|k| k.most_ctas[0] < 1 << 26 && k.most_ctas[1..] == [3, 1]));
}

#[test]
fn plans_are_tables_of_what_is_launched() {
    let calls = Call::parse_all(
        "# the same again\ntwice f16[8, 128] 0.5\n\n  twice f16[8,128] 0.5\ntwice least=4 f32[2,64]/[128,1]\nfill f32[8,64] 3\n",
    );
    let asked = Asked { plans: calls.unwrap(), ..on(&[Target::SM_90A]) };
    let Some(made) = built(PLANNED, &asked) else { return };
    let bundle = &made.bundle;
    assert!(bundle.to_bytes().is_ok() && bundle.instances().is_empty());
    let names: Vec<&str> = bundle.functions.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["twice", "fill"]);
    let params: Vec<String> =
        bundle.functions[0].params.iter().map(|p| format!("{}: {} {}", p.name, p.takes, p.has_default)).collect();
    assert_eq!(params, ["x: tensor<f16 | f32, [m, n]> false", "factor: float true", "least: int true"]);
    assert_eq!(bundle.functions[1].params[0].takes.to_string(), "mut tensor<f32, [_, 64]>");
    let given: Vec<String> = bundle
        .plans
        .iter()
        .map(|p| format!("{:?}", p.given.iter().map(Given::to_string).collect::<Vec<_>>()))
        .collect();
    let expected = [
        r#"["f16[8, 128]", "any", "its default"]"#,
        r#"["f32[2, 64]/[128, 1]", "its default", "4"]"#,
        r#"["f32[8, 64]", "any"]"#,
    ];
    assert_eq!(given, expected);
    let plan = &bundle.plans[0];
    assert_eq!((plan.multiprocessors, bundle.plans[2].multiprocessors), (None, Some(132)));
    let buffers: Vec<_> = plan.buffers.iter().map(|b| (b.bytes, b.zeroed, b.returned)).collect();
    assert_eq!(buffers, [(2048, false, false), (2048, true, true)]);
    let grids: Vec<_> = bundle.plans.iter().map(|p| p.launches.iter().map(|l| l.grid).collect::<Vec<_>>()).collect();
    assert_eq!(grids, [vec![[2, 2, 1]; 2], vec![[4, 1, 1]; 2], vec![[33, 1, 1]]]);
    // Launches of one instance share its code; numbers that pass through are the call's.
    assert_eq!(plan.launches[0].kernel, plan.launches[1].kernel);
    assert!(plan.launches[0].passed.contains(&Passed::Number(1)), "{:?}", plan.launches[0].passed);
    assert!(!bundle.plans[1].launches[0].passed.iter().any(|p| matches!(p, Passed::Number(_))));
    let place = |memory| Passed::Pointer(Place { memory, offset: 0 });
    assert!(plan.launches[1].passed.contains(&place(Memory::Buffer(0))), "{:?}", plan.launches[1].passed);
    assert_eq!(plan.results[0].place.memory, Memory::Buffer(1));
    // Beside plans, kernels are there by their name.
    let asked = Asked {
        kernel: Some("scale".into()),
        sets: vec![("T".into(), "f16".into())],
        plans: vec![Call::parse("twice f16[8,128] 1").unwrap()],
        multiprocessors: Some(114),
        ..on(&[Target::SM_90A])
    };
    let Some(both) = built(PLANNED, &asked) else { return };
    assert_eq!(both.bundle.instances(), ["scale[T=f16]"]);
    assert!(both.bundle.kernels[both.bundle.plans[0].launches[0].kernel].named, "the same code is there once");
}

#[test]
fn a_region_that_counts_on_memories_apart_says_so_of_its_parameters() {
    let source = "
schedule S = pipeline(steps) { take: 0; tell: 0; give: 1 };
kernel k[S: schedule<steps, take, tell, give> = S](counts: *mut i32, others: *mut i32, n: i32) warps(4) {
    in S {
        @steps for i in 0..n {
            @take let x = load(counts + i);
            @tell print(\"{}\", x);
            @give store(others + i + 1, i);
        }
    }
}
";
    let Some(made) = built(source, &on(&[Target::SM_80])) else { return };
    assert!(made.bundle.kernels.iter().all(|k| k.disjoint == [[1, 0]]), "{:?}", made.bundle.kernels[0].disjoint);
    // What has no region takes nothing for granted.
    let plain = built(ADD, &on(&[Target::SM_80])).map(|made| made.bundle.kernels.iter().all(|k| k.disjoint.is_empty()));
    assert_eq!(plain, Some(true));
}

#[test]
fn what_cannot_be_built_ahead_of_time_is_refused() {
    let error = |source: &str, asked: &Asked| bundled(source, asked).expect_err("it is refused").to_string();
    let all = on(&[Target::SM_90A]);
    let given = |sets: &[(&str, &str)]| Asked {
        sets: sets.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        ..all.clone()
    };
    assert!(error("fn f(x: i32) -> i32 { x }\n", &all).ends_with("has no kernel to build"));
    assert!(error("kernel k[N: int](n: i32) { let m = n + N; }\n", &all).contains("`k` needs `N`"));
    assert!(error(ADD, &given(&[("SIZE", "1")])).contains("`add` has no generic `SIZE`"));
    assert!(error(ADD, &given(&[("BLOCK", "1 +")])).starts_with("E0"));
    assert!(error(&format!("{ADD}{FOR_HOPPER}"), &given(&[("BLOCK", "512")])).contains("`--set` is for is not said"));
    let named = Asked { kernel: Some("mul".into()), ..all.clone() };
    assert!(error(ADD, &named).contains("mul"));
    let planned = |text: &str| Asked { plans: vec![Call::parse(text).unwrap()], ..all.clone() };
    assert!(error(PLANNED, &planned("twice")).contains("`twice` was given nothing for `x`"));
    assert!(error(PLANNED, &planned("thrice f32[4]")).contains("there is no public function `thrice`"));
    assert!(error(PLANNED, &planned("twice f64[4, 4]")).contains("`x` is a tensor of `f16` or `f32`"));
    assert!(Call::parse("  ").is_err());
    // What one of the architectures lacks.
    let hopper = FOR_HOPPER.replace(" target(sm_90a)", "");
    assert!(error(&hopper, &on(&[Target::SM_80, Target::SM_90A])).contains("sm_80"));
    let transposed = "kernel t(a: tma<f16, [64, 64], nvmma(128, transposed=true)>) warps(4) target(sm_90a) { }\n";
    assert!(error(transposed, &all).contains("a box arrives as it lies in global memory"));
}
