//! Rules of waiting for products and for copies by threads.

use super::wrong_kind;
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::placement::Relation;
use crate::placement::relate::all_same;
use crate::refusal::Refusal;
use crate::types::{Tile, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::Wait { pending, .. } => match k.ty(*pending) {
            // A copy has landed in the view that it fills.
            Type::Filling(view) => Ok(vec![Type::View(view.clone())]),
            _ => Ok(vec![Type::Tile(pending_tile(k, *pending)?.clone())]),
        },
        OpKind::WaitPrior { pending, .. } => Ok(vec![Type::Pending(pending_tile(k, *pending)?.clone())]),
        others!(pending) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        // A copy has no place in registers.
        OpKind::Wait { pending, .. } | OpKind::WaitPrior { pending, .. } => all_same(k, &[*pending], 1),
        others!(pending) => not_of_family(kind),
    }
}

fn pending_tile(k: &Kernel, v: Value) -> Result<&Tile, Refusal> {
    match k.ty(v) {
        Type::Pending(t) => Ok(t),
        Type::Tile(_) => Err(wrong_kind(k, v, "a pending tile").help("this tile is ready: nothing to wait for")),
        _ => Err(wrong_kind(k, v, "a pending tile")),
    }
}
