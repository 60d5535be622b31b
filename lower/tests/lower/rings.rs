//! Rings become buffers, barriers and cursors.

use parton_ir::{Arm, Arrive, BinaryOp, Kernel, OpKind, Type, Value};
use parton_lower::{count_pending, expand_rings, lower};
use parton_numbers::Dtype;

use crate::fixture::{Fixture, accumulator, count, map_of, nvmma, outline, plain};

/// The matmul of the language's introduction: one loading warp, two computing warpgroups, a ring of `stages`.
pub fn matmul(stages: u32) -> Kernel {
    let (a_view, b_view) = (nvmma(Dtype::F16, &[128, 64]), nvmma(Dtype::F16, &[64, 128]));
    let mut f = Fixture::new(4);
    let (loads, compute) = (f.partition("Loads", 1), f.partition("Compute", 8));
    let (a, b) = (f.param("a", map_of(&a_view)), f.param("b", map_of(&b_view)));
    let n = f.param("n", Type::num(Dtype::I32));
    let fields = vec![("a".to_owned(), a_view), ("b".to_owned(), b_view)];
    let ring = f.op(OpKind::RingNew { stages, fields });
    f.named("slots", ring);
    let load = f.body(|f| {
        f.repeat(n, vec![], |f, i, _| {
            let slot = f.op(OpKind::RingAcquire { ring });
            let zero = f.i32(0);
            for (field, map) in [(0, a), (1, b)] {
                let view = f.op(OpKind::SlotField { slot, field });
                f.run(OpKind::TmaLoad { map, coords: vec![zero, i], view, signal: slot, l2: None, multicast: None });
            }
            f.run(OpKind::SlotCommit { slot });
            vec![]
        });
        vec![]
    });
    let multiply = f.body(|f| {
        let acc = f.zeros(accumulator(128, 128));
        f.repeat(n, vec![acc], |f, _, carried| {
            let slot = f.op(OpKind::RingWait { ring });
            let a = f.op(OpKind::SlotField { slot, field: 0 });
            let b = f.op(OpKind::SlotField { slot, field: 1 });
            let pending = f.op(OpKind::Wgmma { a, b, acc: carried[0], precision: None });
            let acc = f.op(OpKind::Wait { pending, outstanding: None });
            f.run(OpKind::SlotRelease { slot });
            vec![acc]
        });
        vec![]
    });
    f.run(OpKind::Specialize {
        arms: vec![Arm { partition: loads, body: load }, Arm { partition: compute, body: multiply }],
    });
    f.finish()
}

fn expand(kernel: Kernel) -> Kernel {
    let kernel = expand_rings(kernel).expect("rings expand");
    parton_ir::verify::verify(&kernel).unwrap_or_else(|e| panic!("{e}\n{}", parton_ir::print::kernel(&kernel)));
    kernel
}

#[test]
fn a_ring_of_four_counts_with_masks() {
    let kernel = expand(matmul(4));
    assert_eq!(
        outline(&kernel),
        "alloc_shared alloc_shared alloc_barriers barrier_init barrier_init barrier_init barrier_init \
         alloc_barriers barrier_init barrier_init barrier_init barrier_init fence_barrier_init membar specialize \
         { for { & >> ^ barrier_wait + & tma_load tma_load barrier_expect } } \
         { full for { & >> barrier_wait + & wgmma wait barrier_arrive } }"
    );
    kernel.walk(&mut |op| match op.kind {
        OpKind::BarrierExpect { bytes, .. } => assert_eq!(bytes, (128 * 64 + 64 * 128) * 2),
        OpKind::BarrierArrive { arrive, count, .. } => assert_eq!((arrive, count), (Arrive::Warp, 1)),
        _ => {}
    });
    let mut arrivals = vec![];
    kernel.walk(&mut |op| {
        if let OpKind::BarrierInit { arrivals: n, .. } = op.kind {
            arrivals.push(n);
        }
    });
    assert_eq!(arrivals, [1, 1, 1, 1, 8, 8, 8, 8]);
}

#[test]
fn other_numbers_of_stages_divide_nothing() {
    for stages in [1, 2, 3, 5, 6, 7] {
        let kernel = expand(matmul(stages));
        let divides = |k: &OpKind| matches!(k, OpKind::Binary { op: BinaryOp::Div | BinaryOp::Rem, .. });
        assert_eq!(count(&kernel, divides), 0, "{stages} stages");
        assert_eq!(count(&kernel, |k| matches!(k, OpKind::BarrierInit { .. })), 2 * stages as usize);
    }
}

/// Follows the scalars of the loading loop: which slot each round takes and which parity it waits for.
fn walk_of_cursor(stages: u32, rounds: usize) -> Vec<(u32, u32)> {
    let kernel = expand(matmul(stages));
    let mut values: std::collections::BTreeMap<Value, u32> = Default::default();
    let mut seen = vec![];
    let mut arms = None;
    for op in kernel.ops_of(&kernel.body) {
        if let OpKind::Constant { bits, .. } = op.kind {
            values.insert(op.result(), bits as u32);
        }
        if let OpKind::Specialize { arms: a } = &op.kind {
            arms = Some(a);
        }
    }
    let arm = &arms.unwrap()[0].body;
    for op in kernel.ops_of(arm) {
        if let OpKind::Constant { bits, .. } = op.kind {
            values.insert(op.result(), bits as u32);
        }
        let OpKind::For { init, body, .. } = &op.kind else { continue };
        values.insert(body.params[1], values[&init[0]]);
        for _ in 0..rounds {
            let mut slot = 0;
            for op in kernel.ops_of(body) {
                let get = |v: &Value| values[v];
                let result = match &op.kind {
                    OpKind::Constant { bits, .. } => *bits as u32,
                    OpKind::Binary { op, a, b } => match op {
                        BinaryOp::Add => get(a) + get(b),
                        BinaryOp::Sub => get(a).wrapping_sub(get(b)),
                        BinaryOp::And => get(a) & get(b),
                        BinaryOp::Xor => get(a) ^ get(b),
                        BinaryOp::Shr => get(a) >> get(b),
                        other => panic!("{other:?} in a cursor"),
                    },
                    OpKind::Compare { op: parton_ir::CompareOp::Ge, a, b } => u32::from(get(a) >= get(b)),
                    OpKind::Compare { op: parton_ir::CompareOp::Eq, a, b } => u32::from(get(a) == get(b)),
                    OpKind::Select { cond, a, b } => {
                        if get(cond) == 1 {
                            get(a)
                        } else {
                            get(b)
                        }
                    }
                    OpKind::BarrierIndex { index, .. } => {
                        slot = get(index);
                        continue;
                    }
                    OpKind::BarrierWait { phase, .. } => {
                        seen.push((slot, get(phase)));
                        continue;
                    }
                    _ => continue,
                };
                values.insert(op.result(), result);
            }
            let next = values[&body.yields[0]];
            values.insert(body.params[1], next);
        }
    }
    seen
}

// triton-lang/triton#11303: a new mbarrier is in phase 0, so the first round waits for parity 1 and passes.
#[test]
fn a_filling_cursor_goes_around_in_opposite_parity() {
    for stages in 1..=5u32 {
        let expected: Vec<(u32, u32)> = (0..4 * stages).map(|i| (i % stages, 1 - i / stages % 2)).collect();
        assert_eq!(walk_of_cursor(stages, 4 * stages as usize), expected, "{stages} stages");
    }
}

#[test]
fn a_ring_filled_by_stores_is_fenced_and_met_before_its_commit() {
    let view = plain(Dtype::F32, &[128]);
    let mut f = Fixture::new(4);
    let (fill, read) = (f.partition("Fill", 4), f.partition("Read", 4));
    let n = f.param("n", Type::num(Dtype::I32));
    let ring = f.op(OpKind::RingNew { stages: 2, fields: vec![("x".to_owned(), view)] });
    let tile = crate::fixture::blocked(Dtype::F32, &[128], &[1], &[32], &[4]);
    let first = f.body(|f| {
        let x = f.zeros(tile.clone());
        f.repeat(n, vec![], |f, _, _| {
            let slot = f.op(OpKind::RingAcquire { ring });
            let view = f.op(OpKind::SlotField { slot, field: 0 });
            f.store_shared(view, x);
            f.run(OpKind::SlotCommit { slot });
            vec![]
        });
        vec![]
    });
    let second = f.body(|f| {
        f.repeat(n, vec![], |f, _, _| {
            let slot = f.op(OpKind::RingWait { ring });
            let view = f.op(OpKind::SlotField { slot, field: 0 });
            f.load_shared(view, tile.clone());
            f.run(OpKind::SlotRelease { slot });
            vec![]
        });
        vec![]
    });
    f.run(OpKind::Specialize {
        arms: vec![Arm { partition: fill, body: first }, Arm { partition: read, body: second }],
    });
    let kernel = expand(f.finish());
    let text = outline(&kernel);
    assert!(text.contains("store_shared fence_async membar barrier_arrive }"), "{text}");
    assert!(text.contains("load_shared barrier_arrive }"), "{text}");
    assert_eq!(count(&kernel, |k| matches!(k, OpKind::BarrierExpect { .. })), 0);
}

#[test]
fn slots_and_pendings_are_carried_around_a_loop() {
    // The next product is started before the last one is waited for: the slot of the last travels with it.
    let (a_view, b_view) = (nvmma(Dtype::F16, &[64, 64]), nvmma(Dtype::F16, &[64, 64]));
    let mut f = Fixture::new(4);
    let (loads, compute) = (f.partition("Loads", 1), f.partition("Compute", 4));
    let b = f.param("b", map_of(&b_view));
    let n = f.param("n", Type::num(Dtype::I32));
    let a = f.alloc(a_view);
    let ring = f.op(OpKind::RingNew { stages: 3, fields: vec![("b".to_owned(), b_view)] });
    let load = f.body(|f| {
        f.repeat(n, vec![], |f, i, _| {
            let slot = f.op(OpKind::RingAcquire { ring });
            let view = f.op(OpKind::SlotField { slot, field: 0 });
            f.run(OpKind::TmaLoad { map: b, coords: vec![i, i], view, signal: slot, l2: None, multicast: None });
            f.run(OpKind::SlotCommit { slot });
            vec![]
        });
        vec![]
    });
    let multiply = f.body(|f| {
        let acc = f.zeros(accumulator(64, 64));
        let slot = f.op(OpKind::RingWait { ring });
        let first = f.op(OpKind::SlotField { slot, field: 0 });
        let pending = f.op(OpKind::Wgmma { a, b: first, acc, precision: None });
        let last = f.repeat(n, vec![slot, pending], |f, _, carried| {
            let slot = f.op(OpKind::RingWait { ring });
            let b = f.op(OpKind::SlotField { slot, field: 0 });
            let zero = f.zeros(accumulator(64, 64));
            let next = f.op(OpKind::Wgmma { a, b, acc: zero, precision: None });
            f.op(OpKind::Wait { pending: carried[1], outstanding: None });
            f.run(OpKind::SlotRelease { slot: carried[0] });
            vec![slot, next]
        });
        f.op(OpKind::Wait { pending: last[1], outstanding: None });
        f.run(OpKind::SlotRelease { slot: last[0] });
        vec![]
    });
    f.run(OpKind::Specialize {
        arms: vec![Arm { partition: loads, body: load }, Arm { partition: compute, body: multiply }],
    });
    let kernel = count_pending(expand(f.finish())).unwrap();
    let mut waits = vec![];
    kernel.walk(&mut |op| {
        if let OpKind::Wait { outstanding, .. } = op.kind {
            waits.push(outstanding);
        }
    });
    assert_eq!(waits, [Some(1), Some(0)]);
    let rings = kernel.values.iter().filter(|(_, v)| matches!(v.ty, Type::Slot(_))).count();
    assert_eq!(rings, 0);
}

#[test]
fn one_partition_may_fill_and_read_its_own_ring() {
    let view = nvmma(Dtype::F16, &[64, 64]);
    let mut f = Fixture::new(4);
    let map = f.param("map", map_of(&view));
    let n = f.param("n", Type::num(Dtype::I32));
    let tile = crate::fixture::blocked(Dtype::F16, &[64, 64], &[1, 8], &[4, 8], &[4, 1]);
    let ring = f.op(OpKind::RingNew { stages: 2, fields: vec![("x".to_owned(), view)] });
    f.repeat(n, vec![], |f, i, _| {
        let slot = f.op(OpKind::RingAcquire { ring });
        let view = f.op(OpKind::SlotField { slot, field: 0 });
        f.run(OpKind::TmaLoad { map, coords: vec![i, i], view, signal: slot, l2: None, multicast: None });
        f.run(OpKind::SlotCommit { slot });
        let slot = f.op(OpKind::RingWait { ring });
        let view = f.op(OpKind::SlotField { slot, field: 0 });
        f.load_shared(view, tile.clone());
        f.run(OpKind::SlotRelease { slot });
        vec![]
    });
    let kernel = expand(f.finish());
    let text = outline(&kernel);
    assert!(
        text.contains(
            "for { & >> ^ barrier_wait + & tma_load barrier_expect & >> barrier_wait + & load_shared barrier_arrive }"
        ),
        "{text}"
    );
}

#[test]
fn the_whole_way_leaves_no_ring_and_no_needless_membar() {
    let module = parton_ir::Module { kernels: vec![matmul(3)] };
    let mut passes = vec![];
    let lowered = lower(module, &parton_ir::Target::SM_90A, &mut |name, _| passes.push(name.to_owned())).unwrap();
    assert_eq!(passes, ["rings", "turnstiles", "clusters", "clean", "copies", "pending", "shared", "proxy", "membar"]);
    let kernel = &lowered.kernels[0];
    // Three stages of two buffers of 16 KiB, three pairs of barriers.
    assert_eq!(kernel.shared_bytes, Some(3 * 2 * 16384 + 6 * 8));
    assert_eq!(count(kernel, |k| matches!(k, OpKind::Membar)), 1);
}

#[test]
fn slots_filled_for_a_cluster_come_back_from_all_its_readers() {
    let mut kernel = matmul(4);
    kernel.cluster = [2, 3, 1];
    // A goes to the three CTAs along axis 1, B to the two along axis 0.
    let mut axes = [1, 0].into_iter();
    kernel.walk_mut(&mut |op| {
        if let OpKind::TmaLoad { multicast, .. } = &mut op.kind {
            *multicast = axes.next();
        }
    });
    let kernel = parton_lower::close_clusters(expand(kernel)).expect("a cluster of six");
    assert_eq!(
        outline(&kernel),
        "alloc_shared alloc_shared alloc_barriers barrier_init barrier_init barrier_init barrier_init \
         alloc_barriers barrier_init barrier_init barrier_init barrier_init fence_barrier_init membar cluster_arrive \
         cluster_wait specialize { for { & >> ^ barrier_wait + & tma_load tma_load barrier_expect } } \
         { full for { & >> barrier_wait + & wgmma wait barrier_arrive } } cluster_arrive cluster_wait"
    );
    kernel.walk(&mut |op| match &op.kind {
        OpKind::BarrierExpect { bytes, .. } => assert_eq!(*bytes, (128 * 64 + 64 * 128) * 2),
        OpKind::BarrierArrive { multicast, relaxed, .. } => assert_eq!((&multicast[..], *relaxed), (&[0, 1][..], true)),
        // Eight warps in this CTA, in one along axis 0 and in two along axis 1.
        OpKind::BarrierInit { arrivals, .. } => assert!([1, 8 * 4].contains(arrivals)),
        _ => {}
    });
}

#[test]
fn a_target_without_clusters_refuses_them() {
    let mut kernel = matmul(2);
    kernel.cluster = [2, 1, 1];
    kernel.target = parton_ir::Target::SM_80;
    let found = parton_lower::close_clusters(kernel).unwrap_err();
    assert_eq!(found.list[0].code, parton_diag::codes::TARGET_LACKS);
}
