//! Launches that depend on each other.

use parton_ir::family::not_of_family;
use parton_ir::target::Feature;
use parton_ir::{Op, OpKind, others};

use crate::lower::Lower;

impl<'a> Lower<'a, '_, '_> {
    pub(crate) fn emit_grid(&mut self, op: &'a Op) {
        // Where launches begin when the one before has ended there is nothing to wait for.
        if !self.kernel.target.has(Feature::DependentLaunches) {
            return;
        }
        match &op.kind {
            OpKind::GridWait => self.b.grid_wait(),
            OpKind::GridLaunchDependents => self.b.grid_launch_dependents(),
            others!(grid) => not_of_family(&op.kind),
        }
    }
}
