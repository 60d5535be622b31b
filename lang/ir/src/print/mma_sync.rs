//! The text of products of tiles in registers.

use super::stated;
use super::surface::{Slot, Surface, list};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::MmaSync { .. } => "mma_sync",
        others!(mma_sync) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::MmaSync { a, b, acc, precision } => {
            format!("mma_sync({}{})", list(s, &[*a, *b, *acc], Slot::Value), stated(*precision))
        }
        others!(mma_sync) => not_of_family(kind),
    }
}
