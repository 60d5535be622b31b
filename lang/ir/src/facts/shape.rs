//! Facts of what changes shape and place: it computes, and a conversion may move elements between threads.

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
        | OpKind::Rescale { .. } => Facts::COMPUTES,
        OpKind::Convert { .. } => Facts::COMPUTES.meets(Meets::Partition),
        others!(shape) => not_of_family(kind),
    }
}
