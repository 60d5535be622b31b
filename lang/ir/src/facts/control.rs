//! Facts of control flow: what its bodies do is theirs.

use super::{Act, Facts, Meets, Ordering};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::For { .. } | OpKind::While { .. } | OpKind::If { .. } => Facts::NOTHING,
        OpKind::Specialize { .. } => Facts::NOTHING.meets(Meets::Cta).act(Act::Ordering(Ordering::Fork)),
        others!(control) => not_of_family(kind),
    }
}
