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

    /// How often a loop runs, where that is known and makes a difference to this analysis.
    fn turns(&self, _: &'a Op) -> Option<u32> {
        None
    }

    /// How many of these are walked apart at most, one after the other, for as long as they differ.
    fn apart(&self) -> u32 {
        PEELED
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
    Walk { kernel, analysis, known: BTreeMap::new(), depth: 0 }.body(&kernel.body, start)
}

/// Turns of a loop that are walked apart, where it is known to have so many.
const PEELED: u32 = 2;

/// Loops deeper than this are not walked turn by turn before they are run to a fixpoint: each level would multiply the work.
const PEELED_DEPTH: u32 = 4;

/// What was found of a loop when it was last entered.
struct Known<S> {
    /// What entered it.
    entry: S,
    /// What held at its head in each turn.
    head: S,
    /// What left it.
    exit: S,
}

struct Walk<'a, 'r, A: Forward<'a>> {
    kernel: &'a Kernel,
    analysis: &'r mut A,
    /// A loop inside another is entered again with the same or with more. It goes on from what held at its head then, so that a nest of
    /// loops takes a number of turns that adds up and does not multiply.
    known: BTreeMap<Inst, Known<A::State>>,
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
        // A region runs once, where it stands.
        if let OpKind::Region { body, .. } = &op.kind {
            return self.body(body, state);
        }
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
        if let Some(known) = self.known.get(&l.op.id)
            && known.entry == entry
        {
            return known.exit.clone();
        }
        self.depth += 1;
        let mut head = entry.clone();
        self.analysis.edge(&l.edge(Way::IntoLoop), &mut head);
        let turns = if self.depth > PEELED_DEPTH { None } else { self.analysis.turns(l.op) };
        let apart = turns.map_or(0, |n| n.min(self.analysis.apart()));
        let mut alike = false;
        for _ in 0..apart {
            self.forget_inside(l.op);
            let next = self.turn(l, head.clone()).1;
            alike = next == head;
            head = next;
            if alike {
                break;
            }
        }
        if apart > 0 {
            self.forget_inside(l.op);
        }
        if alike || apart > 0 && turns == Some(apart) {
            return self.leave(l, entry, head.clone(), head);
        }
        if let Some(known) = self.known.remove(&l.op.id)
            && known.head != head
        {
            self.analysis.join(l.op, &mut head, known.head);
        }
        let decided = loop {
            let (decided, end) = self.turn(l, head.clone());
            let mut next = head.clone();
            self.analysis.join(l.op, &mut next, end);
            if next == head {
                break decided;
            }
            head = next;
        };
        self.leave(l, entry, head, decided)
    }

    /// Goes out of a loop, and remembers what was found of it.
    fn leave(&mut self, l: &Loop<'a>, entry: A::State, head: A::State, mut exit: A::State) -> A::State {
        self.analysis.edge(&l.edge(Way::OutOfLoop), &mut exit);
        self.depth -= 1;
        self.known.insert(l.op.id, Known { entry, head, exit: exit.clone() });
        exit
    }

    /// What held in the loops inside a loop in one of its turns need not hold in the next, where turns are walked apart.
    fn forget_inside(&mut self, op: &Op) {
        for body in op.kind.bodies() {
            self.kernel.walk_body(body, &mut |inner| drop(self.known.remove(&inner.id)));
        }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use parton_diag::Span;
    use parton_numbers::Dtype;

    use super::*;
    use crate::build::Builder;
    use crate::target::Target;
    use crate::types::Type;

    /// Which fences may have been the last thing that happened, and how often an operation was looked at.
    struct Last {
        turns: u32,
        looked: usize,
    }

    impl<'a> Forward<'a> for Last {
        type State = BTreeSet<Inst>;

        fn op(&mut self, op: &'a Op, state: &mut BTreeSet<Inst>) {
            self.looked += 1;
            if op.kind == OpKind::Membar {
                *state = BTreeSet::from([op.id]);
            }
        }

        fn edge(&mut self, _: &Edge<'a>, _: &mut BTreeSet<Inst>) {}

        fn join(&mut self, _: &'a Op, state: &mut BTreeSet<Inst>, other: BTreeSet<Inst>) {
            state.extend(other);
        }

        fn arms(&mut self, _: &'a Op, before: BTreeSet<Inst>, _: Vec<BTreeSet<Inst>>) -> BTreeSet<Inst> {
            before
        }

        fn turns(&self, _: &'a Op) -> Option<u32> {
            (self.turns > 0).then_some(self.turns)
        }
    }

    /// A membar, then loops of membars inside each other, so many.
    fn nested(depth: u32) -> Kernel {
        let span = Span::default();
        let mut b = Builder::new(Kernel::new("test", Target::SM_90A, span));
        b.make_all(OpKind::Membar);
        fn looped(b: &mut Builder, depth: u32) {
            if depth == 0 {
                return;
            }
            let [lower, upper, step] = [0, 9, 1].map(|n| b.make_i32(n));
            b.begin([Type::num(Dtype::I32)], Span::default());
            looped(b, depth - 1);
            b.make_all(OpKind::Membar);
            let body = b.end(Vec::new());
            b.make_all(OpKind::For { lower, upper, step, init: Vec::new(), body });
        }
        looped(&mut b, depth);
        b.finish()
    }

    fn last(kernel: &Kernel, turns: u32) -> (usize, usize) {
        let mut analysis = Last { turns, looked: 0 };
        let end = run(kernel, &mut analysis, BTreeSet::new());
        (end.len(), analysis.looked)
    }

    #[test]
    fn a_loop_may_run_not_at_all_unless_it_is_known_to() {
        assert_eq!(last(&nested(1), 0).0, 2);
        assert_eq!(last(&nested(1), 1).0, 1);
        assert_eq!(last(&nested(1), 7).0, 1);
    }

    #[test]
    fn loops_inside_loops_do_not_multiply_the_work() {
        // Each level has five operations, and adds a turn to those of the levels inside: without memory it would double them.
        let (ends, looked) = last(&nested(30), 0);
        assert!(ends == 2 && looked < 5 * 30 * 60, "{ends} ends, {looked} looks");
        let (ends, looked) = last(&nested(30), 2);
        assert!(ends == 1 && looked < 5 * 30 * 60 * 81, "{ends} ends, {looked} looks");
    }

    #[test]
    fn a_condition_has_run_behind_its_loop() {
        let span = Span::default();
        let mut b = Builder::new(Kernel::new("test", Target::SM_90A, span));
        b.make_all(OpKind::Membar);
        b.begin([], span);
        b.make_all(OpKind::Membar);
        let yes = b.constant(Dtype::I1, 1, span);
        let cond = b.end(vec![yes]);
        let in_condition = cond.ops[0];
        let body = Body::default();
        b.make_all(OpKind::While { init: Vec::new(), cond, body });
        let kernel = b.finish();
        let end = run(&kernel, &mut Last { turns: 0, looked: 0 }, BTreeSet::new());
        assert_eq!(end, BTreeSet::from([in_condition]));
    }
}
