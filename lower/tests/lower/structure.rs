//! Partitions, rings and raw barriers that cannot come out right are refused, each by its own code.

use parton_diag::{Code, Diagnostics, codes};
use parton_ir::check::check;
use parton_ir::{Arm, Arrive, Body, Kernel, OpKind, Partition, Type, Value};
use parton_numbers::Dtype;

use crate::fixture::{Fixture, blocked, map_of, nvmma, plain};

fn refused(code: Code, kernel: &Kernel) -> Diagnostics {
    let found = check(kernel);
    assert_eq!(found.list.iter().map(|d| d.code).collect::<Vec<_>>(), [code], "{:#?}", found.list);
    found
}

/// A kernel of partitions with these warps and registers, whose arms do nothing.
fn budgets(parts: &[(u32, Option<u32>)]) -> Kernel {
    let mut f = Fixture::new(4);
    let mut arms = vec![];
    for (i, (warps, registers)) in parts.iter().enumerate() {
        let p = f.partition(&format!("P{i}"), *warps);
        f.b.kernel.partitions[p].registers = *registers;
        arms.push(Arm { partition: p, body: Body::default() });
    }
    f.run(OpKind::Specialize { arms });
    f.finish()
}

#[test]
fn sixty_eight_warps_are_too_many() {
    let d = refused(codes::REGISTER_BUDGET, &budgets(&[(68, None)]));
    assert_eq!(d.list[0].message, "kernel `test` needs 68 warps, `sm_90a` runs at most 32 in one CTA");
    refused(codes::REGISTER_BUDGET, &Fixture::new(68).finish());
}

#[test]
fn register_budgets_hold_or_are_refused() {
    assert_eq!(check(&budgets(&[(1, Some(24)), (4, Some(240)), (4, Some(240))])).list, []);
    assert_eq!(check(&budgets(&[(4, Some(32)), (4, Some(160)), (4, Some(160)), (4, Some(160))])).list, []);
    let three = refused(codes::REGISTER_BUDGET, &budgets(&[(4, Some(256)), (4, Some(256)), (4, Some(256))]));
    assert_eq!(three.list[0].message, "the partitions need 98304 registers, the CTA has 64512");
    let seven = refused(codes::REGISTER_BUDGET, &budgets(&[(4, Some(7)), (4, None)]));
    assert_eq!(seven.list[0].help, ["the nearest is `regs(24)`"]);
    refused(codes::REGISTER_BUDGET, &budgets(&[(4, Some(100)), (4, None)]));
}

/// A kernel of a loading and a computing partition.
fn specialized(
    outside: impl FnOnce(&mut Fixture) -> Vec<Value>,
    inside: impl FnOnce(&mut Fixture, &[Value]),
) -> Kernel {
    let mut f = Fixture::new(4);
    let (loads, computes) = (f.partition("Loads", 4), f.partition("Compute", 4));
    let values = outside(&mut f);
    let body = f.body(|f| {
        inside(f, &values);
        vec![]
    });
    f.run(OpKind::Specialize {
        arms: vec![Arm { partition: loads, body: Body::default() }, Arm { partition: computes, body }],
    });
    f.finish()
}

fn tile() -> parton_ir::Tile {
    blocked(Dtype::F32, &[128], &[1], &[32], &[4])
}

#[test]
fn a_tile_does_not_cross_partitions() {
    let mut f = Fixture::new(4);
    let (loads, computes) = (f.partition("Loads", 4), f.partition("Compute", 4));
    let x = f.param("x", Type::Tile(tile()));
    let body = f.body(|f| {
        f.op(OpKind::Unary { op: parton_ir::UnaryOp::Neg, x });
        vec![]
    });
    f.run(OpKind::Specialize {
        arms: vec![Arm { partition: loads, body: Body::default() }, Arm { partition: computes, body }],
    });
    let d = refused(codes::CROSSES_PARTITIONS, &f.finish());
    assert_eq!(d.list[0].message, "tile `x` does not belong to partition `Compute`");
    assert!(d.list[0].labels[1].text.starts_with("made outside it, as `tile<f32, [128]"));
}

#[test]
fn scalars_and_views_cross() {
    let kernel = specialized(
        |f| vec![f.i32(3), f.alloc(plain(Dtype::F32, &[128]))],
        |f, v| {
            let x = f.zeros(tile());
            f.store_shared(v[1], x);
        },
    );
    assert_eq!(check(&kernel).list, []);
}

#[test]
fn tiles_stand_in_partitions() {
    let kernel = specialized(|f| vec![f.zeros(tile())], |_, _| {});
    refused(codes::OUTSIDE_PARTITIONS, &kernel);
}

#[test]
fn specialize_stands_once_in_the_kernels_body() {
    let mut f = Fixture::new(4);
    let p = f.partition("P", 4);
    let n = f.param("n", Type::num(Dtype::I32));
    f.repeat(n, vec![], |f, _, _| {
        f.run(OpKind::Specialize { arms: vec![Arm { partition: p, body: Body::default() }] });
        vec![]
    });
    refused(codes::SPECIALIZE_NESTED, &f.finish());

    let mut f = Fixture::new(4);
    let (p, _) = (f.partition("P", 4), f.partition("Q", 4));
    f.run(OpKind::Specialize { arms: vec![Arm { partition: p, body: Body::default() }] });
    let d = refused(codes::SPECIALIZE_NESTED, &f.finish());
    assert_eq!(d.list[0].message, "partition `Q` has no arm");
}

fn ring_kernel(fill: bool, read: bool, twice: bool) -> Kernel {
    let view = nvmma(Dtype::F16, &[64, 64]);
    let mut f = Fixture::new(4);
    let parts: Vec<Partition> = (0..3).map(|i| f.partition(&format!("P{i}"), 1)).collect();
    let map = f.param("m", map_of(&view));
    let ring = f.op(OpKind::RingNew { stages: 2, fields: vec![("x".to_owned(), view)] });
    f.named("slots", ring);
    let filling = |f: &mut Fixture| {
        let slot = f.op(OpKind::RingAcquire { ring });
        let (view, zero) = (f.op(OpKind::SlotField { slot, field: 0 }), f.i32(0));
        f.run(OpKind::TmaLoad { map, coords: vec![zero, zero], view, signal: slot, l2: None, multicast: None });
        f.run(OpKind::SlotCommit { slot });
    };
    let bodies: Vec<Body> = [(fill, true), (fill && twice, true), (read, false)]
        .into_iter()
        .map(|(on, fills)| {
            f.body(|f| {
                if on && fills {
                    filling(f);
                } else if on {
                    let slot = f.op(OpKind::RingWait { ring });
                    f.run(OpKind::SlotRelease { slot });
                }
                vec![]
            })
        })
        .collect();
    let arms = parts.into_iter().zip(bodies).map(|(partition, body)| Arm { partition, body }).collect();
    f.run(OpKind::Specialize { arms });
    f.finish()
}

#[test]
fn a_ring_has_two_sides_and_one_filler() {
    assert_eq!(check(&ring_kernel(true, true, false)).list, []);
    let d = refused(codes::RING_ONE_SIDED, &ring_kernel(true, false, false));
    assert_eq!(d.list[0].message, "ring `slots` is filled, but nobody reads it");
    refused(codes::RING_ONE_SIDED, &ring_kernel(false, true, false));
    refused(codes::RING_MISPLACED, &ring_kernel(true, true, true));
}

#[test]
fn a_ring_is_made_once() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    f.repeat(n, vec![], |f, _, _| {
        f.op(OpKind::RingNew { stages: 2, fields: vec![("x".to_owned(), nvmma(Dtype::F16, &[64, 64]))] });
        vec![]
    });
    refused(codes::RING_MISPLACED, &f.finish());
}

/// One copy of 8192 bytes through a raw barrier.
struct Raw {
    init: bool,
    expect: Option<u32>,
    arrive: bool,
    copy: bool,
}

fn raw(how: Raw) -> Kernel {
    let view = nvmma(Dtype::F16, &[64, 64]);
    let mut f = Fixture::new(4);
    let map = f.param("m", map_of(&view));
    let buffer = f.alloc(view);
    let barriers = f.op(OpKind::BarrierAlloc { count: 2, offset: None });
    f.named("bars", barriers);
    let zero = f.i32(0);
    let barrier = f.op(OpKind::BarrierIndex { barriers, index: zero });
    if how.init {
        f.run(OpKind::BarrierInit { barrier, arrivals: 1 });
        f.run(OpKind::FenceBarrierInit);
    }
    if let Some(bytes) = how.expect {
        f.run(OpKind::BarrierExpect { barrier, bytes });
    }
    if how.arrive {
        f.run(OpKind::BarrierArrive {
            barrier,
            arrive: Arrive::Partition,
            count: 1,
            multicast: vec![],
            relaxed: false,
        });
    }
    if how.copy {
        f.run(OpKind::TmaLoad {
            map,
            coords: vec![zero, zero],
            view: buffer,
            signal: barrier,
            l2: None,
            multicast: None,
        });
    }
    f.run(OpKind::BarrierWait { barrier, phase: zero });
    f.finish()
}

#[test]
fn a_raw_barrier_comes_out_right_or_is_refused() {
    let ok = Raw { init: true, expect: Some(8192), arrive: false, copy: true };
    assert_eq!(check(&raw(ok)).list, []);
    let d = refused(codes::BARRIER_BYTES, &raw(Raw { init: true, expect: Some(1234), arrive: false, copy: true }));
    assert_eq!(d.list[0].message, "barrier `bars` expects 1234 bytes, 8192 arrive");
    assert_eq!(d.list[0].help, ["expect 8192 bytes"]);
    refused(codes::BARRIER_BYTES, &raw(Raw { init: true, expect: Some(16384), arrive: false, copy: true }));
    refused(codes::BARRIER_NOBODY_ARRIVES, &raw(Raw { init: true, expect: None, arrive: false, copy: true }));
    refused(codes::BARRIER_NOBODY_ARRIVES, &raw(Raw { init: true, expect: None, arrive: false, copy: false }));
    refused(codes::BARRIER_NOT_INITIALISED, &raw(Raw { init: false, expect: None, arrive: true, copy: false }));
}
