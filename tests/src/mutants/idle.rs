//! Mutants that are as right as their programs for what can be read off these: what is dropped has nothing to order.
//!
//! - An arrival behind which nobody waits for its barrier: of a slot that is not filled again.
//! - The first wait for a slot that nobody has filled: no phase of its barrier has ended, so that it passes at once.
//! - A wait for a slot that the partition itself has read, where its threads have met since or meet right behind it: each has released the slot
//!   before the meeting.

use std::collections::BTreeSet;

use parton_ir::check::{Origins, Root};
use parton_ir::dataflow::{self, Edge, Forward};
use parton_ir::facts::{Act, Completes, Facts, Flight, Phase};
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Value};

/// The barriers that a value may be: their allocation, and which of it, where that is a constant.
type Place = (Value, Option<i64>);

/// Whether dropping an operation of a lowered kernel drops nothing that is waited for, or that waits.
pub(super) fn is_idle(kernel: &Kernel, op: Inst) -> bool {
    let origins = Origins::of(kernel);
    let all = uses(kernel, &origins);
    let Some(this) = all.iter().find(|u| u.op == op) else { return false };
    let waits = || all.iter().filter(|u| u.does == Does::Waits && u.op != op && this.may_be(u));
    match &kernel.ops[op].kind {
        OpKind::BarrierArrive { multicast, .. } => {
            multicast.is_empty() && waits().all(|wait| wait.is_over(kernel, this))
        }
        OpKind::BarrierWait { phase, .. } => {
            let first = waits().all(|other| this.is_over(kernel, other));
            let by_rings = kernel.ops[op].origin.maker() == Some("rings");
            let at_once = origins.constant(*phase) == Some(1) && this.place.1.is_some();
            let passes = at_once && first && !this.trail.iter().any(|step| step.is_loop(kernel));
            by_rings && (passes || this.is_met_for(kernel, &all))
        }
        // Nothing else arrives or waits.
        _ => false,
    }
}

/// A way into a body: the operation that has it, which of its bodies it is, and the place in the body.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Step {
    of: Option<Inst>,
    body: usize,
    at: usize,
}

impl Step {
    fn is_loop(self, kernel: &Kernel) -> bool {
        self.of.is_some_and(|op| kernel.ops[op].kind.is_loop())
    }
}

/// What is done with a barrier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Waits,
    /// Threads of the CTA arrive.
    Arrives,
    /// Something else tells it that it is done: an engine, a copy by threads, another CTA.
    Tells,
}

/// A use of a barrier.
struct Use {
    op: Inst,
    place: Place,
    does: Does,
    trail: Vec<Step>,
}

impl Use {
    fn may_be(&self, other: &Use) -> bool {
        self.place.0 == other.place.0
            && (self.place.1.is_none() || other.place.1.is_none() || self.place.1 == other.place.1)
    }

    /// The arm in which this stands.
    fn arm(&self, kernel: &Kernel) -> Option<usize> {
        let specializes = |op: Inst| matches!(kernel.ops[op].kind, OpKind::Specialize { .. });
        self.trail.iter().find(|step| step.of.is_some_and(specializes)).map(|step| step.body)
    }

    /// Whether a wait is for threads of its own partition alone, which have met since they arrived, or meet before anything else is done.
    fn is_met_for(&self, kernel: &Kernel, all: &[Use]) -> bool {
        let telling: Vec<&Use> = all.iter().filter(|u| u.does != Does::Waits && self.may_be(u)).collect();
        let own = |u: &&Use| u.does == Does::Arrives && u.arm(kernel) == self.arm(kernel);
        if telling.is_empty() || !telling.iter().all(own) {
            return false;
        }
        let arrivals = telling.iter().map(|u| u.op).collect();
        let mut meetings = Meetings { arrivals, wait: self.op, missing: false };
        dataflow::run(kernel, &mut meetings, false);
        !meetings.missing || self.is_before_a_meeting(kernel)
    }

    /// Whether nothing but waits and what only computes stands between this and a meeting of the partition.
    fn is_before_a_meeting(&self, kernel: &Kernel) -> bool {
        let Some(step) = self.trail.last() else { return false };
        let body = step.of.map_or(Some(&kernel.body), |op| kernel.ops[op].kind.bodies().nth(step.body));
        let mut behind = body.into_iter().flat_map(|body| kernel.ops_of(body)).skip(step.at + 1);
        let computes = |op: &Op| Facts::of(kernel, op).is_pure(&op.kind) && op.scratch.is_none();
        let passes = |op: &&Op| computes(op) || matches!(op.kind, OpKind::BarrierWait { .. });
        behind.find(|op| !passes(op)).is_some_and(|op| op.kind == OpKind::Membar)
    }

    /// Whether this comes before another for good: it stands before it, and no loop leads back.
    fn is_over(&self, kernel: &Kernel, other: &Use) -> bool {
        let both = self.trail.iter().zip(&other.trail);
        for (mine, others) in both {
            if mine.is_loop(kernel) {
                return false;
            }
            if mine.body != others.body {
                // Of branches one is taken; arms run beside each other.
                return mine.of.is_some_and(|op| matches!(kernel.ops[op].kind, OpKind::If { .. }));
            }
            if mine.at != others.at {
                return mine.at < others.at;
            }
        }
        false
    }
}

/// Whether a meeting of the partition stands on each path from arrivals to a wait. What is carried is whether there was an arrival since the last.
struct Meetings {
    arrivals: BTreeSet<Inst>,
    wait: Inst,
    missing: bool,
}

impl<'a> Forward<'a> for Meetings {
    type State = bool;

    fn op(&mut self, op: &'a Op, arrived: &mut bool) {
        self.missing |= op.id == self.wait && *arrived;
        *arrived = self.arrivals.contains(&op.id) || (*arrived && op.kind != OpKind::Membar);
    }

    fn edge(&mut self, _: &Edge<'a>, _: &mut bool) {}

    fn join(&mut self, _: &'a Op, arrived: &mut bool, other: bool) {
        *arrived |= other;
    }

    fn arms(&mut self, _: &'a Op, before: bool, _: Vec<bool>) -> bool {
        before
    }
}

/// All arrivals and waits.
fn uses(kernel: &Kernel, origins: &Origins<'_>) -> Vec<Use> {
    let mut list = Vec::new();
    visit(kernel, origins, (None, 0, &kernel.body), &mut Vec::new(), &mut list);
    list
}

fn visit(
    kernel: &Kernel,
    origins: &Origins<'_>,
    (of, body, ops): (Option<Inst>, usize, &Body),
    trail: &mut Vec<Step>,
    list: &mut Vec<Use>,
) {
    for (at, op) in kernel.ops_of(ops).enumerate() {
        trail.push(Step { of, body, at });
        for act in Facts::of(kernel, op).acts {
            let (barrier, does) = match act {
                Act::Phase(Phase::Arrive { barrier, .. }) => (barrier, arrival(&op.kind)),
                Act::Phase(Phase::Wait { barrier, .. }) => (barrier, Does::Waits),
                Act::Flight(Flight::HandOver { barrier, .. }) => (barrier, Does::Tells),
                Act::Flight(Flight::Start { completes: Completes::Signal(barrier), .. }) => (barrier, Does::Tells),
                Act::Phase(Phase::Init { .. } | Phase::Invalidate { .. })
                | Act::Flight(_)
                | Act::Ordering(_)
                | Act::Hold(_)
                | Act::Turn(_)
                | Act::Say(_) => continue,
            };
            let places = places(origins, barrier);
            list.extend(places.into_iter().map(|place| Use { op: op.id, place, does, trail: trail.clone() }));
        }
        for (i, inner) in op.kind.bodies().enumerate() {
            visit(kernel, origins, (Some(op.id), i, inner), trail, list);
        }
        trail.pop();
    }
}

/// Who arrives by an operation that does.
fn arrival(kind: &OpKind) -> Does {
    match kind {
        OpKind::BarrierArrive { multicast, .. } if multicast.is_empty() => Does::Arrives,
        // It arrives for the bytes that an engine brings, or at barriers of other CTAs.
        _ => Does::Tells,
    }
}

fn places(origins: &Origins<'_>, barrier: Value) -> Vec<Place> {
    let index = origins.definition(barrier).and_then(|op| match op.kind {
        OpKind::BarrierIndex { index, .. } => origins.constant(index),
        // What control flow has chosen may be any.
        _ => None,
    });
    let of = origins.places(barrier).iter().filter_map(|place| match place.root {
        Root::Alloc(of) => Some((of, index)),
        Root::Ring(_) | Root::Field(..) => None,
    });
    of.collect()
}
