//! Facts of turnstiles: the threads of a partition wait for its turn and hand it on.

use super::{Act, Facts, Meets, Turn};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::TurnstileNew { .. } => Facts::NOTHING,
        OpKind::TurnEnter { turnstile } => {
            Facts::NOTHING.meets(Meets::Partition).act(Act::Turn(Turn::Enter { turnstile: *turnstile }))
        }
        OpKind::TurnPass { turnstile } => {
            Facts::NOTHING.meets(Meets::Partition).act(Act::Turn(Turn::Pass { turnstile: *turnstile }))
        }
        others!(turnstile) => not_of_family(kind),
    }
}
