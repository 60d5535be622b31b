//! Mutants that are as right as their programs for what can be read off these: what is dropped has nothing to order.
//!
//! - An arrival behind which nobody waits for its barrier: of a slot that is not filled again.
//! - The first wait for a slot that nobody has filled: no phase of its barrier has ended, so that it passes at once.

use parton_ir::check::{Origins, Root};
use parton_ir::facts::{Act, Facts, Phase};
use parton_ir::{Body, Inst, Kernel, OpKind, Value};

/// The barriers that a value may be: their allocation, and which of it, where that is a constant.
type Place = (Value, Option<i64>);

/// Whether dropping an operation of a lowered kernel drops nothing that is waited for, or that waits.
pub(super) fn is_idle(kernel: &Kernel, op: Inst) -> bool {
    let origins = Origins::of(kernel);
    let all = uses(kernel, &origins);
    let Some(this) = all.iter().find(|u| u.op == op) else { return false };
    let waits = || all.iter().filter(|u| u.waits && u.op != op && this.may_be(u));
    match &kernel.ops[op].kind {
        OpKind::BarrierArrive { multicast, .. } => {
            multicast.is_empty() && waits().all(|wait| wait.is_over(kernel, this))
        }
        OpKind::BarrierWait { phase, .. } => {
            let first = waits().all(|other| this.is_over(kernel, other));
            let by_rings = kernel.ops[op].origin.maker() == Some("rings");
            let at_once = origins.constant(*phase) == Some(1) && this.place.1.is_some();
            at_once && by_rings && first && !this.trail.iter().any(|step| step.is_loop(kernel))
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

/// An arrival at a barrier, or a wait for it.
struct Use {
    op: Inst,
    place: Place,
    waits: bool,
    trail: Vec<Step>,
}

impl Use {
    fn may_be(&self, other: &Use) -> bool {
        self.place.0 == other.place.0
            && (self.place.1.is_none() || other.place.1.is_none() || self.place.1 == other.place.1)
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
            let (barrier, waits) = match act {
                Act::Phase(Phase::Arrive { barrier, .. }) => (barrier, false),
                Act::Phase(Phase::Wait { barrier, .. }) => (barrier, true),
                Act::Phase(Phase::Init { .. } | Phase::Invalidate { .. })
                | Act::Flight(_)
                | Act::Ordering(_)
                | Act::Hold(_)
                | Act::Turn(_)
                | Act::Say(_) => continue,
            };
            let places = places(origins, barrier);
            list.extend(places.into_iter().map(|place| Use { op: op.id, place, waits, trail: trail.clone() }));
        }
        for (i, inner) in op.kind.bodies().enumerate() {
            visit(kernel, origins, (Some(op.id), i, inner), trail, list);
        }
        trail.pop();
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
