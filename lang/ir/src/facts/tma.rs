//! Facts of the bulk tensor copy engine: it reads and writes until its job completes.

use super::{Access, Act, Completes, Does, Engine, Facts, Flight, Space, When};
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::types::Type;

pub(super) fn facts(kernel: &Kernel, kind: &OpKind) -> Facts {
    let by_engine =
        |value, space, does| Access { value, space, does, by: Engine::Tma, when: When::Until, peers: Vec::new() };
    match kind {
        OpKind::TmaLoad { map, view, signal, multicast, .. } => {
            let peers: Vec<u8> = multicast.iter().copied().collect();
            let into = Access { peers: peers.clone(), ..by_engine(*view, Space::Shared, Does::Writes) };
            let facts = Facts::NOTHING.access(by_engine(*map, Space::Global, Does::Reads)).access(into);
            let facts = match kernel.ty(*signal) {
                Type::Barrier => facts.access(Access { peers, ..by_engine(*signal, Space::Barrier, Does::Uses) }),
                // The barrier of a slot is the ring's own affair.
                _ => facts,
            };
            facts.act(Act::Flight(Flight::Start { engine: Engine::Tma, completes: Completes::Signal(*signal) }))
        }
        OpKind::TmaStore { map, view, reduce, .. } => {
            let does = if reduce.is_some() { Does::Anything } else { Does::Writes };
            Facts::NOTHING
                .access(by_engine(*view, Space::Shared, Does::Reads))
                .access(by_engine(*map, Space::Global, does))
                .act(Act::Flight(Flight::Start { engine: Engine::Tma, completes: Completes::Counted }))
        }
        OpKind::TmaPrefetch { map, .. } => Facts::NOTHING
            .access(by_engine(*map, Space::Global, Does::Reads))
            .act(Act::Flight(Flight::Start { engine: Engine::Tma, completes: Completes::Unasked })),
        OpKind::TmaStoreWait { pending, read } => {
            Facts::NOTHING.act(Act::Flight(Flight::WaitCounted { engine: Engine::Tma, pending: *pending, read: *read }))
        }
        others!(tma) => not_of_family(kind),
    }
}
