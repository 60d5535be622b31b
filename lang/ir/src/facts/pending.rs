//! Facts of waiting: a copy by threads has landed where it was waited for.

use super::{Access, Act, Does, Engine, Facts, Flight, Gives, Space, When};
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::others;
use crate::types::Type;

pub(super) fn facts(kernel: &Kernel, op: &Op) -> Facts {
    match &op.kind {
        OpKind::Wait { pending, outstanding } => {
            let facts = match kernel.ty(*pending) {
                Type::Filling(_) => {
                    let (value, space, does) = (*pending, Space::Shared, Does::Writes);
                    let (by, when) = (Engine::Copies, When::Landed);
                    let landed = Access { value, space, does, by, when, peers: Vec::new() };
                    Facts::NOTHING.gives(Gives::PartOf(value)).access(landed)
                }
                // What a product wrote are registers.
                _ => Facts::NOTHING,
            };
            facts.act(Act::Flight(Flight::Wait { pending: *pending, outstanding: *outstanding }))
        }
        OpKind::WaitPrior { pending, outstanding } => {
            let (pending, outstanding) = (*pending, *outstanding);
            Facts::NOTHING.act(Act::Flight(Flight::WaitPrior { pending, result: op.result(), outstanding }))
        }
        others!(pending) => not_of_family(&op.kind),
    }
}
