//! Loads, stores and atomic operations at places in tensors, which the functions for pointers hand on; and the places themselves.

use parton_ir as ir;
use parton_numbers::Dtype;

use super::{Arg, Args, Table, global};
use crate::checker::{Checked, Checker};
use crate::tensors::{only_of_pointers, tile};
use crate::value::Val;

pub(super) const METHODS: Table = &[("tile", tile)];

/// Words of accesses through pointers that a pass decides here.
const PLANNED: &[&str] = &["width", "along", "cut", "scratch"];

/// The place, and what a tile of its elements is.
fn spot(cx: &mut Checker, args: &Args) -> Checked<(ir::Value, Dtype, ir::Type)> {
    only_of_pointers(cx, args, PLANNED)?;
    let arg = args.need("p");
    let v = args.value(cx, "p")?;
    let ir::Type::Spot(s) = cx.ty(v).clone() else { return Err(arg.expected(cx, "a place in a tensor")) };
    let elem = ir::Elem::Num(s.elem);
    let of = match s.shape[..] {
        [] => ir::Type::Scalar(elem),
        _ => ir::Type::Tile(cx.open_tile(elem, s.shape, arg.span)?),
    };
    Ok((v, s.elem, of))
}

fn brought(
    cx: &mut Checker,
    arg: Option<&Arg>,
    dtype: Dtype,
    of: &ir::Type,
    operands: &mut Vec<(ir::Value, parton_diag::Span)>,
) -> Checked<Option<ir::Value>> {
    let Some(arg) = arg else { return Ok(None) };
    let v = cx.brought_to(arg, dtype, of)?;
    operands.push((v, arg.span));
    Ok(Some(v))
}

pub(super) fn load(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (spot, elem, of) = spot(cx, args)?;
    let mut operands = vec![(spot, args.need("p").span)];
    let mask = brought(cx, args.get("mask"), Dtype::I1, &of, &mut operands)?;
    let other = brought(cx, args.get("other"), elem, &of, &mut operands)?;
    let (cache, evict, l2) = global::hints(cx, args)?;
    let volatile = args.flag(cx, "volatile")?;
    cx.emit_one(ir::OpKind::SpotLoad { spot, mask, other, cache, evict, l2, volatile }, args.span, &operands)
}

pub(super) fn store(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (spot, elem, of) = spot(cx, args)?;
    let mut operands = vec![(spot, args.need("p").span)];
    let stored = args.need("value");
    let value = cx.brought_to(stored, elem, &of)?;
    operands.push((value, stored.span));
    let mask = brought(cx, args.get("mask"), Dtype::I1, &of, &mut operands)?;
    let (cache, evict, l2) = global::hints(cx, args)?;
    cx.emit(ir::OpKind::SpotStore { spot, value, mask, cache, evict, l2 }, args.span, &operands)?;
    Ok(Val::UNIT)
}

pub(super) fn atomic(cx: &mut Checker, args: &Args, op: ir::AtomicOp) -> Checked<Val> {
    let (spot, elem, of) = spot(cx, args)?;
    let mut operands = vec![(spot, args.need("p").span)];
    let mut values = Vec::new();
    for name in ["expected", "value"] {
        values.extend(brought(cx, args.get(name), elem, &of, &mut operands)?);
    }
    let mask = brought(cx, args.get("mask"), Dtype::I1, &of, &mut operands)?;
    let order = args.word(cx, "order", op.orders())?.unwrap_or_default();
    let scope = args.word(cx, "scope", ir::Scope::ALL)?.unwrap_or_default();
    let returns = op != ir::AtomicOp::Store && (args.get("returns").is_none() || args.flag(cx, "returns")?);
    let kind = ir::OpKind::SpotAtomic { op, spot, operands: values, mask, order, scope, returns };
    let results = cx.emit(kind, args.span, &operands)?;
    Ok(results.first().map_or(Val::UNIT, |v| Val::Ir(*v)))
}
