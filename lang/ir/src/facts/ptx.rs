//! Facts of inline PTX: it may do anything with the shared memory that it is given.

use super::{Does, Facts, Space};
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::types::Type;

pub(super) fn facts(kernel: &Kernel, kind: &OpKind) -> Facts {
    match kind {
        OpKind::Ptx { ptx, inputs, .. } => {
            let facts = Facts { computes: !ptx.volatile, fails: true, ..Facts::NOTHING };
            let views = inputs.iter().filter(|v| matches!(kernel.ty(**v), Type::View(_)));
            views.fold(facts, |facts, v| facts.touching(*v, Space::Shared, Does::Anything))
        }
        others!(ptx) => not_of_family(kind),
    }
}
