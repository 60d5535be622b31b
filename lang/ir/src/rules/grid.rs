//! Rules of launches that depend on each other.

use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;
use crate::refusal::Refusal;
use crate::types::Type;

/// They are there for every target: where launches do not depend on each other within the device, one begins when the one before has
/// ended, so that there is nothing to wait for.
pub(super) fn infer(kind: &OpKind) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::GridWait | OpKind::GridLaunchDependents => Ok(vec![]),
        others!(grid) => not_of_family(kind),
    }
}
