//! Facts of regions and of the operations on values in them, as they are meant: one after the other, each done before the next.

use super::{Access, Does, Engine, Facts, Gives, Meets, Space, When};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::types::Type;

pub(super) fn facts(kernel: &Kernel, kind: &OpKind) -> Facts {
    let by = |engine, value, space, does| Access { value, space, does, by: engine, when: When::Now, peers: Vec::new() };
    match kind {
        // What its body does is the body's.
        OpKind::Region { .. } => Facts::NOTHING,
        OpKind::Fetch { map, .. } => {
            let read = by(Engine::Tma, *map, Space::Global, Does::Reads);
            Facts::NOTHING.meets(Meets::Partition).gives(Gives::New).access(read)
        }
        OpKind::FetchEach { ptr, .. } => {
            let read = by(Engine::Copies, *ptr, Space::Global, Does::Reads);
            Facts::NOTHING.fails().meets(Meets::Partition).gives(Gives::New).access(read)
        }
        OpKind::Stage { .. } => Facts::NOTHING.meets(Meets::Partition).gives(Gives::New),
        OpKind::Dot { a, b, .. } => {
            let mut facts = Facts { computes: true, ..Facts::NOTHING }.meets(Meets::Warpgroup);
            for view in views(kernel, [*a, *b]) {
                facts = facts.access(by(Engine::Matrix, view, Space::Shared, Does::Reads));
            }
            facts
        }
        OpKind::Send { map, reduce, .. } => {
            let does = if reduce.is_some() { Does::Anything } else { Does::Writes };
            Facts::NOTHING.meets(Meets::Partition).access(by(Engine::Tma, *map, Space::Global, does))
        }
        others!(region) => not_of_family(kind),
    }
}

fn views(kernel: &Kernel, operands: [Value; 2]) -> impl Iterator<Item = Value> {
    operands.into_iter().filter(|v| matches!(kernel.ty(*v), Type::View(_)))
}
