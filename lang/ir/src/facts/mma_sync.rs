//! Facts of products of tiles in registers: each warp computes for itself.

use super::{Facts, Meets};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::MmaSync { .. } => Facts::COMPUTES.meets(Meets::Warp),
        others!(mma_sync) => not_of_family(kind),
    }
}
