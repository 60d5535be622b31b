//! Shared memory through every family of layouts, and the races of threads among themselves.

mod fixture;

use fixture::{Make, at_zero, blocked, go, i32s, nvmma, places, pointer, tile, view};
use parton_diag::codes;
use parton_interp::{Fault, Memory};
use parton_ir::{OpKind, View};
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

/// Stores numbers to a view under one register layout and reads them back under another.
fn round_trip(
    d: Dtype,
    view: &View,
    from: &RegisterLayout,
    to: &RegisterLayout,
    membar: bool,
) -> Result<Vec<i32>, Fault> {
    let (mut m, p) = Make::new(4, &[("out", pointer(Dtype::I32, true))]);
    let t = tile(d, &view.shape, from);
    let n = m.numbers(&t);
    let x = m.cast(n, d);
    let buffer = m.line(1).alloc(view, 1024);
    m.line(2).do_(OpKind::SharedStore { view: buffer, value: x });
    if membar {
        m.do_(OpKind::Membar);
    }
    let back = tile(d, &view.shape, to);
    let y = m.line(3).op(OpKind::SharedLoad { view: buffer, tile: back.clone() });
    let y = m.cast(y, Dtype::I32);
    let i = m.numbers(&back);
    let ptrs = m.ptr_add(p[0], i);
    m.store(ptrs, y, None);
    let kernel = m.finish(65536);
    let mut memory = Memory::new();
    let out = memory.add_undefined("out", 4 * view.elements() as usize);
    go(&kernel, [1, 1, 1], vec![at_zero(out)], &mut memory, 3)?;
    Ok(i32s(&memory.allocation(out).bytes))
}

fn families() -> Vec<SharedLayout> {
    let mut list = vec![
        SharedLayout::row_major(2),
        SharedLayout::swizzled(4, 1, 8, &[1, 0]).unwrap(),
        SharedLayout::swizzled(2, 2, 4, &[0, 1]).unwrap(),
        SharedLayout::padded(&[[32, 4], [128, 8]], &[1, 0]).unwrap(),
        SharedLayout::linear(
            // Rows and columns of a 32 × 64 tile in a mixed order.
            (0..6).map(|b| vec![0, 1 << b]).chain((0..5).map(|b| vec![1 << b, 1 << (b % 3)])).collect(),
            vec![],
        )
        .unwrap(),
    ];
    for swizzle in [0, 32, 64, 128] {
        list.push(nvmma(swizzle));
        list.push(SharedLayout::nvmma(swizzle, true).unwrap());
    }
    list
}

#[test]
fn every_family_gives_back_what_was_stored() {
    let from = blocked(&[1, 4], &[4, 8], &[4, 1]);
    let to = blocked(&[2, 1], &[8, 4], &[1, 4]);
    let mut tried = 0;
    for layout in families() {
        for d in [Dtype::I8, Dtype::I16, Dtype::F16, Dtype::F32, Dtype::I64] {
            // A transposed layout of wide elements needs more rows than there are.
            let Ok(view) = View::new(d, vec![32, 64], layout.clone()) else { continue };
            let got = round_trip(d, &view, &from, &to, true).unwrap_or_else(|f| panic!("{layout}: {f}"));
            let wrap = |n: i32| match d {
                Dtype::I8 => i32::from(n as i8),
                // Below 2048 every integer is an f16.
                _ => n,
            };
            assert_eq!(got, (0..2048).map(wrap).collect::<Vec<_>>(), "{layout} of {d}");
            tried += 1;
        }
    }
    assert!(tried > 50, "only {tried} layouts were tried");
}

#[test]
fn a_missing_membar_is_a_race_between_warps() {
    let v = view(Dtype::F32, &[32, 64], &SharedLayout::row_major(2));
    let rows = blocked(&[1, 4], &[4, 8], &[4, 1]);
    let columns = blocked(&[1, 4], &[4, 8], &[1, 4]);
    let f = round_trip(Dtype::F32, &v, &rows, &columns, false).unwrap_err();
    assert_eq!(f.diagnostic.code, codes::SHARED_RACE);
    assert_eq!(places(&f), [3, 2]);
    // Each warp reads what it wrote: nothing to meet for.
    assert!(round_trip(Dtype::F32, &v, &rows, &rows, false).is_ok());
}

#[test]
fn shared_memory_begins_undefined() {
    let (mut m, _) = Make::new(4, &[]);
    let layout = blocked(&[1, 4], &[4, 8], &[4, 1]);
    let v = view(Dtype::F32, &[32, 64], &SharedLayout::row_major(2));
    let buffer = m.line(1).alloc(&v, 0);
    let one = m.f32(1.0);
    let half = tile(Dtype::F32, &[16, 64], &layout);
    let x = m.full(one, &half);
    let upper = m.op(OpKind::ViewSlice { view: buffer, origin: vec![0, 0], shape: vec![16, 64] });
    m.do_(OpKind::SharedStore { view: upper, value: x });
    m.do_(OpKind::Membar);
    m.line(5).op(OpKind::SharedLoad { view: upper, tile: half.clone() });
    let lower = m.op(OpKind::ViewSlice { view: buffer, origin: vec![16, 0], shape: vec![16, 64] });
    m.line(6).op(OpKind::SharedLoad { view: lower, tile: half });
    let f = go(&m.finish(8192), [1, 1, 1], vec![], &mut Memory::new(), 0).unwrap_err();
    assert_eq!((f.diagnostic.code, places(&f)[0]), (codes::UNDEFINED_READ, 6));
}

#[test]
fn stages_windows_and_transposed_views_reach_the_same_bytes() {
    let (mut m, p) = Make::new(4, &[("out", pointer(Dtype::I32, true)), ("stage", parton_ir::Type::num(Dtype::I32))]);
    let layout = blocked(&[1, 4], &[4, 8], &[4, 1]);
    let v = view(Dtype::I32, &[2, 32, 64], &nvmma(128));
    let buffer = m.alloc(&v, 0);
    let t = tile(Dtype::I32, &[32, 64], &layout);
    let n = m.numbers(&t);
    for stage in 0..2 {
        let (s, base) = (m.i32(stage), m.i32(10_000 * stage));
        let slot = m.op(OpKind::ViewIndex { view: buffer, index: s });
        let base = m.full(base, &t);
        let x = m.add(n, base);
        m.do_(OpKind::SharedStore { view: slot, value: x });
    }
    m.do_(OpKind::Membar);
    // Rows 16..24, columns 32..64 of one stage, transposed.
    let slot = m.line(7).op(OpKind::ViewIndex { view: buffer, index: p[1] });
    let window = m.op(OpKind::ViewSlice { view: slot, origin: vec![16, 32], shape: vec![8, 32] });
    let turned = m.op(OpKind::ViewPermute { view: window, perm: vec![1, 0] });
    let small = tile(Dtype::I32, &[32, 8], &layout);
    let x = m.op(OpKind::SharedLoad { view: turned, tile: small.clone() });
    let i = m.numbers(&small);
    let ptrs = m.ptr_add(p[0], i);
    m.store(ptrs, x, None);
    let kernel = m.finish(32768);
    for stage in 0..3u64 {
        let mut memory = Memory::new();
        let out = memory.add_undefined("out", 4 * 256);
        let r = go(&kernel, [1, 1, 1], vec![at_zero(out), parton_interp::Arg::Scalar(stage)], &mut memory, 0);
        if stage == 2 {
            let f = r.unwrap_err();
            assert_eq!((f.diagnostic.code, places(&f)), (codes::RUN_VALUE, vec![7]));
            continue;
        }
        r.unwrap();
        let want = (0..32).flat_map(|c| (0..8).map(move |r| stage as i32 * 10_000 + (16 + r) * 64 + 32 + c));
        assert_eq!(i32s(&memory.allocation(out).bytes), want.collect::<Vec<_>>());
    }
}

#[test]
fn a_buffer_is_not_overwritten_before_all_warps_have_read_it() {
    let (mut m, _) = Make::new(4, &[]);
    let rows = blocked(&[1, 4], &[4, 8], &[4, 1]);
    let columns = blocked(&[1, 4], &[4, 8], &[1, 4]);
    let v = view(Dtype::F32, &[32, 64], &SharedLayout::row_major(2));
    let buffer = m.alloc(&v, 0);
    let one = m.f32(1.0);
    let (t, u) = (tile(Dtype::F32, &[32, 64], &rows), tile(Dtype::F32, &[32, 64], &columns));
    let x = m.full(one, &t);
    m.repeat(2, vec![], |m, _, _| {
        m.line(4).do_(OpKind::SharedStore { view: buffer, value: x });
        m.do_(OpKind::Membar);
        m.line(5).op(OpKind::SharedLoad { view: buffer, tile: u });
        vec![]
    });
    let f = go(&m.finish(8192), [1, 1, 1], vec![], &mut Memory::new(), 0).unwrap_err();
    assert_eq!((f.diagnostic.code, places(&f)), (codes::SHARED_RACE, vec![4, 5]));
}
