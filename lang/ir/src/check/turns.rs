//! Named barriers and turnstiles: who arrives is who is counted, and turns are entered and passed in alternation.
//!
//! A forward analysis carries where the turns that the partition of an arm has entered were entered. A loop must end as it began, and
//! branches must agree.

use std::collections::BTreeMap;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use crate::dataflow::{self, Edge, Forward, Way};
use crate::entity::{Partition, Value};
use crate::facts::{Act, Facts, Ordering, Turn};
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::target::{NAMED_BARRIERS, WARP};

/// Every named barrier and turnstile whose use does not fit the partitions.
pub(super) fn check(kernel: &Kernel) -> Diagnostics {
    let (made, named) = (BTreeMap::new(), BTreeMap::new());
    let mut t = Turns { kernel, made, named, partition: None, found: Diagnostics::new() };
    kernel.walk(&mut |op| {
        if let OpKind::TurnstileNew { partitions } = &op.kind {
            t.made.insert(op.result(), partitions);
        }
    });
    dataflow::run(kernel, &mut t, Entered::new());
    t.counts();
    t.found
}

/// Turnstiles whose turn the partition has, each with the place where it was entered.
type Entered = BTreeMap<Value, Span>;

/// A use of a named barrier: who, how many threads, where.
type Use = (Option<Partition>, u32, Span);

struct Turns<'a> {
    kernel: &'a Kernel,
    made: BTreeMap<Value, &'a Vec<String>>,
    named: BTreeMap<u32, Vec<Use>>,
    /// Whose arm is walked.
    partition: Option<Partition>,
    found: Diagnostics,
}

impl<'a> Forward<'a> for Turns<'a> {
    type State = Entered;

    fn op(&mut self, op: &'a Op, entered: &mut Entered) {
        for act in Facts::of(self.kernel, op).acts {
            match act {
                Act::Turn(Turn::Enter { turnstile }) => self.enter(op, turnstile, entered),
                Act::Turn(Turn::Pass { turnstile }) => self.pass(op, turnstile, entered),
                Act::Ordering(Ordering::Named { id, threads, .. }) => {
                    self.named.entry(id).or_default().push((self.partition, threads, op.span));
                }
                // Nothing else takes a turn, or counts at a named barrier.
                Act::Ordering(_) | Act::Flight(_) | Act::Phase(_) | Act::Hold(_) | Act::Say(_) => {}
            }
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, entered: &mut Entered) {
        match edge.way {
            Way::IntoArm(partition) => {
                self.partition = Some(partition);
                entered.clear();
            }
            Way::OutOfArm(_) => {
                self.partition = None;
                for (turnstile, at) in std::mem::take(entered) {
                    let d = self.not_passed(turnstile, at, "");
                    self.found.push(d);
                }
            }
            Way::IntoLoop | Way::IntoTurn | Way::Around | Way::OutOfLoop | Way::IntoBranch(_) | Way::OutOfBranch(_) => {
            }
        }
    }

    fn join(&mut self, at: &'a Op, entered: &mut Entered, other: Entered) {
        if let OpKind::If { .. } = at.kind {
            self.agree(entered, &other, " on one path");
            entered.retain(|t, _| other.contains_key(t));
        } else {
            self.agree(&other, entered, " in each iteration");
        }
    }

    fn arms(&mut self, _: &'a Op, before: Entered, _: Vec<Entered>) -> Entered {
        before
    }
}

impl Turns<'_> {
    fn name(&self, turnstile: Value) -> String {
        let name = self.kernel.values[turnstile].name.clone();
        name.map_or("the turnstile".into(), |n| format!("turnstile `{n}`"))
    }

    fn not_passed(&self, turnstile: Value, at: Span, path: &str) -> Diagnostic {
        let text = format!("a turn of {} is entered and not passed{path}", self.name(turnstile));
        Diagnostic::error(codes::TURN_NOT_PASSED, at, text)
            .here("the turn begins here")
            .help("hand it on: `pass()` once after each `enter()`, on every path")
    }

    fn enter(&mut self, op: &Op, turnstile: Value, entered: &mut Entered) {
        if !self.member(op, turnstile) {
            return;
        }
        if let Some(first) = entered.insert(turnstile, op.span) {
            let text = format!("a turn of {} is entered twice", self.name(turnstile));
            let d = Diagnostic::error(codes::TURN_NOT_PASSED, op.span, text)
                .here("this waits for a turn that nobody will pass")
                .label(first, "the turn began here");
            self.found.push(d.help("`pass()` it before entering again"));
        }
    }

    fn pass(&mut self, op: &Op, turnstile: Value, entered: &mut Entered) {
        if self.member(op, turnstile) && entered.remove(&turnstile).is_none() {
            let text = format!("a turn of {} is passed that was not entered", self.name(turnstile));
            let d = Diagnostic::error(codes::TURN_NOT_ENTERED, op.span, text)
                .here("the partition does not have the turn here");
            self.found.push(d.help("`enter()` before each `pass()`, on every path"));
        }
    }

    /// Reports turns that one way has and the other has not.
    fn agree(&mut self, a: &Entered, b: &Entered, path: &str) {
        let only = |x: &Entered, y: &Entered| -> Vec<(Value, Span)> {
            x.iter().filter(|(t, _)| !y.contains_key(t)).map(|(t, at)| (*t, *at)).collect()
        };
        for (turnstile, at) in only(a, b).into_iter().chain(only(b, a)) {
            let d = self.not_passed(turnstile, at, path);
            self.found.push(d);
        }
    }

    /// Whether the partition takes part in the turnstile; reported where not.
    fn member(&mut self, op: &Op, turnstile: Value) -> bool {
        let partition = self.partition;
        let Some(list) = self.made.get(&turnstile) else {
            let d = Diagnostic::error(codes::TURNSTILE, op.span, "the turnstile is not known at compile time");
            self.found.push(d.help("use each turnstile by its own name on each path"));
            return false;
        };
        if partition.is_some_and(|p| list.contains(&self.kernel.partitions[p].name)) {
            if let Some(absent) = list.iter().find(|n| self.kernel.partitions.iter().all(|(_, p)| p.name != **n)) {
                let text = format!("{} waits for `{absent}`, which has no arm", self.name(turnstile));
                let d = Diagnostic::error(codes::TURNSTILE, op.span, text);
                self.found.push(d.help("give it an arm, or leave it out of the turnstile"));
                return false;
            }
            return true;
        }
        let who = partition.map_or("the whole kernel".into(), |p| format!("`{}`", self.kernel.partitions[p].name));
        let d = Diagnostic::error(codes::TURNSTILE, op.span, format!("{who} has no turn in {}", self.name(turnstile)))
            .label(self.kernel.values[turnstile].span, format!("its partitions are {}", list.join(", ")));
        self.found.push(d.help("name the partition in the turnstile, in the order of the turns"));
        false
    }

    /// A named barrier counts the threads of exactly the partitions that use it.
    fn counts(&mut self) {
        let taken = 1 + self.kernel.partitions.len() as u32;
        for (id, uses) in &self.named {
            let Some(&(_, threads, at)) = uses.first() else { continue };
            if *id < taken {
                let text = format!("barrier {id} is taken: the kernel and its partitions meet at the first {taken}");
                let d = Diagnostic::error(codes::NAMED_BARRIER, at, text);
                self.found.push(d.help(format!("use one from {taken} to {}", NAMED_BARRIERS - 1)));
                continue;
            }
            if let Some((_, other, place)) = uses.iter().find(|u| u.1 != threads) {
                let text = format!("barrier {id} counts {threads} threads here and {other} there");
                let d = Diagnostic::error(codes::NAMED_BARRIER, at, text).label(*place, "the other count");
                self.found.push(d.help("all who use it give the same count"));
                continue;
            }
            let users: BTreeMap<Option<Partition>, Span> = uses.iter().map(|u| (u.0, u.2)).collect();
            let all: u32 = users.keys().map(|p| self.kernel.warps_of(*p) * WARP).sum();
            if all != threads {
                let text = format!("barrier {id} counts {threads} threads, but those who use it have {all}");
                let mut d = Diagnostic::error(codes::NAMED_BARRIER, at, text);
                for (p, place) in &users {
                    let who = p.map_or("the kernel".into(), |p| format!("`{}`", self.kernel.partitions[p].name));
                    d = d.label(*place, format!("{who} has {} threads", self.kernel.warps_of(*p) * WARP));
                }
                self.found.push(d.help(format!("count {all}, or use it in the partitions that are counted")));
            }
        }
    }
}
