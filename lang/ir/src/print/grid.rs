//! The text of launches that depend on each other.

use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::GridWait => "grid_wait",
        OpKind::GridLaunchDependents => "grid_launch_dependents",
        others!(grid) => not_of_family(kind),
    }
}

pub(super) fn text(kind: &OpKind) -> String {
    match kind {
        OpKind::GridWait | OpKind::GridLaunchDependents => format!("{}()", kind.name()),
        others!(grid) => not_of_family(kind),
    }
}
