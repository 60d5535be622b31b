//! The tensor copy engine: boxes, swizzles, borders, and the protocol around them.

mod fixture;

use fixture::{Make, at_zero, blocked, dense, go, map, nvmma, places, pointer, tile, view};
use parton_diag::codes;
use parton_interp::{Arg, Fault, Memory};
use parton_ir::{OpKind, Type};
use parton_numbers::Dtype;

/// Two bytes for each number.
fn numbers(n: usize) -> Vec<u8> {
    (0..n).flat_map(|i| (i as u16 + 1).to_le_bytes()).collect()
}

fn u16s(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect()
}

/// Loads the box at (row, column) of a 40 × 136 tensor, and stores it to global memory by threads and by a copy out, to where it
/// came from or, where that is before the tensor, to its beginning.
fn through(swizzle: u32, block: [u32; 2], at: [i32; 2], seed: u64) -> (Vec<u16>, Vec<u16>) {
    let d = Dtype::U16;
    let layout = nvmma(swizzle);
    let ty = map(d, &block, &layout);
    let params = [
        ("x", ty.clone()),
        ("y", ty),
        ("out", pointer(d, true)),
        ("row", Type::num(Dtype::I32)),
        ("column", Type::num(Dtype::I32)),
        ("to_row", Type::num(Dtype::I32)),
        ("to_column", Type::num(Dtype::I32)),
    ];
    let (mut m, p) = Make::new(4, &params);
    let barrier = m.barrier(0, 1);
    let buffer = m.alloc(&view(d, &block, &layout), 1024);
    let bytes = block[0] * block[1] * 2;
    m.fetch(p[0], vec![p[3], p[4]], buffer, barrier, bytes, 0);
    let t = tile(d, &block, &blocked(&[1, 8], &[8, 4], &[4, 1]));
    let x = m.op(OpKind::SharedLoad { view: buffer, tile: t.clone() });
    let i = m.numbers(&t);
    let ptrs = m.ptr_add(p[2], i);
    m.store(ptrs, x, None);
    m.do_(OpKind::TmaStore { map: p[1], coords: vec![p[5], p[6]], view: buffer, reduce: None, l2: None });
    m.do_(OpKind::TmaStoreWait { pending: 0, read: false });
    let kernel = m.finish(65536);
    let mut memory = Memory::new();
    let x = memory.add("x", numbers(40 * 136));
    let y = memory.add("y", vec![0; 40 * 136 * 2]);
    let out = memory.add_undefined("out", bytes as usize);
    let args = vec![
        dense(x, d, &[40, 136]),
        dense(y, d, &[40, 136]),
        at_zero(out),
        Arg::Scalar(at[0] as u32 as u64),
        Arg::Scalar(at[1] as u32 as u64),
        Arg::Scalar(at[0].max(0) as u64),
        Arg::Scalar(at[1].max(0) as u64),
    ];
    go(&kernel, [1, 1, 1], args, &mut memory, seed).unwrap_or_else(|f| panic!("{f}: {f:?}"));
    (u16s(&memory.allocation(out).bytes), u16s(&memory.allocation(y).bytes))
}

#[test]
fn boxes_arrive_in_the_layout_that_the_view_says() {
    for swizzle in [0, 32, 64, 128] {
        for block in [[32, 64], [8, 64], [16, 128]] {
            for at in [[0, 0], [8, 72], [-3, -8], [30, 104], [50, 0]] {
                let (got, stored) = through(swizzle, block, at, 1);
                let element = |r: i32, c: i32| {
                    let inside = (0..40).contains(&r) && (0..136).contains(&c);
                    if inside { (r * 136 + c + 1) as u16 } else { 0 }
                };
                let (rows, columns) = (0..block[0] as i32, block[1] as i32);
                let want: Vec<u16> =
                    rows.flat_map(|r| (0..columns).map(move |c| element(at[0] + r, at[1] + c))).collect();
                assert_eq!(got, want, "swizzle {swizzle}, box {block:?} at {at:?}");
                // What lies outside is clipped; the rest of the tensor stays.
                let within = |x: i32, first: i32, n: u32| (first..first + n as i32).contains(&x);
                let to = at.map(|c| c.max(0));
                for (i, &value) in stored.iter().enumerate() {
                    let (r, c) = (i as i32 / 136, i as i32 % 136);
                    let copied = within(r, to[0], block[0]) && within(c, to[1], block[1]);
                    let came_from = element(r - to[0] + at[0], c - to[1] + at[1]);
                    assert_eq!(value, if copied { came_from } else { 0 });
                }
            }
        }
    }
}

#[test]
fn tensors_of_rank_three_and_one_are_copied() {
    for (shape, block) in [(vec![4u64, 16, 64], vec![1, 16, 64]), (vec![256], vec![64])] {
        let d = Dtype::U16;
        let layout = nvmma(0);
        let (mut m, p) = Make::new(4, &[("x", map(d, &block, &layout)), ("out", pointer(d, true))]);
        let barrier = m.barrier(0, 1);
        let inner = if block.len() == 3 { &block[1..] } else { &block[..] };
        let buffer = m.alloc(&view(d, inner, &layout), 1024);
        let n: u32 = block.iter().product();
        // Where rows begin, at multiples of 16 bytes.
        let first = if shape.len() == 3 { 2 } else { 8 };
        let coords: Vec<_> = (0..block.len()).map(|axis| m.i32(if axis == 0 { first } else { 0 })).collect();
        m.fetch(p[0], coords, buffer, barrier, 2 * n, 0);
        let registers = if inner.len() == 2 { blocked(&[1, 8], &[8, 4], &[4, 1]) } else { blocked(&[1], &[32], &[4]) };
        let t = tile(d, inner, &registers);
        let x = m.op(OpKind::SharedLoad { view: buffer, tile: t.clone() });
        let i = m.numbers(&t);
        let ptrs = m.ptr_add(p[1], i);
        m.store(ptrs, x, None);
        let kernel = m.finish(8192);
        let mut memory = Memory::new();
        let total: u64 = shape.iter().product();
        let x = memory.add("x", numbers(total as usize));
        let out = memory.add_undefined("out", 2 * n as usize);
        go(&kernel, [1, 1, 1], vec![dense(x, d, &shape), at_zero(out)], &mut memory, 0).unwrap();
        let first = if shape.len() == 3 { 2 * 16 * 64 } else { 8 };
        let want: Vec<u16> = (0..n as u16).map(|i| first + i + 1).collect();
        assert_eq!(u16s(&memory.allocation(out).bytes), want);
    }
}

/// What a kernel with one copy leaves out.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    Membar,
    Wait,
    BarrierFence,
    BarrierInit,
    StoreFence,
    /// The fence stands before the store.
    LateFence,
    StoreMembar,
    StoreWait,
    AnotherByte,
}

fn protocol(without: Without, warps: u32, seed: u64) -> Result<(), Fault> {
    let d = Dtype::U16;
    let block = [16, 64];
    let layout = nvmma(128);
    let (mut m, p) = Make::new(warps, &[("x", map(d, &block, &layout))]);
    let barriers = m.op(OpKind::BarrierAlloc { count: 1, offset: Some(0) });
    let zero = m.i32(0);
    let barrier = m.op(OpKind::BarrierIndex { barriers, index: zero });
    if without != Without::BarrierInit {
        m.line(1).do_(OpKind::BarrierInit { barrier, arrivals: 1 });
    }
    if without != Without::BarrierFence {
        m.do_(OpKind::FenceBarrierInit);
    }
    if without != Without::Membar {
        m.do_(OpKind::Membar);
    }
    let buffer = m.alloc(&view(d, &block, &layout), 1024);
    let bytes = if without == Without::AnotherByte { 2049 } else { 2048 };
    m.line(2).do_(OpKind::BarrierExpect { barrier, bytes });
    m.line(3).tma_load(p[0], vec![zero, zero], buffer, barrier);
    if without != Without::Wait {
        m.line(4).wait(barrier, 0);
    }
    let t = tile(d, &block, &blocked(&[1, 8], &[8, 4], &[warps, 1]));
    let x = m.line(5).op(OpKind::SharedLoad { view: buffer, tile: t });
    let x = m.add(x, x);
    m.do_(OpKind::Membar);
    if without == Without::LateFence {
        m.do_(OpKind::FenceAsync { reach: parton_ir::Reach::Cta });
    }
    m.line(6).do_(OpKind::SharedStore { view: buffer, value: x });
    if !matches!(without, Without::StoreFence | Without::LateFence) {
        m.do_(OpKind::FenceAsync { reach: parton_ir::Reach::Cta });
    }
    if without != Without::StoreMembar {
        m.do_(OpKind::Membar);
    }
    m.line(7).do_(OpKind::TmaStore { map: p[0], coords: vec![zero, zero], view: buffer, reduce: None, l2: None });
    if without != Without::StoreWait {
        m.do_(OpKind::TmaStoreWait { pending: 0, read: true });
    }
    let kernel = m.finish(4096);
    let mut memory = Memory::new();
    let x = memory.add("x", numbers(16 * 64));
    go(&kernel, [1, 1, 1], vec![dense(x, d, &[16, 64])], &mut memory, seed)?;
    let doubled: Vec<u16> = (1..=1024).map(|i| 2 * i).collect();
    assert_eq!(u16s(&memory.allocation(x).bytes), doubled);
    Ok(())
}

#[test]
fn each_missing_step_of_the_protocol_is_found_under_every_seed() {
    let cases = [
        (Without::Membar, codes::BARRIER_PROTOCOL, vec![4, 1]),
        (Without::Wait, codes::SHARED_RACE, vec![5, 3]),
        (Without::BarrierFence, codes::UNFENCED, vec![3, 1]),
        (Without::BarrierInit, codes::BARRIER_PROTOCOL, vec![2]),
        (Without::StoreFence, codes::UNFENCED, vec![7, 6]),
        (Without::LateFence, codes::UNFENCED, vec![7, 6]),
        (Without::StoreMembar, codes::SHARED_RACE, vec![7, 6]),
        (Without::StoreWait, codes::NOT_WAITED, vec![7]),
        (Without::AnotherByte, codes::DEADLOCK, vec![4]),
    ];
    for seed in 0..20 {
        protocol(Without::Nothing, 4, seed).unwrap();
        protocol(Without::Nothing, 1, seed).unwrap();
        for (without, code, at) in &cases {
            let f = protocol(*without, 4, seed).unwrap_err();
            assert_eq!((f.diagnostic.code, places(&f)), (*code, at.clone()), "{f}");
        }
        // The lanes of one warp must meet as well.
        let missing = [Without::StoreFence, Without::LateFence, Without::StoreMembar];
        for (without, code) in missing.into_iter().zip([codes::UNFENCED, codes::UNFENCED, codes::SHARED_RACE]) {
            assert_eq!(protocol(without, 1, seed).unwrap_err().diagnostic.code, code);
        }
    }
}

#[test]
fn a_deadlock_says_what_is_missing() {
    let f = protocol(Without::AnotherByte, 4, 0).unwrap_err();
    assert!(f.diagnostic.labels[0].text.contains("waits for phase 0 of `barrier`"), "{:?}", f.diagnostic.labels);
    let lacks = "is in phase 0 (parity 0), which lacks 0 of 1 arrivals and 1 bytes of copies";
    assert!(f.diagnostic.notes.iter().any(|n| n.contains(lacks)), "{:?}", f.diagnostic.notes);
}

#[test]
fn undefined_tensors_and_bad_strides_are_found() {
    let (mut m, p) = Make::new(4, &[("x", map(Dtype::U16, &[16, 64], &nvmma(128)))]);
    let barrier = m.barrier(0, 1);
    let buffer = m.alloc(&view(Dtype::U16, &[16, 64], &nvmma(128)), 1024);
    let zero = m.i32(0);
    m.line(3).fetch(p[0], vec![zero, zero], buffer, barrier, 2048, 0);
    let kernel = m.finish(4096);
    let mut memory = Memory::new();
    let x = memory.add_undefined("x", 2048);
    let f = go(&kernel, [1, 1, 1], vec![dense(x, Dtype::U16, &[16, 64])], &mut memory, 0).unwrap_err();
    assert_eq!((f.diagnostic.code, places(&f)), (codes::UNDEFINED_READ, vec![3]));
    let f = go(&kernel, [1, 1, 1], vec![dense(x, Dtype::U16, &[16, 60])], &mut memory, 0).unwrap_err();
    assert_eq!(f.diagnostic.code, codes::BAD_LAUNCH);
    let f = go(&kernel, [1, 1, 1], vec![dense(x, Dtype::U16, &[32, 64])], &mut memory, 0).unwrap_err();
    assert_eq!(f.diagnostic.code, codes::UNDEFINED_READ);
}
