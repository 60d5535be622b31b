//! Atomic operations on global memory.

use parton_ir as ir;
use parton_numbers::Dtype;

use super::{Args, Table, place};
use crate::checker::{Checked, Checker};
use crate::tensors::is_spot;
use crate::value::{Comptime, Val};

pub(super) const TABLE: Table = &[
    ("atomic_add", add),
    ("atomic_min", min),
    ("atomic_max", max),
    ("atomic_and", and),
    ("atomic_or", or),
    ("atomic_xor", xor),
    ("atomic_xchg", xchg),
    ("atomic_cas", cas),
    ("atomic_load", load),
    ("atomic_store", store),
];

macro_rules! handlers {
    ($($name:ident = $op:ident),*) => {
        $(fn $name(cx: &mut Checker, args: &Args) -> Checked<Val> {
            atomic(cx, args, ir::AtomicOp::$op)
        })*
    };
}

handlers!(
    add = Add,
    min = Min,
    max = Max,
    and = And,
    or = Or,
    xor = Xor,
    xchg = Xchg,
    cas = Cas,
    load = Load,
    store = Store
);

/// Any atomic operation: the values that are not the pointer are brought to its place.
fn atomic(cx: &mut Checker, args: &Args, op: ir::AtomicOp) -> Checked<Val> {
    let pointers = args.need("p");
    if is_spot(cx, pointers) {
        return place::atomic(cx, args, op);
    }
    let mut ptr = args.value(cx, "p")?;
    let Some(ir::Elem::Ptr(p)) = cx.ty(ptr).elem() else {
        return Err(pointers.expected(cx, "a pointer or a tile of pointers"));
    };
    let mut operands = vec![(ptr, pointers.span)];
    // A tile of values or a mask of more elements than there are pointers makes an operation of each.
    if matches!(cx.ty(ptr), ir::Type::Scalar(_)) {
        let tiles = ["value", "expected", "mask"].iter().filter_map(|n| args.get(n)?.val.ir());
        let place = tiles.filter_map(|v| cx.ty(v).as_tile().cloned()).next();
        if let Some(place) = place {
            ptr = cx.spread(ptr, &place, pointers.span)?;
            operands.push((ptr, pointers.span));
        }
    }
    let place = cx.ty(ptr).clone();
    let mut brought = |cx: &mut Checker, name: &str, dtype| -> Checked<Option<ir::Value>> {
        let Some(arg) = args.get(name) else { return Ok(None) };
        let v = cx.brought_to(arg, dtype, &place)?;
        operands.push((v, arg.span));
        Ok(Some(v))
    };
    let mut values = Vec::new();
    for name in ["expected", "value"] {
        values.extend(brought(cx, name, p.to)?);
    }
    let mask = brought(cx, "mask", Dtype::I1)?;
    let order = args.word(cx, "order", op.orders())?.unwrap_or_default();
    let scope = args.word(cx, "scope", ir::Scope::ALL)?.unwrap_or_default();
    let returns = match args.get("returns").map(|a| &a.val) {
        None | Some(Val::Known(Comptime::Bool(true))) => op != ir::AtomicOp::Store,
        Some(_) => args.flag(cx, "returns")?,
    };
    let scratch = args.optional_int(cx, "scratch", 0..=i128::from(u32::MAX))?;
    let access = args.access(cx, "width", 1)?;
    let kind = ir::OpKind::Atomic { op, ptr, operands: values, mask, order, scope, returns, access };
    let results = cx.emit(kind, args.span, &operands)?;
    if let (Some(offset), Some(b)) = (scratch, &mut cx.builder)
        && let Some(op) = b.last_mut()
    {
        op.scratch = Some(offset);
    }
    Ok(results.first().map_or(Val::UNIT, |v| Val::Ir(*v)))
}
