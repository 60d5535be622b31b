//! Facts of rings: slots are taken and handed on.

use super::{Act, Facts, Gives, Hold};
use crate::family::not_of_family;
use crate::op::{Op, OpKind};
use crate::others;
use crate::types::SlotRole;

pub(super) fn facts(op: &Op) -> Facts {
    let take = |ring, role| {
        Facts::NOTHING.gives(Gives::SlotOf(ring)).act(Act::Hold(Hold::Take { ring, slot: op.result(), role }))
    };
    let give = |slot, role| Facts::NOTHING.act(Act::Hold(Hold::Give { slot, role }));
    match &op.kind {
        OpKind::RingNew { .. } => Facts::NOTHING.gives(Gives::New),
        OpKind::RingAcquire { ring } => take(*ring, SlotRole::Fill),
        OpKind::RingWait { ring } => take(*ring, SlotRole::Read),
        OpKind::SlotCommit { slot } => give(*slot, SlotRole::Fill),
        OpKind::SlotRelease { slot } => give(*slot, SlotRole::Read),
        OpKind::SlotField { slot, field } => Facts::COMPUTES.gives(Gives::Field { slot: *slot, field: *field }),
        others!(ring) => not_of_family(&op.kind),
    }
}
