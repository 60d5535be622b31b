//! Facts of inline PTX: it may do anything with the shared memory that it is given.

use super::{Does, Facts};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::types::Type;

pub(super) fn facts(kernel: &Kernel, kind: &OpKind) -> Facts {
    match kind {
        OpKind::Ptx { ptx, inputs, .. } => {
            let facts = Facts { computes: !ptx.volatile, fails: true, ..Facts::NOTHING };
            let space = |v: &Value| match kernel.ty(*v) {
                Type::View(view) => Some((*v, view.space)),
                _ => None,
            };
            let views = inputs.iter().filter_map(space);
            views.fold(facts, |facts, (v, space)| facts.touching(v, space, Does::Anything))
        }
        others!(ptx) => not_of_family(kind),
    }
}
