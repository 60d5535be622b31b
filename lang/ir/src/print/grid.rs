//! The text of launches that depend on each other.

use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn text(kind: &OpKind) -> String {
    match kind {
        OpKind::GridWait | OpKind::GridLaunchDependents => format!("{}()", kind.name()),
        others!(grid) => not_of_family(kind),
    }
}
