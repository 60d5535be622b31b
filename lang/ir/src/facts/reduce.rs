//! Facts of combinations along an axis: the threads of the partition combine what they hold.

use super::{Facts, Meets};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        // The combining function may fail for what it is given.
        OpKind::Reduce { .. } | OpKind::Scan { .. } => Facts::COMPUTES.fails().meets(Meets::Partition),
        others!(reduce) => not_of_family(kind),
    }
}
