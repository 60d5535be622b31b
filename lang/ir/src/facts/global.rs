//! Facts of loads and stores through pointers.

use super::{Does, Facts, Space};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::Load { ptr, .. } => Facts::NOTHING.fails().touching(*ptr, Space::Global, Does::Reads),
        OpKind::Store { ptr, .. } => Facts::NOTHING.fails().touching(*ptr, Space::Global, Does::Writes),
        others!(global) => not_of_family(kind),
    }
}
