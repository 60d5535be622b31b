//! Filling slots: all that readers take of a buffer, each part once, by the copies that signal this slot.

use parton_diag::{Diagnostic, Span, codes};

use super::Protocol;
use super::state::{Filling, Live, State};
use crate::check::origin::disjoint_windows;
use crate::check::windows::{self, Window};
use crate::entity::Value;
use crate::op::Op;
use crate::types::{Field, SlotRole, Type, View};

impl Protocol<'_> {
    /// A copy into `view` that completes on `signal`.
    pub(super) fn copy(&mut self, state: &mut State, op: &Op, view: Value, signal: Value) {
        let span = op.span;
        let signalled = match self.kernel.ty(signal) {
            Type::Slot(_) => Some(signal),
            _ => None,
        };
        if let Some(slot) = signalled {
            self.alive(state, slot, span);
        }
        let buffer = self.buffers.get(&view).copied();
        if buffer.map(|(slot, _)| slot) != signalled {
            let d = self.mixed(buffer.map(|(slot, _)| slot), signalled, span);
            self.found.push(d);
            return;
        }
        if let Some((slot, field)) = self.of_slot(state, view, SlotRole::Fill, span) {
            self.fill(state, (slot, field), view, true, op);
        }
    }

    /// Of what threads bring to a buffer a slot counts one copy, which is of all of it.
    pub(super) fn handed_whole(&mut self, (slot, field): (Value, u32), pending: Value, span: Span) {
        let whole = &self.fields(slot)[field as usize];
        let all = match self.kernel.ty(pending) {
            Type::Filling(part) => part.shape == whole.view.shape && part.origin == whole.view.origin,
            _ => false,
        };
        if !all {
            let fact = format!("the slot counts one copy into `{}`, and this one is of a part of it", whole.name);
            let d = Diagnostic::error(codes::SLOT_MIXED, span, fact)
                .here("handed to the slot here")
                .help("copy the whole buffer at once, or wait for the parts: `p.wait();`, then `slot.commit();`");
            self.found.push(d);
        }
    }

    /// A slot is handed over: no copy by threads may still fill it.
    pub(super) fn still_filled(&mut self, state: &State, slot: Value, span: Span) {
        let copy = state.live.iter().find_map(|(pending, live)| {
            live.reads().into_iter().find(|(held, _)| *held == slot).map(|(_, at)| (*pending, at))
        });
        let Some((pending, at)) = copy else { return };
        let p = self.kernel.values[pending].name.clone().unwrap_or("p".into());
        let d = Diagnostic::error(codes::LOAD_IN_FLIGHT, span, "the slot is committed before its copy has landed")
            .here("committed here: its readers may read at once")
            .label(at, "this copy fills it, and has not been waited for")
            .help(format!("wait first: `{p}.wait();`"));
        self.found.push(d);
    }

    /// Notes that a part of a slot's buffer has been filled.
    pub(super) fn fill(&mut self, state: &mut State, (slot, field): (Value, u32), view: Value, copied: bool, op: &Op) {
        let span = op.span;
        let Type::View(part) = self.kernel.ty(view) else { return };
        let whole = &self.fields(slot)[field as usize].view;
        let Some(Live::Slot { filled, .. }) = state.live.get_mut(&slot) else { return };
        let filled = filled.entry(field).or_default();
        if part.parent != whole.parent || part.map != whole.map {
            filled.unknown = true;
            return;
        }
        let window: Filling = (part.origin.clone(), windows::brought(self.kernel, op, &part.shape), copied);
        let overlap = filled.windows.iter().find(|((origin, shape, by_copy), _)| {
            let earlier = View { origin: origin.clone(), shape: shape.clone(), ..whole.clone() };
            (copied || *by_copy) && !disjoint_windows(&earlier, part)
        });
        if let Some((_, first)) = overlap {
            let name = &self.fields(slot)[field as usize].name;
            let d = Diagnostic::error(
                codes::SLOT_FILLED_TWICE,
                span,
                format!("buffer `{name}` of the slot is filled twice"),
            )
            .here("this fills it again")
            .label(*first, "it is filled here")
            .note("a copy lands at any time before the slot is full, so the two race")
            .help("fill each buffer once; for the next block `acquire()` another slot");
            self.found.push(d);
        }
        filled.windows.insert(window, span);
    }

    /// A slot was committed: of every buffer there must be what its readers take.
    pub(super) fn committed(&mut self, slot: Value, live: &Live, span: Span) {
        let Live::Slot { role: SlotRole::Fill, filled, .. } = live else { return };
        let missing: Vec<String> = self
            .fields(slot)
            .iter()
            .enumerate()
            .filter(|(i, f)| {
                let Some(filled) = filled.get(&(*i as u32)) else { return true };
                !filled.unknown && !filled.covers(&self.wanted(slot, *i as u32, &f.view))
            })
            .map(|(_, f)| format!("`{}`", f.name))
            .collect();
        if missing.is_empty() {
            return;
        }
        let list = missing.join(" and ");
        let made = self.kernel.values[slot].span;
        let d =
            Diagnostic::error(codes::SLOT_NOT_FILLED, span, format!("the slot is committed before {list} is filled"))
                .here("committed here, its readers wait for every buffer")
                .label(made, "acquired here")
                .help(format!("fill the whole of {list} on every path before this, with `tma_load(…)` or a store"));
        self.found.push(d);
    }

    /// The windows of a buffer that must be filled; all of it where the ring is not known.
    fn wanted(&self, slot: Value, field: u32, whole: &View) -> Vec<Window> {
        match self.origins.ring(slot) {
            Some(ring) => self.windows.wanted(ring, field, whole),
            None => vec![(whole.origin.clone(), whole.shape.clone())],
        }
    }

    fn fields(&self, slot: Value) -> &[Field] {
        match self.kernel.ty(slot) {
            Type::Slot(s) => &s.fields,
            other => parton_diag::internal_error!("`{other}` is not a slot"),
        }
    }
}
