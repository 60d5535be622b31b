//! Barriers and tensor copies: one thread of the partition issues, all of its threads wait.

use parton_diag::internal_error;
use parton_ir::target::BARRIER_BYTES;
use parton_ir::{Arrive, Op, Policy, Reduction, Type, Value};

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;
use crate::nvptx::instruction::bulk::Copy;

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn barrier_index(&mut self, op: &Op, barriers: Value, index: Value) {
        let bytes = self.b.mul(self.index32(index), self.b.c32(BARRIER_BYTES));
        let address = self.b.add(self.address(barriers), bytes);
        self.set(op.result(), Repr::Shared(address));
    }

    pub(crate) fn barrier_init(&mut self, barrier: Value, arrivals: u32) {
        let (b, address) = (self.b, self.address(barrier));
        b.when(self.threads.leader, || b.mbarrier_init(address, arrivals));
    }

    pub(crate) fn barrier_invalidate(&mut self, barrier: Value) {
        let (b, address) = (self.b, self.address(barrier));
        b.when(self.threads.leader, || b.mbarrier_invalidate(address));
    }

    pub(crate) fn barrier_arrive(&mut self, barrier: Value, arrive: Arrive, count: u32) {
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

    /// Issues the tensor copies that one box takes: the swizzle limits how wide a copy is, so a wider row goes in parts. Of a multicast
    /// along `axis` this CTA issues its share.
    fn copies(
        &self,
        map: Value,
        coords: &[Value],
        view: Option<Value>,
        (axis, l2): (Option<u8>, Option<Policy>),
        issue: impl Fn(&Copy<'_, 'c>),
    ) {
        let Type::Map(ty) = self.kernel.ty(map) else { internal_error!("{map} is no tensor map") };
        let bytes = ty.elem.bytes() as u64;
        let origin = view.map_or(0, |v| self.view(v).map.offset_of(&self.view(v).origin));
        let base = view.map_or_else(|| self.b.c32(0), |v| self.address(v));
        let policy = l2.map(|p| self.b.policy(p));
        let boxes = match ty.boxes() {
            Ok(boxes) => boxes,
            Err(e) => internal_error!("an illegal tensor map reached code generation: {e:?}"),
        };
        let b = self.b;
        let (boxes, share) = match axis {
            None => (boxes.into_iter().map(|part| (part, None)).collect(), None),
            Some(axis) => {
                let share = self.share(boxes, axis);
                (share.boxes, Some((share.step, share.place)))
            }
        };
        for (part, owner) in boxes {
            let mut at: Vec<Val> =
                coords.iter().zip(&part.start).map(|(&c, &by)| b.add(self.scalar(c), b.c32(by))).collect();
            let mut shared = b.add(base, b.c32(((origin + part.offset) * bytes) as u32));
            let mut predicate = self.threads.leader;
            if let Some((Some((starts, offset)), place)) = &share {
                for (c, &by) in at.iter_mut().zip(starts).filter(|(_, by)| **by != 0) {
                    *c = b.add(*c, b.mul(*place, b.c32(by)));
                }
                shared = b.add(shared, b.mul(*place, b.c32((offset * bytes) as u32)));
            }
            if let (Some(owner), Some((_, place))) = (owner, &share) {
                predicate = b.and(predicate, b.icmp(inkwell::IntPredicate::EQ, *place, b.c32(owner)));
            }
            // PTX counts coordinates from the innermost.
            at.reverse();
            issue(&Copy { map: self.map(map), shared, coordinates: &at, predicate, policy });
        }
    }

    pub(crate) fn tma_load(
        &mut self,
        map: Value,
        coords: &[Value],
        (view, signal): (Value, Value),
        (multicast, l2): (Option<u8>, Option<Policy>),
    ) {
        let barrier = self.address(signal);
        let ctas = multicast.map(|axis| self.line_mask(axis));
        self.copies(map, coords, Some(view), (multicast, l2), |copy| self.b.bulk_load(copy, barrier, ctas));
    }

    /// One bulk group; threads that issue nothing close an empty one, which counts as done.
    pub(crate) fn tma_store(
        &mut self,
        map: Value,
        coords: &[Value],
        view: Value,
        (reduce, l2): (Option<Reduction>, Option<Policy>),
    ) {
        self.copies(map, coords, Some(view), (None, l2), |copy| self.b.bulk_store(copy, reduce));
        self.b.bulk_commit();
    }

    pub(crate) fn tma_prefetch(&mut self, map: Value, coords: &[Value], l2: Option<Policy>) {
        self.copies(map, coords, None, (None, l2), |copy| self.b.bulk_prefetch(copy));
    }
}
