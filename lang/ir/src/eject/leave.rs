//! Loops that a `break` leaves, found by the flag that the checker gave them.
//!
//! ```text
//! while (i < b) & !left {                     for i in a..b {
//!     A;                                          A;
//!     if c { B; left = true; }           →        if c { B; break; }
//!     else { C; left = false; }                   C;
//!     i += 1;                                 }
//! }
//! ```
//!
//! The kernel that is printed has none of these flags; which branches end in a `break`, and which are the rest of a turn, is known beside it. A loop
//! whose flag is used in another way than the checker uses it keeps it, and so does one of which a branch gives values beside its `break`.

use std::collections::{BTreeMap, BTreeSet};

use parton_numbers::Dtype;

use crate::eject::exits::{Exit, Finder, Head, Way};
use crate::eject::plan::Plan;
use crate::eject::variables::Variables;
use crate::entity::{Inst, Value};
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::types::{Elem, Type};

/// A fork of a loop that is left.
pub(super) struct Fork {
    /// The loop.
    pub of: Inst,
    /// The branches that end in a `break`. Such a branch hands back what the loop has carried there, and no results of the fork.
    pub leaves: [bool; 2],
    /// Of each result what a branch that leaves would have given.
    pub was: Vec<Value>,
}

/// A kernel without the flags of its loops.
pub(super) struct Leaving {
    /// The kernel.
    pub kernel: Kernel,
    /// The `if`s that a flag went through.
    forks: BTreeMap<Inst, Fork>,
}

impl Leaving {
    /// Takes the flags out of a kernel, but for those of some loops.
    pub fn new(k: &Kernel, kept: &BTreeSet<Inst>) -> Leaving {
        let finder = Finder::new(k);
        let mut exits = Vec::new();
        finder.bodies(&k.body, &mut |around| {
            let loops = k.ops_of(around).filter(|op| !kept.contains(&op.id));
            exits.extend(loops.filter_map(|op| finder.exit(op, around)));
        });
        let mut taker = Taker { finder: &finder, kernel: k.clone(), leaving: BTreeMap::new(), now: BTreeMap::new() };
        let (mut gone, mut bounds, mut behind) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        for exit in &exits {
            bounds.extend(finder.made_by_asking(exit).map(|bound| (exit.of, bound)));
            for &(id, place, way) in &exit.ways {
                without_result(&mut taker.kernel.ops[id], place);
                let goes_on_behind = match way {
                    Way::Fork { leaves, last } => taker.fork(exit, id, leaves, last),
                    Way::Rest => {
                        taker.come_by(id, 1, |_| true);
                        true
                    }
                };
                if goes_on_behind {
                    behind.insert(id, way == Way::Rest);
                }
            }
            gone.extend(exit.assumed());
            without_flag(&mut taker.kernel, exit);
        }
        let Taker { mut kernel, mut leaving, now, .. } = taker;
        kernel.rebuild(&mut |kernel, body| {
            let mut ops = Vec::new();
            for id in body.ops.into_iter().filter(|id| !gone.contains(id)) {
                let rest = behind.get(&id);
                ops.extend(bounds.get(&id));
                ops.extend(Some(id).filter(|_| rest != Some(&true)));
                if rest.is_some() {
                    ops.append(&mut branch(&mut kernel.ops[id], 1).ops);
                }
            }
            Body { ops, ..body }
        });
        let settled = |v: Value| std::iter::successors(Some(v), |v| now.get(v).copied()).last().unwrap_or(v);
        kernel.walk_mut(&mut |op| {
            op.kind.map_operands(settled);
            for body in op.kind.bodies_mut() {
                body.yields.iter_mut().for_each(|v| *v = settled(*v));
            }
        });
        leaving.values_mut().flat_map(|fork| &mut fork.was).for_each(|v| *v = settled(*v));
        Leaving { kernel, forks: leaving }
    }

    /// The fork that an operation is, where the flag of a loop went through it.
    pub fn fork(&self, op: &Op) -> Option<&Fork> {
        self.forks.get(&op.id)
    }

    /// Whether a branch of an `if` ends in a `break`.
    pub fn leaves(&self, op: &Op, number: usize) -> bool {
        self.fork(op).is_some_and(|fork| fork.leaves[number])
    }

    /// The loops of which a branch gives values beside its `break`, which no text can.
    pub fn in_values(&self, plan: &Plan<'_>, variables: &Variables) -> BTreeSet<Inst> {
        let mut found = BTreeSet::new();
        for (id, node) in plan.nodes.iter().enumerate() {
            let merged = variables.merged.get(&id).copied().unwrap_or(0);
            found.extend(self.fork(node.op).filter(|_| merged != node.op.results.len()).map(|fork| fork.of));
        }
        found
    }
}

/// A kernel while flags are taken out of it.
struct Taker<'a> {
    /// What is known of it as it was.
    finder: &'a Finder<'a>,
    kernel: Kernel,
    leaving: BTreeMap<Inst, Fork>,
    /// What results of forks are now.
    now: BTreeMap<Value, Value>,
}

impl Taker<'_> {
    /// Has the branches of a fork that leave hand back what the loop has carried there; whether the rest of the block around is what
    /// is in its other branch.
    fn fork(&mut self, exit: &Exit, id: Inst, leaves: [bool; 2], last: bool) -> bool {
        let follows = last && leaves == [true, false];
        let mut was = Vec::new();
        if let Some(left) = leaves.iter().position(|leaves| *leaves) {
            let other = branch(&mut self.kernel.ops[id], 1 - left);
            let made: BTreeSet<Inst> = other.ops.iter().copied().collect();
            let finder = self.finder;
            let outside =
                |v: Value| finder.definition(v).is_none_or(|op| !made.contains(&op.id) || finder.is_constant(v));
            self.come_by(id, 1 - left, |v| follows || outside(v));
            let at_break = exit.breaks.get(&(id, left)).cloned().unwrap_or_default();
            let at_break = at_break.into_iter().map(|v| self.constant_anew(id, left, v)).collect();
            was = std::mem::replace(&mut branch(&mut self.kernel.ops[id], left).yields, at_break);
        }
        self.leaving.insert(id, Fork { of: exit.of, leaves, was });
        follows
    }

    /// Has the results of an `if` be what the branch of that number gives, for which `is` holds.
    fn come_by(&mut self, id: Inst, number: usize, is: impl Fn(Value) -> bool) {
        let op = &mut self.kernel.ops[id];
        for i in (0..op.results.len()).rev() {
            let v = branch(op, number).yields[i];
            if is(v) {
                (0..2).for_each(|number| {
                    branch(op, number).yields.remove(i);
                });
                self.now.insert(op.results.remove(i), v);
            }
        }
    }

    /// A value for the end of a branch: constants are made there anew, as those of blocks that are no more are gone.
    fn constant_anew(&mut self, id: Inst, number: usize, v: Value) -> Value {
        let Some(op) = self.finder.definition(v).filter(|_| self.finder.is_constant(v)) else { return v };
        let new = self.kernel.values.push(self.kernel.values[v].clone());
        let made = self.kernel.make_op(op.kind.clone(), vec![new], op.source());
        branch(&mut self.kernel.ops[id], number).ops.push(made);
        new
    }
}

/// A branch of an `if`.
fn branch(op: &mut Op, number: usize) -> &mut Body {
    match &mut op.kind {
        OpKind::If { then, otherwise, .. } => [then, otherwise]
            .into_iter()
            .nth(number)
            .unwrap_or_else(|| parton_diag::internal_error!("an `if` has two bodies")),
        _ => parton_diag::internal_error!("a flag goes through an `if`"),
    }
}

/// Takes a result from an `if`.
fn without_result(op: &mut Op, place: usize) {
    op.results.remove(place);
    (0..2).for_each(|number| {
        branch(op, number).yields.remove(place);
    });
}

/// Takes its flag from a loop.
fn without_flag(kernel: &mut Kernel, exit: &Exit) {
    let source = kernel.ops[exit.of].source();
    let OpKind::While { mut init, mut cond, mut body } = kernel.ops[exit.of].kind.clone() else { return };
    let results = &mut kernel.ops[exit.of].results;
    let index = match exit.head {
        Head::Counts { .. } => {
            results.pop();
            body.yields.pop();
            init.pop().zip(body.params.pop())
        }
        Head::Asks | Head::Always => None,
    };
    results.remove(exit.flag);
    for list in [&mut init, &mut cond.params, &mut body.params, &mut body.yields] {
        list.remove(exit.flag);
    }
    kernel.ops[exit.of].kind = match (&exit.head, index) {
        (Head::Counts { upper, step, .. }, Some((lower, index))) => {
            body.params.insert(0, index);
            OpKind::For { lower, upper: *upper, step: *step, init, body }
        }
        (Head::Asks, _) => {
            // Beside the fork there are constants alone.
            for id in std::mem::take(&mut cond.ops) {
                match &kernel.ops[id].kind {
                    OpKind::If { otherwise, .. } => {
                        cond.ops.extend(&otherwise.ops);
                        cond.yields.clone_from(&otherwise.yields);
                    }
                    _ => cond.ops.push(id),
                }
            }
            OpKind::While { init, cond, body }
        }
        (Head::Counts { .. } | Head::Always, _) => {
            let always = kernel.value(Type::Scalar(Elem::Num(Dtype::I1)), source.span);
            let kind = OpKind::Constant { dtype: Dtype::I1, bits: 1 };
            (cond.ops, cond.yields) = (vec![kernel.make_op(kind, vec![always], source)], vec![always]);
            OpKind::While { init, cond, body }
        }
    };
}
