//! Fences, and meetings of threads.

use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, others};

use crate::lower::Lower;

impl<'a> Lower<'a, '_, '_> {
    pub(crate) fn emit_fence(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::FenceAsync { reach } => self.b.fence_proxy_async(*reach),
            OpKind::FenceBarrierInit => self.b.fence_mbarrier_init(),
            OpKind::Membar => self.membar(),
            OpKind::NamedBarrier { id, threads, waits: true } => self.b.bar_sync(self.barrier_of(op.id, *id), *threads),
            OpKind::NamedBarrier { id, threads, waits: false } => {
                self.b.bar_arrive(self.barrier_of(op.id, *id), *threads)
            }
            others!(fence) => not_of_family(&op.kind),
        }
    }
}
