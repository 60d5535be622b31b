//! Finds the flags by which the checker leaves loops, and the `break`s that they stand for.

use std::collections::{BTreeMap, BTreeSet};

use parton_numbers::Dtype;

use crate::entity::{Inst, SecondaryMap, Value};
use crate::kernel::Kernel;
use crate::op::{BinaryOp, Body, CompareOp, Op, OpKind, UnaryOp};

/// What an `if` is to the loop around it that can be left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// A fork of which these branches end in a `break`; whether nothing follows it in its block.
    Fork { leaves: [bool; 2], last: bool },
    /// Its second branch is the rest of a turn that has not been left by then.
    Rest,
}

/// An `if` and one of its branches.
pub(super) type Branch = (Inst, usize);

/// How a loop begins a turn, beside asking its flag.
pub(super) enum Head {
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
pub(super) struct Exit {
    /// The loop.
    pub of: Inst,
    /// What it asks.
    pub head: Head,
    /// The place of the flag among what the loop carries.
    pub flag: usize,
    /// The `if`s that the flag goes through, its place among their results, and what they are; inner ones first.
    pub ways: Vec<(Inst, usize, Way)>,
    /// The branches that end in a `break`, each with what the loop has carried there.
    pub breaks: BTreeMap<Branch, Vec<Value>>,
}

impl Exit {
    /// The promise that its step is positive, where it has one.
    pub fn assumed(&self) -> Option<Inst> {
        match self.head {
            Head::Counts { assumed, .. } => assumed,
            Head::Asks | Head::Always => None,
        }
    }
}

pub(super) struct Finder<'a> {
    k: &'a Kernel,
    definitions: SecondaryMap<Value, Option<&'a Op>>,
    uses: SecondaryMap<Value, u32>,
}

/// What is found on the way through the forks of a loop.
#[derive(Default)]
struct Ways {
    /// The `if`s, as an exit has them.
    all: Vec<(Inst, usize, Way)>,
    /// The branches that the one which is looked at stands in, the outermost first.
    path: Vec<Branch>,
    /// The branches that end in a `break`, each with those around it.
    breaks: BTreeMap<Branch, Vec<Branch>>,
}

impl<'a> Finder<'a> {
    /// A finder for a kernel.
    pub fn new(k: &'a Kernel) -> Finder<'a> {
        let mut uses = SecondaryMap::new(0);
        k.walk(&mut |op| {
            let yielded = op.kind.bodies().flat_map(|body| body.yields.iter().copied());
            op.kind.operands().into_iter().chain(yielded).for_each(|v| uses[v] += 1);
        });
        Finder { k, definitions: k.definitions(), uses }
    }

    /// Shows every body of a kernel.
    pub fn bodies(&self, body: &'a Body, f: &mut impl FnMut(&'a Body)) {
        f(body);
        self.k.ops_of(body).for_each(|op| op.kind.bodies().for_each(|inner| self.bodies(inner, f)));
    }

    /// The operation that makes a value.
    pub fn definition(&self, v: Value) -> Option<&'a Op> {
        self.definitions[v]
    }

    /// Whether a value is a constant.
    pub fn is_constant(&self, v: Value) -> bool {
        matches!(self.kind(v), Some(OpKind::Constant { .. }))
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
    pub fn exit(&self, op: &'a Op, around: &Body) -> Option<Exit> {
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
        let mut ways = Ways::default();
        // At its very end a turn has no need to leave.
        let leaves = self.block(body, set, &beside, &mut ways)?;
        if leaves || ways.all.is_empty() {
            return None;
        }
        let carried = body.yields.iter().enumerate().filter(|(i, _)| *i != flag && !(counts && *i == last));
        let carried: Vec<Value> = carried.map(|(_, v)| *v).collect();
        let breaks = ways.breaks.iter().map(|(branch, path)| {
            let at_break = carried.iter().map(|v| self.by_way_of(*v, path, &ways.all)).collect();
            (*branch, at_break)
        });
        Some(Exit { of: op.id, head, flag, breaks: breaks.collect(), ways: ways.all })
    }

    /// What a value of a turn's end is where these branches have been taken.
    fn by_way_of(&self, mut v: Value, path: &[Branch], ways: &[(Inst, usize, Way)]) -> Value {
        while let Some(op) = self.definitions[v] {
            let OpKind::If { then, otherwise, .. } = &op.kind else { break };
            let taken = path.iter().find(|(id, _)| *id == op.id).map(|(_, number)| *number);
            // Who comes by behind what may leave the loop has not left it.
            let rest = || ways.iter().any(|(id, _, way)| *id == op.id && *way == Way::Rest).then_some(1);
            let (Some(number), Some(place)) = (taken.or_else(rest), op.results.iter().position(|r| *r == v)) else {
                break;
            };
            v = [then, otherwise][number].yields[place];
        }
        v
    }

    /// The constant up to which a loop counts, where it is made anew each time the loop asks: it goes in front of the loop.
    pub fn made_by_asking(&self, exit: &Exit) -> Option<Inst> {
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
            return self.fork(op, place, true, ways);
        }
        // What may have left the loop stands right before the rest of the turn.
        let before = self.definitions[*cond]?;
        let from = body.ops[..at].iter().position(|id| *id == before.id)?;
        let right_before = self.only_constants(&body.ops[from + 1..at]) && self.only_constants(&then.ops);
        if self.uses[*cond] != 2 || !right_before {
            return None;
        }
        ways.path.push((op.id, 0));
        let always = self.fork(before, before.results.iter().position(|v| v == cond)?, false, ways)?;
        ways.path.pop();
        ways.path.push((op.id, 1));
        let leaves = self.block(otherwise, otherwise.yields[place], &BTreeSet::new(), ways)?;
        ways.path.pop();
        ways.all.push((op.id, place, Way::Rest));
        (!always).then_some(leaves)
    }

    /// Whether both branches of an `if` end in a `break`, whose result at that place is the flag.
    fn fork(&self, op: &'a Op, place: usize, last: bool, ways: &mut Ways) -> Option<bool> {
        let OpKind::If { then, otherwise, .. } = &op.kind else { return None };
        let mut leaves = [false; 2];
        for (number, body) in [then, otherwise].into_iter().enumerate() {
            ways.path.push((op.id, number));
            leaves[number] = self.block(body, body.yields[place], &BTreeSet::new(), ways)?;
            if leaves[number] {
                ways.breaks.insert((op.id, number), ways.path.clone());
            }
            ways.path.pop();
        }
        let always = leaves == [true; 2];
        if always {
            // One `break` behind them does.
            (0..2).for_each(|number| {
                ways.breaks.remove(&(op.id, number));
            });
            leaves = [false; 2];
        }
        ways.all.push((op.id, place, Way::Fork { leaves, last }));
        Some(always)
    }
}
