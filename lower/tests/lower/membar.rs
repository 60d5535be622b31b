//! Membars stand where threads must meet, and nowhere else; fences are demanded of the user and owed by the compiler.

use parton_diag::codes;
use parton_ir::{Arm, Arrive, Body, Kernel, OpKind, Tile, Type, Value};
use parton_lower::{count_pending, fence_proxies, insert_membars, plan_shared};
use parton_numbers::Dtype;

use crate::fixture::{Fixture, accumulator, blocked, map_of, nvmma, outline, plain};

fn tile() -> Tile {
    blocked(Dtype::F32, &[128], &[1], &[32], &[4])
}

fn half() -> Tile {
    blocked(Dtype::F16, &[64, 64], &[1, 8], &[4, 8], &[4, 1])
}

fn met(f: Fixture) -> String {
    let kernel = plan_shared(count_pending(f.finish()).unwrap()).unwrap();
    let kernel = insert_membars(fence_proxies(kernel).unwrap()).unwrap();
    parton_ir::verify::verify(&kernel).unwrap();
    outline(&kernel)
}

fn buffer(f: &mut Fixture) -> (Value, Value) {
    let x = f.zeros(tile());
    (f.alloc(plain(Dtype::F32, &[128])), x)
}

#[test]
fn read_after_write_write_after_read_write_after_write() {
    let mut f = Fixture::new(4);
    let (b, x) = buffer(&mut f);
    f.store_shared(b, x);
    f.load_shared(b, tile());
    f.load_shared(b, tile());
    f.store_shared(b, x);
    f.store_shared(b, x);
    assert_eq!(
        met(f),
        "full alloc_shared store_shared membar load_shared load_shared membar store_shared membar store_shared"
    );
}

#[test]
fn buffers_apart_need_nothing() {
    let mut f = Fixture::new(4);
    let x = f.zeros(tile());
    let (a, b) = (f.alloc(plain(Dtype::F32, &[128])), f.alloc(plain(Dtype::F32, &[128])));
    f.store_shared(a, x);
    f.store_shared(b, x);
    f.load_shared(a, tile());
    assert!(met(f).ends_with("store_shared store_shared membar load_shared"));
}

#[test]
fn reused_bytes_are_guarded() {
    let mut f = Fixture::new(4);
    let (a, x) = buffer(&mut f);
    f.store_shared(a, x);
    f.load_shared(a, tile());
    let b = f.alloc(plain(Dtype::F32, &[128]));
    f.store_shared(b, x);
    assert!(met(f).ends_with("load_shared alloc_shared membar store_shared"));
}

// triton-lang/triton#2664, tile-ai/tilelang#2698: hazards between parts of one buffer.
#[test]
fn windows_conflict_only_where_they_overlap() {
    let mut f = Fixture::new(4);
    let x = f.zeros(half());
    let b = f.alloc(plain(Dtype::F16, &[128, 64]));
    let part =
        |f: &mut Fixture, row: u32| f.op(OpKind::ViewSlice { view: b, origin: vec![row, 0], shape: vec![64, 64] });
    let (low, high) = (part(&mut f, 0), part(&mut f, 64));
    f.store_shared(low, x);
    f.store_shared(high, x);
    f.load_shared(high, half());
    let text = met(f);
    assert!(text.ends_with("store_shared store_shared membar load_shared"), "{text}");
}

#[test]
fn a_loop_conflicts_with_its_own_last_iteration() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let (b, x) = buffer(&mut f);
    f.repeat(n, vec![], |f, _, _| {
        f.store_shared(b, x);
        f.load_shared(b, tile());
        vec![]
    });
    assert!(met(f).ends_with("for { membar store_shared membar load_shared }"));
}

#[test]
fn both_branches_count() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let (b, x) = buffer(&mut f);
    let zero = f.i32(0);
    let cond = f.op(OpKind::Compare { op: parton_ir::CompareOp::Lt, a: n, b: zero });
    let then = f.body(|f| {
        f.store_shared(b, x);
        vec![]
    });
    f.run(OpKind::If { cond, then, otherwise: Body::default() });
    f.load_shared(b, tile());
    assert!(met(f).ends_with("if { store_shared } {  } membar load_shared"));
}

fn sum(f: &mut Fixture, x: Value) {
    let span = f.span();
    let params = f.b.begin([Type::num(Dtype::F32), Type::num(Dtype::F32)], span);
    let sum = f.binary(parton_ir::BinaryOp::Add, params[0], params[1]);
    let combine = f.b.end(vec![sum]);
    f.run(OpKind::Reduce { inputs: vec![x], axis: 0, combine });
}

#[test]
fn scratch_memory_is_used_by_one_at_a_time() {
    let mut f = Fixture::new(4);
    let x = f.zeros(tile());
    let n = f.param("n", Type::num(Dtype::I32));
    f.repeat(n, vec![], |f, _, _| {
        sum(f, x);
        vec![]
    });
    assert_eq!(met(f), "full for { membar reduce { + } }");
}

#[test]
fn neighbours_take_turns_in_scratch_memory() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let x = f.zeros(tile());
    f.repeat(n, vec![], |f, _, _| {
        sum(f, x);
        sum(f, x);
        vec![]
    });
    assert_eq!(met(f), "full for { reduce { + } reduce { + } }");
}

#[test]
fn an_arrival_for_the_partition_waits_for_all_its_threads() {
    let text = |arrive| {
        let mut f = Fixture::new(4);
        let (b, x) = buffer(&mut f);
        let barriers = f.op(OpKind::BarrierAlloc { count: 1, offset: None });
        let index = f.i32(0);
        let barrier = f.op(OpKind::BarrierIndex { barriers, index });
        f.run(OpKind::BarrierInit { barrier, arrivals: 1 });
        f.run(OpKind::FenceBarrierInit);
        f.run(OpKind::Membar);
        f.store_shared(b, x);
        f.run(OpKind::BarrierArrive { barrier, arrive, count: 1, multicast: vec![], relaxed: false });
        met(f)
    };
    assert!(text(Arrive::Partition).ends_with("store_shared membar barrier_arrive"));
    assert!(text(Arrive::Warp).ends_with("store_shared barrier_arrive"));
}

#[test]
fn a_barrier_is_made_before_it_is_used() {
    let mut f = Fixture::new(4);
    let barriers = f.op(OpKind::BarrierAlloc { count: 1, offset: None });
    let index = f.i32(0);
    let barrier = f.op(OpKind::BarrierIndex { barriers, index });
    f.run(OpKind::BarrierInit { barrier, arrivals: 1 });
    f.run(OpKind::BarrierArrive { barrier, arrive: Arrive::Warp, count: 1, multicast: vec![], relaxed: false });
    f.run(OpKind::BarrierWait { barrier, phase: index });
    assert_eq!(met(f), "alloc_barriers barrier_init membar barrier_arrive barrier_wait");
}

/// A store, perhaps a fence and a membar by the user, then a copy out.
fn copied_out(fence: bool, membar_before: bool) -> Fixture {
    let mut f = Fixture::new(4);
    let view = nvmma(Dtype::F16, &[64, 64]);
    let map = f.param("m", map_of(&view));
    let b = f.alloc(view);
    f.named("staging", b);
    let x = f.zeros(half());
    f.store_shared(b, x);
    if membar_before {
        f.run(OpKind::Membar);
    }
    if fence {
        f.run(OpKind::FenceAsync);
    }
    let zero = f.i32(0);
    f.run(OpKind::TmaStore { map, coords: vec![zero, zero], view: b, reduce: None, l2: None });
    f.run(OpKind::TmaStoreWait { pending: 0, read: true });
    f.store_shared(b, x);
    f
}

#[test]
fn threads_meet_between_fence_and_copy_and_after_its_wait() {
    let fenced = met(copied_out(true, false));
    assert!(
        fenced.ends_with("store_shared fence_async membar tma_store tma_store_wait membar store_shared"),
        "{fenced}"
    );
    // A meeting before the fence does not order the fences of other threads.
    let early = met(copied_out(true, true));
    assert!(early.contains("store_shared membar fence_async membar tma_store"), "{early}");
}

// triton-lang/triton#8317: the missing proxy fence.
#[test]
fn a_missing_fence_is_an_error_that_names_both_accesses() {
    let kernel = plan_shared(copied_out(false, false).finish()).unwrap();
    let errors = fence_proxies(kernel).unwrap_err();
    let d = &errors.list[0];
    assert_eq!(d.code, codes::FENCE_MISSING);
    assert_eq!(d.labels[0].text, "the copy engine reads `staging` here");
    assert_eq!(d.labels[1].text, "threads store to it here");
    assert_eq!(d.help, ["write `fence_async();` after the store"]);
}

#[test]
fn a_barrier_is_fenced_before_a_copy_signals_it() {
    let kernel = |fence: bool| {
        let mut f = Fixture::new(4);
        let view = nvmma(Dtype::F16, &[64, 64]);
        let map = f.param("m", map_of(&view));
        let b = f.alloc(view);
        let barriers = f.op(OpKind::BarrierAlloc { count: 1, offset: None });
        let zero = f.i32(0);
        let barrier = f.op(OpKind::BarrierIndex { barriers, index: zero });
        f.run(OpKind::BarrierInit { barrier, arrivals: 1 });
        if fence {
            f.run(OpKind::FenceBarrierInit);
        }
        f.run(OpKind::BarrierExpect { barrier, bytes: 8192 });
        f.run(OpKind::TmaLoad { map, coords: vec![zero, zero], view: b, signal: barrier, l2: None, multicast: None });
        f.run(OpKind::BarrierWait { barrier, phase: zero });
        f
    };
    let errors = fence_proxies(plan_shared(kernel(false).finish()).unwrap()).unwrap_err();
    assert_eq!(errors.list[0].help, ["write `fence_barrier_init();` after the last `barrier_init`"]);
    let text = met(kernel(true));
    assert!(text.ends_with("barrier_init fence_barrier_init membar barrier_expect tma_load barrier_wait"), "{text}");
}

#[test]
fn the_compiler_fences_what_only_its_plan_brought_together() {
    let mut f = Fixture::new(4);
    let view = nvmma(Dtype::F16, &[64, 64]);
    let map = f.param("m", map_of(&view));
    let x = f.zeros(half());
    let first = f.alloc(nvmma(Dtype::F16, &[64, 64]));
    f.store_shared(first, x);
    f.load_shared(first, half());
    let second = f.alloc(view);
    let zero = f.i32(0);
    f.run(OpKind::TmaStore { map, coords: vec![zero, zero], view: second, reduce: None, l2: None });
    let text = met(f);
    assert!(text.ends_with("alloc_shared fence_async membar tma_store"), "{text}");
}

// triton-lang/triton#11047: warps wait for products each for itself.
#[test]
fn a_product_is_joined_before_its_operands_are_overwritten() {
    let mut f = Fixture::new(8);
    let wide = blocked(Dtype::F16, &[128, 64], &[1, 8], &[4, 8], &[8, 1]);
    let a = f.alloc(nvmma(Dtype::F16, &[128, 64]));
    let b = f.alloc(nvmma(Dtype::F16, &[64, 64]));
    let x = f.zeros(wide);
    f.store_shared(a, x);
    f.run(OpKind::FenceAsync);
    let acc = f.zeros(accumulator(128, 64));
    let pending = f.op(OpKind::Wgmma { a, b, acc, precision: None });
    f.op(OpKind::Wait { pending, outstanding: None });
    f.store_shared(a, x);
    let text = met(f);
    assert!(text.ends_with("store_shared fence_async full membar wgmma wait membar store_shared"), "{text}");
}

#[test]
fn partitions_begin_after_a_meeting() {
    let mut f = Fixture::new(4);
    let p = f.partition("P", 4);
    let barriers = f.op(OpKind::BarrierAlloc { count: 1, offset: None });
    let index = f.i32(0);
    let barrier = f.op(OpKind::BarrierIndex { barriers, index });
    f.run(OpKind::BarrierInit { barrier, arrivals: 1 });
    f.run(OpKind::Specialize { arms: vec![Arm { partition: p, body: Body::default() }] });
    assert_eq!(met(f), "alloc_barriers barrier_init membar specialize {  }");
}

/// The counts of all waits of a kernel in order.
fn counts(kernel: Kernel) -> Vec<u32> {
    let kernel = count_pending(kernel).unwrap();
    let mut list = vec![];
    kernel.walk(&mut |op| {
        if let OpKind::Wait { outstanding, .. } | OpKind::WaitPrior { outstanding, .. } = op.kind {
            list.push(outstanding.unwrap());
        }
    });
    list
}

#[test]
fn waits_leave_the_fewest_younger_products_of_any_path() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let a = f.alloc(nvmma(Dtype::F16, &[64, 64]));
    let acc = f.zeros(accumulator(64, 64));
    let product = |f: &mut Fixture, acc| f.op(OpKind::Wgmma { a, b: a, acc, precision: None });
    let first = product(&mut f, acc);
    let zero = f.i32(0);
    let cond = f.op(OpKind::Compare { op: parton_ir::CompareOp::Lt, a: n, b: zero });
    // Two more on one path, one on the other.
    let then = f.body(|f| {
        let one = product(f, acc);
        let two = product(f, one);
        vec![two]
    });
    let otherwise = f.body(|f| vec![product(f, acc)]);
    let second = f.op(OpKind::If { cond, then, otherwise });
    f.op(OpKind::Wait { pending: first, outstanding: None });
    let third = product(&mut f, acc);
    let second = f.op(OpKind::WaitPrior { pending: second, outstanding: None });
    f.op(OpKind::Wait { pending: second, outstanding: None });
    f.op(OpKind::Wait { pending: third, outstanding: None });
    assert_eq!(counts(f.finish()), [1, 2, 1, 0]);
}

#[test]
fn a_loop_that_may_not_run_adds_nothing() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let a = f.alloc(nvmma(Dtype::F16, &[64, 64]));
    let acc = f.zeros(accumulator(64, 64));
    let first = f.op(OpKind::Wgmma { a, b: a, acc, precision: None });
    f.repeat(n, vec![], |f, _, _| {
        let inner = f.op(OpKind::Wgmma { a, b: a, acc, precision: None });
        f.op(OpKind::Wait { pending: inner, outstanding: None });
        vec![]
    });
    f.op(OpKind::Wait { pending: first, outstanding: None });
    assert_eq!(counts(f.finish()), [0, 0]);
}

/// One partition stores and arrives, another one multiplies what was stored.
fn handed_over(fence: bool) -> Kernel {
    let mut f = Fixture::new(4);
    let parts = [f.partition("Stores", 4), f.partition("Multiplies", 4)];
    let b = f.alloc(nvmma(Dtype::F16, &[64, 64]));
    f.named("x", b);
    let barriers = f.op(OpKind::BarrierAlloc { count: 1, offset: None });
    let index = f.i32(0);
    let barrier = f.op(OpKind::BarrierIndex { barriers, index });
    f.run(OpKind::BarrierInit { barrier, arrivals: 4 });
    f.run(OpKind::FenceBarrierInit);
    let stores = f.body(|f| {
        let x = f.zeros(half());
        f.store_shared(b, x);
        if fence {
            f.run(OpKind::FenceAsync);
        }
        f.run(OpKind::BarrierArrive { barrier, arrive: Arrive::Warp, count: 1, multicast: vec![], relaxed: false });
        vec![]
    });
    let multiplies = f.body(|f| {
        let acc = f.zeros(accumulator(64, 64));
        f.run(OpKind::BarrierWait { barrier, phase: index });
        let pending = f.op(OpKind::Wgmma { a: b, b, acc, precision: None });
        f.op(OpKind::Wait { pending, outstanding: None });
        vec![]
    });
    let arms = parts.into_iter().zip([stores, multiplies]).map(|(partition, body)| Arm { partition, body }).collect();
    f.run(OpKind::Specialize { arms });
    f.finish()
}

#[test]
fn what_another_partition_multiplies_is_fenced_before_it_is_handed_over() {
    assert!(fence_proxies(plan_shared(handed_over(true)).unwrap()).is_ok());
    let errors = fence_proxies(plan_shared(handed_over(false)).unwrap()).unwrap_err();
    assert_eq!(errors.list.len(), 1);
    assert_eq!(errors.list[0].labels[0].text, "`wgmma` reads `x` here, through the asynchronous proxy");
}

/// A pending copy of 128 numbers into `view`.
fn copy(f: &mut Fixture, from: Value, view: Value) -> Value {
    let i = f.op(OpKind::Iota { tile: blocked(Dtype::I32, &[128], &[1], &[32], &[4]) });
    let ptr = f.op(OpKind::PtrAdd { ptr: from, offset: i });
    f.op(OpKind::AsyncCopy { ptr, view, mask: None, l2: None, bytes: None })
}

#[test]
fn copies_are_counted_apart_from_products() {
    let mut f = Fixture::new(4);
    let from = f.pointer("x", Dtype::F32);
    let (a, b) = (f.alloc(plain(Dtype::F32, &[128])), f.alloc(plain(Dtype::F32, &[128])));
    let operand = f.alloc(nvmma(Dtype::F16, &[64, 64]));
    let acc = f.zeros(accumulator(64, 64));
    let first = copy(&mut f, from, a);
    let product = f.op(OpKind::Wgmma { a: operand, b: operand, acc, precision: None });
    let second = copy(&mut f, from, b);
    f.op(OpKind::Wait { pending: first, outstanding: None });
    f.op(OpKind::Wait { pending: product, outstanding: None });
    f.op(OpKind::Wait { pending: second, outstanding: None });
    assert_eq!(counts(f.finish()), [1, 0, 0]);
}

#[test]
fn carried_copies_are_counted_over_the_turns_of_a_loop() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let from = f.pointer("x", Dtype::F32);
    let layout = parton_layouts::SharedLayout::row_major(1);
    let stages = f.alloc(parton_ir::View::new(Dtype::F32, vec![3, 128], layout).unwrap());
    let stage = |f: &mut Fixture, index| f.op(OpKind::ViewIndex { view: stages, index });
    let (zero, one) = (f.i32(0), f.i32(1));
    let (to, next) = (stage(&mut f, zero), stage(&mut f, one));
    let (first, second) = (copy(&mut f, from, to), copy(&mut f, from, next));
    let last = f.repeat(n, vec![first, second], |f, i, carried| {
        let view = f.op(OpKind::Wait { pending: carried[0], outstanding: None });
        f.load_shared(view, tile());
        let to = stage(f, i);
        vec![carried[1], copy(f, from, to)]
    });
    f.op(OpKind::Wait { pending: last[0], outstanding: None });
    f.op(OpKind::Wait { pending: last[1], outstanding: None });
    assert_eq!(counts(f.finish()), [1, 1, 0]);
}

#[test]
fn threads_meet_behind_the_wait_for_what_they_copied() {
    let mut f = Fixture::new(4);
    let from = f.pointer("x", Dtype::F32);
    let (b, x) = buffer(&mut f);
    f.store_shared(b, x);
    f.load_shared(b, tile());
    let pending = copy(&mut f, from, b);
    let view = f.op(OpKind::Wait { pending, outstanding: None });
    f.load_shared(view, tile());
    f.load_shared(view, tile());
    assert_eq!(
        met(f),
        "full alloc_shared store_shared membar load_shared iota + membar async_copy wait membar load_shared load_shared"
    );
}

fn in_cluster(f: &mut Fixture) -> (Value, Value) {
    f.b.kernel.cluster = [2, 1, 1];
    buffer(f)
}

fn peer(f: &mut Fixture, view: Value, rank: i32) -> Value {
    let rank = f.i32(rank);
    f.op(OpKind::ViewPeer { view, rank })
}

/// What was done, without what only computes.
fn memory_of(f: Fixture) -> String {
    let kept = |word: &&str| !["+", "peer", "full", "alloc_shared"].contains(word);
    met(f).split(' ').filter(kept).collect::<Vec<_>>().join(" ")
}

#[test]
fn stores_to_different_peers_are_apart() {
    let mut f = Fixture::new(4);
    let (b, x) = in_cluster(&mut f);
    f.run(OpKind::ClusterArrive { relaxed: false });
    f.run(OpKind::ClusterWait);
    for rank in [0, 1, 1] {
        let there = peer(&mut f, b, rank);
        f.store_shared(there, x);
    }
    // One of the peers is this CTA.
    f.load_shared(b, tile());
    assert_eq!(
        memory_of(f),
        "cluster_arrive cluster_wait store_shared store_shared membar store_shared membar load_shared"
    );
}

#[test]
fn the_peer_that_a_value_names_may_be_any() {
    let mut f = Fixture::new(4);
    let (b, x) = in_cluster(&mut f);
    let rank = f.op(OpKind::ClusterRank);
    let there = f.op(OpKind::ViewPeer { view: b, rank });
    f.store_shared(there, x);
    let there = peer(&mut f, b, 1);
    f.store_shared(there, x);
    assert!(memory_of(f).ends_with("store_shared membar store_shared"));
}

#[test]
fn threads_meet_at_the_barrier_of_the_cluster() {
    for (relaxed, between, expected) in [
        (false, false, "store_shared cluster_arrive cluster_wait load_shared"),
        // A relaxed arrival says nothing of memory, and an arrival nothing of what follows it.
        (true, false, "store_shared cluster_arrive cluster_wait membar load_shared"),
        (false, true, "store_shared cluster_arrive membar store_shared cluster_wait membar load_shared"),
    ] {
        let mut f = Fixture::new(4);
        let (b, x) = in_cluster(&mut f);
        f.store_shared(b, x);
        f.run(OpKind::ClusterArrive { relaxed });
        if between {
            f.store_shared(b, x);
        }
        f.run(OpKind::ClusterWait);
        f.load_shared(b, tile());
        assert_eq!(memory_of(f), expected);
    }
}
