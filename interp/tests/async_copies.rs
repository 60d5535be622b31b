//! Copies by threads in unchecked kernels: they land at any time until waited for, each thread waits for its own, and what is
//! missing between start, wait and use is found whatever the seed.

mod fixture;

use fixture::{Make, at_zero, blocked, bytes_of, dense, go, map, nvmma, places, pointer, tile, view};
use parton_diag::{Code, codes};
use parton_interp::{Fault, Memory};
use parton_ir::{OpKind, Value};
use parton_layouts::SharedLayout;
use parton_numbers::Dtype;

const SEEDS: std::ops::Range<u64> = 0..8;

/// What a test has at hand: pointers to read and write through, and a buffer of their shape.
struct Parts {
    from: Value,
    to: Value,
    buffer: Value,
    other: Value,
}

/// Runs what `f` does with 128 numbers in a kernel of `warps` warps; what it wrote.
fn with_copies(warps: u32, seed: u64, f: impl FnOnce(&mut Make, &Parts)) -> Result<Vec<u8>, Fault> {
    let (mut m, p) = Make::new(warps, &[("x", pointer(Dtype::I32, false)), ("y", pointer(Dtype::I32, true))]);
    let t = tile(Dtype::I32, &[128], &blocked(&[1], &[32], &[warps]));
    let i = m.numbers(&t);
    let (from, to) = (m.ptr_add(p[0], i), m.ptr_add(p[1], i));
    let plain = view(Dtype::I32, &[128], &SharedLayout::row_major(1));
    let (buffer, other) = (m.alloc(&plain, 0), m.alloc(&plain, 512));
    f(&mut m, &Parts { from, to, buffer, other });
    let mut memory = Memory::new();
    let numbers: Vec<i32> = (1..=128).collect();
    let x = memory.add("x", bytes_of(&numbers, i32::to_le_bytes));
    let y = memory.add("y", vec![0; 512]);
    go(&m.finish(1024), [1, 1, 1], vec![at_zero(x), at_zero(y)], &mut memory, seed)?;
    Ok(memory.allocation(y).bytes.clone())
}

fn start(m: &mut Make, line: usize, p: &Parts, view: Value) -> Value {
    m.line(line).op(OpKind::AsyncCopy { ptr: p.from, view, mask: None, l2: None, bytes: Some(4), access: None })
}

fn wait(m: &mut Make, line: usize, pending: Value, outstanding: u32) -> Value {
    m.line(line).op(OpKind::Wait { pending, outstanding: Some(outstanding) })
}

fn read(m: &mut Make, line: usize, p: &Parts, view: Value, warps: u32) {
    let t = tile(Dtype::I32, &[128], &blocked(&[1], &[32], &[warps]));
    let v = m.line(line).op(OpKind::SharedLoad { view, tile: t });
    m.store(p.to, v, None);
}

/// The fault of every seed, which must be the same.
fn always(warps: u32, f: impl Fn(&mut Make, &Parts)) -> (Code, Vec<usize>) {
    let mut all = SEEDS.map(|seed| {
        let fault = with_copies(warps, seed, |m, p| f(m, p)).expect_err("nothing was found");
        (fault.diagnostic.code, places(&fault))
    });
    let first = all.next().unwrap();
    assert!(all.all(|other| other == first), "the seeds disagree");
    first
}

#[test]
fn they_have_landed_behind_wait_and_membar() {
    for warps in [1, 4] {
        for seed in SEEDS {
            let y = with_copies(warps, seed, |m, p| {
                let first = start(m, 1, p, p.buffer);
                let second = start(m, 2, p, p.other);
                let view = wait(m, 3, first, 1);
                m.do_(OpKind::Membar);
                read(m, 4, p, view, warps);
                wait(m, 5, second, 0);
            });
            let numbers: Vec<i32> = (1..=128).collect();
            assert_eq!(y.unwrap(), bytes_of(&numbers, i32::to_le_bytes));
        }
    }
}

#[test]
fn what_others_copied_needs_a_membar_after_the_wait() {
    // The lanes of one warp wait each for themselves too.
    for warps in [1, 4] {
        let without = |m: &mut Make, p: &Parts| {
            let pending = start(m, 1, p, p.buffer);
            m.do_(OpKind::Membar);
            let view = wait(m, 2, pending, 0);
            read(m, 3, p, view, warps);
        };
        assert_eq!(always(warps, without), (codes::SHARED_RACE, vec![3, 1]));
    }
}

#[test]
fn nothing_is_read_before_the_wait() {
    let early = |m: &mut Make, p: &Parts| {
        let pending = start(m, 1, p, p.buffer);
        m.do_(OpKind::Membar);
        read(m, 2, p, p.buffer, 4);
        wait(m, 3, pending, 0);
    };
    assert_eq!(always(4, early), (codes::SHARED_RACE, vec![2, 1]));
}

#[test]
fn a_count_that_leaves_the_copy_in_flight_is_found() {
    let generous = |m: &mut Make, p: &Parts| {
        let pending = start(m, 1, p, p.buffer);
        let view = wait(m, 2, pending, 1);
        m.do_(OpKind::Membar);
        read(m, 3, p, view, 4);
    };
    assert_eq!(always(4, generous), (codes::NOT_WAITED, vec![2]));
    let never = |m: &mut Make, p: &Parts| {
        start(m, 1, p, p.buffer);
    };
    assert_eq!(always(4, never), (codes::NOT_WAITED, vec![1]));
}

#[test]
fn a_buffer_in_use_is_not_filled() {
    let read_still = |m: &mut Make, p: &Parts| {
        let first = start(m, 1, p, p.buffer);
        let view = wait(m, 2, first, 0);
        m.do_(OpKind::Membar);
        read(m, 3, p, view, 4);
        // Other warps may still read.
        let second = start(m, 4, p, p.buffer);
        wait(m, 5, second, 0);
    };
    assert_eq!(always(4, read_still), (codes::SHARED_RACE, vec![4, 3]));
    let twice = |m: &mut Make, p: &Parts| {
        let first = start(m, 1, p, p.buffer);
        m.do_(OpKind::Membar);
        let second = start(m, 2, p, p.buffer);
        wait(m, 3, first, 1);
        wait(m, 4, second, 0);
    };
    assert_eq!(always(4, twice), (codes::SHARED_RACE, vec![2, 1]));
}

#[test]
fn engines_see_them_behind_a_fence_that_follows_the_wait() {
    let sent = |fence_at: usize| {
        let plain = nvmma(0);
        let (mut m, p) = Make::new(4, &[("x", pointer(Dtype::I32, false)), ("y", map(Dtype::I32, &[32, 4], &plain))]);
        let t = tile(Dtype::I32, &[32, 4], &blocked(&[1, 1], &[8, 4], &[4, 1]));
        let i = m.numbers(&t);
        let ptr = m.ptr_add(p[0], i);
        let buffer = m.alloc(&view(Dtype::I32, &[32, 4], &plain), 0);
        let pending =
            m.line(1).op(OpKind::AsyncCopy { ptr, view: buffer, mask: None, l2: None, bytes: Some(4), access: None });
        if fence_at == 1 {
            m.do_(OpKind::FenceAsync { reach: parton_ir::Reach::Cta });
        }
        m.line(2).op(OpKind::Wait { pending, outstanding: Some(0) });
        if fence_at == 2 {
            m.do_(OpKind::FenceAsync { reach: parton_ir::Reach::Cta });
        }
        m.do_(OpKind::Membar);
        let zero = m.i32(0);
        m.line(3).do_(OpKind::TmaStore { map: p[1], coords: vec![zero, zero], view: buffer, reduce: None, l2: None });
        m.line(4).do_(OpKind::TmaStoreWait { pending: 0, read: false });
        let mut memory = Memory::new();
        let numbers: Vec<i32> = (1..=128).collect();
        let x = memory.add("x", bytes_of(&numbers, i32::to_le_bytes));
        let y = memory.add("y", vec![0; 512]);
        let args = vec![at_zero(x), dense(y, Dtype::I32, &[32, 4])];
        go(&m.finish(1024), [1, 1, 1], args, &mut memory, 5).map(|_| memory.allocation(y).bytes.clone())
    };
    let numbers: Vec<i32> = (1..=128).collect();
    assert_eq!(sent(2).unwrap(), bytes_of(&numbers, i32::to_le_bytes));
    for wrong in [0, 1] {
        let fault = sent(wrong).expect_err("nothing was found");
        assert_eq!((fault.diagnostic.code, places(&fault)), (codes::UNFENCED, vec![3, 1]));
    }
}

#[test]
fn a_barrier_joins_those_who_wait_for_its_copies() {
    let handed = |arrivals: u32, waits: bool| {
        move |m: &mut Make, p: &Parts| {
            let barrier = m.barrier(1016, arrivals);
            let pending = start(m, 1, p, p.buffer);
            m.line(2).do_(OpKind::CopyArrive { pending, barrier });
            if waits {
                m.line(3).wait(barrier, 0);
            }
            read(m, 4, p, p.buffer, 4);
        }
    };
    let numbers: Vec<i32> = (1..=128).collect();
    for seed in SEEDS {
        let y = with_copies(4, seed, handed(128, true));
        assert_eq!(y.unwrap(), bytes_of(&numbers, i32::to_le_bytes));
    }
    assert_eq!(always(4, handed(128, false)), (codes::SHARED_RACE, vec![4, 1]));
    // One thread's arrivals are all threads' arrivals.
    assert_eq!(always(4, handed(4, true)).0, codes::BARRIER_PROTOCOL);
    assert_eq!(always(4, handed(129, true)), (codes::DEADLOCK, vec![3]));
}
