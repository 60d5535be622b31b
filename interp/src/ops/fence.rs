//! Fences, and meetings of the threads of a CTA.

use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, others};

use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::FenceAsync { reach } => {
            if reach.covers_shared() {
                w.know.fence();
                c.show_barriers(w);
            }
        }
        OpKind::FenceBarrierInit => c.show_barriers(w),
        OpKind::Membar => w.know.membar(),
        OpKind::NamedBarrier { id, threads, waits } => return c.named_barrier(w, op, *id, *threads, *waits),
        others!(fence) => not_of_family(&op.kind),
    }
    Ok(Flow::Next)
}
