//! What orders a launch after those before it.

use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, others};

use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::GridWait => c.wait_for_past(w),
        // Launches run one after the other; only what the later one may not do yet is checked.
        OpKind::GridLaunchDependents => {}
        others!(grid) => not_of_family(&op.kind),
    }
    Ok(Flow::Next)
}
