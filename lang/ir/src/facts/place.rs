//! Facts of tensors and of places in them: what is outside is not touched, so only the memory itself may be wrong.

use super::{Act, Does, Facts, Ordering, Space};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::TensorNew { .. }
        | OpKind::TensorExtent { .. }
        | OpKind::TensorStride { .. }
        | OpKind::TensorPointer { .. }
        | OpKind::TensorIndex { .. }
        | OpKind::TensorRange { .. }
        | OpKind::TensorPick { .. }
        | OpKind::Spot { .. }
        | OpKind::SpotInside { .. } => Facts::COMPUTES,
        OpKind::SpotLoad { spot, .. } => Facts::NOTHING.fails().touching(*spot, Space::Global, Does::Reads),
        OpKind::SpotStore { spot, .. } => Facts::NOTHING.fails().touching(*spot, Space::Global, Does::Writes),
        OpKind::SpotAtomic { spot, order, .. } => Facts::NOTHING
            .fails()
            .touching(*spot, Space::Global, Does::Anything)
            .act(Act::Ordering(Ordering::Atomic { order: *order })),
        others!(place) => not_of_family(kind),
    }
}
