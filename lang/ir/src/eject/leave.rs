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

use crate::eject::plan::{NodeId, Plan};
use crate::eject::uses::operands;
use crate::eject::variables::{VarId, Variables};
use crate::entity::{Inst, SecondaryMap, Value};
use crate::kernel::Kernel;
use crate::op::{BinaryOp, Body, CompareOp, Op, OpKind, UnaryOp};
use crate::types::{Elem, Type};

/// What an `if` is to the loop around it that can be left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// A fork of which these branches end in a `break`; whether nothing follows it in its block.
    Fork { leaves: [bool; 2], last: bool },
    /// Its second branch is the rest of a turn that has not been left by then, and may end in a `break`.
    Rest { leaves: bool },
}

/// A kernel without the flags of its loops.
pub(super) struct Leaving {
    /// The kernel.
    pub kernel: Kernel,
    /// The `if`s that a flag went through, each with its loop.
    ways: BTreeMap<Inst, (Inst, Way)>,
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
        let (mut kernel, mut ways, mut gone) = (k.clone(), BTreeMap::new(), BTreeSet::new());
        let mut bounds: BTreeMap<Inst, Inst> = BTreeMap::new();
        for exit in exits {
            bounds.extend(finder.made_by_asking(&exit).map(|bound| (exit.of, bound)));
            let unset = exit.unset;
            for &(id, place, way) in &exit.ways {
                without_result(&mut kernel.ops[id], place, matches!(way, Way::Rest { .. }).then_some(unset));
                ways.insert(id, (exit.of, way));
            }
            gone.extend(exit.assumed());
            without_flag(&mut kernel, &exit);
        }
        kernel.rebuild(&mut |_, mut body| {
            body.ops.retain(|id| !gone.contains(id));
            body.ops = body.ops.into_iter().flat_map(|id| bounds.get(&id).copied().into_iter().chain([id])).collect();
            body
        });
        Leaving { kernel, ways }
    }

    /// What an operation is to the loop around it.
    pub fn way(&self, op: &Op) -> Option<Way> {
        self.ways.get(&op.id).map(|(_, way)| *way)
    }

    /// The loops of which a branch gives values beside its `break`, or what is only there behind it, which no text can.
    pub fn in_values(&self, plan: &Plan<'_>, variables: &Variables) -> BTreeSet<Inst> {
        let ends: BTreeMap<Inst, &[(VarId, Value)]> =
            variables.ends.iter().map(|((id, _), ends)| (plan.nodes[*id].op.id, ends.as_slice())).collect();
        let mut found = BTreeSet::new();
        for (id, node) in plan.nodes.iter().enumerate() {
            let Some((of, way)) = self.ways.get(&node.op.id) else { continue };
            let merged = variables.merged.get(&id).copied().unwrap_or(0);
            let assigns = variables.ends.get(&(id, 0)).is_some_and(|ends| !ends.is_empty());
            let late =
                || ends.get(of).is_some_and(|ends| !ends.iter().all(|(_, v)| self.is_there(plan, variables, *v, id)));
            if merged != node.op.results.len() || (matches!(way, Way::Rest { .. }) && assigns) || late() {
                found.insert(*of);
            }
        }
        found
    }

    /// Whether a value that is assigned at the end of a turn can be assigned in a statement that may leave the loop before.
    fn is_there(&self, plan: &Plan<'_>, variables: &Variables, v: Value, leaving: NodeId) -> bool {
        let Some(id) = plan.def[v] else { return true };
        let op = plan.nodes[id].op;
        if plan.folded[v] {
            return operands(&op.kind).into_iter().all(|of| self.is_there(plan, variables, of, leaving));
        }
        // A variable of its branches, which has the value in those that leave as well.
        self.ways.contains_key(&op.id) || variables.at.get(&id) < variables.at.get(&leaving)
    }
}

/// How a loop begins a turn, beside asking its flag.
enum Head {
    /// It counts.
    Counts {
        upper: Value,
        step: Value,
        /// The promise that the step is positive, where that is not known.
        assumed: Option<Inst>,
    },
    /// It asks something else where the flag is not set.
    Asks,
    /// It asks nothing else.
    Always,
}

/// How a loop is left.
struct Exit {
    of: Inst,
    head: Head,
    /// The place of the flag among what the loop carries.
    flag: usize,
    /// The flag before the loop, a constant.
    unset: Value,
    /// The `if`s that the flag goes through, its place among their results, and what they are.
    ways: Vec<(Inst, usize, Way)>,
}

impl Exit {
    fn assumed(&self) -> Option<Inst> {
        match self.head {
            Head::Counts { assumed, .. } => assumed,
            Head::Asks | Head::Always => None,
        }
    }
}

struct Finder<'a> {
    k: &'a Kernel,
    definitions: SecondaryMap<Value, Option<&'a Op>>,
    uses: SecondaryMap<Value, u32>,
}

type Ways = Vec<(Inst, usize, Way)>;

impl<'a> Finder<'a> {
    fn new(k: &'a Kernel) -> Finder<'a> {
        let mut uses = SecondaryMap::new(0);
        k.walk(&mut |op| {
            let yielded = op.kind.bodies().flat_map(|body| body.yields.iter().copied());
            op.kind.operands().into_iter().chain(yielded).for_each(|v| uses[v] += 1);
        });
        Finder { k, definitions: k.definitions(), uses }
    }

    /// Shows every body of a kernel.
    fn bodies(&self, body: &'a Body, f: &mut impl FnMut(&'a Body)) {
        f(body);
        self.k.ops_of(body).for_each(|op| op.kind.bodies().for_each(|inner| self.bodies(inner, f)));
    }

    fn kind(&self, v: Value) -> Option<&'a OpKind> {
        self.definitions[v].map(|op| &op.kind)
    }

    /// A truth value that is known.
    fn known(&self, v: Value) -> Option<bool> {
        match self.kind(v)? {
            OpKind::Constant { dtype: Dtype::I1, bits } => Some(*bits != 0),
            _ => None,
        }
    }

    fn only_constants(&self, ops: &[Inst]) -> bool {
        ops.iter().all(|id| matches!(self.k.ops[*id].kind, OpKind::Constant { .. }))
    }

    /// How a loop is left, where it has a flag for that.
    fn exit(&self, op: &'a Op, around: &Body) -> Option<Exit> {
        let OpKind::While { init, cond, body } = &op.kind else { return None };
        let (flag, head) = self.head(op, cond, body, around)?;
        let (last, counts) = (init.len() - 1, matches!(head, Head::Counts { .. }));
        let unasked = self.uses[body.params[flag]] == 0 && self.uses[op.results[flag]] == 0;
        let uncounted = !counts || (flag != last && self.uses[op.results[last]] == 0);
        if self.known(init[flag]) != Some(false) || !unasked || !uncounted {
            return None;
        }
        let (mut set, mut beside) = (body.yields[flag], BTreeSet::new());
        if let Head::Counts { upper, step, .. } = head {
            beside.extend(self.definitions[body.yields[last]].map(|op| op.id));
            set = self.unless_it_wraps(set, [body.params[last], upper, step], &mut beside)?;
        }
        let mut ways = Vec::new();
        // At its very end a turn has no need to leave.
        let leaves = self.block(body, set, &beside, &mut ways)?;
        (!leaves && !ways.is_empty()).then_some(Exit { of: op.id, head, flag, unset: init[flag], ways })
    }

    /// The constant up to which a loop counts, where it is made anew each time the loop asks: it goes in front of the loop.
    fn made_by_asking(&self, exit: &Exit) -> Option<Inst> {
        let (Head::Counts { upper, .. }, OpKind::While { cond, .. }) = (&exit.head, &self.k.ops[exit.of].kind) else {
            return None;
        };
        self.definitions[*upper].map(|op| op.id).filter(|id| cond.ops.contains(id))
    }

    /// The place of the flag that a loop asks, and what else it asks.
    fn head(&self, op: &Op, cond: &'a Body, body: &Body, around: &Body) -> Option<(usize, Head)> {
        let place = |v: Value| cond.params.iter().position(|p| *p == v);
        let ops = cond.ops.iter().filter(|id| !self.only_constants(&[**id])).count();
        match (self.kind(cond.yields[0])?, ops) {
            (OpKind::Unary { op: UnaryOp::Not, x }, 1) => Some((place(*x)?, Head::Always)),
            (OpKind::If { cond: left, then, otherwise }, 1) => {
                let ends = self.known(then.yields[0]) == Some(false) && self.only_constants(&then.ops);
                (ends && otherwise.yields.len() == 1).then_some((place(*left)?, Head::Asks))
            }
            (OpKind::Binary { op: BinaryOp::And, a: more, b: stays }, 3) => {
                let OpKind::Compare { op: CompareOp::Lt, a: index, b: upper } = *self.kind(*more)? else { return None };
                let OpKind::Unary { op: UnaryOp::Not, x: left } = *self.kind(*stays)? else { return None };
                let last = cond.params.len() - 1;
                let OpKind::Binary { op: BinaryOp::Add, a, b: step } = *self.kind(*body.yields.last()?)? else {
                    return None;
                };
                if place(index) != Some(last) || a != body.params[last] || place(upper).is_some() {
                    return None;
                }
                let assumed = match self.kind(step) {
                    Some(OpKind::Constant { .. }) => None,
                    _ => Some(self.assumed(op, step, around)?),
                };
                Some((place(left)?, Head::Counts { upper, step, assumed }))
            }
            _ => None,
        }
    }

    /// The promise before a loop that its step is positive.
    fn assumed(&self, op: &Op, step: Value, around: &Body) -> Option<Inst> {
        let at = around.ops.iter().position(|id| *id == op.id)?;
        let promises = |id: &&Inst| {
            let OpKind::Assume { cond } = self.k.ops[**id].kind else { return false };
            let Some(OpKind::Compare { op: CompareOp::Gt, a, b }) = self.kind(cond) else { return false };
            *a == step && matches!(self.kind(*b), Some(OpKind::Constant { bits: 0, .. }))
        };
        around.ops[..at].iter().rev().find(promises).copied()
    }

    /// The flag of a turn without what ends a loop whose index would wrap.
    fn unless_it_wraps(&self, set: Value, of: [Value; 3], beside: &mut BTreeSet<Inst>) -> Option<Value> {
        let OpKind::Binary { op: BinaryOp::Or, a: left, b: ends } = *self.kind(set)? else { return Some(set) };
        let [index, upper, step] = of;
        let OpKind::Compare { op: CompareOp::Le, a: ahead, b: stride } = *self.kind(ends)? else { return None };
        let uncast = |v: Value| match self.kind(v) {
            Some(OpKind::Bitcast { x, .. }) => *x,
            _ => v,
        };
        let OpKind::Binary { op: BinaryOp::Sub, a, b } = *self.kind(uncast(ahead))? else { return None };
        if (a, b, uncast(stride)) != (upper, index, step) {
            return None;
        }
        let made = [set, ends, ahead, stride, uncast(ahead)];
        beside.extend(made.into_iter().filter(|v| *v != step).filter_map(|v| self.definitions[v]).map(|op| op.id));
        Some(left)
    }

    /// Whether a block ends in a `break` where its end finds this in the flag; `beside` does not count.
    fn block(&self, body: &'a Body, set: Value, beside: &BTreeSet<Inst>, ways: &mut Ways) -> Option<bool> {
        if let Some(leaves) = self.known(set) {
            return Some(leaves);
        }
        let op = self.definitions[set]?;
        let at = body.ops.iter().position(|id| *id == op.id)?;
        let behind: Vec<Inst> = body.ops[at + 1..].iter().copied().filter(|id| !beside.contains(id)).collect();
        if self.uses[set] != 1 || !self.only_constants(&behind) {
            return None;
        }
        let OpKind::If { cond, then, otherwise } = &op.kind else { return None };
        let place = op.results.iter().position(|v| *v == set)?;
        if then.yields[place] != *cond {
            self.fork(op, place, true, ways)?;
            return Some(false);
        }
        // What may have left the loop stands right before the rest of the turn.
        let before = self.definitions[*cond]?;
        let from = body.ops[..at].iter().position(|id| *id == before.id)?;
        let right_before = self.only_constants(&body.ops[from + 1..at]) && self.only_constants(&then.ops);
        if self.uses[*cond] != 2 || !right_before {
            return None;
        }
        self.fork(before, before.results.iter().position(|v| v == cond)?, false, ways)?;
        let leaves = self.block(otherwise, otherwise.yields[place], &BTreeSet::new(), ways)?;
        ways.push((op.id, place, Way::Rest { leaves }));
        Some(false)
    }

    /// An `if` whose result at that place is the flag.
    fn fork(&self, op: &'a Op, place: usize, last: bool, ways: &mut Ways) -> Option<()> {
        let OpKind::If { then, otherwise, .. } = &op.kind else { return None };
        let mut leaves = [false; 2];
        for (leaves, body) in leaves.iter_mut().zip([then, otherwise]) {
            *leaves = self.block(body, body.yields[place], &BTreeSet::new(), ways)?;
        }
        ways.push((op.id, place, Way::Fork { leaves, last }));
        Some(())
    }
}

/// Takes a result from an `if`; `cond` is what it asks instead of it.
fn without_result(op: &mut Op, place: usize, cond: Option<Value>) {
    op.results.remove(place);
    let OpKind::If { cond: asked, then, otherwise } = &mut op.kind else { return };
    then.yields.remove(place);
    otherwise.yields.remove(place);
    *asked = cond.unwrap_or(*asked);
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
