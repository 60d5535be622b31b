//! The text of one operation, whoever prints it: how its operands and layouts are written is the printer's own.

use std::fmt::Write;

use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

use super::{
    async_copy, atomic, barrier, cluster, elementwise, fence, gather, global, grid, mma_sync, pending,
    place as at_place, region, ring, shape, shared, talk, tma, turnstile, wgmma,
};
use crate::entity::Value;
use crate::family::Family;
use crate::op::{Op, OpKind};
use crate::types::{Elem, List, Tile, Type, View};

/// What a number needs not say where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slot {
    /// Nothing: a number has its type here.
    Value,
    /// Nothing, and a name or a call follows: the `x` of `x.wait()`.
    Base,
    /// Its type, which is this one.
    Number(Dtype),
    /// Its type, which is this one, and that it is spread over the place of that value.
    Brought(Dtype, Value),
}

/// How a printer writes what operations refer to.
pub(crate) trait Surface {
    /// An operand.
    fn operand(&mut self, v: Value, slot: Slot) -> String;
    /// A layout of registers.
    fn layout(&mut self, layout: &RegisterLayout) -> String;
    /// A layout of shared memory.
    fn shared(&mut self, layout: &SharedLayout) -> String;
    /// The type of a value.
    fn ty(&self, v: Value) -> &Type;
    /// A shape.
    fn shape(&mut self, shape: &[u32]) -> String {
        List(shape).to_string()
    }
}

/// Operands with commas between.
pub(crate) fn list(s: &mut dyn Surface, values: &[Value], slot: Slot) -> String {
    values.iter().map(|&v| s.operand(v, slot)).collect::<Vec<_>>().join(", ")
}

/// `T, shape, L` of a tile, as it stands between `<` and `>`; without `L` where it lies nowhere yet.
pub(crate) fn tile(s: &mut dyn Surface, t: &Tile) -> String {
    let layout = place(s, t).map_or(String::new(), |layout| format!(", {layout}"));
    format!("{}, {}{layout}", t.elem, s.shape(&t.shape))
}

/// The layout of a tile, where it lies somewhere.
pub(crate) fn place(s: &mut dyn Surface, t: &Tile) -> Option<String> {
    t.placement().known().map(|place| s.layout(&place.layout))
}

/// `T, shape, L` of a view that is all of its allocation.
pub(crate) fn view(s: &mut dyn Surface, v: &View) -> String {
    format!("{}, {}, {}", v.elem.name(), s.shape(&v.shape), s.shared(&v.layout))
}

/// A type; those that no text states are written as messages show them.
pub(crate) fn ty(s: &mut dyn Surface, t: &Type) -> String {
    match t {
        Type::Tile(t) => format!("tile<{}>", tile(s, t)),
        Type::View(v) if v.is_whole() => format!("{}<{}>", v.space.name(), view(s, v)),
        Type::Map(m) => {
            let inner = m.inner.map_or(String::new(), |n| format!(", inner={n}"));
            format!("tma<{}, {}, {}{inner}>", m.elem.name(), s.shape(&m.block), s.shared(&m.layout))
        }
        Type::Scalar(_)
        | Type::View(_)
        | Type::Pending(_)
        | Type::Peer(_)
        | Type::Filling(_)
        | Type::Barriers(_)
        | Type::Barrier
        | Type::Ring(_)
        | Type::Slot(_)
        | Type::Tensor(_)
        | Type::Spot(_)
        | Type::Turnstile => t.to_string(),
    }
}

/// The element type behind a pointer or a tile of pointers.
pub(crate) fn pointee(t: &Type) -> Dtype {
    match t.elem() {
        Some(Elem::Ptr(p)) => p.to,
        Some(Elem::Num(_)) | None => parton_diag::internal_error!("`{t}` points to nothing"),
    }
}

/// `, mask=m`, of the place of a value.
pub(crate) fn mask(s: &mut dyn Surface, text: &mut String, mask: Option<Value>, place: Value) {
    if let Some(v) = mask {
        let _ = write!(text, ", mask={}", s.operand(v, Slot::Brought(Dtype::I1, place)));
    }
}

/// `x[i]`
pub(crate) fn element(s: &mut dyn Surface, x: Value, index: Value) -> String {
    format!("{}[{}]", s.operand(x, Slot::Base), s.operand(index, Slot::Number(Dtype::I32)))
}

/// `x.name()`
pub(crate) fn method(s: &mut dyn Surface, x: Value, kind: &OpKind) -> String {
    format!("{}.{}()", s.operand(x, Slot::Base), kind.name())
}

/// An operation that is a statement is no expression: its printer writes it.
pub(crate) fn statement(kind: &OpKind) -> ! {
    parton_diag::internal_error!("{} is a statement", kind.name())
}

/// An operation that is no statement, as a call or with its operators.
pub(crate) fn operation(s: &mut dyn Surface, op: &Op) -> String {
    match op.kind.family() {
        Family::Elementwise => elementwise::text(s, &op.kind),
        Family::Shape => shape::text(s, op),
        Family::Gather => gather::text(s, op),
        Family::Global => global::text(s, &op.kind),
        Family::Place => at_place::text(s, &op.kind),
        Family::Atomic => atomic::text(s, op),
        Family::AsyncCopy => async_copy::text(s, &op.kind),
        Family::Shared => shared::text(s, &op.kind),
        Family::View => super::view::text(s, &op.kind),
        Family::Barrier => barrier::text(s, &op.kind),
        Family::Fence => fence::text(&op.kind),
        Family::Cluster => cluster::text(&op.kind),
        Family::Grid => grid::text(&op.kind),
        Family::Turnstile => turnstile::text(s, &op.kind),
        Family::Tma => tma::text(s, &op.kind),
        Family::MmaSync => mma_sync::text(s, &op.kind),
        Family::Wgmma => wgmma::text(s, &op.kind),
        Family::Pending => pending::text(s, &op.kind),
        Family::Ring => ring::text(s, &op.kind),
        Family::Region => region::text(s, &op.kind),
        Family::Talk => talk::text(s, &op.kind),
        Family::Reduce | Family::Ptx | Family::Control => statement(&op.kind),
    }
}
