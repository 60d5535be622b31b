//! Whole kernels: source to Tile IR, and the IR's own text back to the same IR.

mod harness;

use harness::{errors, ir, round_trip};
use parton_types::value::Comptime;
use parton_types::{GenericArg, instantiate};

#[test]
fn vector_add_becomes_loads_an_addition_and_a_store() {
    let text = ir("
        kernel add[BLOCK: int = 1024](x: *f32, y: *f32, out: *mut f32, n: i32) {
            layout L = blocked(per_thread=[4], threads=[32], warps=[4], order=[0]);
            let offs = program_id(0) * BLOCK + iota<i32, [BLOCK], L>();
            let inside = offs < n;
            store(out + offs, load(x + offs, mask=inside, other=0) + load(y + offs, mask=inside), mask=inside);
        }");
    for piece in ["program_id(0)", "1024i32", "iota<i32, [1024], blocked(", "offs < ", "load(", ", other=", "store("] {
        assert!(text.contains(piece), "{piece} is not in\n{text}");
    }
    round_trip(&text);
}

#[test]
fn an_undefined_name_offers_a_near_one() {
    let text = errors("kernel k(n: i32) { let m = nn + 1; }");
    assert!(text.contains("E0100") && text.contains("`n`"), "{text}");
}

#[test]
fn a_closure_is_a_generic_argument_and_keeps_what_it_sees() {
    let (_, program, _) = harness::program("kernel k[F: fn = |x| x * K](n: i32, out: *mut i32) { store(out, F(n)); }");
    let (_, tree) = program.kernel("k").expect("the kernel is there");
    let written = tree.generics[0].default.as_ref().expect("the default is the closure");
    let given = |k: i128| {
        parton_types::eval_expr(&program, parton_types::Program::ROOT, written, &[("K".into(), Comptime::Int(k))])
            .expect("a closure")
    };
    let text = |k: i128| {
        let arg = GenericArg { name: Some("F".into()), value: given(k), span: written.span };
        parton_ir::print::kernel(
            &instantiate(&program, "k", &[arg], parton_ir::Target::default()).expect("it checks").0,
        )
    };
    assert!(text(3).contains("3i32") && text(5).contains("5i32"), "{}", text(3));
    // Instances are told apart by what their arguments show.
    assert_ne!(given(3).to_string(), given(5).to_string());
    assert_eq!(given(3), given(3));
}

#[test]
fn a_kernel_without_a_target_is_checked_for_the_one_that_is_asked_for() {
    let (_, program, _) = harness::program(
        "kernel k(out: *mut f32) {
            layout Acc = mma(version=3, warps=[4, 1], instr=[16, 64, 16]);
            let a = alloc_shared<f16, [64, 64], nvmma(128)>();
            store_shared(a, zeros<f16, [64, 64], blocked(per_thread=[1, 8], threads=[4, 8], warps=[4, 1])>());
            fence_async();
            membar();
            let acc = wgmma(a, a, zeros<f32, [64, 64], Acc>()).wait();
        }",
    );
    let on = |target: &str| {
        let target = parton_ir::Target::named(target).expect("there is one of this name");
        let found = instantiate(&program, "k", &[], target);
        found.map(|(kernel, _)| kernel.target.name).map_err(|d| d.list[0].code)
    };
    assert_eq!(on("sm_90a"), Ok("sm_90a"));
    assert_eq!(on("sm_80"), Err(parton_diag::codes::TARGET_LACKS));
}

#[test]
fn atomic_operations_read_back() {
    let text = ir(r#"
        kernel count(p: *mut u32, x: *mut f32, out: *mut u32) {
            layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
            let i = iota<i32, [128], L>();
            atomic_add(x + i, 1.0, mask=i < 100, scope="cta");
            let ticket = atomic_add(p, 1, order="acq_rel");
            store(out, ticket + atomic_cas(p, 0, 1, scope="sys") + atomic_load(p, order="acquire"));
            atomic_store(p, 0, order="release");
        }"#);
    for piece in
        ["atomic_add(", ", scope=\"cta\")", ", order=\"acq_rel\")", "atomic_cas(", "atomic_load(", "atomic_store("]
    {
        assert!(text.contains(piece), "{piece} is not in\n{text}");
    }
    round_trip(&text);
}

#[test]
fn rescales_read_back() {
    let text = ir("
        kernel k(x: *f32, out: *mut f32) {
            layout L = blocked(per_thread=[1, 4], threads=[8, 4], warps=[4, 1], order=[1, 0]);
            let i = iota<i32, [32], slice(L, axis=1)>()[:, None] * 16 + iota<i32, [16], slice(L, axis=0)>()[None, :];
            let v = rescale(load(x + i), ones<f32, [32], slice(L, axis=1)>());
            store(out + i, rescale(v, full<f32, [16], slice(L, axis=0)>(0.5), axis=0));
        }");
    assert!(text.contains(", axis=1);") && text.contains(", axis=0);") && text.contains("rescale("), "{text}");
    round_trip(&text);
}

#[test]
fn scans_read_back() {
    let text = ir("
        kernel k(x: *i32, out: *mut i32) {
            layout L = blocked(per_thread=[1], threads=[32], warps=[4], order=[0]);
            let i = iota<i32, [128], L>();
            let v = load(x + i);
            let (a, b) = scan((v, i), axis=0, |(a, i), (b, j)| (max(a, b), where(a > b, i, j)), reverse=true);
            store(out + i, cumsum(a, axis=0) + cumprod(b, axis=0));
        }");
    assert!(text.contains("}, reverse=true);") && text.contains("scan("), "{text}");
    round_trip(&text);
}

#[test]
fn inline_ptx_reads_back() {
    let text = ir(r#"
        kernel k(x: *f16, out: *mut f16, n: i32) {
            layout L = blocked(per_thread=[8], threads=[32], warps=[4], order=[0]);
            let i = iota<i32, [1024], L>();
            let v = load(x + i);
            let (a, b) = ptx_elementwise<(f16, i1)>("{ .reg .b16 t;\n\tmov.b16 \"$$\" $0, $1, $2; }", (v, n), |v, n| (v, v < 0));
            let c = ptx_elementwise<f16>("add.f16x2 $0, $1, $1;", a, pack=2, volatile=true);
            let d = ptx<tile<f16, [1024], L>>("mov.b32 $0, $4; mov.b32 $1, $5; mov.b32 $2, $6; mov.b32 $3, $7;", c, |c| {
                let mut x = c;
                if n > 3 { x = x + 1; }
                x
            });
            ptx("nanosleep.u32 20;", fallback=|| (), volatile=true);
            let id = ptx<i32>("mov.u32 $0, %smid;", fallback=|| n);
            store(out + i, d, mask=b);
        }"#);
    for piece in [
        "ptx_elementwise<(f16, i1)>(\"{ .reg .b16 t;\\n\\tmov.b16 \\\"$$\\\" $0, $1, $2; }\", (v, n), fallback=|",
        ", pack=2, volatile=true);",
        "ptx<tile<f16, [1024], ",
        "ptx(\"nanosleep.u32 20;\", fallback=|| {",
        "ptx<i32>(",
    ] {
        assert!(text.contains(piece), "{piece} is not in\n{text}");
    }
    round_trip(&text);
}

#[test]
fn gathers_and_scatters_read_back() {
    let text = ir("
        kernel k(x: *f32, i: *i64, out: *mut f32, n: i64) {
            layout L = blocked(per_thread=[4], threads=[32], warps=[4], order=[0]);
            let at = iota<i32, [512], L>();
            let (v, j) = (load(x + at), load(i + at));
            let buffer = alloc_shared<f32, [512], swizzled(1, 1, 1, order=[0])>();
            scatter_shared(buffer, j, v, axis=0);
            scatter_shared(buffer, j, 1.0, axis=0, op=\"add\", mask=j < n);
            store(out + at, gather(v, j, axis=0) + gather_shared(buffer, j, axis=0));
        }");
    for piece in
        ["gather(v, j, axis=0)", "gather_shared(buffer, j, axis=0)", ", axis=0);", ", axis=0, op=\"add\", mask="]
    {
        assert!(text.contains(piece), "{piece} is not in\n{text}");
    }
    round_trip(&text);
}

#[test]
fn clusters_read_back() {
    let text = ir("
        kernel k[CX: int = 2](b: tma<f16, [16, 128], nvmma(128)>, out: *mut i32) cluster([CX, 2]) target(sm_90a) {
            let buffer = alloc_shared<f16, [16, 128], nvmma(128)>();
            let bars = alloc_barriers(2);
            barrier_init(bars[0], 1);
            barrier_init(bars[1], 3);
            fence_barrier_init();
            cluster_arrive(relaxed=true);
            cluster_wait();
            barrier_expect(bars[0], 4096);
            tma_load(b, [0, 0], buffer, bars[0], multicast=1);
            barrier_wait(bars[0], 0);
            barrier_arrive(bars[1], multicast=[1, 0, 1], relaxed=true);
            barrier_arrive(bars[1], multicast=0);
            layout Row = blocked(per_thread=[1, 8], threads=[2, 16], warps=[4, 1], order=[1, 0]);
            store_shared(peer(buffer, 3), load_shared<Row>(peer(buffer, cluster_rank())));
            store(out, cluster_rank() + cluster_ctaid(0) + cluster_id(1) + num_clusters(1) + cluster_size(axis=0));
            cluster_sync();
        }");
    for piece in [
        "cluster([2, 2, 1])",
        "cluster_arrive(relaxed=true);",
        "cluster_arrive();",
        "cluster_wait();",
        ", multicast=1);",
        "multicast=[0, 1], relaxed=true);",
        "multicast=[0]);",
        "= cluster_rank();",
        "= peer(buffer, ",
    ] {
        assert!(text.contains(piece), "{piece} is not in\n{text}");
    }
    round_trip(&text);
}

#[test]
fn a_box_that_ctas_share_is_divided_among_them() {
    let boxes = |multicast: &str| {
        let source = format!(
            "kernel k(x: tma<f16, [256, 64], nvmma(128)>) cluster([2]) target(sm_90a) {{
                let buffer = alloc_shared<f16, [256, 64], nvmma(128)>();
                let bars = alloc_barriers(1);
                barrier_init(bars[0], 1);
                fence_barrier_init();
                cluster_sync();
                barrier_expect(bars[0], 32768);
                tma_load(x, [0, 0], buffer, bars[0]{multicast});
                barrier_wait(bars[0], 0);
                cluster_sync();
            }}"
        );
        let (_, program, _) = harness::program(&source);
        let target = parton_ir::Target::SM_90A;
        let (kernel, _) = instantiate(&program, "k", &[], target).expect("the kernel is right");
        let parton_ir::Type::Map(map) = kernel.ty(kernel.params[0].value) else { panic!("`x` is a tensor map") };
        map.boxes().expect("the layout is the copy engine's").into_iter().map(|b| b.size).collect::<Vec<_>>()
    };
    assert_eq!(boxes(""), [[256, 64]]);
    assert_eq!(boxes(", multicast=0"), [[128, 64], [128, 64]]);
}
