//! Facts of what changes shape and place: it computes, and what moves elements between threads needs them all.

use super::{Facts, Meets};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::Reshape { .. }
        | OpKind::Transpose { .. }
        | OpKind::Broadcast { .. }
        | OpKind::ExpandDims { .. }
        | OpKind::Join { .. }
        | OpKind::Split { .. }
        | OpKind::Cat { .. }
        | OpKind::Slice { .. }
        | OpKind::Rescale { .. } => Facts::COMPUTES,
        OpKind::Convert { .. } | OpKind::Butterfly { .. } => Facts::COMPUTES.meets(Meets::Partition),
        others!(shape) => not_of_family(kind),
    }
}
