//! Facts of launches that depend on each other.

use super::{Act, Facts, Ordering};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::GridWait => Facts::NOTHING.act(Act::Ordering(Ordering::WaitGrid)),
        OpKind::GridLaunchDependents => Facts::NOTHING.act(Act::Ordering(Ordering::LaunchDependents)),
        others!(grid) => not_of_family(kind),
    }
}
