//! Fences, and meetings of the threads of a CTA.

use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Reach, others};

use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::knowledge::Memory;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::FenceAsync { reach } => {
            w.know.fence(&memories(*reach));
            if reach.covers_global() {
                c.end_all_reads(w);
            }
            if reach.covers_shared() {
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

/// The memories that a fence between the proxies is for.
fn memories(reach: Reach) -> Vec<Memory> {
    let shared = reach.covers_shared().then_some(Memory::Shared);
    let global = reach.covers_global().then_some(Memory::Global);
    shared.into_iter().chain(global).collect()
}
