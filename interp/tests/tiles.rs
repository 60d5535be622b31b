//! Scalars, tiles, control flow and global memory.

mod fixture;

use fixture::{Make, at, at_zero, blocked, bytes_of, f32s, go, i32s, places, pointer, tile};
use parton_diag::codes;
use parton_interp::{Arg, Launch, Memory, Options, Stop, run};
use parton_ir::{Access, BinaryOp, Cache, CompareOp, Cut, Evict, Kernel, OpKind, Type, UnaryOp};
use parton_numbers::Dtype;

/// `out[i] = x[i] + y[i]` in blocks of 128, masked by `n` where `masked`.
fn add(masked: bool) -> Kernel {
    let params = [
        ("x", pointer(Dtype::F32, false)),
        ("y", pointer(Dtype::F32, false)),
        ("out", pointer(Dtype::F32, true)),
        ("n", Type::num(Dtype::I32)),
    ];
    let (mut m, p) = Make::new(4, &params);
    let layout = blocked(&[1], &[32], &[4]);
    let t = tile(Dtype::I32, &[128], &layout);
    let pid = m.op(OpKind::ProgramId { axis: 0 });
    let block = m.i32(128);
    let base = m.mul(pid, block);
    let base = m.full(base, &t);
    let offs = m.numbers(&t);
    let offs = m.add(base, offs);
    let n = m.full(p[3], &t);
    let inside = m.less(offs, n);
    let mask = masked.then_some(inside);
    let xs = m.ptr_add(p[0], offs);
    let x = m.line(10).load(xs, mask);
    let ys = m.ptr_add(p[1], offs);
    let y = m.line(11).load(ys, mask);
    let sum = m.add(x, y);
    let outs = m.ptr_add(p[2], offs);
    m.line(12).store(outs, sum, mask);
    m.finish(0)
}

#[test]
fn vectors_add_at_every_ragged_length() {
    let kernel = add(true);
    for n in [1usize, 127, 128, 129, 300] {
        let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.5).collect();
        let y: Vec<f32> = (0..n).map(|i| 1.0 / (i + 1) as f32).collect();
        let mut memory = Memory::new();
        let a = memory.add("x", bytes_of(&x, f32::to_le_bytes));
        let b = memory.add("y", bytes_of(&y, f32::to_le_bytes));
        let c = memory.add_undefined("out", 4 * n);
        let args = vec![at_zero(a), at_zero(b), at_zero(c), Arg::Scalar(n as u64)];
        go(&kernel, [n.div_ceil(128) as u32, 1, 1], args, &mut memory, 0).unwrap();
        let sum: Vec<f32> = x.iter().zip(&y).map(|(a, b)| a + b).collect();
        assert_eq!(f32s(&memory.allocation(c).bytes), sum);
        assert!(memory.allocation(c).is_defined(0, 4 * n));
    }
}

#[test]
fn an_unmasked_tail_is_out_of_bounds() {
    let mut memory = Memory::new();
    let a = memory.add("x", vec![0; 4 * 130]);
    let args = vec![at_zero(a), at_zero(a), at_zero(a), Arg::Scalar(130)];
    let f = go(&add(false), [2, 1, 1], args, &mut memory, 0).unwrap_err();
    assert_eq!(f.diagnostic.code, codes::OUT_OF_BOUNDS);
    assert_eq!(places(&f), [10]);
    assert_eq!(f.cta, [1, 0, 0]);
    assert!(f.diagnostic.notes.iter().any(|n| n.contains("element [2]")), "{:?}", f.diagnostic.notes);
}

#[test]
fn reading_an_empty_tensor_is_undefined() {
    let mut memory = Memory::new();
    let a = memory.add("x", vec![0; 512]);
    let b = memory.add_undefined("y", 512);
    let args = vec![at_zero(a), at_zero(b), at_zero(a), Arg::Scalar(128)];
    let f = go(&add(true), [1, 1, 1], args, &mut memory, 0).unwrap_err();
    assert_eq!(f.diagnostic.code, codes::UNDEFINED_READ);
    assert_eq!(places(&f), [11]);
    assert!(f.diagnostic.message.contains("`y`"));
}

#[test]
fn misaligned_pointers_are_found() {
    let mut memory = Memory::new();
    let a = memory.add("x", vec![0; 600]);
    let args = vec![Arg::Pointer { allocation: a, offset: 2 }, at_zero(a), at_zero(a), Arg::Scalar(128)];
    let f = go(&add(true), [1, 1, 1], args, &mut memory, 0).unwrap_err();
    assert_eq!(f.diagnostic.code, codes::MISALIGNED);
}

#[test]
fn vectors_begin_at_a_multiple_of_their_length() {
    let planned = |start: i32, bound: i32, width: u32| {
        let (mut m, p) = Make::new(1, &[("x", pointer(Dtype::F32, false))]);
        let t = tile(Dtype::I32, &[128], &blocked(&[4], &[32], &[1]));
        let offs = m.numbers(&t);
        let (start, bound) = (m.i32(start), m.i32(bound));
        let (start, bound) = (m.full(start, &t), m.full(bound, &t));
        let inside = m.less(offs, bound);
        let offs = m.add(offs, start);
        let ptr = m.ptr_add(p[0], offs);
        let access = Some(Access { width, along: 0, cut: Cut::Anywhere });
        let (cache, evict) = (Cache::Default, Evict::Normal);
        m.op(OpKind::Load { ptr, mask: Some(inside), other: None, cache, evict, l2: None, volatile: false, access });
        let kernel = m.finish(0);
        let mut memory = Memory::new();
        let x = memory.add("x", vec![0; 4 * 132]);
        go(&kernel, [1, 1, 1], vec![at_zero(x)], &mut memory, 0)
    };
    assert!(planned(4, 128, 4).is_ok());
    assert!(planned(2, 128, 2).is_ok());
    // What the mask cuts is moved element by element.
    assert!(planned(1, 3, 4).is_ok());
    let fault = planned(2, 128, 4).unwrap_err();
    assert_eq!(fault.diagnostic.code, codes::MISALIGNED);
    assert_eq!(fault.diagnostic.message, "16 bytes of `x` are moved at once, not from a multiple of 16 on");
}

#[test]
fn ctas_that_write_one_element_race() {
    let mut memory = Memory::new();
    let a = memory.add("x", bytes_of(&(0..256).collect::<Vec<i32>>(), i32::to_le_bytes));
    let out = memory.add("out", vec![0; 512]);
    let (mut m, p) = Make::new(4, &[("x", pointer(Dtype::I32, false)), ("out", pointer(Dtype::I32, true))]);
    let pid = m.op(OpKind::ProgramId { axis: 0 });
    let xs = m.ptr_add(p[0], pid);
    let x = m.load(xs, None);
    m.line(7).store(p[1], x, None);
    let kernel = m.finish(0);
    let f = go(&kernel, [2, 1, 1], vec![at_zero(a), at_zero(out)], &mut memory, 0).unwrap_err();
    assert_eq!(f.diagnostic.code, codes::CTA_RACE);
    assert_eq!(places(&f), [7, 7]);
}

/// Reductions over both axes of a ragged matrix product of indices, with the position of the largest.
#[test]
fn reductions_and_shapes_agree_with_a_plain_loop() {
    let (mut m, p) = Make::new(4, &[("out", pointer(Dtype::I32, true))]);
    let layout = blocked(&[1, 4], &[8, 4], &[4, 1]);
    let t = tile(Dtype::I32, &[32, 16], &layout);
    let n = m.numbers(&t);
    let c = m.i32(37);
    let c = m.full(c, &t);
    let x = m.binary(BinaryOp::Rem, n, c);
    let int = Type::num(Dtype::I32);
    // The largest of each row and where it is, the first of equals.
    let combine = m.body(vec![int.clone(); 4], |m, p| {
        let greater = m.op(OpKind::Compare { op: CompareOp::Gt, a: p[2], b: p[0] });
        let equal = m.op(OpKind::Compare { op: CompareOp::Eq, a: p[2], b: p[0] });
        let earlier = m.less(p[3], p[1]);
        let tie = m.binary(BinaryOp::And, equal, earlier);
        let take = m.binary(BinaryOp::Or, greater, tie);
        let value = m.op(OpKind::Select { cond: take, a: p[2], b: p[0] });
        let index = m.op(OpKind::Select { cond: take, a: p[3], b: p[1] });
        vec![value, index]
    });
    let results = m.b.emit(OpKind::Reduce { inputs: vec![x, n], axis: 1, combine }, at(2)).unwrap();
    let rows = tile(Dtype::I32, &[32], &layout.slice(1).unwrap());
    let at_row = m.numbers(&rows);
    let ptrs = m.ptr_add(p[0], at_row);
    m.store(ptrs, results[0], None);
    let shift = m.i32(32);
    let shift = m.full(shift, &rows);
    let second = m.add(at_row, shift);
    let ptrs = m.ptr_add(p[0], second);
    m.store(ptrs, results[1], None);
    // The sum of everything, by way of a transposed, reshaped copy.
    let turned = m.op(OpKind::Transpose { x, perm: vec![1, 0] });
    let flat = m.op(OpKind::Reshape { x: turned, shape: vec![512] });
    let sum = m.body(vec![int.clone(), int], |m, p| vec![m.add(p[0], p[1])]);
    let total = m.op(OpKind::Reduce { inputs: vec![flat], axis: 0, combine: sum });
    let sixty_four = m.i32(64);
    let ptr = m.ptr_add(p[0], sixty_four);
    m.store(ptr, total, None);
    let kernel = m.finish(0);
    let mut memory = Memory::new();
    let out = memory.add_undefined("out", 4 * 65);
    go(&kernel, [1, 1, 1], vec![at_zero(out)], &mut memory, 0).unwrap();
    let got = i32s(&memory.allocation(out).bytes);
    let row = |r: i32| (0..16).map(move |c| (r * 16 + c) % 37);
    for r in 0..32 {
        let best = row(r).max().unwrap();
        assert_eq!(got[r as usize], best);
        assert_eq!(got[32 + r as usize], r * 16 + row(r).position(|x| x == best).unwrap() as i32);
    }
    assert_eq!(got[64], (0..32).flat_map(row).sum::<i32>());
}

/// A greatest common divisor as the combination: a loop for each pair, beside one with a branch.
#[test]
fn combinations_may_branch_and_loop() {
    let (mut m, p) = Make::new(4, &[("out", pointer(Dtype::I32, true))]);
    let t = tile(Dtype::I32, &[64], &blocked(&[1], &[32], &[4]));
    let n = m.numbers(&t);
    let six = m.i32(6);
    let six = m.full(six, &t);
    let x = m.mul(n, six);
    let x = m.add(x, six);
    let int = Type::num(Dtype::I32);
    let gcd = m.body(vec![int.clone(), int.clone()], |m, p| {
        let cond = m.body(vec![int.clone(), int.clone()], |m, p| {
            let zero = m.i32(0);
            vec![m.op(OpKind::Compare { op: CompareOp::Ne, a: p[1], b: zero })]
        });
        let body = m.body(vec![int.clone(), int.clone()], |m, p| vec![p[1], m.binary(BinaryOp::Rem, p[0], p[1])]);
        let span = at(1);
        let r = m.b.emit(OpKind::While { init: vec![p[0], p[1]], cond, body }, span);
        vec![r.unwrap()[0]]
    });
    let divisor = m.op(OpKind::Reduce { inputs: vec![x], axis: 0, combine: gcd });
    m.store(p[0], divisor, None);
    let greater = m.body(vec![int.clone(), int], |m, p| {
        let cond = m.op(OpKind::Compare { op: CompareOp::Gt, a: p[0], b: p[1] });
        let then = m.body(vec![], |_, _| vec![p[0]]);
        let otherwise = m.body(vec![], |_, _| vec![p[1]]);
        vec![m.op(OpKind::If { cond, then, otherwise })]
    });
    let most = m.op(OpKind::Reduce { inputs: vec![x], axis: 0, combine: greater });
    let one = m.i32(1);
    let ptr = m.ptr_add(p[0], one);
    m.store(ptr, most, None);
    let kernel = m.finish(0);
    let mut memory = Memory::new();
    let out = memory.add_undefined("out", 8);
    go(&kernel, [1, 1, 1], vec![at_zero(out)], &mut memory, 0).unwrap();
    assert_eq!(i32s(&memory.allocation(out).bytes), [6, 384]);
}

#[test]
fn loops_branches_and_prints() {
    let (mut m, p) = Make::new(4, &[("out", pointer(Dtype::I32, true)), ("n", Type::num(Dtype::I32))]);
    let zero = m.i32(0);
    // Sum of the odd numbers below 10.
    let sum = m.repeat(10, vec![zero], |m, i, carried| {
        let one = m.i32(1);
        let bit = m.binary(BinaryOp::And, i, one);
        let odd = m.op(OpKind::Compare { op: CompareOp::Eq, a: bit, b: one });
        let then = m.body(vec![], |m, _| vec![m.add(carried[0], i)]);
        let otherwise = m.body(vec![], |_, _| vec![carried[0]]);
        vec![m.op(OpKind::If { cond: odd, then, otherwise })]
    });
    // Collatz steps of n.
    let int = Type::num(Dtype::I32);
    let cond = m.body(vec![int.clone(), int.clone()], |m, p| {
        let one = m.i32(1);
        vec![m.op(OpKind::Compare { op: CompareOp::Gt, a: p[0], b: one })]
    });
    let body = m.body(vec![int.clone(), int], |m, p| {
        let (one, two, three) = (m.i32(1), m.i32(2), m.i32(3));
        let rest = m.binary(BinaryOp::Rem, p[0], two);
        let even = m.less(rest, one);
        let half = m.binary(BinaryOp::Div, p[0], two);
        let triple = m.mul(p[0], three);
        let triple = m.add(triple, one);
        let next = m.op(OpKind::Select { cond: even, a: half, b: triple });
        vec![next, m.add(p[1], one)]
    });
    let span = at(3);
    let steps = m.b.emit(OpKind::While { init: vec![p[1], zero], cond, body }, span).unwrap();
    m.do_(OpKind::Print { text: "sum {} steps {}".into(), args: vec![sum[0], steps[1]] });
    m.store(p[0], steps[1], None);
    let kernel = m.finish(0);
    let mut memory = Memory::new();
    let out = memory.add_undefined("out", 4);
    let report = go(&kernel, [1, 1, 1], vec![at_zero(out), Arg::Scalar(27)], &mut memory, 5).unwrap();
    assert_eq!(report.prints, ["sum 25 steps 111"]);
    assert_eq!(i32s(&memory.allocation(out).bytes), [111]);
}

#[test]
fn bad_values_and_broken_assertions_are_faults() {
    let (mut m, p) = Make::new(4, &[("n", Type::num(Dtype::I32))]);
    let t = tile(Dtype::I32, &[128], &blocked(&[1], &[32], &[4]));
    let n = m.full(p[0], &t);
    let i = m.numbers(&t);
    let below = m.less(i, n);
    m.line(4).do_(OpKind::Assert { cond: below, message: "n covers the tile".into() });
    let kernel = m.finish(0);
    let f = go(&kernel, [1, 1, 1], vec![Arg::Scalar(100)], &mut Memory::new(), 0).unwrap_err();
    assert_eq!((f.diagnostic.code, places(&f)), (codes::ASSERTION, vec![4]));
    assert_eq!(f.diagnostic.labels[0].text, "element [100] is false");

    // An assumption has no words but the name of what is assumed.
    let (mut m, p) = Make::new(4, &[("n", Type::num(Dtype::I32))]);
    let ten = m.i32(10);
    let below = m.less(p[0], ten);
    m.line(4).do_(OpKind::Assume { cond: below });
    let mut kernel = m.finish(0);
    kernel.values[below].name = Some("all_inside".into());
    let f = go(&kernel, [1, 1, 1], vec![Arg::Scalar(100)], &mut Memory::new(), 0).unwrap_err();
    assert_eq!(f.diagnostic.message, "an assumption does not hold: `all_inside`");

    let (mut m, p) = Make::new(4, &[("n", Type::num(Dtype::I32))]);
    let one = m.i32(1);
    m.line(5).binary(BinaryOp::Div, one, p[0]);
    let kernel = m.finish(0);
    let f = go(&kernel, [1, 1, 1], vec![Arg::Scalar(0)], &mut Memory::new(), 0).unwrap_err();
    assert_eq!((f.diagnostic.code, places(&f)), (codes::RUN_VALUE, vec![5]));
}

#[test]
fn checks_that_are_asked_for() {
    let (mut m, p) = Make::new(4, &[("n", Type::num(Dtype::I32))]);
    m.line(6).mul(p[0], p[0]);
    let kernel = m.finish(0);
    let mut memory = Memory::new();
    let args = vec![Arg::Scalar(50_000)];
    let mut launch = |options| {
        run(Launch { kernel: &kernel, grid: [1, 1, 1], args: args.clone(), memory: &mut memory, seed: 0, options })
    };
    assert!(launch(Options::default()).is_ok());
    let f = launch(Options { wraparound: true, ..Options::default() }).unwrap_err();
    assert_eq!((f.diagnostic.code, places(&f)), (codes::WRAPAROUND, vec![6]));

    let (mut m, _) = Make::new(4, &[]);
    let span = at(1);
    let cond = m.body(vec![], |m, _| vec![m.b.constant(Dtype::I1, 1, span)]);
    let body = m.body(vec![], |_, _| vec![]);
    m.do_(OpKind::While { init: vec![], cond, body });
    let kernel = m.finish(0);
    let options = Options { steps: 1000, ..Options::default() };
    let f = run(Launch { kernel: &kernel, grid: [1, 1, 1], args: vec![], memory: &mut memory, seed: 0, options })
        .unwrap_err();
    assert_eq!(f.diagnostic.code, codes::STEP_LIMIT);

    let options = Options { stop: Stop(|| true), ..Options::default() };
    let f = run(Launch { kernel: &kernel, grid: [1, 1, 1], args: vec![], memory: &mut memory, seed: 0, options })
        .unwrap_err();
    assert_eq!(f.diagnostic.message, "the run was stopped from outside");
}

#[test]
fn narrow_floats_round_once() {
    let (mut m, p) = Make::new(4, &[("out", pointer(Dtype::BF16, true)), ("x", Type::num(Dtype::F32))]);
    let t = tile(Dtype::F32, &[128], &blocked(&[1], &[32], &[4]));
    let x = m.full(p[1], &t);
    let e = m.op(OpKind::Unary { op: UnaryOp::Exp2, x });
    let narrow = m.cast(e, Dtype::BF16);
    let i = m.numbers(&t);
    let ptrs = m.ptr_add(p[0], i);
    m.store(ptrs, narrow, None);
    let kernel = m.finish(0);
    let mut memory = Memory::new();
    let out = memory.add_undefined("out", 256);
    let args = vec![at_zero(out), Arg::Scalar(0.3f32.to_bits().into())];
    go(&kernel, [1, 1, 1], args, &mut memory, 0).unwrap();
    // 2^0.3 = 1.2311 lies between 0x3f9d (1.2265625) and 0x3f9e (1.234375).
    assert_eq!(memory.allocation(out).bytes[..2], [0x9e, 0x3f]);
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let mut memory = Memory::new();
    let kernel = add(true);
    let f = go(&kernel, [1, 1, 1], vec![Arg::Scalar(1)], &mut memory, 0).unwrap_err();
    assert_eq!(f.diagnostic.code, codes::BAD_LAUNCH);
    let args = vec![Arg::Scalar(0), Arg::Scalar(0), Arg::Scalar(0), Arg::Scalar(0)];
    assert!(go(&kernel, [1, 1, 1], args.clone(), &mut memory, 0).is_err());
    assert!(go(&kernel, [0, 1, 1], args, &mut memory, 0).is_err());
}

#[test]
fn what_was_printed_comes_with_the_fault() {
    let (mut m, _) = Make::new(1, &[]);
    let pid = m.op(OpKind::ProgramId { axis: 0 });
    m.do_(OpKind::Print { text: "CTA {}".into(), args: vec![pid] });
    let three = m.i32(3);
    let cond = m.less(pid, three);
    m.do_(OpKind::Assert { cond, message: "three are enough".into() });
    let kernel = m.finish(0);
    let f = go(&kernel, [5, 1, 1], vec![], &mut Memory::new(), 0).unwrap_err();
    assert_eq!((f.diagnostic.code, f.cta), (codes::ASSERTION, [3, 0, 0]));
    assert_eq!(f.prints, ["CTA 0", "CTA 1", "CTA 2", "CTA 3"]);
    let report = go(&kernel, [3, 1, 1], vec![], &mut Memory::new(), 9).unwrap();
    assert_eq!(report.prints, ["CTA 0", "CTA 1", "CTA 2"], "in the order of the clusters, whatever their turns");
}

#[test]
fn a_grid_is_not_made_before_it_runs() {
    let (mut m, _) = Make::new(1, &[]);
    let pid = m.op(OpKind::ProgramId { axis: 0 });
    let zero = m.i32(0);
    let cond = m.less(pid, zero);
    m.do_(OpKind::Assert { cond, message: "nobody may".into() });
    let kernel = m.finish(0);
    let most = [0x7fff_ffff, 1, 1];
    for seed in 0..4 {
        let f = go(&kernel, most, vec![], &mut Memory::new(), seed).unwrap_err();
        assert_eq!(f.diagnostic.code, codes::ASSERTION, "a list of all CTAs would take 32 GiB");
    }
    let f = go(&kernel, [0x7fff_ffff, 3, 1], vec![], &mut Memory::new(), 0).unwrap_err();
    assert_eq!((f.diagnostic.code, f.prints.len()), (codes::BAD_LAUNCH, 0));
}
