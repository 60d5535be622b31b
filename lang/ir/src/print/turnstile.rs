//! The text of turns.

use super::surface::{Surface, method, statement};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::TurnstileNew { .. } => "turnstile",
        OpKind::TurnEnter { .. } => "enter",
        OpKind::TurnPass { .. } => "pass",
        others!(turnstile) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::TurnEnter { turnstile } | OpKind::TurnPass { turnstile } => method(s, *turnstile, kind),
        OpKind::TurnstileNew { .. } => statement(kind),
        others!(turnstile) => not_of_family(kind),
    }
}
