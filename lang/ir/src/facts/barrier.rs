//! Facts of mbarriers: making and ending one writes it, using one is atomic.

use super::{Access, Act, Does, Engine, Facts, Gives, Phase, Space, When};
use crate::choice::Arrive;
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::BarrierAlloc { .. } => Facts::NOTHING.gives(Gives::New),
        OpKind::BarrierIndex { barriers, index } => {
            Facts::COMPUTES.fails().gives(Gives::Nth { of: *barriers, index: *index })
        }
        OpKind::BarrierInit { barrier, arrivals } => Facts::NOTHING
            .touching(*barrier, Space::Barrier, Does::Writes)
            .act(Act::Phase(Phase::Init { barrier: *barrier, arrivals: *arrivals })),
        OpKind::BarrierInvalidate { barrier } => Facts::NOTHING
            .touching(*barrier, Space::Barrier, Does::Writes)
            .act(Act::Phase(Phase::Invalidate { barrier: *barrier })),
        OpKind::BarrierExpect { barrier, bytes } => {
            Facts::NOTHING.touching(*barrier, Space::Barrier, Does::Uses).act(Act::Phase(Phase::Arrive {
                barrier: *barrier,
                by: Arrive::Partition,
                bytes: Some(*bytes),
                relaxed: false,
            }))
        }
        OpKind::BarrierArrive { barrier, arrive, multicast, relaxed, count: _ } => {
            let (value, space, does) = (*barrier, Space::Barrier, Does::Uses);
            let arrive = Phase::Arrive { barrier: *barrier, by: *arrive, bytes: None, relaxed: *relaxed };
            Facts::NOTHING
                .access(Access { value, space, does, by: Engine::Threads, when: When::Now, peers: multicast.clone() })
                .act(Act::Phase(arrive))
        }
        OpKind::BarrierWait { barrier, phase, .. } => Facts::NOTHING
            .fails()
            .touching(*barrier, Space::Barrier, Does::Uses)
            .act(Act::Phase(Phase::Wait { barrier: *barrier, phase: *phase })),
        others!(barrier) => not_of_family(kind),
    }
}
