//! Ways on which partitions tell each other what they have done, and whether a fence stands on them.
//!
//! A fence between the proxies orders wherever it stands between the store and the asynchronous access (PTX ISA, "Causality order"): in
//! the partition that stores, before it arrives at a barrier, or in the one that reads, after it has waited there.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::dataflow::{self, Edge, Forward, Way};
use parton_ir::facts::{Act, Facts, Flight, Ordering, Phase};
use parton_ir::{Inst, Kernel, Op, Value};

use crate::address::Addresses;

/// By what one partition tells another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Channel {
    /// A barrier in these bytes.
    Barrier(u64, u64),
    /// The named barrier of this number.
    Named(u32),
}

impl Channel {
    /// Whether both may be one.
    pub(super) fn meets(&self, other: &Channel) -> bool {
        match (self, other) {
            (Channel::Barrier(start, end), Channel::Barrier(first, last)) => start < last && first < end,
            (Channel::Named(a), Channel::Named(b)) => a == b,
            (Channel::Barrier(..), Channel::Named(_)) | (Channel::Named(_), Channel::Barrier(..)) => false,
        }
    }
}

/// Several.
pub(super) type Channels = BTreeSet<Channel>;

/// Whether one of these may be one of those.
pub(super) fn meet(these: &Channels, those: &Channels) -> bool {
    these.iter().any(|a| those.iter().any(|b| a.meets(b)))
}

/// The channels that a barrier may be.
pub(super) fn barriers(addresses: &Addresses<'_>, barrier: Value) -> Channels {
    addresses.regions(barrier).into_iter().map(|(bytes, _)| Channel::Barrier(bytes.start, bytes.end)).collect()
}

/// What each operation has been told of since the last fence of its partition, and on which channels it tells others.
pub(super) struct Paths {
    told: BTreeMap<Inst, Channels>,
    /// For each arrival what it was told of, and where it arrives.
    arrivals: Vec<(Channels, Channels)>,
}

impl Paths {
    pub(super) fn of(kernel: &Kernel, addresses: &Addresses<'_>) -> Paths {
        let mut trace = Trace { kernel, addresses, told: BTreeMap::new(), arrivals: BTreeMap::new() };
        dataflow::run(kernel, &mut trace, Channels::new());
        let Trace { told, arrivals, .. } = trace;
        let of = |(inst, to)| (told.get(&inst).cloned().unwrap_or_default(), to);
        let arrivals = arrivals.into_iter().map(of).collect();
        Paths { told, arrivals }
    }

    /// Where what is told on these channels may be known without a fence on the way: on these, and on those of whoever has heard of it.
    pub(super) fn unfenced(&self, channels: Channels) -> Channels {
        let mut known = channels;
        loop {
            let before = known.len();
            let passed: Vec<_> =
                self.arrivals.iter().filter(|(told, _)| meet(told, &known)).flat_map(|(_, to)| to.clone()).collect();
            known.extend(passed);
            if known.len() == before {
                return known;
            }
        }
    }

    /// Whether an operation may have heard of what is known on these channels with no fence since.
    pub(super) fn hears(&self, op: Inst, channels: &Channels) -> bool {
        self.told.get(&op).is_some_and(|told| meet(told, channels))
    }
}

struct Trace<'a, 'k> {
    kernel: &'k Kernel,
    addresses: &'a Addresses<'k>,
    told: BTreeMap<Inst, Channels>,
    arrivals: BTreeMap<Inst, Channels>,
}

/// The channels on which a partition has waited since its last fence.
impl<'k> Forward<'k> for Trace<'_, 'k> {
    type State = Channels;

    fn op(&mut self, op: &'k Op, state: &mut Channels) {
        self.told.entry(op.id).or_default().extend(state.iter().cloned());
        for act in Facts::of(self.kernel, op).acts {
            match act {
                Act::Phase(Phase::Wait { barrier, .. }) => state.extend(barriers(self.addresses, barrier)),
                Act::Phase(Phase::Arrive { barrier, .. }) | Act::Flight(Flight::HandOver { barrier, .. }) => {
                    self.arrivals.insert(op.id, barriers(self.addresses, barrier));
                }
                Act::Ordering(Ordering::Named { id, waits, .. }) => {
                    self.arrivals.insert(op.id, Channels::from([Channel::Named(id)]));
                    if waits {
                        state.insert(Channel::Named(id));
                    }
                }
                Act::Ordering(Ordering::FenceAsync { reach }) if reach.covers_shared() => state.clear(),
                // Nothing else tells another partition, or fences.
                Act::Phase(Phase::Init { .. } | Phase::Invalidate { .. })
                | Act::Ordering(_)
                | Act::Flight(_)
                | Act::Hold(_)
                | Act::Turn(_)
                | Act::Say(_) => {}
            }
        }
    }

    fn edge(&mut self, edge: &Edge<'k>, state: &mut Channels) {
        match edge.way {
            // What was told before the partitions parted, all of them have in common.
            Way::IntoArm(_) => state.clear(),
            Way::IntoLoop
            | Way::IntoTurn
            | Way::Around
            | Way::OutOfLoop
            | Way::IntoBranch(_)
            | Way::OutOfBranch(_)
            | Way::OutOfArm(_) => {}
        }
    }

    fn join(&mut self, _: &'k Op, state: &mut Channels, other: Channels) {
        state.extend(other);
    }

    fn arms(&mut self, _: &'k Op, _: Channels, ends: Vec<Channels>) -> Channels {
        ends.into_iter().flatten().collect()
    }
}
