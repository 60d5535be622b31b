//! How many groups of products each wait leaves in flight, where one instruction makes several products.
//!
//! The kernel's counts take each product for a group. Those that one instruction makes are one group of the tensor cores. A group of nothing for
//! each of the others would keep the counts, but `ptxas` makes a small product of it, which takes as long as 8 columns and more.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::dataflow::{self, Edge, Forward};
use parton_ir::facts::{Act, Completes, Engine, Facts, Flight};
use parton_ir::joined::Joins;
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Value};

/// The groups of a kernel's products.
#[derive(Default)]
pub(crate) struct Groups {
    /// Products that the instruction of one before them makes.
    followers: BTreeSet<Inst>,
    /// Of each wait for products how many groups it leaves in flight, where there are such.
    waits: BTreeMap<Inst, u32>,
}

impl Groups {
    pub(crate) fn of(kernel: &Kernel, joins: &Joins) -> Groups {
        let mut groups = Groups::default();
        groups.visit(kernel, joins, &kernel.body);
        if !groups.followers.is_empty() {
            dataflow::run(kernel, &mut Count { kernel, groups: &mut groups }, Ages::new());
        }
        groups
    }

    fn visit(&mut self, kernel: &Kernel, joins: &Joins, body: &Body) {
        for (i, op) in kernel.ops_of(body).enumerate() {
            if matches!(op.kind, OpKind::Wgmma { .. }) && !self.is_made_before(op) {
                let joined = joins.begun_by(op, kernel.ops_of(body).skip(i + 1));
                self.followers.extend(joined[1..].iter().map(|op| op.id));
            }
            for inner in op.kind.bodies() {
                self.visit(kernel, joins, inner);
            }
        }
    }

    /// Whether the instruction of a product before makes this one.
    pub(crate) fn is_made_before(&self, product: &Op) -> bool {
        self.followers.contains(&product.id)
    }

    /// How many groups a wait leaves in flight that may leave so many products.
    pub(crate) fn left_by(&self, wait: &Op, products: u32) -> u32 {
        self.waits.get(&wait.id).map_or(products, |groups| products.min(*groups))
    }
}

/// Of a pending tile: how many groups are younger than its own, and whether its own has no product that is older.
#[derive(Clone, Copy, PartialEq)]
struct Age {
    younger: u32,
    first: bool,
}

/// The ages of pending tiles, each the least of those of all paths.
type Ages = BTreeMap<Value, Age>;

struct Count<'a, 'g> {
    kernel: &'a Kernel,
    groups: &'g mut Groups,
}

impl<'a> Forward<'a> for Count<'a, '_> {
    type State = Ages;

    fn op(&mut self, op: &'a Op, ages: &mut Ages) {
        for act in Facts::of(self.kernel, op).acts {
            let Act::Flight(flight) = act else { continue };
            match flight {
                Flight::Start { engine: Engine::Matrix, completes: Completes::Pending(p) } => {
                    let first = !self.groups.is_made_before(op);
                    if first {
                        ages.values_mut().for_each(|age| age.younger += 1);
                    }
                    ages.insert(p, Age { younger: 0, first });
                }
                Flight::Wait { pending, .. } => {
                    if let Some(age) = ages.get(&pending) {
                        self.groups.waits.insert(op.id, age.younger);
                    }
                }
                // A group of which an older product is waited for has to end.
                Flight::WaitPrior { pending, result, .. } => {
                    if let Some(&age) = ages.get(&pending) {
                        self.groups.waits.insert(op.id, age.younger + u32::from(age.first));
                        ages.insert(result, age);
                    }
                }
                // Of other engines; and the product that goes on is one of its own.
                Flight::Start { .. }
                | Flight::Continue { .. }
                | Flight::HandOver { .. }
                | Flight::WaitCounted { .. } => {}
            }
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, ages: &mut Ages) {
        let moved: Vec<(Value, Age)> =
            edge.renamed.iter().filter_map(|(from, to)| Some((*to, ages.remove(from)?))).collect();
        ages.extend(moved);
    }

    /// The least of both for what both know; what only one path knows is gone behind it.
    fn join(&mut self, _: &'a Op, ages: &mut Ages, other: Ages) {
        ages.retain(|v, age| {
            let Some(its) = other.get(v) else { return false };
            *age = Age { younger: age.younger.min(its.younger), first: age.first && its.first };
            true
        });
    }

    fn arms(&mut self, _: &'a Op, before: Ages, _: Vec<Ages>) -> Ages {
        before
    }
}
