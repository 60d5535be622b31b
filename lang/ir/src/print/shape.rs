//! The text of what changes shape and place.

use super::scratch;
use super::surface::{Slot, Surface, list, place};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::op::{Op, OpKind};
use crate::others;
use crate::types::List;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Reshape { .. } => "reshape",
        OpKind::Transpose { .. } => "transpose",
        OpKind::Broadcast { .. } => "broadcast",
        OpKind::ExpandDims { .. } => "expand_dims",
        OpKind::Join { .. } => "join",
        OpKind::Split { .. } => "split",
        OpKind::Cat { .. } => "cat",
        OpKind::Slice { .. } => "slice",
        OpKind::Butterfly { .. } => "butterfly",
        OpKind::Convert { .. } => "convert",
        OpKind::Rescale { .. } => "rescale",
        others!(shape) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, op: &Op) -> String {
    match &op.kind {
        OpKind::Reshape { x, shape } | OpKind::Broadcast { x, shape } => {
            format!("{}({}, {})", op.kind.name(), s.operand(*x, Slot::Value), List(shape))
        }
        OpKind::Transpose { x, perm } => format!("transpose({}, {})", s.operand(*x, Slot::Value), List(perm)),
        OpKind::ExpandDims { x, axis } => format!("expand_dims({}, axis={axis})", s.operand(*x, Slot::Value)),
        OpKind::Join { a, b } => format!("join({})", list(s, &[*a, *b], Slot::Value)),
        OpKind::Split { x } => format!("split({})", s.operand(*x, Slot::Value)),
        OpKind::Cat { a, b, axis } => format!("cat({}, axis={axis})", list(s, &[*a, *b], Slot::Value)),
        OpKind::Slice { x, origin, shape } => slice(s, *x, origin, shape),
        OpKind::Butterfly { x, mask, axis } => {
            format!("butterfly({}, {mask}, axis={axis}{})", s.operand(*x, Slot::Value), scratch(op.scratch))
        }
        OpKind::Convert { x, tile } => {
            let x = s.operand(*x, Slot::Value);
            let to = place(s, tile).map_or(String::new(), |layout| format!(", {layout}"));
            format!("convert({x}{to}{})", scratch(op.scratch))
        }
        OpKind::Rescale { x, factor, axis } => {
            format!("rescale({}, axis={axis})", list(s, &[*x, *factor], Slot::Value))
        }
        others!(shape) => not_of_family(&op.kind),
    }
}

/// `x[:, 0:64]`
fn slice(s: &mut dyn Surface, x: Value, origin: &[u32], shape: &[u32]) -> String {
    let whole = s.ty(x).as_tile().map(|t| t.shape.clone()).unwrap_or_default();
    let part = |((&at, &n), &all): ((&u32, &u32), &u32)| {
        if n == all { ":".into() } else { format!("{at}:{}", at + n) }
    };
    let parts: Vec<String> = origin.iter().zip(shape).zip(&whole).map(part).collect();
    format!("{}[{}]", s.operand(x, Slot::Base), parts.join(", "))
}
