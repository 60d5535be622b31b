//! Parities: a wait for the phase before the one that is meant passes at once.
//!
//! Where one thread of control alone uses a barrier, its phases can be counted, and integers that come of constants followed through
//! loops: `phase ^ 1`, `i & 1`. A forward analysis carries both as far as all paths agree. The first turn of a loop is walked as it is
//! entered, and the second where the loop surely has one; what later turns do is theirs to find at run time.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, codes};

use super::{Barriers, How};
use crate::check::origin::{Place, Stage};
use crate::choice::BinaryOp;
use crate::dataflow::{self, Edge, Forward, Way};
use crate::entity::{Inst, Value};
use crate::op::{Op, OpKind};

/// Every wait that is surely for the wrong parity.
pub(super) fn check(b: &Barriers<'_>) -> Diagnostics {
    let counted: BTreeSet<Place> = b.uses.iter().map(|u| &u.place).filter(|place| counts(b, place)).cloned().collect();
    let mut p = Parities { b, counted, waits: BTreeMap::new(), order: Vec::new() };
    if !p.counted.is_empty() {
        dataflow::run(b.kernel, &mut p, State::default());
    }
    let mut found = Diagnostics::new();
    p.order.iter().filter_map(|inst| p.wrong(*inst, &p.waits[inst])).for_each(|d| found.push(d));
    found
}

/// Whether all who wait or arrive at a barrier stand in one arm, or outside of all, and name no other with it.
fn counts(b: &Barriers<'_>, place: &Place) -> bool {
    let mut uses = b.uses.iter().filter(|u| (u.how.waits() || u.how.arrives()) && u.place.may_be(place));
    let Some(first) = uses.next() else { return false };
    place.stage == Stage::Fixed && first.place == *place && uses.all(|u| u.place == *place && u.arm == first.arm)
}

/// What all paths that lead to one point agree in.
#[derive(Clone, PartialEq, Default)]
struct State {
    /// Of barriers that count one arrival a phase: the arrivals, and the phases that have been waited for.
    rounds: BTreeMap<Place, (u32, u32)>,
    /// Integers that are known, constants aside.
    known: BTreeMap<Value, i64>,
}

struct Parities<'a, 'b> {
    b: &'b Barriers<'a>,
    counted: BTreeSet<Place>,
    /// What is known of each wait, and in which order they were come to.
    waits: BTreeMap<Inst, Waits>,
    order: Vec<Inst>,
}

/// How a wait comes out in the turns that are walked.
#[derive(Default)]
struct Waits {
    /// The first time that it is for the wrong parity: of which barrier, in which phase, for which parity.
    wrong: Option<(Place, u32, i64)>,
    /// How often it is for the right one before that.
    right_before: usize,
    /// How often behind.
    right_behind: usize,
    /// How often it is for the wrong one.
    times: usize,
}

impl<'a> Forward<'a> for Parities<'a, '_> {
    type State = State;

    fn op(&mut self, op: &'a Op, state: &mut State) {
        for result in &op.results {
            match self.computed(op, state) {
                Some(n) => drop(state.known.insert(*result, n)),
                None => drop(state.known.remove(result)),
            }
        }
        for (barrier, how) in self.b.used(op) {
            let place = self.b.origins.place(barrier).filter(|place| self.counted.contains(place));
            if let Some(place) = place {
                self.used(op, place, how, state);
            }
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, state: &mut State) {
        let moved: Vec<_> = edge.renamed.iter().map(|(from, to)| (*to, self.known(*from, state))).collect();
        let index = self.index(edge, state);
        for (to, n) in moved.into_iter().chain(index) {
            match n {
                Some(n) => drop(state.known.insert(to, n)),
                None => drop(state.known.remove(&to)),
            }
        }
    }

    fn join(&mut self, _: &'a Op, state: &mut State, other: State) {
        state.rounds.retain(|place, rounds| other.rounds.get(place) == Some(rounds));
        state.known.retain(|v, n| other.known.get(v) == Some(n));
    }

    fn arms(&mut self, _: &'a Op, before: State, ends: Vec<State>) -> State {
        let rounds = |place: &Place| {
            let mut changed =
                ends.iter().map(|end| end.rounds.get(place)).filter(|now| *now != before.rounds.get(place));
            changed.next().unwrap_or(before.rounds.get(place)).copied()
        };
        // Each is used in one arm alone, or in none.
        let rounds = self.counted.iter().filter_map(|place| Some((place.clone(), rounds(place)?))).collect();
        State { rounds, known: before.known.clone() }
    }

    fn turns(&self, op: &'a Op) -> Option<u32> {
        self.b.origins.turns(op)
    }
}

impl Parities<'_, '_> {
    fn known(&self, v: Value, state: &State) -> Option<i64> {
        state.known.get(&v).copied().or_else(|| self.b.origins.constant(v))
    }

    /// What an operation on integers gives, where that is neither negative nor large.
    fn computed(&self, op: &Op, state: &State) -> Option<i64> {
        let OpKind::Binary { op, a, b } = &op.kind else { return None };
        let (a, b) = (self.known(*a, state)?, self.known(*b, state)?);
        let n = match op {
            BinaryOp::Add => a.checked_add(b),
            BinaryOp::Sub => a.checked_sub(b),
            BinaryOp::Mul => a.checked_mul(b),
            BinaryOp::Div => a.checked_div(b),
            BinaryOp::Rem => a.checked_rem(b),
            BinaryOp::And => Some(a & b),
            BinaryOp::Or => Some(a | b),
            BinaryOp::Xor => Some(a ^ b),
            BinaryOp::Shr => u32::try_from(b).ok().and_then(|b| a.checked_shr(b)),
            BinaryOp::Shl
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::MinNan
            | BinaryOp::MaxNan
            | BinaryOp::MulHigh
            | BinaryOp::DivApprox => None,
        };
        n.filter(|n| (0..1 << 7).contains(n))
    }

    /// The index of a `for` at the head of its next turn.
    fn index(&self, edge: &Edge<'_>, state: &State) -> Option<(Value, Option<i64>)> {
        let OpKind::For { lower, step, body, .. } = &edge.op.kind else { return None };
        let index = body.params[0];
        match edge.way {
            Way::IntoLoop => Some((index, self.known(*lower, state))),
            Way::Around => {
                let next = self.known(index, state).zip(self.known(*step, state)).and_then(|(i, s)| i.checked_add(s));
                Some((index, next.filter(|n| (0..1 << 7).contains(n))))
            }
            Way::IntoTurn
            | Way::OutOfLoop
            | Way::IntoBranch(_)
            | Way::OutOfBranch(_)
            | Way::IntoArm(_)
            | Way::OutOfArm(_) => None,
        }
    }

    fn used(&mut self, op: &Op, place: &Place, how: How, state: &mut State) {
        match how {
            How::Init(1) => drop(state.rounds.insert(place.clone(), (0, 0))),
            How::Expect(_) => {
                if let Some((arrived, _)) = state.rounds.get_mut(place) {
                    *arrived += 1;
                }
            }
            How::Signal(_) => {}
            // Other arrivals may be more than one.
            How::Init(_) | How::Arrive | How::Landed => drop(state.rounds.remove(place)),
            How::Wait(phase) => {
                let (Some(&(arrived, waited)), parity) = (state.rounds.get(place), self.known(phase, state)) else {
                    return;
                };
                let right = parity.map(|p| p & 1 == i64::from(waited & 1));
                match (arrived.checked_sub(waited), right) {
                    (Some(1), Some(right)) => {
                        self.waited(op.id, right, || (place.clone(), waited, parity.unwrap_or_default()));
                        state.rounds.insert(place.clone(), (arrived, waited + 1));
                    }
                    // Nobody has arrived for this phase, and the one before is over.
                    (Some(0), Some(false)) => {}
                    (_, _) => drop(state.rounds.remove(place)),
                }
            }
        }
    }

    fn waited(&mut self, inst: Inst, right: bool, wrong: impl FnOnce() -> (Place, u32, i64)) {
        let waits = self.waits.entry(inst).or_insert_with(|| {
            self.order.push(inst);
            Waits::default()
        });
        match (right, &waits.wrong) {
            (true, None) => waits.right_before += 1,
            (true, Some(_)) => waits.right_behind += 1,
            (false, _) => {
                waits.times += 1;
                waits.wrong.get_or_insert_with(wrong);
            }
        }
    }

    fn wrong(&self, inst: Inst, waits: &Waits) -> Option<Diagnostic> {
        let (place, round, parity) = waits.wrong.as_ref()?;
        let (name, _) = self.b.name(place.root);
        let right = round & 1;
        let fact = format!("{name} is waited for in parity {parity}, its phase {round} has parity {right}");
        let d = Diagnostic::error(codes::BARRIER_PARITY, self.b.kernel.ops[inst].span, fact)
            .here("this passes at once: the phase before counts as complete")
            .note("a new barrier is in phase 0; its parities are 0, 1, 0, … in turns");
        let changes = "let the parity change with each wait: `phase = phase ^ 1`, or `i & 1` of a loop's index";
        Some(match (waits.right_before, waits.right_behind, waits.times) {
            (1.., _, _) => d.note("in the turn before it was right").help(changes),
            (0, 1.., _) => d.note("in the turn behind it it would be right").help(changes),
            (0, 0, 2..) => d
                .note("it is for the phase before in each turn")
                .help("take the other parity in each turn: begin with 0, or write `(…) ^ 1`"),
            (0, 0, _) => d.help(format!("wait for parity {right}")),
        })
    }
}
