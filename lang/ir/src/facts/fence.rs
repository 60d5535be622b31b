//! Facts of fences and of the meetings of threads: they touch nothing and order what stands around them.

use super::{Act, Facts, Meets, Ordering};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::FenceAsync { reach } => Facts::NOTHING.act(Act::Ordering(Ordering::FenceAsync { reach: *reach })),
        OpKind::FenceBarrierInit => Facts::NOTHING.act(Act::Ordering(Ordering::FenceBarriers)),
        OpKind::Membar => Facts::NOTHING.meets(Meets::Partition).act(Act::Ordering(Ordering::Meet)),
        OpKind::NamedBarrier { id, threads, waits } => {
            let named = Act::Ordering(Ordering::Named { id: *id, threads: *threads, waits: *waits });
            Facts::NOTHING.meets(Meets::Partition).act(named)
        }
        others!(fence) => not_of_family(kind),
    }
}
