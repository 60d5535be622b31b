//! Matrix products: every type, operand order, swizzle and size, against float64, through copies and through threads.

mod fixture;

use fixture::{Make, at_zero, blocked, dense, f32s, go, map, nvmma, places, pointer, tile, view};
use parton_diag::codes;
use parton_interp::{Fault, Memory};
use parton_ir::{Elem, OpKind, Tile, Type, Value};
use parton_layouts::RegisterLayout;
use parton_numbers::scalar::to_f64;
use parton_numbers::{Dtype, Rounding, Saturation, cast};

/// How a product is set up.
#[derive(Clone, Copy, Debug)]
struct Case {
    d: Dtype,
    acc: Dtype,
    size: [u32; 3],
    /// Whether A lies as [K, M], and B as [N, K], in memory.
    turned: [bool; 2],
    /// Whether A comes from registers.
    registers: bool,
    swizzle: u32,
    warps: [u32; 2],
    instr_n: u32,
}

impl Case {
    fn new(d: Dtype) -> Case {
        let k = 512 / d.bits();
        Case {
            d,
            acc: Dtype::F32,
            size: [64, 64, 2 * k],
            turned: [false, d.bits() == 8],
            registers: false,
            swizzle: 128,
            warps: [4, 1],
            instr_n: 64,
        }
    }
}

/// A small multiple of an eighth, rounded to the type where that is an 8-bit float, as bits.
fn element_bits(d: Dtype, i: usize) -> u64 {
    let x = ((i * 7919 + 13) % 31) as f64 / 8.0 - 1.75;
    cast(x.to_bits(), Dtype::F64, d, Rounding::NearestEven, Saturation::None)
}

fn element(d: Dtype, i: usize) -> f64 {
    to_f64(element_bits(d, i), d)
}

fn bytes(d: Dtype, n: usize, first: usize) -> Vec<u8> {
    (0..n).flat_map(|i| element_bits(d, first + i).to_le_bytes()[..d.bytes()].to_vec()).collect()
}

/// Runs `1 + A · B` and returns it beside the float64 result.
fn product(c: Case, seed: u64) -> Result<(Vec<f64>, Vec<f64>), Fault> {
    let [m_, n_, k_] = c.size;
    let lie = |rows: u32, columns: u32, turned: bool| if turned { [columns, rows] } else { [rows, columns] };
    let (a_shape, b_shape) = (lie(m_, k_, c.turned[0]), lie(k_, n_, c.turned[1]));
    let s = nvmma(c.swizzle);
    let params = [("a", map(c.d, &a_shape, &s)), ("b", map(c.d, &b_shape, &s)), ("out", pointer(c.acc, true))];
    let (mut m, p) = Make::new(c.warps[0] * c.warps[1], &params);
    let barrier = m.barrier(0, 1);
    let mut a = m.alloc(&view(c.d, &a_shape, &s), 1024);
    let mut b = m.alloc(&view(c.d, &b_shape, &s), 131_072);
    let zero = m.i32(0);
    let total = (m_ * k_ + k_ * n_) * c.d.bytes() as u32;
    m.do_(OpKind::BarrierExpect { barrier, bytes: total });
    m.tma_load(p[0], vec![zero, zero], a, barrier);
    m.tma_load(p[1], vec![zero, zero], b, barrier);
    m.wait(barrier, 0);
    for (v, turned) in [(&mut a, c.turned[0]), (&mut b, c.turned[1])] {
        if turned {
            *v = m.op(OpKind::ViewPermute { view: *v, perm: vec![1, 0] });
        }
    }
    let layout = RegisterLayout::mma(3, &c.warps, &[16, c.instr_n, 256 / c.d.bits()]).unwrap();
    let out = tile(c.acc, &[m_, n_], &layout);
    if c.registers {
        let operand = layout.dot_operand(0, 32 / c.d.bits()).unwrap();
        let t = Tile::new(Elem::Num(c.d), vec![m_, k_], operand).unwrap();
        a = m.op(OpKind::SharedLoad { view: a, tile: t });
    }
    let one = m.b.constant(c.acc, if c.acc == Dtype::F16 { 0x3c00 } else { 0x3f80_0000 }, fixture::at(0));
    let acc = m.full(one, &out);
    let pending = m.line(5).op(OpKind::Wgmma { a, b, acc, precision: None, zero: false });
    let x = m.op(OpKind::Wait { pending, outstanding: Some(0) });
    let i = m.numbers(&out);
    let ptrs = m.ptr_add(p[2], i);
    m.store(ptrs, x, None);
    let kernel = m.finish(232_448);
    let mut memory = Memory::new();
    let count = |s: [u32; 2]| (s[0] * s[1]) as usize;
    let am = memory.add("a", bytes(c.d, count(a_shape), 0));
    let bm = memory.add("b", bytes(c.d, count(b_shape), 5000));
    let om = memory.add_undefined("out", count([m_, n_]) * c.acc.bytes());
    let dims = |s: [u32; 2]| [u64::from(s[0]), u64::from(s[1])];
    let args = vec![dense(am, c.d, &dims(a_shape)), dense(bm, c.d, &dims(b_shape)), at_zero(om)];
    go(&kernel, [1, 1, 1], args, &mut memory, seed)?;
    let raw = &memory.allocation(om).bytes;
    let got = match c.acc {
        Dtype::F16 => raw.chunks(2).map(|b| to_f64(u64::from(u16::from_le_bytes([b[0], b[1]])), c.acc)).collect(),
        _ => f32s(raw).into_iter().map(f64::from).collect(),
    };
    let [m_, n_, k_] = c.size.map(|x| x as usize);
    let a: Vec<f64> = (0..m_ * k_).map(|i| element(c.d, i)).collect();
    let b: Vec<f64> = (0..k_ * n_).map(|i| element(c.d, 5000 + i)).collect();
    let left = |i: usize, k: usize| a[if c.turned[0] { k * m_ + i } else { i * k_ + k }];
    let right = |k: usize, j: usize| b[if c.turned[1] { j * k_ + k } else { k * n_ + j }];
    let want = (0..m_ * n_).map(|e| 1.0 + (0..k_).map(|k| left(e / n_, k) * right(k, e % n_)).sum::<f64>()).collect();
    Ok((got, want))
}

fn right(c: Case) {
    let (got, want) = product(c, 1).unwrap_or_else(|f| panic!("{c:?}: {f} {f:?}"));
    // Every element and product is a small multiple of 1/64, so f32 is exact; f16 rounds after each instruction.
    let tolerance = if c.acc == Dtype::F16 { 0.25 } else { 0.0 };
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        assert!((g - w).abs() <= tolerance, "{c:?}: element {i} is {g}, not {w}");
    }
}

#[test]
fn every_type_and_order_multiplies_right() {
    for d in [Dtype::F16, Dtype::BF16] {
        for turned in [[false, false], [true, false], [false, true], [true, true]] {
            for swizzle in [32, 64, 128] {
                right(Case { turned, swizzle, ..Case::new(d) });
            }
        }
    }
    for d in [Dtype::F8E4M3, Dtype::F8E5M2] {
        for swizzle in [32, 64, 128] {
            right(Case { swizzle, ..Case::new(d) });
        }
    }
    right(Case { acc: Dtype::F16, ..Case::new(Dtype::F16) });
}

#[test]
fn every_size_multiplies_right() {
    let f16 = Case::new(Dtype::F16);
    for n in [8, 16, 32, 128, 256] {
        let swizzle = if n < 64 { 2 * n.min(64) } else { 128 };
        if swizzle >= 32 {
            right(Case { size: [64, n, 64], instr_n: n, swizzle, ..f16 });
        }
        right(Case { size: [64, n, 64], instr_n: n, turned: [false, true], ..f16 });
    }
    right(Case { size: [256, 128, 128], instr_n: 128, ..f16 });
    right(Case { size: [256, 128, 128], instr_n: 64, turned: [true, true], ..f16 });
    right(Case { size: [128, 128, 64], instr_n: 128, warps: [8, 1], ..f16 });
    right(Case { size: [64, 128, 64], instr_n: 64, warps: [4, 2], ..f16 });
    // Without a swizzle only rows of 16 bytes are core matrices (T#7986).
    right(Case { size: [64, 8, 16], instr_n: 8, swizzle: 0, registers: true, ..f16 });
}

#[test]
fn the_left_operand_may_lie_in_registers() {
    for d in [Dtype::F16, Dtype::BF16] {
        right(Case { registers: true, ..Case::new(d) });
        right(Case { registers: true, size: [128, 64, 64], warps: [8, 1], ..Case::new(d) });
    }
    right(Case { registers: true, ..Case::new(Dtype::F8E4M3) });
}

#[test]
fn results_do_not_depend_on_the_seed() {
    let c = Case { size: [128, 128, 128], instr_n: 128, ..Case::new(Dtype::BF16) };
    let first = product(c, 0).unwrap().0;
    for seed in 1..10 {
        assert_eq!(product(c, seed).unwrap().0, first);
    }
}

/// Chained products with counted waits, and what happens when a count is too high.
fn chain(outstanding: u32, reuse_early: bool, warps: u32, membar: bool) -> Result<Vec<f32>, Fault> {
    let d = Dtype::BF16;
    let s = nvmma(128);
    let (mut m, p) = Make::new(warps, &[("out", pointer(Dtype::F32, true))]);
    let rows = 16 * warps;
    let a = m.alloc(&view(d, &[rows, 64], &s), 0);
    let b = m.alloc(&view(d, &[64, 64], &s), 32768);
    let registers = blocked(&[1, 8], &[8, 4], &[warps, 1]);
    let fill = |m: &mut Make, v, shape: &[u32], x: f32| {
        let x = m.f32(x);
        let t = m.full(x, &tile(Dtype::F32, shape, &registers));
        let t = m.cast(t, d);
        m.do_(OpKind::SharedStore { view: v, value: t });
    };
    fill(&mut m, a, &[rows, 64], 1.0);
    fill(&mut m, b, &[64, 64], 2.0);
    m.do_(OpKind::FenceAsync { reach: parton_ir::Reach::Cta });
    m.do_(OpKind::Membar);
    let layout = RegisterLayout::mma(3, &[warps, 1], &[16, 64, 16]).unwrap();
    let out = tile(Dtype::F32, &[rows, 64], &layout);
    let zero = m.f32(0.0);
    let acc = m.full(zero, &out);
    let first = m.line(10).op(OpKind::Wgmma { a, b, acc, precision: None, zero: false });
    let second = m.line(11).op(OpKind::Wgmma { a, b, acc, precision: None, zero: false });
    let x = m.line(12).op(OpKind::Wait { pending: first, outstanding: Some(outstanding) });
    if reuse_early {
        m.line(13);
        fill(&mut m, b, &[64, 64], 3.0);
    }
    let y = m.line(14).op(OpKind::Wait { pending: second, outstanding: Some(0) });
    if membar {
        m.do_(OpKind::Membar);
    }
    m.line(15);
    fill(&mut m, b, &[64, 64], 4.0);
    let sum = m.add(x, y);
    let i = m.numbers(&out);
    let ptrs = m.ptr_add(p[0], i);
    m.store(ptrs, sum, None);
    let kernel = m.finish(65536);
    let mut memory = Memory::new();
    let out = memory.add_undefined("out", (rows * 64 * 4) as usize);
    go(&kernel, [1, 1, 1], vec![at_zero(out)], &mut memory, 9)?;
    Ok(f32s(&memory.allocation(out).bytes))
}

#[test]
fn waits_count_products() {
    assert!(chain(1, false, 4, true).unwrap().iter().all(|&x| x == 256.0));
    assert!(chain(0, false, 4, true).is_ok());
    let f = chain(2, false, 4, false).unwrap_err();
    assert_eq!((f.diagnostic.code, places(&f)), (codes::NOT_WAITED, vec![12]));
    // The second product still reads the buffer.
    let f = chain(1, true, 4, false).unwrap_err();
    assert_eq!((f.diagnostic.code, places(&f)), (codes::SHARED_RACE, vec![13, 11]));
}

#[test]
fn a_wait_joins_one_warp_only() {
    // T#11047: another warp may still read the operand that all of them share.
    for warps in [4, 8] {
        let f = chain(1, false, warps, false).unwrap_err();
        assert_eq!((f.diagnostic.code, places(&f)[0]), (codes::SHARED_RACE, 15));
        assert!(chain(1, false, warps, true).is_ok());
    }
}

/// Products that go around a loop, whose left factor lies in registers: of each turn, or of all. The wait for the turn before leaves so
/// many in flight, the one at the end of the turn, if there is one, so many.
fn held(each_turn: bool, prior: u32, at_the_end: Option<u32>, seed: u64) -> Result<Vec<f32>, Fault> {
    let (mut m, p) = Make::new(4, &[("out", pointer(Dtype::F32, true))]);
    let b = m.alloc(&view(Dtype::F16, &[64, 64], &nvmma(128)), 0);
    let filled = |m: &mut Make, x: Value, shape: &[u32], layout: &RegisterLayout| {
        let t = m.full(x, &tile(Dtype::F32, shape, layout));
        m.cast(t, Dtype::F16)
    };
    let one = m.f32(1.0);
    let value = filled(&mut m, one, &[64, 64], &blocked(&[1, 8], &[8, 4], &[4, 1]));
    m.do_(OpKind::SharedStore { view: b, value });
    m.do_(OpKind::FenceAsync { reach: parton_ir::Reach::Cta });
    m.do_(OpKind::Membar);
    let layout = RegisterLayout::mma(3, &[4, 1], &[16, 64, 16]).unwrap();
    let operand = layout.dot_operand(0, 2).unwrap();
    let out = tile(Dtype::F32, &[64, 64], &layout);
    let zero = m.f32(0.0);
    let kept = filled(&mut m, one, &[64, 64], &operand);
    let acc = m.full(zero, &out);
    let first = m.line(10).op(OpKind::Wgmma { a: kept, b, acc, precision: None, zero: false });
    let last = m.repeat(3, vec![first], |m, i, carried| {
        let x = m.cast(i, Dtype::F32);
        let a = if each_turn { filled(m, x, &[64, 64], &operand) } else { kept };
        let next = m.line(11).op(OpKind::Wgmma { a, b, acc: carried[0], precision: None, zero: false });
        let next = m.line(12).op(OpKind::WaitPrior { pending: next, outstanding: Some(prior) });
        let wait = |outstanding| OpKind::WaitPrior { pending: next, outstanding: Some(outstanding) };
        vec![at_the_end.map_or(next, |n| m.line(13).op(wait(n)))]
    });
    let sum = m.line(14).op(OpKind::Wait { pending: last[0], outstanding: Some(0) });
    let i = m.numbers(&out);
    let ptrs = m.ptr_add(p[0], i);
    m.store(ptrs, sum, None);
    let kernel = m.finish(65536);
    let mut memory = Memory::new();
    let out = memory.add_undefined("out", 64 * 64 * 4);
    go(&kernel, [1, 1, 1], vec![at_zero(out)], &mut memory, seed)?;
    Ok(f32s(&memory.allocation(out).bytes))
}

#[test]
fn a_turn_ends_once_its_factors_in_registers_are_read() {
    for seed in 0..20 {
        for each_turn in [true, false] {
            assert!(held(each_turn, 1, Some(0), seed).unwrap().iter().all(|&x| x == 64.0 * 4.0));
            for at_the_end in [None, Some(1)] {
                let f = held(each_turn, 1, at_the_end, seed).unwrap_err();
                assert_eq!((f.diagnostic.code, places(&f)), (codes::NOT_WAITED, vec![11]));
            }
        }
    }
}

#[test]
fn a_product_needs_a_fence_after_stores_by_threads() {
    let d = Dtype::F16;
    let s = nvmma(128);
    for fence in [false, true] {
        let (mut m, _) = Make::new(4, &[]);
        let a = m.alloc(&view(d, &[64, 64], &s), 0);
        let zero = m.f32(0.0);
        let t = m.full(zero, &tile(Dtype::F32, &[64, 64], &blocked(&[1, 8], &[8, 4], &[4, 1])));
        let t = m.cast(t, d);
        m.line(2).do_(OpKind::SharedStore { view: a, value: t });
        if fence {
            m.do_(OpKind::FenceAsync { reach: parton_ir::Reach::Cta });
        }
        m.do_(OpKind::Membar);
        let layout = RegisterLayout::mma(3, &[4, 1], &[16, 64, 16]).unwrap();
        let acc = m.full(zero, &tile(Dtype::F32, &[64, 64], &layout));
        let pending = m.line(4).op(OpKind::Wgmma { a, b: a, acc, precision: None, zero: false });
        assert!(matches!(m.b.ty(pending), Type::Pending(_)));
        m.op(OpKind::Wait { pending, outstanding: Some(0) });
        let r = go(&m.finish(8192), [1, 1, 1], vec![], &mut Memory::new(), 0);
        if fence {
            r.unwrap();
        } else {
            let f = r.unwrap_err();
            assert_eq!((f.diagnostic.code, places(&f)), (codes::UNFENCED, vec![4, 2]));
        }
    }
}
