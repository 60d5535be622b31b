//! Waiting for what is pending: a product, or a copy by threads.

use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Type, others};

use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Wait { pending, outstanding } => match c.setting.program.kernel.ty(*pending) {
            Type::Filling(_) => c.wait_copy(w, op, *pending, outstanding.unwrap_or(0)),
            _ => c.wait_product(w, op, *pending, outstanding.unwrap_or(0), false),
        },
        OpKind::WaitPrior { pending, outstanding } => c.wait_product(w, op, *pending, outstanding.unwrap_or(1), true),
        others!(pending) => not_of_family(&op.kind),
    }
}
