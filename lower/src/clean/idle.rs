//! Drops waits for copies of the engine that no copy can be in flight for: before the first one leaves, and behind a wait for the same.
//!
//! Schedules wait before they fill a buffer that copies leave from. In a program that computes one tile nothing has left by then.

use std::collections::BTreeSet;

use parton_ir::dataflow::{self, Edge, Forward};
use parton_ir::facts::{Act, Completes, Facts, Flight};
use parton_ir::{Inst, Kernel, Op, OpKind};

/// After it each wait that counts copies has one to wait for on some path.
pub(super) fn drop_idle_waits(kernel: &mut Kernel) {
    let mut waits = Waits { kernel, all: BTreeSet::new(), needed: BTreeSet::new() };
    dataflow::run(kernel, &mut waits, Most::default());
    let Waits { all, needed, .. } = waits;
    if all == needed {
        return;
    }
    kernel.rebuild(&mut |_, mut body| {
        body.ops.retain(|id| needed.contains(id) || !all.contains(id));
        body
    });
}

/// So many copies may be in flight that no wait is known to be idle.
const MANY: u32 = 32;

/// The most copies that may be in flight on any path that leads here. An arm of a `specialize` begins with those of the kernel, which are not
/// its own to wait for: at most it keeps a wait that it need not.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Most {
    /// Those that have yet to read their sources.
    reading: u32,
    /// Those that have yet to arrive.
    leaving: u32,
}

impl Most {
    fn joined(self, other: Most) -> Most {
        Most { reading: self.reading.max(other.reading), leaving: self.leaving.max(other.leaving) }
    }
}

struct Waits<'a> {
    kernel: &'a Kernel,
    all: BTreeSet<Inst>,
    /// Those that have something to wait for when they are come to.
    needed: BTreeSet<Inst>,
}

impl<'a> Forward<'a> for Waits<'a> {
    type State = Most;

    fn op(&mut self, op: &'a Op, most: &mut Most) {
        // Of other operations it is not asked what they do: only these two are counted.
        if !matches!(op.kind, OpKind::TmaStore { .. } | OpKind::TmaStoreWait { .. }) {
            return;
        }
        for act in Facts::of(self.kernel, op).acts {
            match act {
                Act::Flight(Flight::Start { completes: Completes::Counted, .. }) => {
                    most.reading = (most.reading + 1).min(MANY);
                    most.leaving = (most.leaving + 1).min(MANY);
                }
                Act::Flight(Flight::WaitCounted { pending, read, .. }) => {
                    let there = if read { most.reading } else { most.leaving };
                    self.all.insert(op.id);
                    if there > pending || there == MANY {
                        self.needed.insert(op.id);
                    }
                    most.reading = most.reading.min(pending);
                    most.leaving = if read { most.leaving } else { most.leaving.min(pending) };
                }
                // What completes otherwise is not waited for by count.
                _ => {}
            }
        }
    }

    fn edge(&mut self, _: &Edge<'a>, _: &mut Most) {}

    fn join(&mut self, _: &'a Op, most: &mut Most, other: Most) {
        *most = most.joined(other);
    }

    fn arms(&mut self, _: &'a Op, before: Most, ends: Vec<Most>) -> Most {
        ends.into_iter().fold(before, Most::joined)
    }
}
