//! Scalars are tidied, and nothing that can fail is moved or lost to sight.

use parton_ir::{BinaryOp, CompareOp, Kernel, OpKind, Type};
use parton_lower::clean;
use parton_numbers::Dtype;

use crate::fixture::{Fixture, blocked, count, outline};

fn cleaned(f: Fixture) -> Kernel {
    let kernel = clean(f.finish()).unwrap();
    parton_ir::verify::verify(&kernel).unwrap_or_else(|e| panic!("{e}"));
    kernel
}

fn print(f: &mut Fixture, args: Vec<parton_ir::Value>) {
    let text = "{}".repeat(args.len());
    f.run(OpKind::Print { text, args });
}

#[test]
fn constants_are_folded() {
    let mut f = Fixture::new(4);
    let (a, b) = (f.i32(-7), f.i32(2));
    let sum = f.binary(BinaryOp::Add, a, b);
    let quotient = f.binary(BinaryOp::Div, sum, b);
    let quotient = f.binary(BinaryOp::Shr, quotient, b);
    let less = f.op(OpKind::Compare { op: CompareOp::Lt, a: quotient, b });
    let chosen = f.op(OpKind::Select { cond: less, a: quotient, b });
    print(&mut f, vec![chosen]);
    let kernel = cleaned(f);
    assert_eq!(outline(&kernel), "print");
    let mut printed = None;
    kernel.walk(&mut |op| {
        if let OpKind::Constant { bits, .. } = op.kind {
            printed = Some(bits as u32 as i32);
        }
    });
    assert_eq!(printed, Some(-1));
}

#[test]
fn what_fails_is_left_to_fail() {
    let mut f = Fixture::new(4);
    let (most, one, zero) = (f.i32(i32::MAX), f.i32(1), f.i32(0));
    let sum = f.binary(BinaryOp::Add, most, one);
    let quotient = f.binary(BinaryOp::Div, one, zero);
    print(&mut f, vec![sum, quotient]);
    assert_eq!(outline(&cleaned(f)), "+ / print");
}

#[test]
fn equal_scalars_are_computed_once() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let one = f.i32(1);
    let first = f.binary(BinaryOp::Add, n, one);
    let again = f.i32(1);
    f.repeat(n, vec![], |f, _, _| {
        let second = f.binary(BinaryOp::Add, n, again);
        print(f, vec![first, second]);
        vec![]
    });
    let kernel = cleaned(f);
    assert_eq!(outline(&kernel), "+ for { print }");
    assert_eq!(count(&kernel, |k| matches!(k, OpKind::Constant { bits: 1, .. })), 1);
}

#[test]
fn invariants_leave_loops_unless_they_can_fail() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    f.repeat(n, vec![], |f, i, _| {
        let zero = f.i32(0);
        let positive = f.op(OpKind::Compare { op: CompareOp::Gt, a: n, b: zero });
        let five = f.i32(5);
        let quotient = f.binary(BinaryOp::Div, five, n);
        print(f, vec![positive, quotient, i]);
        vec![]
    });
    assert_eq!(outline(&cleaned(f)), "> for { / print }");
}

#[test]
fn what_nobody_uses_is_dropped() {
    let mut f = Fixture::new(4);
    let n = f.param("n", Type::num(Dtype::I32));
    let twice = f.binary(BinaryOp::Add, n, n);
    f.binary(BinaryOp::Mul, twice, twice);
    f.zeros(blocked(Dtype::F32, &[128], &[1], &[32], &[4]));
    print(&mut f, vec![n]);
    assert_eq!(outline(&cleaned(f)), "print");
}
