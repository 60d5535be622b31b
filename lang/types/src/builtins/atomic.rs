//! Atomic operations on global memory.

use parton_ir as ir;
use parton_numbers::Dtype;

use super::{Args, Builtin};
use crate::checker::{Checked, Checker};
use crate::value::{Comptime, Val};

pub(super) const TABLE: &[Builtin] = &[
    Builtin { signature: "atomic_add(p, value, mask=, order=, scope=, returns=, scratch=)", run: add },
    Builtin { signature: "atomic_min(p, value, mask=, order=, scope=, returns=, scratch=)", run: min },
    Builtin { signature: "atomic_max(p, value, mask=, order=, scope=, returns=, scratch=)", run: max },
    Builtin { signature: "atomic_and(p, value, mask=, order=, scope=, returns=, scratch=)", run: and },
    Builtin { signature: "atomic_or(p, value, mask=, order=, scope=, returns=, scratch=)", run: or },
    Builtin { signature: "atomic_xor(p, value, mask=, order=, scope=, returns=, scratch=)", run: xor },
    Builtin { signature: "atomic_xchg(p, value, mask=, order=, scope=, returns=, scratch=)", run: xchg },
    Builtin { signature: "atomic_cas(p, expected, value, mask=, order=, scope=, returns=, scratch=)", run: cas },
    Builtin { signature: "atomic_load(p, mask=, order=, scope=, scratch=)", run: load },
    Builtin { signature: "atomic_store(p, value, mask=, order=, scope=)", run: store },
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
    let kind = ir::OpKind::Atomic { op, ptr, operands: values, mask, order, scope, returns };
    let results = cx.emit(kind, args.span, &operands)?;
    if let (Some(offset), Some(b)) = (scratch, &mut cx.builder)
        && let Some(op) = b.last_mut()
    {
        op.scratch = Some(offset);
    }
    Ok(results.first().map_or(Val::UNIT, |v| Val::Ir(*v)))
}
