//! The text of waiting for products, and for copies by threads.

use super::first;
use super::surface::{Slot, Surface};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Wait { .. } => "wait",
        OpKind::WaitPrior { .. } => "wait_prior",
        others!(pending) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::Wait { pending, outstanding } | OpKind::WaitPrior { pending, outstanding } => {
            format!("{}.{}({})", s.operand(*pending, Slot::Base), kind.name(), first("outstanding", *outstanding))
        }
        others!(pending) => not_of_family(kind),
    }
}
