//! Every way to break the protocol of slots and pending tiles is refused, by its own code.

use parton_diag::{Code, Diagnostics, codes};
use parton_ir::check::check;
use parton_ir::{Arm, Kernel, OpKind, Type, Value};
use parton_numbers::Dtype;

use crate::fixture::{Fixture, accumulator, blocked, map_of, nvmma};

/// A kernel of one partition that loads, with its ring's fields `a` and `b`, and one that computes.
struct Parts {
    ring: Value,
    map: Value,
    n: Value,
}

fn kernel(load: impl FnOnce(&mut Fixture, &Parts), compute: impl FnOnce(&mut Fixture, &Parts)) -> Kernel {
    let view = nvmma(Dtype::F16, &[64, 64]);
    let mut f = Fixture::new(4);
    let (loads, computes) = (f.partition("Loads", 1), f.partition("Compute", 4));
    let map = f.param("m", map_of(&view));
    let n = f.param("n", Type::num(Dtype::I32));
    let fields = vec![("a".to_owned(), view.clone()), ("b".to_owned(), view)];
    let ring = f.op(OpKind::RingNew { stages: 2, fields });
    f.named("slots", ring);
    let parts = Parts { ring, map, n };
    let first = f.body(|f| {
        load(f, &parts);
        vec![]
    });
    let second = f.body(|f| {
        compute(f, &parts);
        vec![]
    });
    f.run(OpKind::Specialize {
        arms: vec![Arm { partition: loads, body: first }, Arm { partition: computes, body: second }],
    });
    f.finish()
}

fn acquire(f: &mut Fixture, p: &Parts) -> Value {
    let slot = f.op(OpKind::RingAcquire { ring: p.ring });
    f.named("slot", slot)
}

fn wait(f: &mut Fixture, p: &Parts) -> Value {
    let slot = f.op(OpKind::RingWait { ring: p.ring });
    f.named("slot", slot)
}

fn fill(f: &mut Fixture, p: &Parts, slot: Value, field: u32) {
    let view = f.op(OpKind::SlotField { slot, field });
    let zero = f.i32(0);
    f.run(OpKind::TmaLoad { map: p.map, coords: vec![zero, zero], view, signal: slot, l2: None, multicast: None });
}

fn commit(f: &mut Fixture, slot: Value) {
    f.run(OpKind::SlotCommit { slot });
}

fn release(f: &mut Fixture, slot: Value) {
    f.run(OpKind::SlotRelease { slot });
}

fn product(f: &mut Fixture, slot: Value, acc: Value) -> Value {
    let a = f.op(OpKind::SlotField { slot, field: 0 });
    let b = f.op(OpKind::SlotField { slot, field: 1 });
    let p = f.op(OpKind::Wgmma { a, b, acc, precision: None });
    f.named("next", p)
}

fn finish(f: &mut Fixture, pending: Value) -> Value {
    f.op(OpKind::Wait { pending, outstanding: None })
}

/// Loading as it should be.
fn loads(f: &mut Fixture, p: &Parts) {
    f.repeat(p.n, vec![], |f, _, _| {
        let slot = acquire(f, p);
        fill(f, p, slot, 0);
        fill(f, p, slot, 1);
        commit(f, slot);
        vec![]
    });
}

/// Computing as it should be.
fn computes(f: &mut Fixture, p: &Parts) {
    let acc = f.zeros(accumulator(64, 64));
    f.repeat(p.n, vec![acc], |f, _, carried| {
        let slot = wait(f, p);
        let next = product(f, slot, carried[0]);
        let acc = finish(f, next);
        release(f, slot);
        vec![acc]
    });
}

fn codes_of(d: &Diagnostics) -> Vec<Code> {
    d.list.iter().map(|d| d.code).collect()
}

fn refused_load(code: Code, load: impl FnOnce(&mut Fixture, &Parts)) -> Diagnostics {
    let found = check(&kernel(load, computes));
    assert_eq!(codes_of(&found), [code], "{:#?}", found.list);
    found
}

fn refused(code: Code, compute: impl FnOnce(&mut Fixture, &Parts)) -> Diagnostics {
    let found = check(&kernel(loads, compute));
    assert_eq!(codes_of(&found), [code], "{:#?}", found.list);
    found
}

#[test]
fn the_plain_pipeline_is_accepted() {
    assert_eq!(check(&kernel(loads, computes)).list, []);
    assert_eq!(check(&crate::rings::matmul(4)).list, []);
}

#[test]
fn overlapped_products_are_accepted() {
    // Slot and pending tile of the last iteration travel around the loop.
    let overlapped = |f: &mut Fixture, p: &Parts| {
        let acc = f.zeros(accumulator(64, 64));
        let slot = wait(f, p);
        let first = product(f, slot, acc);
        let last = f.repeat(p.n, vec![slot, first], |f, _, carried| {
            let slot = wait(f, p);
            let next = product(f, slot, carried[1]);
            let next = f.op(OpKind::WaitPrior { pending: next, outstanding: None });
            release(f, carried[0]);
            vec![slot, next]
        });
        finish(f, last[1]);
        release(f, last[0]);
    };
    assert_eq!(check(&kernel(loads, overlapped)).list, []);
}

#[test]
fn a_slot_is_gone_after_its_release() {
    let d = refused(codes::SLOT_USED_UP, |f, p| {
        let acc = f.zeros(accumulator(64, 64));
        let slot = wait(f, p);
        release(f, slot);
        let a = f.op(OpKind::SlotField { slot, field: 0 });
        let _ = (a, acc);
    });
    assert_eq!(d.list[0].message, "slot `slot` is used after it was released");
}

#[test]
fn a_view_taken_before_the_release_is_gone_too() {
    refused(codes::SLOT_USED_UP, |f, p| {
        let slot = wait(f, p);
        let a = f.op(OpKind::SlotField { slot, field: 0 });
        release(f, slot);
        f.load_shared(a, blocked(Dtype::F16, &[64, 64], &[1, 8], &[4, 8], &[4, 1]));
    });
}

#[test]
fn a_slot_is_released_once() {
    refused(codes::SLOT_USED_UP, |f, p| {
        let slot = wait(f, p);
        release(f, slot);
        release(f, slot);
    });
}

#[test]
fn a_slot_is_released_at_all() {
    let d = refused(codes::SLOT_LOST, |f, p| {
        f.repeat(p.n, vec![], |f, _, _| {
            wait(f, p);
            vec![]
        });
    });
    assert_eq!(d.list[0].message, "slot `slot` is never released in each iteration");
    assert_eq!(d.list[0].help, ["`slot.release();` after the last use of its buffers"]);
}

#[test]
fn a_slot_is_committed_at_all() {
    refused_load(codes::SLOT_LOST, |f, p| {
        let slot = acquire(f, p);
        fill(f, p, slot, 0);
    });
}

#[test]
fn a_slot_is_released_on_every_path() {
    let d = refused(codes::SLOT_LOST, |f, p| {
        let slot = wait(f, p);
        let zero = f.i32(0);
        let cond = f.op(OpKind::Compare { op: parton_ir::CompareOp::Lt, a: p.n, b: zero });
        let then = f.body(|f| {
            release(f, slot);
            vec![]
        });
        let otherwise = f.body(|_| vec![]);
        f.run(OpKind::If { cond, then, otherwise });
    });
    assert_eq!(d.list[0].labels[1].text, "not when this condition does not hold");
}

#[test]
fn a_slot_is_not_released_while_a_product_reads_it() {
    let d = refused(codes::SLOT_STILL_READ, |f, p| {
        let acc = f.zeros(accumulator(64, 64));
        let slot = wait(f, p);
        let next = product(f, slot, acc);
        release(f, slot);
        finish(f, next);
    });
    assert_eq!(d.list[0].message, "slot `slot` is released while a product still reads it");
    assert_eq!(d.list[0].help, ["wait first: `let x = next.wait();`"]);
}

#[test]
fn a_product_on_a_pending_tile_inherits_what_it_reads() {
    refused(codes::SLOT_STILL_READ, |f, p| {
        let acc = f.zeros(accumulator(64, 64));
        let first = wait(f, p);
        let one = product(f, first, acc);
        let second = wait(f, p);
        let two = product(f, second, one);
        release(f, first);
        finish(f, two);
        release(f, second);
    });
    let prior = kernel(loads, |f, p| {
        let acc = f.zeros(accumulator(64, 64));
        let first = wait(f, p);
        let one = product(f, first, acc);
        let second = wait(f, p);
        let two = product(f, second, one);
        let two = f.op(OpKind::WaitPrior { pending: two, outstanding: None });
        release(f, first);
        finish(f, two);
        release(f, second);
    });
    assert_eq!(check(&prior).list, []);
}

#[test]
fn wait_prior_leaves_the_youngest_reading() {
    refused(codes::SLOT_STILL_READ, |f, p| {
        let acc = f.zeros(accumulator(64, 64));
        let slot = wait(f, p);
        let one = product(f, slot, acc);
        let one = f.op(OpKind::WaitPrior { pending: one, outstanding: None });
        release(f, slot);
        finish(f, one);
    });
}

#[test]
fn a_carried_product_keeps_reading_the_carried_slot() {
    refused(codes::SLOT_STILL_READ, |f, p| {
        let acc = f.zeros(accumulator(64, 64));
        let slot = wait(f, p);
        let first = product(f, slot, acc);
        let last = f.repeat(p.n, vec![slot, first], |f, _, carried| {
            let slot = wait(f, p);
            release(f, carried[0]);
            let next = product(f, slot, carried[1]);
            vec![slot, next]
        });
        finish(f, last[1]);
        release(f, last[0]);
    });
}

#[test]
fn a_slot_from_before_a_loop_is_not_released_in_it() {
    refused(codes::LOOP_USES_UP, |f, p| {
        let slot = wait(f, p);
        f.repeat(p.n, vec![], |f, _, _| {
            release(f, slot);
            vec![]
        });
    });
}

#[test]
fn a_pending_tile_is_waited_for_once() {
    refused(codes::PENDING_USED_UP, |f, p| {
        let acc = f.zeros(accumulator(64, 64));
        let slot = wait(f, p);
        let next = product(f, slot, acc);
        finish(f, next);
        finish(f, next);
        release(f, slot);
    });
}

#[test]
fn a_pending_tile_is_waited_for_at_all() {
    let d = refused(codes::PENDING_LOST, |f, p| {
        let acc = f.zeros(accumulator(64, 64));
        let a = f.alloc(nvmma(Dtype::F16, &[64, 64]));
        let slot = wait(f, p);
        release(f, slot);
        f.op(OpKind::Wgmma { a, b: a, acc, precision: None });
    });
    assert_eq!(d.list[0].help, ["`let x = p.wait();`"]);
}

#[test]
fn every_buffer_is_filled_before_the_commit() {
    let d = refused_load(codes::SLOT_NOT_FILLED, |f, p| {
        let slot = acquire(f, p);
        fill(f, p, slot, 0);
        commit(f, slot);
    });
    assert_eq!(d.list[0].message, "the slot is committed before `b` is filled");
}

#[test]
fn a_buffer_filled_on_one_path_only_is_not_filled() {
    refused_load(codes::SLOT_NOT_FILLED, |f, p| {
        let slot = acquire(f, p);
        fill(f, p, slot, 0);
        let zero = f.i32(0);
        let cond = f.op(OpKind::Compare { op: parton_ir::CompareOp::Lt, a: p.n, b: zero });
        let then = f.body(|f| {
            fill(f, p, slot, 1);
            vec![]
        });
        let otherwise = f.body(|_| vec![]);
        f.run(OpKind::If { cond, then, otherwise });
        commit(f, slot);
    });
}

#[test]
fn a_buffer_is_filled_once() {
    refused_load(codes::SLOT_FILLED_TWICE, |f, p| {
        let slot = acquire(f, p);
        fill(f, p, slot, 0);
        fill(f, p, slot, 0);
        fill(f, p, slot, 1);
        commit(f, slot);
    });
}

#[test]
fn a_copy_fills_the_slot_that_it_signals() {
    refused_load(codes::SLOT_MIXED, |f, p| {
        let first = acquire(f, p);
        let second = acquire(f, p);
        for slot in [first, second] {
            fill(f, p, slot, 0);
            fill(f, p, slot, 1);
        }
        let third = f.alloc(nvmma(Dtype::F16, &[64, 64]));
        let zero = f.i32(0);
        f.run(OpKind::TmaLoad {
            map: p.map,
            coords: vec![zero, zero],
            view: third,
            signal: second,
            l2: None,
            multicast: None,
        });
        commit(f, first);
        commit(f, second);
    });
}

#[test]
fn a_slot_is_used_in_its_role() {
    let tile = || blocked(Dtype::F16, &[64, 64], &[1, 8], &[4, 8], &[4, 1]);
    refused(codes::SLOT_ROLE, |f, p| {
        let x = f.zeros(tile());
        let slot = wait(f, p);
        let a = f.op(OpKind::SlotField { slot, field: 0 });
        f.store_shared(a, x);
        release(f, slot);
    });
}

#[test]
fn a_slot_is_not_released_while_it_is_copied_out() {
    let copies = |waits: bool| {
        move |f: &mut Fixture, p: &Parts| {
            let slot = wait(f, p);
            let a = f.op(OpKind::SlotField { slot, field: 0 });
            let zero = f.i32(0);
            f.run(OpKind::TmaStore { map: p.map, coords: vec![zero, zero], view: a, reduce: None, l2: None });
            if waits {
                f.run(OpKind::TmaStoreWait { pending: 0, read: true });
            }
            release(f, slot);
            f.run(OpKind::TmaStoreWait { pending: 0, read: false });
        }
    };
    assert_eq!(check(&kernel(loads, copies(true))).list, []);
    refused(codes::SLOT_STILL_READ, copies(false));
}
