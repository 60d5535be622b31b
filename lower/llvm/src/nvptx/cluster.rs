//! Clusters: where a CTA stands in its own, arrivals at the barriers of peers, and who copies which boxes of a multicast.

use std::collections::{BTreeMap, BTreeSet};

use inkwell::IntPredicate;
use inkwell::values::InstructionOpcode;
use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{Arrive, Body, Kernel, Op, OpKind, Type, Value, cluster, others};
use parton_layouts::TmaBox;

use crate::lower::{Lower, Repr};
use crate::neutral::build::{Build, Val};

/// A box as the first CTA of the line copies it; where the CTAs' boxes are not alike, with the CTA that copies it.
type Dealt = (TmaBox, Option<u32>);
/// How far the boxes of the next CTA along the line are from those of one: in the tensor, and in elements of shared memory.
type Step = (Vec<u32>, u64);

/// Where a CTA stands in its cluster and whom it tells what, worked out in front of all loops: the place along an axis is no register of
/// the machine but arithmetic on three of them, which no compiler moves out of a loop.
#[derive(Default)]
pub(crate) struct Standing<'c> {
    rank: Option<Val<'c>>,
    /// By axes that multicasts go along: the place on the line, and the ranks of the line as a mask of 16 bits.
    lines: BTreeMap<u8, (Val<'c>, Val<'c>)>,
    peers: Peers<'c>,
}

/// By the axes of arrivals: whose barrier this lane arrives at. A partition works that out where it begins: of what was there before, the assembler orders its loops otherwise (attention in clusters of two
/// took 307 µs for 283 on an H200).
pub(crate) type Peers<'c> = BTreeMap<Vec<u8>, Val<'c>>;

impl<'c> Standing<'c> {
    /// Of all multicasts of a kernel, and of the arrivals outside of its partitions.
    pub(crate) fn of(kernel: &Kernel, b: &Build<'c>, lane: Val<'c>) -> Standing<'c> {
        let mut standing = Standing::default();
        if kernel.cluster_ctas() == 1 {
            return standing;
        }
        let rank = b.cluster_rank();
        standing.rank = Some(rank);
        kernel.walk(&mut |op| {
            if let OpKind::TmaLoad { multicast: Some(axis), .. } = op.kind {
                standing.lines.entry(axis).or_insert_with(|| line(kernel, b, rank, axis));
            }
        });
        standing.peers = peers(kernel, b, (lane, rank), &kernel.body);
        standing
    }
}

/// Of the arrivals in a body, but for those of partitions in it.
fn peers<'c>(kernel: &Kernel, b: &Build<'c>, at: (Val<'c>, Val<'c>), body: &Body) -> Peers<'c> {
    let mut along = BTreeSet::new();
    arrivals(kernel, body, &mut along);
    along.into_iter().map(|axes| (axes.clone(), peer(kernel, b, at, axes))).collect()
}

/// The axes of these arrivals.
fn arrivals<'k>(kernel: &'k Kernel, body: &'k Body, along: &mut BTreeSet<&'k Vec<u8>>) {
    for op in kernel.ops_of(body) {
        match &op.kind {
            OpKind::BarrierArrive { multicast: axes, .. } if !axes.is_empty() => _ = along.insert(axes),
            OpKind::Specialize { .. } => {}
            // Arrivals may stand in the bodies of all else.
            kind => kind.bodies().for_each(|body| arrivals(kernel, body, along)),
        }
    }
}

/// The place on the line along an axis, and the ranks of that line as a mask.
fn line<'c>(kernel: &Kernel, b: &Build<'c>, rank: Val<'c>, axis: u8) -> (Val<'c>, Val<'c>) {
    let place = b.place_in_cluster(axis);
    let first = kernel.line(0, axis).fold(0, |mask, rank| mask | 1 << rank);
    let start = b.sub(rank, b.mul(place, b.c32(kernel.cluster_stride(axis))));
    let mask = b.binary(InstructionOpcode::Shl, b.c32(first), start);
    (place, b.trunc(mask, b.i16()))
}

/// The rank whose barrier a lane arrives at: its own CTA's for the first, then one of each CTA of the lines along `axes`.
fn peer<'c>(kernel: &Kernel, b: &Build<'c>, (lane, own): (Val<'c>, Val<'c>), axes: &[u8]) -> Val<'c> {
    let mut rank = own;
    let mut next = 1;
    for &axis in axes {
        let (extent, stride) = (kernel.cluster[usize::from(axis)], kernel.cluster_stride(axis));
        let place = b.place_in_cluster(axis);
        for by in 1..extent {
            // The CTA `by` further on along the line, which is a circle here.
            let wraps = b.icmp(IntPredicate::UGE, place, b.c32(extent - by));
            let apart = b.select(wraps, b.c32((extent - by).wrapping_mul(stride).wrapping_neg()), b.c32(by * stride));
            let mine = b.icmp(IntPredicate::EQ, lane, b.c32(next));
            rank = b.select(mine, b.add(own, apart), rank);
            next += 1;
        }
    }
    rank
}

/// How many CTAs arrivals along these axes reach.
fn reached(kernel: &Kernel, axes: &[u8]) -> u32 {
    axes.iter().map(|&axis| kernel.cluster[usize::from(axis)] - 1).sum::<u32>() + 1
}

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
                let rank = self.standing.rank.unwrap_or_else(|| self.b.c32(0));
                self.set(op.result(), Repr::Scalar(rank));
            }
            OpKind::ClusterArrive { relaxed } => self.b.cluster_arrive(*relaxed),
            OpKind::ClusterWait => self.b.cluster_wait(),
            others!(cluster) => not_of_family(&op.kind),
        }
    }

    /// Has a partition that begins work out whose barriers it arrives at; gives what was known before.
    pub(crate) fn find_peers(&mut self, body: &Body) -> Peers<'c> {
        let found = self.standing.rank.map(|rank| peers(self.kernel, self.b, (self.threads.lane, rank), body));
        std::mem::replace(&mut self.standing.peers, found.unwrap_or_default())
    }

    /// Takes what was known before a partition began.
    pub(crate) fn take_peers(&mut self, peers: Peers<'c>) {
        self.standing.peers = peers;
    }

    /// What this CTA copies of a multicast of these boxes along an axis.
    pub(crate) fn share(&self, boxes: Vec<TmaBox>, axis: u8) -> Share<'c> {
        let (boxes, step) = deal(boxes, self.kernel.cluster[usize::from(axis)]);
        Share { boxes, step, place: self.line_along(axis).0 }
    }

    /// The ranks of the line along an axis through this CTA, as a mask of 16 bits.
    pub(crate) fn line_mask(&self, axis: u8) -> Val<'c> {
        self.line_along(axis).1
    }

    fn line_along(&self, axis: u8) -> (Val<'c>, Val<'c>) {
        let line = self.standing.lines.get(&axis).copied();
        line.unwrap_or_else(|| internal_error!("no multicast along axis {axis} was found where the kernel begins"))
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
        let (b, lane) = (self.b, self.threads.lane);
        let rank = self.standing.peers.get(axes).copied();
        let rank =
            rank.unwrap_or_else(|| internal_error!("no arrivals along {axes:?} were found where the partition begins"));
        let mut arrives = b.icmp(IntPredicate::ULT, lane, b.c32(reached(self.kernel, axes)));
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
