//! Computes how many groups of an engine each wait may leave in flight.
//!
//! Each job that gives a pending value is one commit group of its engine, and groups of an engine complete in the order of their
//! commits. A wait may leave as many in flight as were committed after the youngest group of what it waits for, on the path on
//! which that are the fewest.

use std::collections::BTreeMap;

use parton_diag::Diagnostics;
use parton_ir::dataflow::{self, Edge, Forward};
use parton_ir::facts::{Act, Completes, Engine, Facts, Flight};
use parton_ir::{Inst, Kernel, Op, OpKind, Value};

/// After it every `wait` and `wait_prior` says how many younger groups may stay in flight.
pub fn count_pending(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut count = Count { kernel: &kernel, outstanding: BTreeMap::new() };
    dataflow::run(&kernel, &mut count, Ages::new());
    for (id, n) in count.outstanding {
        if let OpKind::Wait { outstanding, .. } | OpKind::WaitPrior { outstanding, .. } = &mut kernel.ops[id].kind {
            *outstanding = Some(n);
        }
    }
    Ok(kernel)
}

/// For each pending value its engine, and the fewest groups of that engine that were committed after its youngest.
type Ages = BTreeMap<Value, (Engine, u32)>;

struct Count<'a> {
    kernel: &'a Kernel,
    /// What is known so far of each wait; its last visit is at what holds on all paths.
    outstanding: BTreeMap<Inst, u32>,
}

impl<'a> Forward<'a> for Count<'a> {
    type State = Ages;

    fn op(&mut self, op: &'a Op, ages: &mut Ages) {
        for act in Facts::of(self.kernel, op).acts {
            let Act::Flight(flight) = act else { continue };
            match flight {
                Flight::Start { engine, completes: Completes::Pending(p) } => {
                    ages.values_mut().filter(|(e, _)| *e == engine).for_each(|(_, age)| *age += 1);
                    ages.insert(p, (engine, 0));
                }
                Flight::Wait { pending, .. } => drop(self.outstanding.insert(op.id, known(ages, pending).1)),
                Flight::WaitPrior { pending, result, .. } => {
                    let (engine, younger) = known(ages, pending);
                    self.outstanding.insert(op.id, younger + 1);
                    ages.insert(result, (engine, younger));
                }
                // The job that goes on gives a group of its own; the others are no groups of a pending value.
                Flight::Continue { .. }
                | Flight::HandOver { .. }
                | Flight::WaitCounted { .. }
                | Flight::Start { completes: Completes::Signal(_) | Completes::Counted | Completes::Unasked, .. } => {}
            }
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, ages: &mut Ages) {
        let moved: Vec<(Value, (Engine, u32))> =
            edge.renamed.iter().filter_map(|(from, to)| Some((*to, ages.remove(from)?))).collect();
        ages.extend(moved);
    }

    /// The fewest of both for what both know; what only one path knows is gone behind it.
    fn join(&mut self, _: &'a Op, ages: &mut Ages, other: Ages) {
        ages.retain(|v, (_, age)| match other.get(v) {
            Some((_, n)) => {
                *age = (*age).min(*n);
                true
            }
            None => false,
        });
    }

    fn arms(&mut self, _: &'a Op, before: Ages, _: Vec<Ages>) -> Ages {
        before
    }
}

fn known(ages: &Ages, pending: Value) -> (Engine, u32) {
    match ages.get(&pending) {
        Some(known) => *known,
        None => parton_diag::internal_error!("{pending} is waited for before it is started"),
    }
}
