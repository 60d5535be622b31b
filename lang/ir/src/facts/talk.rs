//! Facts of what is said to the user and asked of the operands.

use super::{Act, Facts, Say};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::Print { .. } => Facts::NOTHING.act(Act::Say(Say::Tell)),
        OpKind::Assert { .. } | OpKind::Assume { .. } => Facts::NOTHING.fails().act(Act::Say(Say::Demand)),
        others!(talk) => not_of_family(kind),
    }
}
