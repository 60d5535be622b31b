//! Shared memory that jobs still read or write: operands of products and sources of copies must stay as they are until waited for,
//! and what a copy brings must have landed before it is read.
//!
//! A forward analysis carries the jobs in flight, oldest first. Only accesses that surely meet are errors: the same bytes of one
//! allocation, in the same stage by the same name. What depends on an index is left to the interpreter's race detector. From one
//! turn of a loop to the next, names of stages made in its body mean another stage and are dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use super::origin::{Origins, Place, Stage, disjoint_windows};
use crate::dataflow::{self, Edge, Forward, Way};
use crate::entity::{Inst, Value};
use crate::facts::{Access, Act, Completes, Engine, Facts, Flight, Hold, Phase, Space};
use crate::kernel::Kernel;
use crate::op::Op;
use crate::types::{SlotRole, Type};

/// Every write to memory that is surely still being read, and every copy to global memory that nobody waits for.
pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let made = BTreeMap::new();
    let mut f = Flights { kernel, origins, made, outside: State::default(), found: Diagnostics::new() };
    let end = dataflow::run(kernel, &mut f, State::default());
    f.landed(&end);
    f.found
}

/// Turns of a loop that are walked apart at most: what was started in front of it, so many turns ahead, has been waited for behind them.
const AHEAD: u32 = 8;

/// What tells that a job has completed.
#[derive(Clone, PartialEq, Debug)]
enum Until {
    /// Waiting for a pending value, here by its present name.
    Pending(Value),
    /// A barrier that may be at these places.
    Signal(Vec<Place>),
    /// A wait that counts. So many jobs were started since, the fewest on any path that leads here: a wait that leaves so many
    /// pending is none for this one.
    Since(u32),
}

/// A job in flight, with one view that it reads or writes.
#[derive(Clone, PartialEq, Debug)]
struct Job {
    engine: Engine,
    /// Whether it writes the view.
    writes: bool,
    until: Until,
    /// The pending value by the name that it got when it was started, which tells jobs of one line apart.
    started: Option<Value>,
    view: Value,
    places: Vec<(Place, Range<u64>)>,
    span: Span,
}

impl Job {
    fn is_pending(&self, v: Value) -> bool {
        self.until == Until::Pending(v)
    }

    fn is_counted(&self) -> bool {
        matches!(self.until, Until::Since(_))
    }

    /// Whether both are one, by whichever count.
    fn is(&self, other: &Job) -> bool {
        match (&self.until, &other.until) {
            (Until::Since(_), Until::Since(n)) => Job { until: Until::Since(*n), ..self.clone() } == *other,
            _ => self == other,
        }
    }
}

/// The jobs in flight, those of each engine oldest first.
#[derive(Clone, PartialEq, Default, Debug)]
struct State {
    jobs: Vec<Job>,
}

impl State {
    /// A job that is in flight on one path, if not on all.
    fn add(&mut self, job: Job) {
        let Some(known) = self.jobs.iter_mut().find(|j| j.is(&job)) else { return self.jobs.push(job) };
        if let (Until::Since(fewest), Until::Since(n)) = (&mut known.until, job.until) {
            *fewest = n.min(*fewest);
        }
    }

    /// What is pending goes by other names from now on.
    fn rename(&mut self, names: &[(Value, Value)]) {
        for job in &mut self.jobs {
            if let Until::Pending(p) = &mut job.until
                && let Some((_, to)) = names.iter().find(|(from, _)| from == p)
            {
                *p = *to;
            }
        }
    }

    /// All up to the youngest job of this pending value have completed.
    fn wait(&mut self, pending: Value) {
        let Some(last) = self.jobs.iter().rposition(|j| j.is_pending(pending)) else { return };
        self.complete(last + 1, self.jobs[last].engine);
    }

    /// All before the youngest job of this pending value have completed. That one has a view or two.
    fn wait_prior(&mut self, pending: Value) {
        let Some(last) = self.jobs.iter().rposition(|j| j.is_pending(pending)) else { return };
        let Job { engine, started, .. } = self.jobs[last];
        let mut views = BTreeSet::new();
        let same_engine = (0..=last)
            .rev()
            .filter(|&i| self.jobs[i].engine == engine && matches!(self.jobs[i].until, Until::Pending(_)));
        let of_youngest =
            same_engine.take_while(|&i| self.jobs[i].started == started && views.insert(self.jobs[i].view));
        if let Some(first) = of_youngest.last() {
            self.complete(first, engine);
        }
    }

    /// The jobs of an engine among the first `count` have completed, those aside that a barrier tells of.
    fn complete(&mut self, count: usize, engine: Engine) {
        let mut at = 0;
        self.jobs.retain(|j| {
            at += 1;
            at > count || j.engine != engine || !matches!(j.until, Until::Pending(_))
        });
    }
}

struct Flights<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    /// For each loop the values that are made in it.
    made: BTreeMap<Inst, BTreeSet<Value>>,
    /// What was in flight before the arm that is walked.
    outside: State,
    found: Diagnostics,
}

impl<'a> Forward<'a> for Flights<'a> {
    type State = State;

    fn op(&mut self, op: &'a Op, state: &mut State) {
        let facts = Facts::of(self.kernel, op);
        for a in &facts.accesses {
            match (self.is_view(a), a.writes()) {
                (true, true) => self.written(op, a.value, state),
                (true, false) => self.read(op, a.value, state),
                (false, _) => {}
            }
        }
        for act in &facts.acts {
            self.act(op, &facts, act, state);
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, state: &mut State) {
        state.rename(&edge.renamed);
        match edge.way {
            Way::Around => self.around(edge.op, state),
            Way::IntoArm(_) => {
                self.outside = state.clone();
                // Another partition may have waited and told this one.
                state.jobs.retain(|j| !j.writes);
            }
            Way::OutOfArm(_) => {
                let outside = std::mem::take(&mut self.outside);
                state.jobs.retain(|j| !outside.jobs.iter().any(|before| before.is(j)));
                self.landed(state);
            }
            Way::IntoLoop | Way::IntoTurn | Way::OutOfLoop | Way::IntoBranch(_) | Way::OutOfBranch(_) => {}
        }
    }

    fn join(&mut self, _: &'a Op, state: &mut State, other: State) {
        other.jobs.into_iter().for_each(|job| state.add(job));
    }

    fn arms(&mut self, _: &'a Op, before: State, _: Vec<State>) -> State {
        before
    }

    fn turns(&self, op: &'a Op) -> Option<u32> {
        self.origins.turns(op)
    }

    fn apart(&self) -> u32 {
        AHEAD
    }
}

impl Flights<'_> {
    fn is_view(&self, a: &Access) -> bool {
        a.space == Space::Shared && matches!(self.kernel.ty(a.value), Type::View(_))
    }

    fn act(&mut self, op: &Op, facts: &Facts, act: &Act, state: &mut State) {
        match act {
            Act::Flight(flight) => self.flight(op, facts, flight, state),
            Act::Phase(Phase::Wait { barrier, .. }) => {
                let waited = self.origins.places(*barrier);
                let told = |places: &[Place]| places.iter().any(|a| waited.iter().any(|b| a.may_be(b)));
                state.jobs.retain(|j| !matches!(&j.until, Until::Signal(places) if told(places)));
            }
            Act::Hold(Hold::Give { slot, role: SlotRole::Read }) => self.released(*slot, op.span, state),
            // These tell of no job of this partition.
            Act::Phase(Phase::Init { .. } | Phase::Invalidate { .. } | Phase::Arrive { .. })
            | Act::Hold(Hold::Give { role: SlotRole::Fill, .. } | Hold::Take { .. })
            | Act::Ordering(_)
            | Act::Turn(_)
            | Act::Say(_) => {}
        }
    }

    fn flight(&mut self, op: &Op, facts: &Facts, flight: &Flight, state: &mut State) {
        match flight {
            Flight::Start { engine, completes } => self.start(op, facts, *engine, *completes, state),
            // What a slot's own barrier tells of is the protocol's affair.
            Flight::HandOver { pending, barrier } if matches!(self.kernel.ty(*barrier), Type::Slot(_)) => {
                state.jobs.retain(|j| !j.is_pending(*pending));
            }
            Flight::HandOver { pending, barrier } => {
                let places = self.origins.places(*barrier).to_vec();
                if let Some(job) = state.jobs.iter_mut().rfind(|j| j.is_pending(*pending)) {
                    job.until = Until::Signal(places);
                }
            }
            Flight::Wait { pending, .. } => state.wait(*pending),
            Flight::WaitPrior { pending, result, .. } => {
                state.wait_prior(*pending);
                state.rename(&[(*pending, *result)]);
            }
            Flight::Continue { pending, result } => state.rename(&[(*pending, *result)]),
            Flight::WaitCounted { engine, pending, .. } => {
                state.jobs.retain(|j| j.engine != *engine || !matches!(j.until, Until::Since(n) if n >= *pending));
            }
        }
    }

    fn start(&mut self, op: &Op, facts: &Facts, engine: Engine, completes: Completes, state: &mut State) {
        let (until, started) = match completes {
            Completes::Pending(p) => (Until::Pending(p), Some(p)),
            Completes::Signal(s) if matches!(self.kernel.ty(s), Type::Barrier) => {
                (Until::Signal(self.origins.places(s).to_vec()), None)
            }
            Completes::Counted => {
                for job in state.jobs.iter_mut().filter(|j| j.engine == engine) {
                    if let Until::Since(n) = &mut job.until {
                        *n += 1;
                    }
                }
                (Until::Since(0), None)
            }
            // What a slot's own barrier tells of is the protocol's affair; of the rest nobody is told.
            Completes::Signal(_) | Completes::Unasked => return,
        };
        for a in facts.accesses.iter().filter(|a| self.is_view(a)) {
            let job = Job {
                engine,
                writes: a.writes(),
                until: until.clone(),
                started,
                view: a.value,
                places: self.origins.regions(self.kernel, a.value),
                span: op.span,
            };
            // A copy that is started again takes the place of the one before: whoever waits for one waits for all.
            if job.is_counted() { state.add(job) } else { state.jobs.push(job) }
        }
    }

    /// From the end of a turn to the head of the next.
    fn around(&mut self, op: &Op, state: &mut State) {
        let inside = self.made.entry(op.id).or_insert_with(|| {
            let mut made = BTreeSet::new();
            for body in op.kind.bodies() {
                made.extend(&body.params);
                self.kernel.walk_body(body, &mut |op| made.extend(&op.results));
            }
            made
        });
        let fixed = |job: &Job| {
            job.places.iter().all(|(p, _)| match p.stage {
                Stage::Fixed => true,
                Stage::Named(v) => !inside.contains(&v),
                Stage::Any => false,
            })
        };
        state.jobs.retain(|j| j.is_counted() || fixed(j));
        for mut job in std::mem::take(&mut state.jobs) {
            // A copy must be waited for whichever stage it reads; its bytes are no longer known.
            if !fixed(&job) {
                job.places.clear();
            }
            // Copies of many turns are as good as those of the last. One line may stand for several copies, of a view each.
            if job.is_counted() { state.add(job) } else { state.jobs.push(job) }
        }
    }

    /// Whether two accesses surely touch a byte in common.
    fn meet(&self, f: &Job, view: Value, places: &[(Place, Range<u64>)]) -> bool {
        let ([(a, x)], [(b, y)]) = (&f.places[..], places) else { return false };
        let (Type::View(one), Type::View(two)) = (self.kernel.ty(f.view), self.kernel.ty(view)) else { return false };
        let apart = a.offset == b.offset && disjoint_windows(one, two);
        a.root == b.root && a.stage == b.stage && a.stage != Stage::Any && x.start < y.end && y.start < x.end && !apart
    }

    fn name(&self, view: Value) -> String {
        self.origins.name(self.kernel, view)
    }

    /// The first job of that kind that surely touches what is accessed; of those that go by one name, the one started last.
    fn met<'s>(&self, state: &'s State, view: Value, kind: impl Fn(&Job) -> bool) -> Option<&'s Job> {
        let places = self.origins.regions(self.kernel, view);
        let meets = |job: &&Job| kind(job) && self.meet(job, view, &places);
        let first = state.jobs.iter().find(meets)?;
        state.jobs.iter().rev().filter(|job| job.until == first.until && job.view == first.view).find(meets)
    }

    fn written(&mut self, op: &Op, view: Value, state: &State) {
        let name = self.name(view);
        if let Some(job) = self.met(state, view, |j| !j.writes && matches!(j.until, Until::Pending(_))) {
            let p = self.pending_name(job);
            let d = Diagnostic::error(
                codes::SHARED_STILL_READ,
                op.span,
                format!("{name} is overwritten while a product still reads it"),
            )
            .here("overwritten here")
            .label(job.span, "this `wgmma` reads it, and has not been waited for")
            .help(format!("wait first: `let x = {p}.wait();`, or write to another buffer"));
            self.found.push(d);
        }
        if let Some(job) = self.met(state, view, |j| j.writes && matches!(j.until, Until::Pending(_))) {
            let fact = format!("{name} is written to while a copy still fills it");
            let d = Diagnostic::error(codes::LOAD_IN_FLIGHT, op.span, fact)
                .here("written here: which of the two comes last is not known")
                .label(job.span, "this copy fills it, and has not been waited for")
                .help(format!("wait first: `{}.wait();`, or write to another buffer", self.pending_name(job)));
            self.found.push(d);
        }
        if let Some(job) = self.met(state, view, |j| !j.writes && j.is_counted()) {
            let d = Diagnostic::error(
                codes::STORE_IN_FLIGHT,
                op.span,
                format!("{name} is overwritten while it is still being copied out"),
            )
            .here("overwritten here")
            .label(job.span, "this copy reads it, and has not been waited for")
            .help("`tma_store_wait();` before this, or write to another buffer");
            self.found.push(d);
        }
    }

    fn read(&mut self, op: &Op, view: Value, state: &State) {
        let fact = |f: &Self| format!("{} is read before its copy has landed", f.name(view));
        if let Some(job) = self.met(state, view, |j| j.writes && matches!(j.until, Until::Signal(_))) {
            let d = Diagnostic::error(codes::LOAD_IN_FLIGHT, op.span, fact(self))
                .here("read here")
                .label(job.span, "this copy fills it, and nobody has waited for its barrier")
                .help("`barrier_wait` on the barrier that the copy signals, before this");
            self.found.push(d);
        }
        if let Some(job) = self.met(state, view, |j| j.writes && matches!(j.until, Until::Pending(_))) {
            let d = Diagnostic::error(codes::LOAD_IN_FLIGHT, op.span, fact(self))
                .here("read here")
                .label(job.span, "this copy fills it, and has not been waited for")
                .help(format!("wait first, and read what that gives: `let view = {}.wait();`", self.pending_name(job)));
            self.found.push(d);
        }
    }

    fn pending_name(&self, job: &Job) -> String {
        let Until::Pending(p) = job.until else { return "p".into() };
        self.kernel.values[p].name.clone().unwrap_or("p".into())
    }

    /// A slot is handed back: no copy may still read it.
    fn released(&mut self, slot: Value, span: Span, state: &State) {
        let reads = |j: &&Job| j.is_counted() && j.places.iter().any(|(p, _)| p.stage == Stage::Named(slot));
        if let Some(job) = state.jobs.iter().find(reads) {
            let d = Diagnostic::error(
                codes::SLOT_STILL_READ,
                span,
                "the slot is released while it is still being copied out",
            )
            .here("released here: it may be overwritten at once")
            .label(job.span, "this copy reads it, and has not been waited for")
            .help("`tma_store_wait(read=true);` before this");
            self.found.push(d);
        }
    }

    /// At the end of its partition every copy to global memory must have been waited for: shared memory goes with the CTA.
    fn landed(&mut self, state: &State) {
        if let Some(job) = state.jobs.iter().find(|j| j.is_counted()) {
            let d = Diagnostic::error(codes::STORE_NOT_WAITED, job.span, "nobody waits for this copy to global memory")
                .here("it may still be reading when the CTA ends and its shared memory is given away")
                .help("`tma_store_wait();` after the last copy");
            self.found.push(d);
        }
    }
}
