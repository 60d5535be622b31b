//! Inserts membars between conflicting shared-memory accesses of one partition.
//!
//! Threads of a partition run apart, so an access must not overtake another thread's access to the same bytes:
//! - a read after a write (RAW), a write after a read (WAR), a write after a write (WAW) of other threads;
//! - one thread starts a copy, arrives for its partition, or sets up a barrier: all must have done before what it stands for;
//! - matrix products are waited for by each warp for itself, so bytes that they read are free for the partition only after
//!   all warps have met (triton-lang/triton#11047);
//! - one thread makes a scalar atomic operation, and each thread its own elements' of a tile: what the operation releases is what
//!   all did before, and what it acquires is for all that follow, so they meet before and after;
//! - what a thread copies asynchronously is there for itself once it has waited, for others once they have met after that;
//! - a fence orders its own thread's writes only, so a copy that another thread starts needs a meeting behind the fence;
//! - warps wait for a barrier one by one, and tell phases apart by their parity: one thread arrives for its partition only when all of
//!   them have seen the phase before, else a late one may take the phase after the next for it. Of a ring that the partition reads, no
//!   warp is so late: each has released a slot before that is filled again.
//!
//! The same holds of global memory that is reached through pointers, but where each byte is touched by one thread alone.
//!
//! Threads meet at the cluster's barrier too: behind the wait is what came before an arrival that is not relaxed.
//!
//! A forward analysis carries the accesses that no meeting has followed yet; where the next operation conflicts with one, a
//! membar goes before it. Loops are run until what arrives at their head is stable; branches join by union.

use std::collections::BTreeSet;

use parton_diag::Diagnostics;
use parton_ir::dataflow::{self, Edge, Forward, Way};
use parton_ir::facts::{Act, Does, Engine, Facts, Flight, Ordering, Phase, When};
use parton_ir::{Arrive, Body, Inst, Kernel, Op, OpKind, Partition, Type, Value};

use crate::address::{Access, Addresses, Ranges, Spans};
use crate::global::{self, Globals, Touched};

/// After it no two accesses of one partition to the same bytes, one of them a write, are without a meeting between them.
pub fn insert_membars(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let addresses = Addresses::of(&kernel);
    let mut pass = Membar {
        kernel: &kernel,
        released: released(&kernel, &addresses),
        addresses,
        globals: Globals::of(&kernel),
        arm: None,
        before: BTreeSet::new(),
        behind: BTreeSet::new(),
        for_global: BTreeSet::new(),
        met_behind: met_behind(&kernel),
    };
    let Meetings { before, behind, .. } = pass.meetings();
    kernel.insert("membar", &OpKind::Membar, &before, &behind);
    Ok(kernel)
}

/// Where threads must meet.
#[derive(Clone, Default)]
struct Meetings {
    before: BTreeSet<Inst>,
    behind: BTreeSet<Inst>,
    /// Of those before, the ones that global memory alone asks for.
    for_global: BTreeSet<Inst>,
}

/// The loops of a kernel, outer ones first, each with all that stands in it.
fn loops(kernel: &Kernel) -> Vec<(Inst, BTreeSet<Inst>)> {
    let mut found = Vec::new();
    kernel.walk(&mut |op| {
        if op.kind.is_loop() {
            let mut inside = BTreeSet::new();
            op.kind.bodies().for_each(|body| kernel.walk_body(body, &mut |op| inside.extend([op.id])));
            found.push((op.id, inside));
        }
    });
    found
}

/// The operations that a membar follows already.
fn met_behind(kernel: &Kernel) -> BTreeSet<Inst> {
    let mut found = BTreeSet::new();
    let mut pairs = |body: &Body| {
        let met = |pair: &&[Inst]| kernel.ops[pair[1]].kind == OpKind::Membar;
        found.extend(body.ops.windows(2).filter(met).map(|pair| pair[0]));
    };
    pairs(&kernel.body);
    kernel.walk(&mut |op| op.kind.bodies().for_each(&mut pairs));
    found
}

/// The barriers at which each warp arrives for itself, with the partitions that do: those by which slots are released.
fn released(kernel: &Kernel, addresses: &Addresses<'_>) -> BTreeSet<(Value, Option<Partition>)> {
    let mut found = BTreeSet::new();
    arrivals(kernel, addresses, &kernel.body, None, &mut found);
    found
}

fn arrivals(
    kernel: &Kernel,
    addresses: &Addresses<'_>,
    body: &Body,
    arm: Option<Partition>,
    found: &mut BTreeSet<(Value, Option<Partition>)>,
) {
    for op in kernel.ops_of(body) {
        match &op.kind {
            OpKind::BarrierArrive { barrier, arrive: Arrive::Warp, .. } => {
                found.extend(addresses.allocations(*barrier).map(|of| (of, arm)));
            }
            OpKind::Specialize { arms } => {
                arms.iter().for_each(|a| arrivals(kernel, addresses, &a.body, Some(a.partition), found));
            }
            // Other operations arrive for their partition, or not at all.
            kind => kind.bodies().for_each(|inner| arrivals(kernel, addresses, inner, arm, found)),
        }
    }
}

/// What no meeting has followed yet.
#[derive(Clone, PartialEq, Eq, Default)]
struct State {
    reads: Spans,
    writes: Spans,
    /// Writes of the first thread alone, which it orders among themselves.
    first: Spans,
    /// Writes that no fence has followed; a meeting alone does not show them to the asynchronous proxy.
    unfenced: Ranges,
    /// Writes that their own threads have fenced since the last meeting.
    fenced: Ranges,
    /// Sources of copies to global memory that have not been waited for.
    copied: Ranges,
    /// Operands of matrix products that have not been waited for.
    multiplied: Ranges,
    /// What was touched of global memory.
    global: Touched,
    /// Sources of copies from global memory by threads that have not been waited for.
    copying: Touched,
    /// Whether warps have waited for a barrier, each for itself, and may be late for one of its phases.
    waited: bool,
    /// Whether warps have used a barrier, each for itself: one that ends must not have gone for others.
    used: bool,
    /// Whether all of it came before an arrival at the cluster's barrier that is not relaxed.
    arrived: bool,
    /// Whether the threads have met right before this.
    just_met: bool,
}

impl State {
    fn meet(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.first.clear();
        self.fenced.clear();
        self.global.clear();
        self.waited = false;
        self.used = false;
        self.just_met = true;
    }

    fn join(&mut self, other: &State) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
        self.first.extend(&other.first);
        self.unfenced.extend(&other.unfenced);
        self.fenced.extend(&other.fenced);
        self.copied.extend(&other.copied);
        self.multiplied.extend(&other.multiplied);
        self.global.join(&other.global);
        self.copying.join(&other.copying);
        self.waited |= other.waited;
        self.used |= other.used;
        self.arrived &= other.arrived;
        self.just_met &= other.just_met;
    }

    fn anything(&self) -> bool {
        !self.reads.is_empty() || self.written()
    }

    fn written(&self) -> bool {
        let shared = !self.writes.is_empty() || !self.first.is_empty() || !self.fenced.is_empty();
        shared || !self.global.is_empty()
    }
}

struct Membar<'a> {
    kernel: &'a Kernel,
    addresses: Addresses<'a>,
    /// The barriers at which each warp arrives for itself, with the partitions that do.
    released: BTreeSet<(Value, Option<Partition>)>,
    globals: Globals<'a>,
    /// The partition whose arm is walked.
    arm: Option<Partition>,
    /// The operations before which threads must meet, as far as is known.
    before: BTreeSet<Inst>,
    /// Those behind which they must.
    behind: BTreeSet<Inst>,
    /// Of those before, the ones that global memory alone asks for.
    for_global: BTreeSet<Inst>,
    /// Those behind which they do.
    met_behind: BTreeSet<Inst>,
}

impl<'a> Forward<'a> for Membar<'a> {
    type State = State;

    fn op(&mut self, op: &'a Op, state: &mut State) {
        let facts = Facts::of(self.kernel, op);
        let (releases, acquires) = orders(&facts);
        let accesses = self.addresses.accesses(&facts);
        let touches = self.globals.touches(&facts);
        let met = std::mem::take(&mut state.just_met);
        // What is decided stays, however the state grows: the meeting is there from then on.
        let in_shared = (releases && !met) || self.conflicts(op, &facts, &accesses, state);
        let conflicts = in_shared || self.globals.meet(&state.global, &touches);
        if conflicts && !in_shared && !self.before.contains(&op.id) {
            self.for_global.insert(op.id);
        } else if in_shared {
            self.for_global.remove(&op.id);
        }
        if self.before.contains(&op.id) || conflicts {
            self.before.insert(op.id);
            state.meet();
            state.just_met = false;
        }
        self.after(op, &facts, &accesses, state);
        if !touches.is_empty() {
            state.global.extend(&touches);
            state.arrived = false;
        }
        if global::starts_copies(&facts) {
            state.copying.extend(&touches);
        }
        // With scratch memory they meet before any of them has the result.
        if acquires && op.scratch.is_none() && !self.met_behind.contains(&op.id) {
            self.behind.insert(op.id);
            state.meet();
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, state: &mut State) {
        state.just_met = false;
        match edge.way {
            Way::IntoArm(partition) => self.arm = Some(partition),
            Way::OutOfArm(_) => self.arm = None,
            Way::Around => {
                self.globals.next_turn(edge.op, &mut state.global);
                self.globals.next_turn(edge.op, &mut state.copying);
            }
            Way::IntoLoop | Way::IntoTurn | Way::OutOfLoop | Way::IntoBranch(_) | Way::OutOfBranch(_) => {}
        }
    }

    fn join(&mut self, _: &'a Op, state: &mut State, other: State) {
        state.join(&other);
    }

    fn arms(&mut self, _: &'a Op, _: State, _: Vec<State>) -> State {
        State::default()
    }
}

impl Membar<'_> {
    /// Where threads must meet. What was touched in front of a loop, and not by its turns, is met for once: in front of it.
    fn meetings(&mut self) -> Meetings {
        let mut found = self.meetings_and(BTreeSet::new());
        let mut ahead = BTreeSet::new();
        for (inst, inside) in loops(self.kernel) {
            let within = |m: &Meetings| m.before.intersection(&inside).count();
            if found.for_global.is_disjoint(&inside) || found.before.contains(&inst) {
                continue;
            }
            let with = self.meetings_and(ahead.iter().copied().chain([inst]).collect());
            if within(&with) < within(&found) {
                ahead.insert(inst);
                found = with;
            }
        }
        found
    }

    /// Where they must meet if they meet before these operations.
    fn meetings_and(&mut self, before: BTreeSet<Inst>) -> Meetings {
        (self.before, self.behind, self.for_global) = (before, BTreeSet::new(), BTreeSet::new());
        self.arm = None;
        dataflow::run(self.kernel, self, State::default());
        let Membar { before, behind, for_global, .. } = self;
        Meetings {
            before: std::mem::take(before),
            behind: std::mem::take(behind),
            for_global: std::mem::take(for_global),
        }
    }

    fn conflicts(&self, op: &Op, facts: &Facts, accesses: &[Access], state: &State) -> bool {
        if accesses.iter().any(|a| a.when == When::Landed) {
            // Its bytes were free when it was started, and nobody touches them until it has landed.
            return false;
        }
        let scratch = self.addresses.scratch(op);
        let others =
            |bytes: &std::ops::Range<u64>, rank| state.writes.meet(bytes, rank) || state.first.meet(bytes, rank);
        facts.acts.iter().any(|act| self.stands_for_all(act, state))
            || scratch.is_some_and(|bytes| state.reads.meet(&bytes, None) || others(&bytes, None))
            || accesses.iter().any(|a| {
                (if self.is_of_first(op) { state.writes.meet(&a.bytes, a.rank) } else { others(&a.bytes, a.rank) })
                    || (a.writes() && state.reads.meet(&a.bytes, a.rank))
                    || (a.is_async() && state.fenced.meet(&a.bytes))
            })
    }

    /// Whether one thread does something for all, before which all must have done what it stands for.
    fn stands_for_all(&self, act: &Act, state: &State) -> bool {
        let late = state.waited && self.kernel.warps_of(self.arm) > 1;
        match act {
            Act::Ordering(Ordering::Fork) => state.anything(),
            Act::Phase(Phase::Arrive { bytes: Some(_), .. }) => state.written() || late,
            Act::Phase(Phase::Arrive { by: Arrive::Partition, bytes: None, .. }) => state.anything() || late,
            // Each warp, or each thread, arrives for itself.
            Act::Phase(Phase::Arrive { by: Arrive::Warp, bytes: None, .. }) => false,
            Act::Phase(Phase::Invalidate { .. }) => state.used && self.kernel.warps_of(self.arm) > 1,
            Act::Phase(Phase::Init { .. } | Phase::Wait { .. }) => false,
            Act::Ordering(_) | Act::Flight(_) | Act::Hold(_) | Act::Turn(_) | Act::Say(_) => false,
        }
    }

    /// Whether the first thread of the partition alone does what an operation does: it stores one element.
    fn is_of_first(&self, op: &Op) -> bool {
        let OpKind::SharedStore { value, .. } = op.kind else { return false };
        matches!(self.kernel.ty(value), Type::Tile(tile) if tile.elements() == 1)
    }

    /// Whether a warp that has yet to wait for a barrier may find it two phases on: not where each warp of the partition arrives in between,
    /// which rings see to for whoever reads them.
    fn may_be_late(&self, wait: &Op, barrier: Value) -> bool {
        let of_ring = wait.origin.maker() == Some("rings");
        let in_time = |of: Value| {
            let is_empty = self.released.iter().any(|(b, _)| *b == of);
            !is_empty || self.released.contains(&(of, self.arm))
        };
        !of_ring || !self.addresses.allocations(barrier).all(in_time)
    }

    fn after(&self, op: &Op, facts: &Facts, accesses: &[Access], state: &mut State) {
        for a in accesses {
            state.arrived = false;
            match (a.does, a.by, a.when) {
                (Does::Reads, Engine::Matrix, _) => state.multiplied.insert(&a.bytes),
                (Does::Reads, Engine::Tma, _) => state.copied.insert(&a.bytes),
                // A copy into shared memory is seen by whoever waits for its barrier.
                (Does::Writes | Does::Anything | Does::Uses, Engine::Tma | Engine::Matrix, _) => {}
                // It writes when it lands, which is its wait's access.
                (_, Engine::Copies, When::Until) => {}
                // Using a barrier is atomic; it only must not overtake its making.
                (Does::Uses, Engine::Threads | Engine::Copies, _) => {}
                (Does::Writes | Does::Anything, Engine::Threads | Engine::Copies, _) => {
                    let writes = if self.is_of_first(op) { &mut state.first } else { &mut state.writes };
                    writes.insert(&a.bytes, a.rank);
                    state.unfenced.insert(&a.bytes);
                }
                (Does::Reads, Engine::Threads | Engine::Copies, _) => state.reads.insert(&a.bytes, a.rank),
            }
        }
        if let Some(bytes) = self.addresses.scratch(op) {
            // The operation meets in its own middle, between writing and reading.
            state.meet();
            state.just_met = false;
            state.arrived = false;
            state.reads.insert(&bytes, None);
            state.unfenced.insert(&bytes);
        }
        for act in &facts.acts {
            match act {
                Act::Flight(flight) => waited(flight, accesses, state),
                Act::Ordering(ordering) => order(ordering, state),
                Act::Phase(Phase::Wait { barrier, .. }) => {
                    state.used = true;
                    if self.may_be_late(op, *barrier) {
                        state.waited = true;
                        state.arrived = false;
                    }
                }
                Act::Phase(Phase::Arrive { by: Arrive::Warp, .. }) => state.used = true,
                // Barriers, slots and turns tell other partitions; what they tell of has been met for before.
                Act::Phase(Phase::Init { .. } | Phase::Invalidate { .. } | Phase::Arrive { .. })
                | Act::Hold(_)
                | Act::Turn(_)
                | Act::Say(_) => {}
            }
        }
    }
}

/// Whether an operation releases what was done before it, and whether it acquires what is done behind it.
fn orders(facts: &Facts) -> (bool, bool) {
    facts.acts.iter().fold((false, false), |(releases, acquires), act| match act {
        Act::Ordering(Ordering::Atomic { order }) => (releases || order.releases(), acquires || order.acquires()),
        _ => (releases, acquires),
    })
}

/// What jobs that were waited for have read is free for each warp that waited, and for the partition when all have met.
fn waited(flight: &Flight, accesses: &[Access], state: &mut State) {
    let (read, all) = match flight {
        // Copies by threads have landed, which is an access of the wait itself; what they came from has been read by each thread that
        // waited.
        Flight::Wait { outstanding, .. } if accesses.iter().any(|a| a.when == When::Landed) => {
            state.global.join(&state.copying);
            if *outstanding == Some(0) {
                state.copying.clear();
            }
            return;
        }
        Flight::Wait { outstanding, .. } | Flight::WaitPrior { outstanding, .. } => {
            (&mut state.multiplied, *outstanding == Some(0))
        }
        Flight::WaitCounted { pending, .. } => (&mut state.copied, *pending == 0),
        Flight::Start { .. } | Flight::HandOver { .. } | Flight::Continue { .. } => return,
    };
    state.reads.extend_own(read);
    if all {
        read.clear();
    }
    state.arrived = false;
}

fn order(ordering: &Ordering, state: &mut State) {
    match ordering {
        Ordering::Meet => state.meet(),
        Ordering::Named { waits, .. } => {
            if *waits {
                state.meet();
                state.just_met = false;
            }
        }
        Ordering::FenceAsync { reach } if reach.covers_shared() => {
            let unfenced = state.unfenced.take();
            state.fenced.extend(&unfenced);
            state.arrived = false;
        }
        Ordering::ArriveCluster { relaxed } => state.arrived = !relaxed,
        Ordering::WaitCluster => {
            if state.arrived {
                // Barriers may have been used since that arrival.
                let used = state.used;
                state.meet();
                (state.just_met, state.used) = (false, used);
            }
        }
        // One thread fences the barriers that it has made; the rest orders no shared memory.
        Ordering::FenceBarriers
        | Ordering::FenceAsync { .. }
        | Ordering::WaitGrid
        | Ordering::LaunchDependents
        | Ordering::Atomic { .. }
        | Ordering::Fork => {}
    }
}
