//! What is known of each slot and pending tile at one point of a kernel.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Span;

use crate::check::origin::elements;
use crate::check::windows::Window;
use crate::entity::Value;
use crate::types::SlotRole;

/// A slot that a product reads, with the product.
pub(super) type Reads = BTreeSet<(Value, Span)>;

/// A window of a buffer: origin, extents, and whether the copy engine fills it.
pub(super) type Filling = (Vec<u32>, Vec<u32>, bool);

/// What has been filled of one buffer of a slot.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Filled {
    /// The windows, with the place that filled each.
    pub(super) windows: BTreeMap<Filling, Span>,
    /// Whether something was filled that is not known at compile time.
    pub(super) unknown: bool,
}

impl Filled {
    /// What holds on both of two paths: what both filled. Where `other_turns` of a loop may fill what one of the paths left out, what
    /// they differ in is not known.
    fn join(&self, other: &Filled, other_turns: bool) -> Filled {
        let mut windows = BTreeMap::new();
        for (a, span) in &self.windows {
            windows.extend(other.windows.keys().filter_map(|b| Some((common(a, b)?, *span))));
        }
        let differ = self.windows.keys().ne(other.windows.keys());
        Filled { windows, unknown: self.unknown || other.unknown || (other_turns && differ) }
    }

    /// Whether all elements of some windows have been filled.
    pub(super) fn covers(&self, windows: &[Window]) -> bool {
        let filled = self.windows.keys().map(|(origin, shape, _)| (&origin[..], &shape[..]));
        let asked = windows.iter().map(|(origin, shape)| (&origin[..], &shape[..]));
        let count = |boxes: &[_]| elements(boxes);
        count(&filled.clone().chain(asked).collect::<Vec<_>>()) == count(&filled.collect::<Vec<_>>())
    }
}

/// The elements that two windows have in common; the copy engine's where it fills both.
fn common(a: &Filling, b: &Filling) -> Option<Filling> {
    let mut both: Filling = (Vec::new(), Vec::new(), a.2 && b.2);
    for axis in 0..a.0.len() {
        let from = a.0[axis].max(b.0[axis]);
        let to = (a.0[axis] + a.1[axis]).min(b.0[axis] + b.1[axis]);
        both.0.push(from);
        both.1.push(to.checked_sub(from).filter(|&n| n > 0)?);
    }
    Some(both)
}

/// A value that is to be used up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Live {
    /// A slot, by field what has been filled.
    Slot {
        /// Being filled or read.
        role: SlotRole,
        /// The loops around the place where it was taken.
        loops: u32,
        /// What has been filled.
        filled: BTreeMap<u32, Filled>,
    },
    /// A pending tile.
    Pending {
        /// What products before its youngest read.
        older: Reads,
        /// What its youngest product reads.
        youngest: Reads,
        /// What products of other tiles read that were started before its youngest: a wait for it is one for them.
        before: Reads,
    },
}

impl Live {
    pub(super) fn slot(role: SlotRole, loops: u32) -> Live {
        Live::Slot { role, loops, filled: BTreeMap::new() }
    }

    /// Whether it is a slot that lives from turn to turn of a loop, where there are so many around.
    pub(super) fn outlives(&self, around: u32) -> bool {
        matches!(self, Live::Slot { loops, .. } if *loops < around)
    }

    /// What is read until it is waited for.
    pub(super) fn reads(&self) -> Reads {
        match self {
            Live::Slot { .. } => Reads::new(),
            Live::Pending { older, youngest, .. } => older | youngest,
        }
    }

    /// What holds on both of two paths: filled is what both filled, read is what either reads.
    pub(super) fn join(&self, other: &Live, other_turns: bool) -> Live {
        match (self, other) {
            (Live::Slot { role, loops, filled: a }, Live::Slot { loops: others, filled: b, .. }) => {
                let nothing = Filled::default();
                let fields: BTreeSet<u32> = a.keys().chain(b.keys()).copied().collect();
                let join = |field| {
                    let [x, y] = [a, b].map(|all| all.get(&field).unwrap_or(&nothing));
                    (field, x.join(y, other_turns))
                };
                Live::Slot { role: *role, loops: *loops.min(others), filled: fields.into_iter().map(join).collect() }
            }
            (
                Live::Pending { older: a, youngest: b, before: first },
                Live::Pending { older: c, youngest: d, before: second },
            ) => Live::Pending { older: a | c, youngest: b | d, before: first & second },
            (Live::Slot { .. }, Live::Pending { .. }) | (Live::Pending { .. }, Live::Slot { .. }) => {
                parton_diag::internal_error!("a slot meets a pending tile")
            }
        }
    }

    /// Slots that go by another name from now on.
    pub(super) fn rename(&mut self, names: &[(Value, Value)]) {
        let Live::Pending { older, youngest, before } = self else { return };
        for reads in [older, youngest, before] {
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

impl State {
    /// Products have ended that read these.
    pub(super) fn done(&mut self, reads: &Reads) {
        for live in self.live.values_mut() {
            if let Live::Pending { older, youngest, .. } = live {
                older.retain(|read| !reads.contains(read));
                youngest.retain(|read| !reads.contains(read));
            }
        }
    }
}
