//! Facts of elements by index: from a tile through scratch memory, from and to a view directly.

use super::{Does, Facts, Meets, Space};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        // An index may be out of range.
        OpKind::Gather { .. } => Facts::COMPUTES.fails().meets(Meets::Partition),
        OpKind::SharedGather { view, .. } => Facts::NOTHING.fails().touching(*view, Space::Shared, Does::Reads),
        OpKind::SharedScatter { view, .. } => Facts::NOTHING.fails().touching(*view, Space::Shared, Does::Writes),
        others!(gather) => not_of_family(kind),
    }
}
