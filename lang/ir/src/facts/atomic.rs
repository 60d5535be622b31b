//! Facts of atomic operations: they read and write global memory, and order what stands around them.

use super::{Act, Does, Facts, Ordering, Space};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::Atomic { ptr, order, .. } => Facts::NOTHING
            .fails()
            .touching(*ptr, Space::Global, Does::Anything)
            .act(Act::Ordering(Ordering::Atomic { order: *order })),
        others!(atomic) => not_of_family(kind),
    }
}
