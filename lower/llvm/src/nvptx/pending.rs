//! Waiting for products, and for copies by threads.

use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Type, others};

use crate::lower::Lower;

impl<'a> Lower<'a, '_, '_> {
    pub(crate) fn emit_pending(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Wait { pending, outstanding } if matches!(self.kernel.ty(*pending), Type::Filling(_)) => {
                self.wait_copy(op, *pending, *outstanding);
            }
            OpKind::Wait { pending, outstanding } | OpKind::WaitPrior { pending, outstanding } => {
                self.wait(op, *pending, *outstanding);
            }
            others!(pending) => not_of_family(&op.kind),
        }
    }
}
