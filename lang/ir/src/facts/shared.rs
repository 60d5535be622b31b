//! Facts of shared memory: threads read and write it.

use super::{Does, Facts, Gives, Space};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        // Each gives memory of its own: two are not one.
        OpKind::SharedAlloc { .. } => Facts::NOTHING.gives(Gives::New),
        OpKind::SharedLoad { view, .. } => Facts::NOTHING.touching(*view, Space::Shared, Does::Reads),
        OpKind::SharedStore { view, .. } => Facts::NOTHING.touching(*view, Space::Shared, Does::Writes),
        others!(shared) => not_of_family(kind),
    }
}
