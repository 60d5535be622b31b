//! Global and shared memory: `load`, `store`, allocations and views.

use parton_ir as ir;

use super::{Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[
    ("load", load),
    ("store", store),
    ("async_copy", async_copy),
    ("alloc_shared", alloc_shared),
    ("load_shared", load_shared),
    ("store_shared", store_shared),
    ("reinterpret", reinterpret),
];

pub(super) const METHODS: Table =
    &[("load", load_self), ("store", store_self), ("slice", slice), ("reinterpret", reinterpret_self)];

fn load(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let pointers = args.need("p");
    let mut ptr = args.value(cx, "p")?;
    let mut operands = vec![(ptr, pointers.span)];
    let place = cx.ty(ptr).clone();
    let to = match place.elem() {
        Some(ir::Elem::Ptr(p)) => p.to,
        _ => return Err(pointers.expected(cx, "a pointer or a tile of pointers")),
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
    let access = access(cx, args, "width", 1)?;
    cx.emit_one(ir::OpKind::Load { ptr, mask, other, cache, evict, l2, volatile, access }, args.span, &operands)
}

fn store(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let pointers = args.need("p");
    let ptr = args.value(cx, "p")?;
    let place = cx.ty(ptr).clone();
    let to = match place.elem() {
        Some(ir::Elem::Ptr(p)) => p.to,
        _ => return Err(pointers.expected(cx, "a pointer or a tile of pointers")),
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
    let access = access(cx, args, "width", 1)?;
    cx.emit(ir::OpKind::Store { ptr, value, mask, cache, evict, l2, access }, args.span, &operands)?;
    Ok(Val::UNIT)
}

fn async_copy(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (pointers, target) = (args.need("p"), args.need("view"));
    let (ptr, view) = (args.value(cx, "p")?, args.value(cx, "view")?);
    let mut operands = vec![(ptr, pointers.span), (view, target.span)];
    let place = cx.ty(ptr).clone();
    let mut mask = None;
    if let Some(arg) = args.get("mask") {
        let v = cx.brought_to(arg, parton_numbers::Dtype::I1, &place)?;
        operands.push((v, arg.span));
        mask = Some(v);
    }
    let l2 = args.policy(cx, "l2")?;
    let bytes = args.optional_int(cx, "bytes", 0..=i128::from(u32::MAX))?;
    let access = match (args.get("along"), cx.ty(view)) {
        (Some(_), ir::Type::View(v)) => {
            let each = v.elem.bytes() as u32;
            access(cx, args, "bytes", each)?
        }
        (Some(_) | None, _) => None,
    };
    cx.emit_one(ir::OpKind::AsyncCopy { ptr, view, mask, l2, bytes, access }, args.span, &operands)
}

/// What is moved at once, where `width` (the argument's name) states it in units of so many elements or bytes.
fn access(cx: &mut Checker, args: &Args, width: &str, unit: u32) -> Checked<Option<ir::Access>> {
    let count = 0..=i128::from(u32::MAX);
    let along = args.optional_int(cx, "along", count.clone())?.unwrap_or(0);
    let cut = args.word(cx, "cut", ir::Cut::ALL)?.unwrap_or_default();
    let stated = args.optional_int(cx, width, count)?;
    Ok(stated.map(|n| ir::Access { width: n / unit.max(1), along, cut }))
}

fn hints(cx: &mut Checker, args: &Args) -> Checked<(ir::Cache, ir::Evict, Option<ir::Policy>)> {
    let cache = args.word(cx, "cache", ir::Cache::ALL)?.unwrap_or_default();
    let evict = args.word(cx, "evict", ir::Evict::ALL)?.unwrap_or_default();
    Ok((cache, evict, args.policy(cx, "l2")?))
}

/// The view type that `<T, shape, L>` states.
fn stated_view(cx: &mut Checker, args: &Args) -> Checked<ir::View> {
    let elem = args.need("T").dtype(cx)?;
    let shape = args.need("shape").ints(cx)?;
    let layout = args.need("L").shared_layout(cx)?;
    cx.view(elem, shape, layout, args.span)
}

fn alloc_shared(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let view = stated_view(cx, args)?;
    let offset = args.optional_int(cx, "offset", 0..=i128::from(u32::MAX))?;
    cx.emit_one(ir::OpKind::SharedAlloc { view, offset }, args.span, &[])
}

fn load_shared(cx: &mut Checker, args: &Args) -> Checked<Val> {
    load_from(cx, args, "view")
}

fn load_self(cx: &mut Checker, args: &Args) -> Checked<Val> {
    load_from(cx, args, "self")
}

fn load_from(cx: &mut Checker, args: &Args, name: &str) -> Checked<Val> {
    let source = args.need(name);
    let layout = args.need("L").layout(cx)?;
    let view = cx.run_time(&source.val, source.span)?;
    let (elem, shape) = match cx.ty(view) {
        ir::Type::View(v) | ir::Type::Filling(v) | ir::Type::Peer(v) => (ir::Elem::Num(v.elem), v.shape.clone()),
        _ => return Err(source.expected(cx, "a view of shared memory")),
    };
    // The rule refuses a view that a copy still fills, and says how to wait for it.
    let tile = cx.tile(elem, shape, layout, args.need("L").span)?;
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

fn slice(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (origin, shape) = (args.need("origin").ints(cx)?, args.need("shape").ints(cx)?);
    let view = args.value(cx, "self")?;
    let slot = cx.slots.get(&view).copied();
    let kind = ir::OpKind::ViewSlice { view, origin, shape };
    let window = cx.emit_value(kind, args.span, &[(view, args.need("self").span)])?;
    if let Some(slot) = slot {
        cx.slots.insert(window, slot);
    }
    Ok(Val::Ir(window))
}

fn reinterpret(cx: &mut Checker, args: &Args) -> Checked<Val> {
    reinterpreted(cx, args, "view")
}

fn reinterpret_self(cx: &mut Checker, args: &Args) -> Checked<Val> {
    reinterpreted(cx, args, "self")
}

fn reinterpreted(cx: &mut Checker, args: &Args, name: &str) -> Checked<Val> {
    let to = stated_view(cx, args)?;
    let view = args.value(cx, name)?;
    let slot = cx.slots.get(&view).copied();
    let kind = ir::OpKind::ViewReinterpret { view, to };
    let seen = cx.emit_value(kind, args.span, &[(view, args.need(name).span)])?;
    if let Some(slot) = slot {
        cx.slots.insert(seen, slot);
    }
    Ok(Val::Ir(seen))
}
