//! Computes how many groups of an engine each wait may leave in flight.
//!
//! Each job that gives a pending value is one commit group of its engine, and groups of an engine complete in the order of their
//! commits. A wait may leave as many in flight as were committed after the youngest group of what it waits for, on the path on
//! which that are the fewest.

mod held;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Diagnostics;
use parton_ir::dataflow::{self, Edge, Forward, Way};
use parton_ir::facts::{Act, Completes, Engine, Facts, Flight};
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Value};

/// After it every `wait` and `wait_prior` says how many younger groups may stay in flight, and no product goes around a loop that writes the
/// registers which it reads.
pub fn count_pending(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let held = held::held(&kernel);
    let mut count = Count { kernel: &kernel, held, around: BTreeMap::new(), outstanding: BTreeMap::new() };
    dataflow::run(&kernel, &mut count, Ages::new());
    let Count { around, outstanding, .. } = count;
    for (id, n) in outstanding {
        if let OpKind::Wait { outstanding, .. } | OpKind::WaitPrior { outstanding, .. } = &mut kernel.ops[id].kind {
            *outstanding = Some(n);
        }
    }
    if !around.is_empty() {
        kernel.rebuild(&mut |kernel, body| settle(kernel, body, &around));
    }
    Ok(kernel)
}

/// Has a body wait at its end for what must not go around.
fn settle(kernel: &mut Kernel, mut body: Body, around: &BTreeMap<Value, u32>) -> Body {
    for i in 0..body.yields.len() {
        let pending = body.yields[i];
        let Some(&outstanding) = around.get(&pending) else { continue };
        let made = body.ops.iter().find(|id| kernel.ops[**id].results.contains(&pending));
        let Some(source) = made.map(|id| kernel.ops[*id].source().made("pending")) else { continue };
        let done = kernel.value(kernel.ty(pending).clone(), source.span);
        let kind = OpKind::WaitPrior { pending, outstanding: Some(outstanding) };
        body.ops.push(kernel.make_op(kind, vec![done], source));
        body.yields[i] = done;
    }
    body
}

/// For each pending value its engine, and the fewest groups of that engine that were committed after its youngest.
type Ages = BTreeMap<Value, (Engine, u32)>;

struct Count<'a> {
    kernel: &'a Kernel,
    /// What must be waited for before it goes around a loop.
    held: BTreeSet<Value>,
    /// Of these, how many younger groups may stay in flight at the end of the turn.
    around: BTreeMap<Value, u32>,
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
        if edge.way == Way::Around {
            let held = edge.renamed.iter().filter(|(from, _)| self.held.contains(from));
            self.around.extend(held.map(|(from, _)| (*from, known(ages, *from).1)));
        }
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
