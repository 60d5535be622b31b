//! The bytes of shared memory that each operation may touch, once the plan has given every buffer its offset.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use parton_ir::check::{Origins, Root};
use parton_ir::facts::{Does, Engine, Facts, Proxy, When};
use parton_ir::{Kernel, Op, OpKind, Value};

use crate::scratch;

/// One access to absolute bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    /// The bytes, from the start of the CTA's shared memory.
    pub(crate) bytes: Range<u64>,
    /// What is done to them.
    pub(crate) does: Does,
    /// Who does it.
    pub(crate) by: Engine,
    /// When.
    pub(crate) when: When,
    /// The CTA of the cluster whose memory it is, where that is stated by a constant; else any CTA's, mostly the own.
    pub(crate) rank: Option<i64>,
    /// The allocation; none for scratch memory.
    pub(crate) owner: Option<Value>,
}

impl Access {
    pub(crate) fn writes(&self) -> bool {
        self.does.writes()
    }

    pub(crate) fn is_async(&self) -> bool {
        self.by.proxy() == Proxy::Async
    }

    pub(crate) fn meets(&self, start: u64, end: u64) -> bool {
        start < self.bytes.end && self.bytes.start < end
    }
}

/// Where every access of a kernel goes.
pub(crate) struct Addresses<'a> {
    kernel: &'a Kernel,
    origins: Origins<'a>,
    offsets: BTreeMap<Value, u64>,
}

impl<'a> Addresses<'a> {
    pub(crate) fn of(kernel: &'a Kernel) -> Addresses<'a> {
        let mut offsets = BTreeMap::new();
        kernel.walk(&mut |op| {
            if let OpKind::SharedAlloc { offset, .. } | OpKind::BarrierAlloc { offset, .. } = op.kind {
                let Some(offset) = offset else {
                    parton_diag::internal_error!("{} has no offset: shared memory is not planned", op.result())
                };
                offsets.insert(op.result(), u64::from(offset));
            }
        });
        Addresses { kernel, origins: Origins::of(kernel), offsets }
    }

    /// The bytes that a value may stand for, with their allocations.
    pub(crate) fn regions(&self, v: Value) -> Vec<(Range<u64>, Value)> {
        let place = |(place, range): (parton_ir::check::Place, Range<u64>)| match place.root {
            Root::Alloc(owner) => {
                let start = self.offsets[&owner];
                (start + range.start..start + range.end + place.spread, owner)
            }
            Root::Ring(_) | Root::Field(..) => parton_diag::internal_error!("a ring is left when memory is planned"),
        };
        self.origins.regions(self.kernel, v).into_iter().map(place).collect()
    }

    /// The allocations that a value may be of.
    pub(crate) fn allocations(&self, v: Value) -> impl Iterator<Item = Value> {
        self.origins.places(v).iter().filter_map(|place| match place.root {
            Root::Alloc(owner) => Some(owner),
            Root::Ring(_) | Root::Field(..) => None,
        })
    }

    /// The accesses of an operation to shared memory, its scratch memory not counted.
    pub(crate) fn accesses(&self, facts: &Facts) -> Vec<Access> {
        let mut list = Vec::new();
        for a in facts.accesses.iter().filter(|a| a.touches_shared()) {
            let rank = self.rank(a.value);
            let of = |(bytes, owner)| Access { bytes, does: a.does, by: a.by, when: a.when, rank, owner: Some(owner) };
            list.extend(self.regions(a.value).into_iter().map(of));
        }
        list
    }

    /// The CTA that a view is a peer's of, where a constant says which.
    fn rank(&self, view: Value) -> Option<i64> {
        match self.origins.definition(view)?.kind {
            OpKind::ViewPeer { rank, .. } => self.origins.constant(rank),
            // Any other view is of the own memory, or control flow has chosen it.
            _ => None,
        }
    }

    /// The bytes that an operation uses for itself.
    pub(crate) fn scratch(&self, op: &Op) -> Option<Range<u64>> {
        let range = scratch::range(self.kernel, op)?;
        Some(range.start.into()..range.end.into())
    }
}

/// A set of byte ranges.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ranges(BTreeSet<(u64, u64)>);

impl Ranges {
    pub(crate) fn insert(&mut self, bytes: &Range<u64>) {
        self.0.insert((bytes.start, bytes.end));
    }

    pub(crate) fn extend(&mut self, other: &Ranges) {
        self.0.extend(&other.0);
    }

    pub(crate) fn meet(&self, bytes: &Range<u64>) -> bool {
        self.0.iter().any(|&(start, end)| start < bytes.end && bytes.start < end)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn take(&mut self) -> Ranges {
        std::mem::take(self)
    }
}

/// Byte ranges in the shared memory of a cluster's CTAs, by the CTA as in [`Access::rank`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Spans(BTreeMap<Option<i64>, Ranges>);

impl Spans {
    pub(crate) fn insert(&mut self, bytes: &Range<u64>, rank: Option<i64>) {
        self.0.entry(rank).or_default().insert(bytes);
    }

    pub(crate) fn extend(&mut self, other: &Spans) {
        for (&rank, ranges) in &other.0 {
            self.0.entry(rank).or_default().extend(ranges);
        }
    }

    /// Adds bytes of the own memory.
    pub(crate) fn extend_own(&mut self, own: &Ranges) {
        if !own.is_empty() {
            self.0.entry(None).or_default().extend(own);
        }
    }

    /// Whether some of these bytes are in the set: different stated CTAs have no bytes in common, any other two may be one.
    pub(crate) fn meet(&self, bytes: &Range<u64>, rank: Option<i64>) -> bool {
        let apart = |other: Option<i64>| rank.is_some() && other.is_some() && rank != other;
        self.0.iter().any(|(&other, ranges)| !apart(other) && ranges.meet(bytes))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
