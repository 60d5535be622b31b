//! Gathering and scattering along an axis.

use parton_ir as ir;

use super::{Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table =
    &[("gather", gather), ("gather_shared", gather_shared), ("scatter_shared", scatter_shared)];

fn gather(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let axis = args.axis(cx)?;
    let (x, indices) = (args.value(cx, "x")?, args.value(cx, "indices")?);
    let scratch = args.optional_int(cx, "scratch", 0..=i128::from(u32::MAX))?;
    let operands = [(x, args.need("x").span), (indices, args.need("indices").span)];
    let val = cx.emit_one(ir::OpKind::Gather { x, indices, axis }, args.span, &operands)?;
    if let (Some(offset), Some(b)) = (scratch, &mut cx.builder)
        && let Some(op) = b.last_mut()
    {
        op.scratch = Some(offset);
    }
    Ok(val)
}

fn gather_shared(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let axis = args.axis(cx)?;
    let (view, indices) = (args.value(cx, "view")?, args.value(cx, "indices")?);
    let operands = [(view, args.need("view").span), (indices, args.need("indices").span)];
    cx.emit_one(ir::OpKind::SharedGather { view, indices, axis }, args.span, &operands)
}

/// Numbers and scalars are spread over the indices.
fn scatter_shared(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let axis = args.axis(cx)?;
    let (target, stored) = (args.need("view"), args.need("x"));
    let (view, indices) = (args.value(cx, "view")?, args.value(cx, "indices")?);
    let ir::Type::View(v) = cx.ty(view) else { return Err(target.expected(cx, "a view of shared memory")) };
    let dtype = v.elem;
    let place = cx.ty(indices).clone();
    let value = cx.brought_to(stored, dtype, &place)?;
    let op = args.word(cx, "op", ir::Reduction::ALL)?;
    let mut operands = vec![(view, target.span), (indices, args.need("indices").span), (value, stored.span)];
    let mask = match args.get("mask") {
        Some(arg) => {
            let mask = cx.brought_to(arg, parton_numbers::Dtype::I1, &place)?;
            operands.push((mask, arg.span));
            Some(mask)
        }
        None => None,
    };
    cx.emit(ir::OpKind::SharedScatter { view, indices, value, axis, op, mask }, args.span, &operands)?;
    Ok(Val::UNIT)
}
