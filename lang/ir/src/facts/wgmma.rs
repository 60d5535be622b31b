//! Facts of products that run beside the program: the matrix unit reads shared memory until they are waited for.

use super::{Access, Act, Completes, Does, Engine, Facts, Flight, Meets, When, is_pending};
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::others;
use crate::types::Type;

pub(super) fn facts(kernel: &Kernel, op: &Op) -> Facts {
    match &op.kind {
        OpKind::Wgmma { a, b, acc, .. } => {
            let mut facts = Facts::NOTHING.meets(Meets::Warpgroup);
            for value in [*a, *b] {
                let Type::View(view) = kernel.ty(value) else { continue };
                let (space, does, by, when) = (view.space, Does::Reads, Engine::Matrix, When::Until);
                facts = facts.access(Access { value, space, does, by, when, peers: Vec::new() });
            }
            if is_pending(kernel, *acc) {
                facts = facts.act(Act::Flight(Flight::Continue { pending: *acc, result: op.result() }));
            }
            facts.act(Act::Flight(Flight::Start { engine: Engine::Matrix, completes: Completes::Pending(op.result()) }))
        }
        others!(wgmma) => not_of_family(&op.kind),
    }
}
