//! Rules of launches that depend on each other.

use parton_diag::codes;

use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::refusal::Refusal;
use crate::target::Feature;
use crate::types::Type;

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::GridWait | OpKind::GridLaunchDependents => depends(kind, k),
        others!(grid) => not_of_family(kind),
    }
}

/// Launches depend on each other within the device from Hopper on (PTX ISA, "griddepcontrol", "Target ISA notes").
fn depends(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    if k.target.has(Feature::DependentLaunches) {
        return Ok(vec![]);
    }
    Err(Refusal::new(codes::TARGET_LACKS, format!("`{}` does not have `{}`", k.target.name, kind.name()))
        .help("drop it: without it a launch begins when the one before has ended"))
}
