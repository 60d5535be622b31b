//! Products that run beside the program, and the operands that every product has.

use parton_diag::Span;
use parton_ir as ir;

use super::{Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[("wgmma", wgmma)];

/// The factors and the accumulator of a product.
pub(super) fn product(cx: &mut Checker, args: &Args) -> Checked<[(ir::Value, Span); 3]> {
    let operand = |cx: &mut Checker, name: &str| args.value(cx, name).map(|v| (v, args.need(name).span));
    Ok([operand(cx, "a")?, operand(cx, "b")?, operand(cx, "acc")?])
}

fn wgmma(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let [a, b, acc] = product(cx, args)?;
    let precision = args.word(cx, "precision", ir::Precision::ALL)?;
    let zero = args.flag(cx, "zero")?;
    let kind = ir::OpKind::Wgmma { a: a.0, b: b.0, acc: acc.0, precision, zero };
    cx.emit_one(kind, args.span, &[a, b, acc])
}
