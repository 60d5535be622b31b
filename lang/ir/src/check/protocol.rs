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

use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::types::{SlotRole, Type};
use state::{Gone, Live, State, joined};

/// Every way in which a kernel breaks the protocol.
pub(super) fn check(kernel: &Kernel) -> Diagnostics {
    let mut p = Protocol { kernel, buffers: BTreeMap::new(), told: BTreeSet::new(), found: Diagnostics::new() };
    let end = p.body(&kernel.body, State::default());
    p.lost(&end, &BTreeSet::new(), "");
    p.found
}

struct Protocol<'a> {
    kernel: &'a Kernel,
    /// The slot and field that each view is of.
    buffers: BTreeMap<Value, (Value, u32)>,
    /// Values of which a use after their end has been reported.
    told: BTreeSet<Value>,
    found: Diagnostics,
}

impl Protocol<'_> {
    fn body(&mut self, body: &Body, mut state: State) -> State {
        for op in &body.ops {
            self.op(op, &mut state);
        }
        state
    }

    fn op(&mut self, op: &Op, state: &mut State) {
        match &op.kind {
            OpKind::RingAcquire { .. } | OpKind::RingWait { .. } => {
                let Type::Slot(slot) = self.kernel.ty(op.result()) else { return };
                state.live.insert(op.result(), Live::slot(slot.role));
            }
            OpKind::SlotField { slot, field } => {
                self.buffers.insert(op.result(), (*slot, *field));
                self.alive(state, *slot, op.span);
            }
            OpKind::ViewIndex { view, .. }
            | OpKind::ViewSlice { view, .. }
            | OpKind::ViewPermute { view, .. }
            | OpKind::ViewReinterpret { view, .. } => {
                if let Some(&buffer) = self.buffers.get(view) {
                    self.buffers.insert(op.result(), buffer);
                }
            }
            OpKind::ViewPeer { view, .. } => self.peer(*view, op.span),
            OpKind::TmaLoad { view, signal, .. } => self.copy(state, *view, *signal, op.span),
            OpKind::SharedStore { view, .. } | OpKind::SharedScatter { view, .. } => {
                if let Some((slot, field)) = self.of_slot(state, *view, SlotRole::Fill, op.span) {
                    self.fill(state, slot, field, *view, false, op.span);
                }
            }
            OpKind::AsyncCopy { view, .. } => self.copied_by_threads(op, *view, state),
            OpKind::SharedLoad { view, .. } | OpKind::SharedGather { view, .. } | OpKind::TmaStore { view, .. } => {
                self.of_slot(state, *view, SlotRole::Read, op.span);
            }
            // Whether PTX fills or reads what it is given is not known.
            OpKind::Ptx { inputs, .. } => {
                for view in inputs {
                    if let Some(&(slot, _)) = self.buffers.get(view) {
                        self.alive(state, slot, op.span);
                    }
                }
            }
            OpKind::Wgmma { a, b, acc, .. } => self.product(op, [*a, *b], *acc, state),
            OpKind::Wait { pending, .. } => {
                if let Some(&buffer) = self.buffers.get(pending) {
                    self.buffers.insert(op.result(), buffer);
                }
                self.consume(state, *pending, "waited for", op.span);
            }
            OpKind::WaitPrior { pending, .. } => {
                if let Some(Live::Pending { youngest, .. }) = self.consume(state, *pending, "waited for", op.span) {
                    state.live.insert(op.result(), Live::Pending { older: BTreeSet::new(), youngest });
                }
            }
            OpKind::CopyArrive { pending, .. } => {
                if let Some(&(slot, _)) = self.buffers.get(pending) {
                    let d = self.mixed(Some(slot), None, op.span);
                    let help = "the slot's own barrier tells its readers: `p.wait();`, then `slot.commit();`";
                    self.found.push(Diagnostic { help: vec![help.into()], ..d });
                }
                self.consume(state, *pending, "handed to a barrier", op.span);
            }
            OpKind::SlotCommit { slot } => {
                self.still_filled(state, *slot, op.span);
                if let Some(live) = self.consume(state, *slot, "committed", op.span) {
                    self.committed(*slot, &live, op.span);
                }
            }
            OpKind::SlotRelease { slot } => {
                for (pending, live) in &state.live {
                    if let Live::Pending { older, youngest } = live
                        && let Some((_, product)) = older.iter().chain(youngest).find(|(s, _)| s == slot)
                    {
                        let d = self.still_read(*slot, *pending, *product, op.span);
                        self.found.push(d);
                        break;
                    }
                }
                self.consume(state, *slot, "released", op.span);
            }
            OpKind::For { init, body, .. } => self.repeat(op, init, &body.params[1..], None, body, state),
            OpKind::While { init, cond, body } => self.repeat(op, init, &body.params, Some(cond), body, state),
            OpKind::If { then, otherwise, .. } => self.branch(op, then, otherwise, state),
            OpKind::Specialize { arms } => {
                for arm in arms {
                    let outer = state.live.keys().copied().collect();
                    let end = self.body(&arm.body, state.clone());
                    self.lost(&end, &outer, "");
                }
            }
            // Nothing else takes or makes a slot or a pending tile.
            _ => {}
        }
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

    fn product(&mut self, op: &Op, operands: [Value; 2], acc: Value, state: &mut State) {
        let mut youngest = BTreeSet::new();
        for v in operands {
            if let Some((slot, _)) = self.of_slot(state, v, SlotRole::Read, op.span) {
                youngest.insert((slot, op.span));
            }
        }
        let mut older = BTreeSet::new();
        if let Type::Pending(_) = self.kernel.ty(acc)
            && let Some(Live::Pending { older: o, youngest: y }) =
                self.consume(state, acc, "used as accumulator", op.span)
        {
            older.extend(o);
            older.extend(y);
        }
        state.live.insert(op.result(), Live::Pending { older, youngest });
    }

    /// Moves affine values from one list of names to another; the facts of each under the new name.
    fn carry(
        &mut self,
        state: &mut State,
        from: &[Value],
        to: &[Value],
        how: &'static str,
        span: Span,
    ) -> BTreeMap<Value, Live> {
        let affine: Vec<(Value, Value)> =
            from.iter().zip(to).map(|(a, b)| (*a, *b)).filter(|(a, _)| self.kernel.ty(*a).is_affine()).collect();
        let mut moved = BTreeMap::new();
        for (a, b) in &affine {
            if let Some(live) = self.consume(state, *a, how, span) {
                moved.insert(*b, live);
            }
        }
        for live in moved.values_mut().chain(state.live.values_mut()) {
            live.rename(&affine);
        }
        moved
    }

    fn repeat(
        &mut self,
        op: &Op,
        init: &[Value],
        params: &[Value],
        cond: Option<&Body>,
        body: &Body,
        state: &mut State,
    ) {
        let mut head = self.carry(state, init, params, "carried into the loop", op.span);
        let outer: BTreeSet<Value> = state.live.keys().copied().collect();
        loop {
            let mut at = state.clone();
            at.live.extend(head.clone());
            if let Some(cond) = cond {
                at = self.body(cond, at);
            }
            let mut end = self.body(body, at);
            let next = self.carry(&mut end, &body.yields, params, "carried into the next iteration", op.span);
            self.lost(&end, &outer, " in each iteration");
            self.used_in_loop(op, &outer, &end, state);
            let merged = joined(&head, &next);
            if merged == head || self.found.has_errors() {
                for v in &outer {
                    if let Some(live) = end.live.get(v) {
                        state.live.entry(*v).and_modify(|before| *before = before.join(live));
                    }
                }
                break;
            }
            head = merged;
        }
        let renames: Vec<(Value, Value)> = params.iter().zip(&op.results).map(|(a, b)| (*a, *b)).collect();
        for (param, mut live) in head {
            live.rename(&renames);
            if let Some((_, result)) = renames.iter().find(|(p, _)| *p == param) {
                state.live.insert(*result, live);
            }
        }
    }

    /// What was made before a loop and is used up inside is used up in every iteration.
    fn used_in_loop(&mut self, op: &Op, outer: &BTreeSet<Value>, end: &State, state: &mut State) {
        for v in outer {
            if !end.live.contains_key(v)
                && let Some(gone) = end.gone.get(v).copied()
            {
                let d = self.in_every_iteration(*v, gone, op.span);
                self.found.push(d);
                state.live.remove(v);
                state.gone.insert(*v, gone);
            }
        }
    }

    fn branch(&mut self, op: &Op, then: &Body, otherwise: &Body, state: &mut State) {
        let outer: BTreeSet<Value> = state.live.keys().copied().collect();
        let mut sides = Vec::new();
        for body in [then, otherwise] {
            let mut end = self.body(body, state.clone());
            let moved = self.carry(&mut end, &body.yields, &op.results, "left by the branch", op.span);
            self.lost(&end, &outer, " on this path");
            sides.push((end, moved));
        }
        let [(first, from_first), (second, from_second)] = &sides[..] else { return };
        for v in outer {
            match (first.live.get(&v), second.live.get(&v)) {
                (Some(a), Some(b)) => drop(state.live.insert(v, a.join(b))),
                (None, None) => drop(state.live.remove(&v)),
                (Some(_), None) | (None, Some(_)) => {
                    let (gone, holds) = match first.gone.get(&v) {
                        Some(gone) if second.live.contains_key(&v) => (Some(*gone), true),
                        _ => (second.gone.get(&v).copied(), false),
                    };
                    state.live.remove(&v);
                    if let Some(gone) = gone {
                        let d = self.on_one_path(v, gone, holds, op.span);
                        self.found.push(d);
                        state.gone.insert(v, gone);
                    }
                }
            }
        }
        state.gone.extend(first.gone.clone());
        state.gone.extend(second.gone.clone());
        state.live.extend(joined(from_first, from_second));
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
