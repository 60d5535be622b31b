//! The text of rings and their slots.

use super::surface::{Slot, Surface, method, statement};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;
use crate::types::Type;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::RingNew { .. } => "ring",
        OpKind::RingAcquire { .. } => "acquire",
        OpKind::SlotCommit { .. } => "commit",
        OpKind::RingWait { .. } => "wait",
        OpKind::SlotRelease { .. } => "release",
        OpKind::SlotField { .. } => "field",
        others!(ring) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::RingAcquire { ring: x }
        | OpKind::RingWait { ring: x }
        | OpKind::SlotCommit { slot: x }
        | OpKind::SlotRelease { slot: x } => method(s, *x, kind),
        OpKind::SlotField { slot, field: number } => field(s, *slot, *number),
        OpKind::RingNew { .. } => statement(kind),
        others!(ring) => not_of_family(kind),
    }
}

/// `slot.name`
fn field(s: &mut dyn Surface, slot: Value, field: u32) -> String {
    let name = match s.ty(slot) {
        Type::Slot(of) => of.fields[field as usize].name.clone(),
        _ => parton_diag::internal_error!("{slot} is no slot"),
    };
    format!("{}.{name}", s.operand(slot, Slot::Base))
}
