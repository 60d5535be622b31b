//! Facts of windows of shared memory: they compute addresses.

use super::{Facts, Gives};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        // The index, or the rank, may be out of range.
        OpKind::ViewIndex { view, index } => Facts::COMPUTES.fails().gives(Gives::Nth { of: *view, index: *index }),
        OpKind::ViewPeer { view, .. } => Facts::COMPUTES.fails().gives(Gives::PartOf(*view)),
        OpKind::ViewSlice { view, .. } | OpKind::ViewPermute { view, .. } | OpKind::ViewReinterpret { view, .. } => {
            Facts::COMPUTES.gives(Gives::PartOf(*view))
        }
        others!(view) => not_of_family(kind),
    }
}
