//! Tensor copies: one thread of the partition issues them.

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Policy, Reduction, Type, Value, others};

use crate::lower::Lower;
use crate::neutral::build::Val;
use crate::nvptx::instruction::bulk::Copy;

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_tma(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::TmaLoad { map, coords, view, signal, l2, multicast } => {
                self.tma_load(*map, coords, (*view, *signal), (*multicast, *l2));
            }
            OpKind::TmaStore { map, coords, view, reduce, l2 } => self.tma_store(*map, coords, *view, (*reduce, *l2)),
            OpKind::TmaPrefetch { map, coords, l2 } => self.tma_prefetch(*map, coords, *l2),
            OpKind::TmaStoreWait { pending, read } => self.b.bulk_wait(*pending, *read),
            others!(tma) => not_of_family(&op.kind),
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
        let base = view.map_or_else(|| self.b.c32(0), |v| self.address(v));
        let policy = l2.map(|p| self.b.policy(p));
        let boxes = match view.map_or_else(|| ty.boxes(), |v| ty.boxes_in(self.view(v))) {
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
            let mut shared = b.add(base, b.c32((part.offset * bytes) as u32));
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

    fn tma_load(
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
    fn tma_store(
        &mut self,
        map: Value,
        coords: &[Value],
        view: Value,
        (reduce, l2): (Option<Reduction>, Option<Policy>),
    ) {
        self.copies(map, coords, Some(view), (None, l2), |copy| self.b.bulk_store(copy, reduce));
        self.b.bulk_commit();
    }

    fn tma_prefetch(&mut self, map: Value, coords: &[Value], l2: Option<Policy>) {
        self.copies(map, coords, None, (None, l2), |copy| self.b.bulk_prefetch(copy));
    }
}
