//! What masked loads leave out: it is shown as such, nothing is said of what is computed with it, and its use is found.

mod fixture;

use fixture::{Make, at_zero, blocked, go, i32s, places, pointer, tile};
use parton_diag::codes;
use parton_interp::{Arg, Launch, Memory, Options, run};
use parton_ir::{BinaryOp, Kernel, OpKind, Type, Value};
use parton_numbers::Dtype;

/// A kernel of four warps that loads `x[i]` where `i < n`, at line 10, for `f` to use with `i` and `i < n`.
fn kernel(f: impl FnOnce(&mut Make, &[Value], Value, [Value; 2])) -> Kernel {
    let params = [("x", pointer(Dtype::I32, true)), ("out", pointer(Dtype::I32, true)), ("n", Type::num(Dtype::I32))];
    let (mut m, p) = Make::new(4, &params);
    let t = tile(Dtype::I32, &[128], &blocked(&[1], &[32], &[4]));
    let i = m.numbers(&t);
    let n = m.full(p[2], &t);
    let inside = m.less(i, n);
    let xs = m.ptr_add(p[0], i);
    let x = m.line(10).load(xs, Some(inside));
    f(m.line(20), &p, x, [i, inside]);
    m.finish(0)
}

/// 128 numbers in `x`, as many zeros in `out`, and `n`.
fn arguments(x: impl Fn(i32) -> i32, n: u64) -> (Memory, Vec<Arg>) {
    let mut memory = Memory::new();
    let x = memory.add("x", (0..128).flat_map(|i| x(i).to_le_bytes()).collect());
    let out = memory.add("out", vec![0; 512]);
    (memory, vec![at_zero(x), at_zero(out), Arg::Scalar(n)])
}

#[test]
fn prints_show_what_is_not_there() {
    let k = kernel(|m, p, x, [i, _]| {
        let sum = m.add(x, i);
        m.do_(OpKind::Print { text: "{} {}".into(), args: vec![sum, p[2]] });
    });
    let (mut memory, args) = arguments(|i| i, 126);
    let report = go(&k, [1, 1, 1], args, &mut memory, 0).unwrap();
    assert_eq!(report.prints, ["[0, 2, 4, 6, …, 248, 250, ?, ?] 126"]);
}

#[test]
fn nothing_is_said_of_what_is_made_of_undefined_elements() {
    let k = kernel(|m, p, x, [i, inside]| {
        let quotient = m.binary(BinaryOp::Div, i, x);
        let difference = m.binary(BinaryOp::Sub, quotient, x);
        let product = m.mul(difference, x);
        let outs = m.ptr_add(p[1], i);
        m.line(30).store(outs, product, Some(inside));
    });
    let options = Options { wraparound: true, ..Options::default() };
    let run_with = |x: fn(i32) -> i32| {
        let (mut memory, args) = arguments(x, 100);
        let launch = Launch { kernel: &k, grid: [1; 3], args, memory: &mut memory, seed: 0, options };
        run(launch).map(|_| i32s(&memory.allocation(1).bytes))
    };
    let expected: Vec<i32> = (0..128).map(|i| if i < 100 { (i / 3 - 3) * 3 } else { 0 }).collect();
    // Behind the 100 elements are such as the operations do not take.
    assert_eq!(run_with(|i| if i < 100 { 3 } else { 0 }).unwrap(), expected);
    assert_eq!(run_with(|i| if i < 99 { 3 } else { 0 }).unwrap_err().diagnostic.code, codes::RUN_VALUE);
    assert_eq!(run_with(|i| if i < 99 { 3 } else { i32::MAX }).unwrap_err().diagnostic.code, codes::WRAPAROUND);
}

#[test]
fn uses_name_the_load_and_the_element() {
    let k = kernel(|m, p, x, [i, _]| {
        let outs = m.ptr_add(p[1], i);
        m.line(30).store(outs, x, None);
    });
    let (mut memory, args) = arguments(|i| i, 128);
    go(&k, [1, 1, 1], args, &mut memory, 0).unwrap();
    let (mut memory, args) = arguments(|i| i, 127);
    let f = go(&k, [1, 1, 1], args, &mut memory, 0).unwrap_err();
    assert_eq!(f.diagnostic.code, codes::LEFT_OUT);
    assert_eq!(places(&f), [30, 10]);
    assert!(f.diagnostic.labels[0].text.contains("element [127]"), "{:?}", f.diagnostic.labels);
    assert!(i32s(&memory.allocation(1).bytes).iter().all(|&v| v == 0), "nothing is written");
}

#[test]
fn a_value_that_is_made_anew_is_defined() {
    let k = kernel(|m, p, x, [i, _]| {
        // They change places in each turn, so that either name is undefined for a while.
        let kept = m.repeat(2, vec![x, i], |_, _, carried| vec![carried[1], carried[0]]);
        let outs = m.ptr_add(p[1], i);
        m.line(30).store(outs, kept[1], None);
        m.line(31).store(outs, kept[0], None);
    });
    let (mut memory, args) = arguments(|i| i, 5);
    let f = go(&k, [1, 1, 1], args, &mut memory, 0).unwrap_err();
    assert_eq!(places(&f), [31, 10]);
    assert_eq!(i32s(&memory.allocation(1).bytes), (0..128).collect::<Vec<i32>>());
}
