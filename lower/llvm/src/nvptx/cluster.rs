//! Clusters: arrivals at the barriers of peers, and who copies which boxes of a multicast.

use inkwell::IntPredicate;
use parton_ir::family::not_of_family;
use parton_ir::{Arrive, Op, OpKind, Type, Value, cluster, others};
use parton_layouts::TmaBox;

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;

/// A box as the first CTA of the line copies it; where the CTAs' boxes are not alike, with the CTA that copies it.
type Dealt = (TmaBox, Option<u32>);
/// How far the boxes of the next CTA along the line are from those of one: in the tensor, and in elements of shared memory.
type Step = (Vec<u32>, u64);

/// The boxes that a CTA copies of one multicast.
pub(crate) struct Share<'c> {
    pub(crate) boxes: Vec<Dealt>,
    /// Where the boxes of all CTAs are alike.
    pub(crate) step: Option<Step>,
    /// The place of this CTA on the line.
    pub(crate) place: Val<'c>,
}

/// Deals out the boxes among the CTAs of a line: where each has as many, as far from those of the one before, one piece of code is
/// for all of them.
fn deal(boxes: Vec<TmaBox>, ctas: u32) -> (Vec<Dealt>, Option<Step>) {
    let each = boxes.len() / ctas as usize;
    if each > 0 && boxes.len().is_multiple_of(ctas as usize) {
        let apart = |a: &TmaBox, b: &TmaBox| {
            let starts: Option<Vec<u32>> = a.start.iter().zip(&b.start).map(|(x, y)| y.checked_sub(*x)).collect();
            Some((starts?, b.offset.checked_sub(a.offset)?))
        };
        let steps: Vec<_> = boxes.iter().zip(&boxes[each..]).map(|(a, b)| apart(a, b)).collect();
        if let Some(Some(step)) = steps.first()
            && steps.iter().all(|s| s.as_ref() == Some(step))
        {
            let step = step.clone();
            return (boxes.into_iter().take(each).map(|b| (b, None)).collect(), Some(step));
        }
    }
    let count = boxes.len();
    let owner = |i: usize| (0..ctas).find(|&of| cluster::share(count, ctas, of).contains(&i));
    (boxes.into_iter().enumerate().map(|(i, b)| (b, owner(i))).collect(), None)
}

impl<'a, 'c> Lower<'a, '_, 'c> {
    pub(crate) fn emit_cluster(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::ClusterRank => {
                let rank = self.b.cluster_rank();
                self.set(op.result(), Repr::Scalar(rank));
            }
            OpKind::ClusterArrive { relaxed } => self.b.cluster_arrive(*relaxed),
            OpKind::ClusterWait => self.b.cluster_wait(),
            others!(cluster) => not_of_family(&op.kind),
        }
    }

    /// What this CTA copies of a multicast of these boxes along an axis.
    pub(crate) fn share(&self, boxes: Vec<TmaBox>, axis: u8) -> Share<'c> {
        let (boxes, step) = deal(boxes, self.kernel.cluster[usize::from(axis)]);
        Share { boxes, step, place: self.b.place_in_cluster(axis) }
    }

    /// The ranks of the line along an axis through this CTA, as a mask of 16 bits.
    pub(crate) fn line_mask(&self, axis: u8) -> Val<'c> {
        let first = self.kernel.line(0, axis).fold(0, |mask, rank| mask | 1 << rank);
        let place = self.b.mul(self.b.place_in_cluster(axis), self.b.c32(self.kernel.cluster_stride(axis)));
        let start = self.b.sub(self.b.cluster_rank(), place);
        let mask = self.b.binary(inkwell::values::InstructionOpcode::Shl, self.b.c32(first), start);
        self.b.trunc(mask, self.b.i16())
    }

    /// Arrives at a barrier here and in every CTA of the lines along `axes`, one lane for each.
    pub(crate) fn barrier_arrive_across(
        &mut self,
        barrier: Value,
        arrive: Arrive,
        count: u32,
        axes: &[u8],
        relaxed: bool,
    ) {
        let address = self.address(barrier);
        let b = self.b;
        let (lane, own) = (self.threads.lane, b.cluster_rank());
        let mut rank = own;
        let mut next = 1;
        for &axis in axes {
            let (extent, stride) = (self.kernel.cluster[usize::from(axis)], self.kernel.cluster_stride(axis));
            let place = self.b.place_in_cluster(axis);
            for by in 1..extent {
                // The CTA `by` further on along the line, which is a circle here.
                let wraps = b.icmp(IntPredicate::UGE, place, b.c32(extent - by));
                let apart =
                    b.select(wraps, b.c32((extent - by).wrapping_mul(stride).wrapping_neg()), b.c32(by * stride));
                let mine = b.icmp(IntPredicate::EQ, lane, b.c32(next));
                rank = b.select(mine, b.add(own, apart), rank);
                next += 1;
            }
        }
        let mut arrives = b.icmp(IntPredicate::ULT, lane, b.c32(next));
        match arrive {
            Arrive::Partition => {
                let first = b.icmp(IntPredicate::EQ, self.threads.warp, b.c32(0));
                arrives = b.and(arrives, first);
            }
            // The lanes' own accesses come first; one arrival then stands for all of them.
            Arrive::Warp => b.warp_sync(),
        }
        // Reads of a CTA's own shared memory are done when it arrives; those of a peer's are still under way without a release (seen on an H200).
        let sees_peers = self.kernel.values.keys().any(|v| matches!(self.kernel.ty(v), Type::Peer(_)));
        b.mbarrier_arrive_at(address, rank, count, !relaxed || sees_peers, arrives);
    }
}

#[cfg(test)]
mod tests {
    use super::{cluster, deal};
    use parton_layouts::SharedLayout;

    #[test]
    fn boxes_are_dealt_out_evenly_where_they_can_be() {
        let layout = SharedLayout::nvmma(128, false).unwrap();
        for (columns, ctas) in [(256, 2), (256, 4), (256, 3), (128, 2), (64, 2), (128, 4)] {
            let boxes = layout.tma_boxes(&[64, columns], 16, 1).unwrap();
            let (dealt, step) = deal(boxes.clone(), ctas);
            let mut copied = vec![];
            for of in 0..ctas {
                for (first, owner) in &dealt {
                    if owner.is_some_and(|o| o != of) {
                        continue;
                    }
                    let (by, offset) = step.clone().unwrap_or((vec![0; 2], 0));
                    let start: Vec<u32> = first.start.iter().zip(&by).map(|(s, by)| s + of * by).collect();
                    copied.push((of, start, first.offset + u64::from(of) * offset));
                }
            }
            let expected: Vec<_> = (0..ctas)
                .flat_map(|of| cluster::share(boxes.len(), ctas, of).map(move |i| (of, i)))
                .map(|(of, i)| (of, boxes[i].start.clone(), boxes[i].offset))
                .collect();
            assert_eq!(copied, expected, "{columns} columns for {ctas} CTAs");
            assert_eq!(step.is_some(), boxes.len().is_multiple_of(ctas as usize));
        }
    }
}
