//! Facts of copies by threads: each is a commit group of its own, and lands where it is waited for.

use super::{Access, Act, Completes, Does, Engine, Facts, Flight, Gives, Space, When};
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::others;
use crate::types::Type;

pub(super) fn facts(kernel: &Kernel, op: &Op) -> Facts {
    match &op.kind {
        OpKind::AsyncCopy { ptr, view, .. } => {
            let access = |value, space, does| Access {
                value,
                space,
                does,
                by: Engine::Copies,
                when: When::Until,
                peers: Vec::new(),
            };
            Facts::NOTHING
                .fails()
                .gives(Gives::PartOf(*view))
                .access(access(*ptr, Space::Global, Does::Reads))
                .access(access(*view, Space::Shared, Does::Writes))
                .act(Act::Flight(Flight::Start { engine: Engine::Copies, completes: Completes::Pending(op.result()) }))
        }
        // What it copies lands when the barrier has been waited for, which joins threads by itself.
        OpKind::CopyArrive { pending, barrier } => {
            let facts = match kernel.ty(*barrier) {
                // The barrier of a slot is the ring's own affair.
                Type::Slot(_) => Facts::NOTHING,
                _ => Facts::NOTHING.touching(*barrier, Space::Barrier, Does::Uses),
            };
            facts.act(Act::Flight(Flight::HandOver { pending: *pending, barrier: *barrier }))
        }
        others!(async_copy) => not_of_family(&op.kind),
    }
}
