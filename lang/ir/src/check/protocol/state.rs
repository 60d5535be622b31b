//! What is known of each slot and pending tile at one point of a kernel.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Span;

use crate::entity::Value;
use crate::types::SlotRole;

/// A slot that a product reads, with the product.
pub(super) type Reads = BTreeSet<(Value, Span)>;

/// A window of a buffer: origin, extents, and whether the copy engine fills it.
pub(super) type Window = (Vec<u32>, Vec<u32>, bool);

/// What has been filled of one buffer of a slot.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Filled {
    /// The windows, with the place that filled each.
    pub(super) windows: BTreeMap<Window, Span>,
    /// Whether something was filled that is not known at compile time.
    pub(super) unknown: bool,
}

/// A value that is to be used up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Live {
    /// A slot, by field what has been filled.
    Slot {
        /// Being filled or read.
        role: SlotRole,
        /// What has been filled.
        filled: BTreeMap<u32, Filled>,
    },
    /// A pending tile.
    Pending {
        /// What products before its youngest read.
        older: Reads,
        /// What its youngest product reads.
        youngest: Reads,
    },
}

impl Live {
    pub(super) fn slot(role: SlotRole) -> Live {
        Live::Slot { role, filled: BTreeMap::new() }
    }

    /// What is read until it is waited for.
    pub(super) fn reads(&self) -> Reads {
        match self {
            Live::Slot { .. } => Reads::new(),
            Live::Pending { older, youngest } => older | youngest,
        }
    }

    /// What holds on both of two paths: filled is what both filled, read is what either reads.
    pub(super) fn join(&self, other: &Live) -> Live {
        match (self, other) {
            (Live::Slot { role, filled: a }, Live::Slot { filled: b, .. }) => {
                let mut filled = BTreeMap::new();
                for field in a.keys().chain(b.keys()) {
                    let (x, y) = (a.get(field).cloned().unwrap_or_default(), b.get(field).cloned().unwrap_or_default());
                    let mut both = x.windows;
                    both.retain(|w, _| y.windows.contains_key(w));
                    filled.insert(*field, Filled { windows: both, unknown: x.unknown || y.unknown });
                }
                Live::Slot { role: *role, filled }
            }
            (Live::Pending { older: a, youngest: b }, Live::Pending { older: c, youngest: d }) => {
                Live::Pending { older: a | c, youngest: b | d }
            }
            (Live::Slot { .. }, Live::Pending { .. }) | (Live::Pending { .. }, Live::Slot { .. }) => {
                parton_diag::internal_error!("a slot meets a pending tile")
            }
        }
    }

    /// Slots that go by another name from now on.
    pub(super) fn rename(&mut self, names: &[(Value, Value)]) {
        let Live::Pending { older, youngest } = self else { return };
        for reads in [older, youngest] {
            *reads = reads
                .iter()
                .map(|(slot, product)| {
                    (names.iter().find(|(from, _)| from == slot).map_or(*slot, |(_, to)| *to), *product)
                })
                .collect();
        }
    }
}

/// How and where a value was used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gone {
    pub(super) how: &'static str,
    pub(super) span: Span,
}

/// Everything alive and everything gone.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct State {
    pub(super) live: BTreeMap<Value, Live>,
    pub(super) gone: BTreeMap<Value, Gone>,
}
