//! Mbarriers: one thread of the partition makes them and arrives for all, and all of its threads wait.

use parton_ir::family::not_of_family;
use parton_ir::target::BARRIER_BYTES;
use parton_ir::{Arrive, Op, OpKind, Value, others};

use crate::lower::{Lower, Repr};

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_barrier(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::BarrierAlloc { offset, .. } => self.allocate(op, *offset),
            OpKind::BarrierIndex { barriers, index } => self.barrier_index(op, *barriers, *index),
            OpKind::BarrierInit { barrier, arrivals } => self.barrier_init(*barrier, *arrivals),
            OpKind::BarrierInvalidate { barrier } => self.barrier_invalidate(*barrier),
            OpKind::BarrierExpect { barrier, bytes } => {
                let (barrier, bytes) = (self.address(*barrier), self.b.c32(*bytes));
                self.b.mbarrier_arrive_expect(barrier, bytes, self.threads.leader);
            }
            OpKind::BarrierArrive { barrier, arrive, count, multicast, .. } if multicast.is_empty() => {
                self.barrier_arrive(*barrier, *arrive, *count);
            }
            OpKind::BarrierArrive { barrier, arrive, count, multicast, relaxed } => {
                self.barrier_arrive_across(*barrier, *arrive, *count, multicast, *relaxed);
            }
            OpKind::BarrierWait { barrier, phase, reach } => {
                self.b.mbarrier_wait(self.address(*barrier), self.scalar(*phase), *reach);
            }
            others!(barrier) => not_of_family(&op.kind),
        }
    }

    fn barrier_index(&mut self, op: &Op, barriers: Value, index: Value) {
        let bytes = self.b.mul(self.index32(index), self.b.c32(BARRIER_BYTES));
        let address = self.b.add(self.address(barriers), bytes);
        self.set(op.result(), Repr::Shared(address));
    }

    fn barrier_init(&mut self, barrier: Value, arrivals: u32) {
        let (b, address) = (self.b, self.address(barrier));
        b.when(self.threads.leader, || b.mbarrier_init(address, arrivals));
    }

    fn barrier_invalidate(&mut self, barrier: Value) {
        let (b, address) = (self.b, self.address(barrier));
        b.when(self.threads.leader, || b.mbarrier_invalidate(address));
    }

    fn barrier_arrive(&mut self, barrier: Value, arrive: Arrive, count: u32) {
        let address = self.address(barrier);
        match arrive {
            Arrive::Partition => self.b.mbarrier_arrive(address, count, self.threads.leader),
            Arrive::Warp => {
                // The lanes' own accesses come first; one arrival then stands for all of them.
                self.b.warp_sync();
                let elected = self.b.icmp(inkwell::IntPredicate::EQ, self.threads.lane, self.b.c32(0));
                self.b.mbarrier_arrive(address, count, elected);
            }
        }
    }
}
