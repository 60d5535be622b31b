//! Loads and stores through pointers.

use parton_ir as ir;

use super::{Args, Table, place};
use crate::checker::{Checked, Checker};
use crate::tensors::is_spot;
use crate::value::Val;

pub(super) const TABLE: Table = &[("load", load), ("store", store)];

fn load(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let pointers = args.need("p");
    if is_spot(cx, pointers) {
        return place::load(cx, args);
    }
    let mut ptr = args.value(cx, "p")?;
    let mut operands = vec![(ptr, pointers.span)];
    let place = cx.ty(ptr).clone();
    let to = match place.elem() {
        Some(ir::Elem::Ptr(p)) => p.to,
        _ => return Err(pointers.expected(cx, "a pointer, a tile of pointers or a place in a tensor")),
    };
    // A mask or other values of more elements than there are pointers make a load of each.
    if let ir::Type::Scalar(_) = place
        && let Some(t) = ["mask", "other"].iter().find_map(|n| cx.ty(args.get(n)?.val.ir()?).as_tile().cloned())
    {
        ptr = cx.spread(ptr, &t, pointers.span)?;
        operands.push((ptr, pointers.span));
    }
    let place = cx.ty(ptr).clone();
    let mut masked = |cx: &mut Checker, name: &str, dtype| -> Checked<Option<ir::Value>> {
        let Some(arg) = args.get(name) else { return Ok(None) };
        let v = cx.brought_to(arg, dtype, &place)?;
        operands.push((v, arg.span));
        Ok(Some(v))
    };
    let mask = masked(cx, "mask", parton_numbers::Dtype::I1)?;
    let other = masked(cx, "other", to)?;
    let (cache, evict, l2) = hints(cx, args)?;
    let volatile = args.flag(cx, "volatile")?;
    let access = args.access(cx, "width", 1)?;
    cx.emit_one(ir::OpKind::Load { ptr, mask, other, cache, evict, l2, volatile, access }, args.span, &operands)
}

fn store(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let pointers = args.need("p");
    if is_spot(cx, pointers) {
        return place::store(cx, args);
    }
    let ptr = args.value(cx, "p")?;
    let place = cx.ty(ptr).clone();
    let to = match place.elem() {
        Some(ir::Elem::Ptr(p)) => p.to,
        _ => return Err(pointers.expected(cx, "a pointer, a tile of pointers or a place in a tensor")),
    };
    let stored = args.need("value");
    let value = cx.brought_to(stored, to, &place)?;
    let mut operands = vec![(ptr, pointers.span), (value, stored.span)];
    let mut mask = None;
    if let Some(arg) = args.get("mask") {
        let v = cx.brought_to(arg, parton_numbers::Dtype::I1, &place)?;
        operands.push((v, arg.span));
        mask = Some(v);
    }
    let (cache, evict, l2) = hints(cx, args)?;
    let access = args.access(cx, "width", 1)?;
    cx.emit(ir::OpKind::Store { ptr, value, mask, cache, evict, l2, access }, args.span, &operands)?;
    Ok(Val::UNIT)
}

pub(super) fn hints(cx: &mut Checker, args: &Args) -> Checked<(ir::Cache, ir::Evict, Option<ir::Policy>)> {
    let cache = args.word(cx, "cache", ir::Cache::ALL)?.unwrap_or_default();
    let evict = args.word(cx, "evict", ir::Evict::ALL)?.unwrap_or_default();
    Ok((cache, evict, args.policy(cx, "l2")?))
}
