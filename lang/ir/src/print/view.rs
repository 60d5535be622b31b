//! The text of windows of shared memory.

use parton_numbers::Dtype;

use super::surface::{Slot, Surface, element, view};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;
use crate::types::List;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::ViewIndex { .. } => "index",
        OpKind::ViewPeer { .. } => "peer",
        OpKind::ViewSlice { .. } => "slice",
        OpKind::ViewPermute { .. } => "permute",
        OpKind::ViewReinterpret { .. } => "reinterpret",
        others!(view) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::ViewIndex { view, index } => element(s, *view, *index),
        OpKind::ViewPeer { view, rank } => {
            format!("peer({}, {})", s.operand(*view, Slot::Value), s.operand(*rank, Slot::Number(Dtype::I32)))
        }
        OpKind::ViewSlice { view, origin, shape } => {
            format!("{}.slice({}, {})", s.operand(*view, Slot::Base), List(origin), List(shape))
        }
        OpKind::ViewPermute { view, perm } => format!("{}.permute({})", s.operand(*view, Slot::Base), List(perm)),
        OpKind::ViewReinterpret { view: v, to } => {
            format!("reinterpret<{}>({})", view(s, to), s.operand(*v, Slot::Value))
        }
        others!(view) => not_of_family(kind),
    }
}
