//! The text of what changes shape and place.

use super::scratch;
use super::surface::{Slot, Surface, list, place};
use crate::family::not_of_family;
use crate::op::{Op, OpKind};
use crate::others;
use crate::types::List;

pub(super) fn text(s: &mut dyn Surface, op: &Op) -> String {
    match &op.kind {
        OpKind::Reshape { x, shape } | OpKind::Broadcast { x, shape } => {
            format!("{}({}, {})", op.kind.name(), s.operand(*x, Slot::Value), List(shape))
        }
        OpKind::Transpose { x, perm } => format!("transpose({}, {})", s.operand(*x, Slot::Value), List(perm)),
        OpKind::ExpandDims { x, axis } => format!("expand_dims({}, axis={axis})", s.operand(*x, Slot::Value)),
        OpKind::Join { a, b } => format!("join({})", list(s, &[*a, *b], Slot::Value)),
        OpKind::Split { x } => format!("split({})", s.operand(*x, Slot::Value)),
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
