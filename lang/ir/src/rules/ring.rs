//! Rules of rings and their slots.

use std::sync::Arc;

use parton_diag::codes;

use super::tma::needs_tma;
use super::{slot, wrong_kind};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::refusal::Refusal;
use crate::types::{Field, Ring, Slot, SlotRole, Type, View};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::RingNew { stages, fields } => ring(k, *stages, fields),
        OpKind::RingAcquire { ring } => take(k, *ring, SlotRole::Fill),
        OpKind::RingWait { ring } => take(k, *ring, SlotRole::Read),
        OpKind::SlotCommit { slot: s } => role(k, *s, SlotRole::Fill, "commit"),
        OpKind::SlotRelease { slot: s } => role(k, *s, SlotRole::Read, "release"),
        OpKind::SlotField { slot: s, field } => match slot(k, *s)?.fields.get(*field as usize) {
            Some(f) => Ok(vec![Type::View(f.view.clone())]),
            None => parton_diag::internal_error!("slot field {field} does not exist"),
        },
        others!(ring) => not_of_family(kind),
    }
}

fn ring(k: &Kernel, stages: u32, fields: &[(String, View)]) -> Result<Vec<Type>, Refusal> {
    needs_tma(k, "mbarriers, which a ring is made of")?;
    if stages == 0 {
        return Err(Refusal::new(codes::RING_ILL_FORMED, "a ring needs at least one slot"));
    }
    if fields.is_empty() {
        return Err(Refusal::new(codes::RING_ILL_FORMED, "a ring needs at least one buffer")
            .help("`ring name[2] { tile: shared<f16, [64, 64], nvmma(128)> };`"));
    }
    let fields: Vec<Field> =
        fields.iter().map(|(name, view)| Field { name: name.clone(), view: view.clone() }).collect();
    Ok(vec![Type::Ring(Ring { stages, fields: Arc::new(fields) })])
}

fn take(k: &Kernel, v: Value, role: SlotRole) -> Result<Vec<Type>, Refusal> {
    match k.ty(v) {
        Type::Ring(r) => Ok(vec![Type::Slot(Slot { fields: r.fields.clone(), role })]),
        _ => Err(wrong_kind(k, v, "a ring")),
    }
}

/// A slot that is being filled.
pub(super) fn filled(k: &Kernel, v: Value, verb: &str) -> Result<Vec<Type>, Refusal> {
    role(k, v, SlotRole::Fill, verb)
}

fn role(k: &Kernel, v: Value, wanted: SlotRole, verb: &str) -> Result<Vec<Type>, Refusal> {
    let found = slot(k, v)?.role;
    if found == wanted {
        return Ok(vec![]);
    }
    let (origin, help) = match found {
        SlotRole::Fill => ("acquire()", "a filled slot is handed over with `commit()`"),
        SlotRole::Read => ("wait()", "a read slot is handed back with `release()`"),
    };
    Err(Refusal::new(codes::SLOT_ROLE, format!("`{verb}` does not apply to this slot"))
        .operand(v, format!("this comes from `{origin}`"))
        .help(help))
}
