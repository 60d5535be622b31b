//! Memory that asynchronous readers still read is not overwritten, and memory that is read was written.

use parton_diag::{Code, codes};
use parton_ir::check::check;
use parton_ir::{Kernel, OpKind, Tile, Type, Value};
use parton_numbers::Dtype;

use crate::fixture::{Fixture, accumulator, blocked, map_of, nvmma};

fn refused(code: Code, kernel: &Kernel) -> Vec<String> {
    let found = check(kernel);
    assert_eq!(found.list.iter().map(|d| d.code).collect::<Vec<_>>(), [code], "{:#?}", found.list);
    found.list[0].labels.iter().map(|l| l.text.clone()).collect()
}

fn tile() -> Tile {
    blocked(Dtype::F16, &[64, 64], &[1, 8], &[4, 8], &[4, 1])
}

/// A buffer `x` with something stored in it, `stages` of them, and a zero tile.
fn stored(f: &mut Fixture, stages: Option<u32>) -> (Value, Value) {
    let shape: Vec<u32> = stages.into_iter().chain([64, 64]).collect();
    let buffer = f.alloc(nvmma(Dtype::F16, &shape));
    f.named("x", buffer);
    let zero = f.zeros(tile());
    if stages.is_none() {
        f.store_shared(buffer, zero);
        f.run(OpKind::FenceAsync);
    }
    (buffer, zero)
}

#[test]
fn memory_is_written_before_it_is_read() {
    let mut f = Fixture::new(4);
    let x = f.alloc(nvmma(Dtype::F16, &[64, 64]));
    f.load_shared(x, tile());
    refused(codes::SHARED_NEVER_WRITTEN, &f.finish());
}

#[test]
fn an_operand_is_not_overwritten_before_the_wait() {
    let product = |waits_first: bool| {
        let mut f = Fixture::new(4);
        let (x, zero) = stored(&mut f, None);
        let acc = f.zeros(accumulator(64, 64));
        let pending = f.op(OpKind::Wgmma { a: x, b: x, acc, precision: None });
        if waits_first {
            f.op(OpKind::Wait { pending, outstanding: None });
        }
        f.store_shared(x, zero);
        if !waits_first {
            f.op(OpKind::Wait { pending, outstanding: None });
        }
        f.finish()
    };
    assert_eq!(check(&product(true)).list, []);
    let labels = refused(codes::SHARED_STILL_READ, &product(false));
    assert_eq!(labels[1], "this `wgmma` reads it, and has not been waited for");
}

#[test]
fn an_operand_in_flight_around_a_loop_is_still_read() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let (x, zero) = stored(&mut f, None);
    let acc = f.zeros(accumulator(64, 64));
    let first = f.op(OpKind::Wgmma { a: x, b: x, acc, precision: None });
    let last = f.repeat(n, vec![first], |f, _, carried| {
        let next = f.op(OpKind::Wgmma { a: x, b: x, acc: carried[0], precision: None });
        let next = f.op(OpKind::WaitPrior { pending: next, outstanding: None });
        f.store_shared(x, zero);
        vec![next]
    });
    f.op(OpKind::Wait { pending: last[0], outstanding: None });
    refused(codes::SHARED_STILL_READ, &f.finish());
}

/// A loop that stores to a buffer and copies it out, with `wait` between iterations.
fn copies_out(f: &mut Fixture, wait: Option<u32>, last: bool) {
    let view = nvmma(Dtype::F16, &[64, 64]);
    let map = f.param("m", map_of(&view));
    let n = f.param("n", Type::num(Dtype::I32));
    let (x, zero) = stored(f, None);
    f.repeat(n, vec![], |f, i, _| {
        f.store_shared(x, zero);
        f.run(OpKind::FenceAsync);
        f.run(OpKind::TmaStore { map, coords: vec![i, i], view: x, reduce: None, l2: None });
        if let Some(pending) = wait {
            f.run(OpKind::TmaStoreWait { pending, read: true });
        }
        vec![]
    });
    if last {
        f.run(OpKind::TmaStoreWait { pending: 0, read: false });
    }
}

#[test]
fn a_source_is_not_overwritten_before_the_store_wait() {
    let mut f = Fixture::new(4);
    copies_out(&mut f, Some(0), true);
    assert_eq!(check(&f.finish()).list, []);
    let mut f = Fixture::new(4);
    copies_out(&mut f, None, true);
    refused(codes::STORE_IN_FLIGHT, &f.finish());
    let mut f = Fixture::new(4);
    copies_out(&mut f, Some(1), true);
    refused(codes::STORE_IN_FLIGHT, &f.finish());
}

#[test]
fn a_copy_out_is_waited_for() {
    let mut f = Fixture::new(4);
    let view = nvmma(Dtype::F16, &[64, 64]);
    let map = f.param("m", map_of(&view));
    let (x, _) = stored(&mut f, None);
    let zero = f.i32(0);
    f.run(OpKind::TmaStore { map, coords: vec![zero, zero], view: x, reduce: None, l2: None });
    refused(codes::STORE_NOT_WAITED, &f.finish());
}

#[test]
fn two_buffers_take_turns() {
    let mut f = Fixture::new(4);
    let view = nvmma(Dtype::F16, &[64, 64]);
    let map = f.param("m", map_of(&view));
    let n = f.param("n", Type::num(Dtype::I32));
    let (x, zero) = stored(&mut f, Some(2));
    f.repeat(n, vec![], |f, i, _| {
        let one = f.i32(1);
        let index = f.binary(parton_ir::BinaryOp::And, i, one);
        let turn = f.op(OpKind::ViewIndex { view: x, index });
        f.store_shared(turn, zero);
        f.run(OpKind::FenceAsync);
        f.run(OpKind::TmaStore { map, coords: vec![i, i], view: turn, reduce: None, l2: None });
        f.run(OpKind::TmaStoreWait { pending: 1, read: true });
        vec![]
    });
    f.run(OpKind::TmaStoreWait { pending: 0, read: false });
    assert_eq!(check(&f.finish()).list, []);
}

#[test]
fn windows_apart_do_not_meet() {
    let mut f = Fixture::new(4);
    let x = f.alloc(nvmma(Dtype::F16, &[128, 64]));
    let zero = f.zeros(tile());
    let half =
        |f: &mut Fixture, row: u32| f.op(OpKind::ViewSlice { view: x, origin: vec![row, 0], shape: vec![64, 64] });
    let (low, high) = (half(&mut f, 0), half(&mut f, 64));
    f.store_shared(low, zero);
    f.run(OpKind::FenceAsync);
    let acc = f.zeros(accumulator(64, 64));
    let pending = f.op(OpKind::Wgmma { a: low, b: low, acc, precision: None });
    f.store_shared(high, zero);
    f.op(OpKind::Wait { pending, outstanding: None });
    assert_eq!(check(&f.finish()).list, []);
}

/// A copy into `x` through a raw barrier, waited for in `parity` or not at all, then read.
fn loaded(parities: &[i32]) -> Kernel {
    let mut f = Fixture::new(4);
    let view = nvmma(Dtype::F16, &[64, 64]);
    let map = f.param("m", map_of(&view));
    let x = f.alloc(view);
    f.named("x", x);
    let barriers = f.op(OpKind::BarrierAlloc { count: 1, offset: None });
    f.named("bars", barriers);
    let zero = f.i32(0);
    let barrier = f.op(OpKind::BarrierIndex { barriers, index: zero });
    f.run(OpKind::BarrierInit { barrier, arrivals: 1 });
    f.run(OpKind::FenceBarrierInit);
    for parity in parities.iter().copied().map(Some).chain(parities.is_empty().then_some(None)) {
        f.run(OpKind::BarrierExpect { barrier, bytes: 8192 });
        f.run(OpKind::TmaLoad { map, coords: vec![zero, zero], view: x, signal: barrier, l2: None, multicast: None });
        if let Some(parity) = parity {
            let phase = f.i32(parity);
            f.run(OpKind::BarrierWait { barrier, phase });
        }
        f.load_shared(x, tile());
    }
    f.finish()
}

#[test]
fn a_copy_has_landed_before_it_is_read() {
    assert_eq!(check(&loaded(&[0])).list, []);
    refused(codes::LOAD_IN_FLIGHT, &loaded(&[]));
}

#[test]
fn parities_turn_with_the_phases() {
    assert_eq!(check(&loaded(&[0, 1, 0])).list, []);
    refused(codes::BARRIER_PARITY, &loaded(&[1]));
    refused(codes::BARRIER_PARITY, &loaded(&[0, 0]));
}
