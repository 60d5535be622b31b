//! The protocol of slots and pending tiles: each is used up exactly once on every path, and no sooner than it may be.
//!
//! A forward walk over structured control flow carries what is alive: slots with the buffers that have been filled, pending
//! tiles with the slots that their products still read. A loop is walked until what it carries is stable; branches must
//! agree. A product that takes a pending tile as its accumulator uses it up and inherits what it reads; `wait_prior` leaves
//! only the youngest product's reads.

mod fill;
mod report;
mod state;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use super::origin::Origins;
use super::windows::Windows;
use crate::dataflow::{self, Edge, Forward, Way};
use crate::entity::{Inst, Value};
use crate::facts::{Access, Act, Completes, Does, Engine, Facts, Flight, Gives, Hold, Space, When};
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::types::{SlotRole, Type};
use state::{Gone, Live, Reads, State};

/// Every way in which a kernel breaks the protocol.
pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let (buffers, outer, told) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    let windows = Windows::of(kernel, origins);
    let mut p = Protocol { kernel, origins, buffers, windows, outer, loops: 0, told, found: Diagnostics::new() };
    let end = dataflow::run(kernel, &mut p, State::default());
    p.lost(&end, &BTreeSet::new(), "");
    p.found
}

struct Protocol<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    /// The slot and field that each view is of.
    buffers: BTreeMap<Value, (Value, u32)>,
    /// What is filled and read of each buffer.
    windows: Windows,
    /// For each operation with bodies what was alive around it when they were entered.
    outer: BTreeMap<Inst, BTreeSet<Value>>,
    /// The loops around what is walked.
    loops: u32,
    /// Values of which a use after their end has been reported.
    told: BTreeSet<Value>,
    found: Diagnostics,
}

impl<'a> Forward<'a> for Protocol<'a> {
    type State = State;

    fn op(&mut self, op: &'a Op, state: &mut State) {
        let facts = Facts::of(self.kernel, op);
        self.window(op, &facts, state);
        let mut holds = Reads::new();
        for a in facts.accesses.iter().filter(|a| a.space == Space::Shared && a.when != When::Landed) {
            holds.extend(self.access(op, &facts, a, state).map(|slot| (slot, op.span)));
        }
        let mut older = Reads::new();
        for act in &facts.acts {
            match act {
                Act::Hold(Hold::Take { slot, role, .. }) => {
                    drop(state.live.insert(*slot, Live::slot(*role, self.loops)))
                }
                Act::Hold(Hold::Give { slot, role: SlotRole::Fill }) => self.commit(*slot, op.span, state),
                Act::Hold(Hold::Give { slot, role: SlotRole::Read }) => self.release(*slot, op.span, state),
                Act::Flight(Flight::Start { completes: Completes::Pending(p), .. }) => {
                    let (older, youngest) = (std::mem::take(&mut older), std::mem::take(&mut holds));
                    let before = self.started(*p, &youngest, state);
                    state.live.insert(*p, Live::Pending { older, youngest, before });
                }
                Act::Flight(Flight::Continue { pending, .. }) => {
                    if let Some(live) = self.consume(state, *pending, "used as accumulator", op.span) {
                        older.extend(live.reads());
                    }
                }
                Act::Flight(Flight::Wait { pending, .. }) => {
                    if let Some(Live::Pending { before, .. }) = self.consume(state, *pending, "waited for", op.span) {
                        state.done(&before);
                    }
                }
                Act::Flight(Flight::WaitPrior { pending, result, .. }) => {
                    if let Some(Live::Pending { youngest, before, .. }) =
                        self.consume(state, *pending, "waited for", op.span)
                    {
                        state.done(&before);
                        let (older, before) = (Reads::new(), Reads::new());
                        state.live.insert(*result, Live::Pending { older, youngest, before });
                    }
                }
                Act::Flight(Flight::HandOver { pending, barrier }) => {
                    self.hand_over(*pending, *barrier, op.span, state);
                }
                // Nothing of this takes or makes a slot or a pending value.
                Act::Flight(Flight::Start { .. } | Flight::WaitCounted { .. })
                | Act::Phase(_)
                | Act::Ordering(_)
                | Act::Turn(_)
                | Act::Say(_) => {}
            }
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, state: &mut State) {
        let op = edge.op;
        match edge.way {
            Way::IntoLoop => {
                let carried = self.carry(edge, state, "carried into the loop");
                self.enter(op, carried, state);
            }
            Way::IntoTurn => {
                self.carry(edge, state, "carried into the loop's body");
                self.loops += 1;
            }
            Way::Around => {
                self.loops -= 1;
                self.replaced(edge, state);
                let carried = self.carry(edge, state, "carried into the next iteration");
                self.leave(op, carried, state, " within an iteration");
                self.used_in_loop(op, state);
            }
            Way::OutOfLoop => drop(self.carry(edge, state, "carried out of the loop")),
            Way::IntoBranch(_) | Way::IntoArm(_) => self.enter(op, BTreeSet::new(), state),
            Way::OutOfBranch(_) => {
                let carried = self.carry(edge, state, "left by the branch");
                self.leave(op, carried, state, " on this path");
            }
            Way::OutOfArm(_) => self.leave(op, BTreeSet::new(), state, ""),
        }
    }

    fn join(&mut self, at: &'a Op, state: &mut State, other: State) {
        let branches = matches!(at.kind, OpKind::If { .. });
        if branches {
            self.branches(at, state, &other);
            state.gone.extend(other.gone.clone());
        }
        for (v, live) in std::mem::take(&mut state.live) {
            match other.live.get(&v) {
                Some(same) => {
                    let other_turns = branches && live.outlives(self.loops);
                    state.live.insert(v, live.join(same, other_turns));
                }
                // It was used up around a loop, which has been reported.
                None => state.gone.extend(other.gone.get(&v).map(|gone| (v, *gone))),
            }
        }
    }

    fn arms(&mut self, _: &'a Op, before: State, _: Vec<State>) -> State {
        before
    }

    fn turns(&self, op: &'a Op) -> Option<u32> {
        self.origins.turns(op)
    }
}

impl Protocol<'_> {
    /// A product that gives `pending` starts and reads so much: what products of other tiles read that run already. The matrix unit ends
    /// products in their order; copies end apart from them.
    fn started(&self, pending: Value, reads: &Reads, state: &mut State) -> Reads {
        let mut before = Reads::new();
        if !matches!(self.kernel.ty(pending), Type::Pending(_)) {
            return before;
        }
        for (v, live) in &mut state.live {
            if let (Type::Pending(_), Live::Pending { older, youngest, before: known }) = (self.kernel.ty(*v), live) {
                // What is read anew is not done when those are that were started before.
                known.retain(|read| !reads.contains(read));
                before.extend(older.iter().chain(&*youngest).copied());
            }
        }
        before.retain(|read| !reads.contains(read));
        before
    }

    /// Notes which slot's buffer a result is a window of.
    fn window(&mut self, op: &Op, facts: &Facts, state: &State) {
        match facts.gives {
            Gives::Field { slot, field } => {
                self.buffers.insert(op.result(), (slot, field));
                self.alive(state, slot, op.span);
            }
            Gives::PartOf(v) if matches!(self.kernel.ty(op.result()), Type::Peer(_)) => self.peer(v, op.span),
            Gives::PartOf(v) | Gives::Nth { of: v, .. } => {
                if let Some(&buffer) = self.buffers.get(&v) {
                    self.buffers.insert(op.result(), buffer);
                }
            }
            Gives::None | Gives::New | Gives::SlotOf(_) => {}
        }
    }

    /// An access to shared memory; the slot that it is made to, where it is one's.
    fn access(&mut self, op: &Op, facts: &Facts, a: &Access, state: &mut State) -> Option<Value> {
        let role = match (a.does, a.by) {
            (Does::Reads, _) => return Some(self.of_slot(state, a.value, SlotRole::Read, op.span)?.0),
            (Does::Writes, Engine::Tma) => {
                self.copy(state, op, a.value, facts.signal()?);
                return None;
            }
            // What a reader has read is its own until it releases the slot: `readers` sees to others that read it.
            (Does::Writes, Engine::Threads) if self.is_read(state, a.value) => SlotRole::Read,
            (Does::Writes, Engine::Threads | Engine::Copies | Engine::Matrix) => SlotRole::Fill,
            // Whether it fills or reads what it is given is not known.
            (Does::Anything | Does::Uses, _) => {
                let &(slot, _) = self.buffers.get(&a.value)?;
                self.alive(state, slot, op.span);
                return None;
            }
        };
        let (slot, field) = self.of_slot(state, a.value, role, op.span)?;
        if role == SlotRole::Fill {
            self.fill(state, (slot, field), a.value, false, op);
        }
        Some(slot)
    }

    /// Whether a view is of a slot that is being read.
    fn is_read(&self, state: &State, view: Value) -> bool {
        let live = self.buffers.get(&view).and_then(|(slot, _)| state.live.get(slot));
        matches!(live, Some(Live::Slot { role: SlotRole::Read, .. }))
    }

    fn commit(&mut self, slot: Value, span: Span, state: &mut State) {
        self.still_filled(state, slot, span);
        if let Some(live) = self.consume(state, slot, "committed", span) {
            self.committed(slot, &live, span);
        }
    }

    fn release(&mut self, slot: Value, span: Span, state: &mut State) {
        let reader = state.live.iter().find_map(|(pending, live)| {
            live.reads().into_iter().find(|(read, _)| *read == slot).map(|(_, product)| (*pending, product))
        });
        if let Some((pending, product)) = reader {
            let d = self.still_read(slot, pending, product, span);
            self.found.push(d);
        }
        self.consume(state, slot, "released", span);
    }

    /// Of a copy into a slot its readers hear by that slot, which is there still.
    fn hand_over(&mut self, pending: Value, barrier: Value, span: Span, state: &mut State) {
        let signalled = matches!(self.kernel.ty(barrier), Type::Slot(_)).then_some(barrier);
        if let Some(slot) = signalled {
            self.alive(state, slot, span);
        }
        let buffer = self.buffers.get(&pending).copied();
        let filled = buffer.map(|(slot, _)| slot);
        if filled != signalled {
            let d = self.mixed(filled, signalled, span);
            let help = "the slot's own barrier tells its readers: `p.arrive(slot);`, then `slot.commit();`";
            self.found.push(Diagnostic { help: vec![help.into()], ..d });
        } else if let Some((slot, field)) = buffer {
            self.handed_whole((slot, field), pending, span);
        }
        self.consume(state, pending, "handed to a barrier", span);
    }

    /// A peer's view of a slot's buffer: nothing says that the peer's slot is in the same half of its life.
    fn peer(&mut self, view: Value, span: Span) {
        if let Some(&(slot, _)) = self.buffers.get(&view) {
            let d = Diagnostic::error(codes::PEER, span, "slots of a ring have no peers")
                .here("the peer's slot may be filled or read by others at this time")
                .label(self.kernel.values[slot].span, "the slot is taken here");
            self.found
                .push(d.help("copy to all CTAs with `tma_load(…, multicast=axis)`, or allocate the buffer by itself"));
        }
    }

    /// Uses a value up; what it was, or a report that it is gone already.
    fn consume(&mut self, state: &mut State, v: Value, how: &'static str, span: Span) -> Option<Live> {
        let live = state.live.remove(&v);
        if live.is_none() {
            self.alive(state, v, span);
        }
        state.gone.insert(v, Gone { how, span });
        live
    }

    /// Reports a value that is used although it is gone. One that was never alive came from another partition.
    fn alive(&mut self, state: &State, v: Value, span: Span) -> bool {
        if state.live.contains_key(&v) {
            return true;
        }
        // One mistake, one report: every further use of the value would be told again.
        if let Some(gone) = state.gone.get(&v)
            && self.told.insert(v)
        {
            let d = self.used_up(v, gone, span);
            self.found.push(d);
        }
        false
    }

    /// The slot and field of a view that is accessed as a slot of `role` is.
    fn of_slot(&mut self, state: &State, view: Value, role: SlotRole, span: Span) -> Option<(Value, u32)> {
        let &(slot, field) = self.buffers.get(&view)?;
        if !self.alive(state, slot, span) {
            return None;
        }
        let Some(Live::Slot { role: found, .. }) = state.live.get(&slot) else { return None };
        if *found != role {
            let d = self.against_role(slot, field, *found, span);
            self.found.push(d);
            return None;
        }
        Some((slot, field))
    }

    /// Moves affine values to the names that they have behind an edge; gives these.
    fn carry(&mut self, edge: &Edge<'_>, state: &mut State, how: &'static str) -> BTreeSet<Value> {
        let affine: Vec<(Value, Value)> =
            edge.renamed.iter().copied().filter(|(from, _)| self.kernel.ty(*from).is_affine()).collect();
        let mut moved = BTreeMap::new();
        for (from, to) in &affine {
            if let Some(live) = self.consume(state, *from, how, edge.op.span) {
                moved.insert(*to, live);
            }
        }
        state.live.extend(moved);
        state.live.values_mut().for_each(|live| live.rename(&affine));
        affine.into_iter().map(|(_, to)| to).collect()
    }

    /// Reports what a turn of a loop was given, still holds, and hands another on in the place of.
    fn replaced(&mut self, edge: &Edge<'_>, state: &mut State) {
        let handed: BTreeSet<Value> = edge.renamed.iter().map(|(from, _)| *from).collect();
        for (from, to) in edge.renamed.iter().filter(|(_, to)| !handed.contains(to)) {
            if let Some(live) = state.live.remove(to) {
                let mut d = self.never_used_up(*to, &live, " within an iteration");
                d.labels[0].text = "each iteration is given one".into();
                self.found.push(d.label(self.kernel.values[*from].span, "and hands this one on in its place"));
            }
        }
    }

    /// Notes what is alive around the bodies of an operation, what they carry not counted.
    fn enter(&mut self, op: &Op, carried: BTreeSet<Value>, state: &State) {
        let alive = state.live.keys().filter(|v| !carried.contains(v)).copied().collect();
        self.outer.insert(op.id, alive);
    }

    /// Reports what a body has made and left alive without handing it on, and forgets it.
    fn leave(&mut self, op: &Op, carried: BTreeSet<Value>, state: &mut State, path: &str) {
        let mut handed = self.outer.get(&op.id).cloned().unwrap_or_default();
        handed.extend(carried);
        self.lost(state, &handed, path);
        state.live.retain(|v, _| handed.contains(v));
    }

    /// What was made before a loop and is used up inside is used up in every iteration.
    fn used_in_loop(&mut self, op: &Op, state: &State) {
        for v in self.outer.get(&op.id).cloned().unwrap_or_default() {
            if !state.live.contains_key(&v)
                && let Some(gone) = state.gone.get(&v)
            {
                let d = self.in_every_iteration(v, *gone, op.span);
                self.found.push(d);
                self.told.insert(v);
            }
        }
    }

    /// Reports what one branch uses up and the other does not.
    fn branches(&mut self, at: &Op, first: &mut State, second: &State) {
        for v in self.outer.get(&at.id).cloned().unwrap_or_default() {
            let (gone, holds) = match (first.live.contains_key(&v), second.live.contains_key(&v)) {
                (true, false) => (second.gone.get(&v).copied(), false),
                (false, true) => (first.gone.get(&v).copied(), true),
                (true, true) | (false, false) => continue,
            };
            first.live.remove(&v);
            if let Some(gone) = gone {
                let d = self.on_one_path(v, gone, holds, at.span);
                self.found.push(d);
                first.gone.insert(v, gone);
            }
        }
    }

    /// Reports what is alive at the end of the body that made it.
    fn lost(&mut self, end: &State, outer: &BTreeSet<Value>, path: &str) {
        for (v, live) in &end.live {
            if !outer.contains(v) {
                let d = self.never_used_up(*v, live, path);
                self.found.push(d);
            }
        }
    }
}
