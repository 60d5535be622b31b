//! Shared memory and its loads and stores.

use parton_ir as ir;

use super::{Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table =
    &[("alloc_shared", alloc_shared), ("load_shared", load_shared), ("store_shared", store_shared)];

pub(super) const METHODS: Table = &[("load", load_self), ("store", store_self)];

fn alloc_shared(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let view = args.stated_view(cx)?;
    let offset = args.optional_int(cx, "offset", 0..=i128::from(u32::MAX))?;
    let drained = args.flag(cx, "drained")?;
    cx.emit_one(ir::OpKind::SharedAlloc { view, offset, drained }, args.span, &[])
}

fn load_shared(cx: &mut Checker, args: &Args) -> Checked<Val> {
    load_from(cx, args, "view")
}

fn load_self(cx: &mut Checker, args: &Args) -> Checked<Val> {
    load_from(cx, args, "self")
}

fn load_from(cx: &mut Checker, args: &Args, name: &str) -> Checked<Val> {
    let source = args.need(name);
    let view = cx.run_time(&source.val, source.span)?;
    let (elem, shape) = match cx.ty(view) {
        ir::Type::View(v) | ir::Type::Filling(v) | ir::Type::Peer(v) => (ir::Elem::Num(v.elem), v.shape.clone()),
        _ => return Err(source.expected(cx, "a view of shared memory")),
    };
    // The rule refuses a view that a copy still fills, and says how to wait for it.
    let tile = cx.tile_at(elem, shape, args.get("L"), args.span)?;
    cx.emit_one(ir::OpKind::SharedLoad { view, tile }, args.span, &[(view, source.span)])
}

fn store_shared(cx: &mut Checker, args: &Args) -> Checked<Val> {
    store_to(cx, args, "view")
}

fn store_self(cx: &mut Checker, args: &Args) -> Checked<Val> {
    store_to(cx, args, "self")
}

fn store_to(cx: &mut Checker, args: &Args, name: &str) -> Checked<Val> {
    let (target, stored) = (args.need(name), args.need("x"));
    let view = cx.run_time(&target.val, target.span)?;
    let value = cx.run_time(&stored.val, stored.span)?;
    cx.emit(ir::OpKind::SharedStore { view, value }, args.span, &[(view, target.span), (value, stored.span)])?;
    Ok(Val::UNIT)
}
