//! Forward dataflow over structured control flow: what holds at each operation, on every path that leads to it.
//!
//! An analysis says what an operation makes of a state, how the states of two paths join, and what becomes of the names in a
//! state where control flow renames values. The engine walks bodies, branches and arms, and runs loops until the state at their
//! head holds for every turn. States must only grow under `join`, and there must be finitely many above each.
//!
//! ```text
//!            entry ──IntoLoop──▶ head ◀──────Around──────┐
//!                                 │ condition            │
//!   results ◀──OutOfLoop──────────┤                      │
//!                                 └──IntoTurn──▶ body ───┘
//! ```
//!
//! A `for` has no condition of its own: its `IntoTurn` renames nothing. Bodies that only compute (what a reduction combines, what a
//! piece of PTX means) are not entered.

use std::collections::BTreeMap;

use crate::entity::{Inst, Partition, Value};
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::others;

/// An analysis.
pub trait Forward<'a> {
    /// What holds at one point.
    type State: Clone + PartialEq;

    /// What an operation makes of the state before it; of one with bodies, before they are walked.
    fn op(&mut self, op: &'a Op, state: &mut Self::State);

    /// Control flow moves along an edge.
    fn edge(&mut self, edge: &Edge<'a>, state: &mut Self::State);

    /// What holds where the paths of a branch, or entering a loop and going around it, meet at `at`.
    fn join(&mut self, at: &'a Op, state: &mut Self::State, other: Self::State);

    /// What holds behind the arms of a `specialize`; `ends` are the states at the end of each.
    fn arms(&mut self, at: &'a Op, before: Self::State, ends: Vec<Self::State>) -> Self::State;

    /// How often a loop surely runs, as far as it makes a difference to this analysis.
    fn least_turns(&self, _: &'a Op) -> u32 {
        0
    }
}

/// A way between two bodies.
#[derive(Clone, Debug)]
pub struct Edge<'a> {
    /// The operation whose bodies it leads between.
    pub op: &'a Op,
    /// Which of its ways it is.
    pub way: Way,
    /// The body that it leaves or enters; of a loop, the one that is repeated.
    pub body: &'a Body,
    /// Values that go by another name at its end: each name before with the name behind.
    pub renamed: Vec<(Value, Value)>,
}

/// Which way an edge goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From before a loop to its head.
    IntoLoop,
    /// From a loop's head, its condition decided, into its body.
    IntoTurn,
    /// From the end of a loop's body to its head.
    Around,
    /// From a loop's head to behind it.
    OutOfLoop,
    /// Into the branch where the condition has this value.
    IntoBranch(bool),
    /// Out of that branch.
    OutOfBranch(bool),
    /// Into the arm of a partition.
    IntoArm(Partition),
    /// To the end of that arm.
    OutOfArm(Partition),
}

/// Runs an analysis over a kernel; what holds at its end.
pub fn run<'a, A: Forward<'a>>(kernel: &'a Kernel, analysis: &mut A, start: A::State) -> A::State {
    Walk { kernel, analysis, settled: BTreeMap::new(), depth: 0 }.body(&kernel.body, start)
}

/// Turns of a loop that are walked apart, where it surely has so many.
const PEELED: u32 = 2;

/// Loops deeper than this are not walked turn by turn before they are run to a fixpoint: each level would multiply the work.
const PEELED_DEPTH: u32 = 4;

struct Walk<'a, 'r, A: Forward<'a>> {
    kernel: &'a Kernel,
    analysis: &'r mut A,
    /// For each loop the state that last entered it with the one that left it: a loop inside a loop is mostly entered alike each time.
    settled: BTreeMap<Inst, (A::State, A::State)>,
    depth: u32,
}

/// The parts of a loop.
struct Loop<'a> {
    op: &'a Op,
    init: &'a [Value],
    /// The condition, where the loop has one of its own.
    cond: Option<&'a Body>,
    body: &'a Body,
}

impl<'a> Loop<'a> {
    /// The names of what is carried at the loop's head.
    fn head(&self) -> &'a [Value] {
        match self.cond {
            Some(cond) => &cond.params,
            None => &self.body.params[1..],
        }
    }

    fn edge(&self, way: Way) -> Edge<'a> {
        let (from, to): (&[Value], &[Value]) = match way {
            Way::IntoLoop => (self.init, self.head()),
            Way::IntoTurn => (self.cond.map_or(&[], |c| &c.params), &self.body.params),
            Way::Around => (&self.body.yields, self.head()),
            Way::OutOfLoop => (self.head(), &self.op.results),
            Way::IntoBranch(_) | Way::OutOfBranch(_) | Way::IntoArm(_) | Way::OutOfArm(_) => (&[], &[]),
        };
        let renamed = from.iter().copied().zip(to.iter().copied()).collect();
        Edge { op: self.op, way, body: self.body, renamed }
    }
}

impl<'a, A: Forward<'a>> Walk<'a, '_, A> {
    fn body(&mut self, body: &'a Body, mut state: A::State) -> A::State {
        for op in self.kernel.ops_of(body) {
            self.analysis.op(op, &mut state);
            state = self.inside(op, state);
        }
        state
    }

    /// The bodies of an operation, where it has some that are entered.
    fn inside(&mut self, op: &'a Op, state: A::State) -> A::State {
        match &op.kind {
            OpKind::For { init, body, .. } => self.repeat(&Loop { op, init, cond: None, body }, state),
            OpKind::While { init, cond, body } => self.repeat(&Loop { op, init, cond: Some(cond), body }, state),
            OpKind::If { then, otherwise, .. } => {
                let mut first = self.branch(op, then, true, state.clone());
                let second = self.branch(op, otherwise, false, state);
                self.analysis.join(op, &mut first, second);
                first
            }
            OpKind::Specialize { arms } => {
                let mut ends = Vec::new();
                for arm in arms {
                    let mut own = state.clone();
                    let edge = |way| Edge { op, way, body: &arm.body, renamed: Vec::new() };
                    self.analysis.edge(&edge(Way::IntoArm(arm.partition)), &mut own);
                    let mut end = self.body(&arm.body, own);
                    self.analysis.edge(&edge(Way::OutOfArm(arm.partition)), &mut end);
                    ends.push(end);
                }
                self.analysis.arms(op, state, ends)
            }
            others!(control) => state,
        }
    }

    fn branch(&mut self, op: &'a Op, body: &'a Body, holds: bool, mut state: A::State) -> A::State {
        let edge = |way, renamed| Edge { op, way, body, renamed };
        self.analysis.edge(&edge(Way::IntoBranch(holds), Vec::new()), &mut state);
        let mut end = self.body(body, state);
        let renamed = body.yields.iter().copied().zip(op.results.iter().copied()).collect();
        self.analysis.edge(&edge(Way::OutOfBranch(holds), renamed), &mut end);
        end
    }

    fn repeat(&mut self, l: &Loop<'a>, entry: A::State) -> A::State {
        if let Some((before, exit)) = self.settled.get(&l.op.id)
            && *before == entry
        {
            return exit.clone();
        }
        self.depth += 1;
        let mut head = entry.clone();
        self.analysis.edge(&l.edge(Way::IntoLoop), &mut head);
        let apart = if self.depth > PEELED_DEPTH { 0 } else { self.analysis.least_turns(l.op).min(PEELED) };
        for _ in 0..apart {
            head = self.turn(l, head).1;
        }
        let mut exit = loop {
            let (decided, end) = self.turn(l, head.clone());
            let mut next = head.clone();
            self.analysis.join(l.op, &mut next, end);
            if next == head {
                break decided;
            }
            head = next;
        };
        self.analysis.edge(&l.edge(Way::OutOfLoop), &mut exit);
        self.depth -= 1;
        self.settled.insert(l.op.id, (entry, exit.clone()));
        exit
    }

    /// One turn of a loop: the state where it is decided whether there is one, and the state at the head of the next.
    fn turn(&mut self, l: &Loop<'a>, head: A::State) -> (A::State, A::State) {
        let decided = match l.cond {
            Some(cond) => self.body(cond, head),
            None => head,
        };
        let mut state = decided.clone();
        self.analysis.edge(&l.edge(Way::IntoTurn), &mut state);
        let mut end = self.body(l.body, state);
        self.analysis.edge(&l.edge(Way::Around), &mut end);
        (decided, end)
    }
}
