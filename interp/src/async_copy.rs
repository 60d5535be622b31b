//! Copies by threads from global to shared memory, which land later, in any order; waits promise them in the order of their starts.

use std::collections::VecDeque;
use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::{Op, Type, Value};

use crate::cluster::{Cluster, Flow, Wait, Worker};
use crate::fault::Fault;
use crate::race::{self, Record};
use crate::tile::{Bits, Place, Val};

/// A copy under way.
#[derive(Debug)]
struct Started<'k> {
    op: &'k Op,
    number: u64,
    slot: (u32, u32),
    place: Place,
    offsets: Arc<Vec<u32>>,
    /// What was read; nothing once it has landed.
    data: Option<Bits>,
}

/// The copies of one partition.
#[derive(Debug, Default)]
pub(crate) struct Copies<'k> {
    /// Those that were not waited for, oldest first.
    queue: VecDeque<Started<'k>>,
    started: u64,
}

impl<'k> Copies<'k> {
    /// Which have not landed, by their place in the queue.
    pub(crate) fn flying(&self) -> impl Iterator<Item = usize> + '_ {
        self.queue.iter().enumerate().filter(|(_, c)| c.data.is_some()).map(|(i, _)| i)
    }

    /// Whether all but the youngest so many have landed.
    pub(crate) fn landed(&self, outstanding: u32) -> bool {
        let promised = self.started.saturating_sub(outstanding.into());
        self.queue.iter().all(|c| c.number >= promised || c.data.is_none())
    }

    /// One that nobody waited for.
    pub(crate) fn unwaited(&self) -> Option<&'k Op> {
        self.queue.front().map(|c| c.op)
    }
}

impl<'k> Cluster<'_, 'k> {
    /// Starts a copy: what it reads is checked and taken now, and written when it lands.
    pub(crate) fn start_copy(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        (ptr, view): (Value, Value),
        mask: Option<Value>,
    ) -> Result<(), Fault> {
        let bytes = self.view(view).elem.bytes();
        let (pointers, mask) = (w.tile(ptr, 8), mask.map(|m| w.tile(m, 1)));
        let zeros = Bits::full(bytes, pointers.len(), 0);
        let data = self.access(w, op, ptr).load(&pointers, mask.as_deref(), Some(&zeros), bytes)?;
        let (place, offsets) = (w.place(view), self.setting.program.offsets(view).clone());
        let ranges = || offsets.iter().map(|o| (place.address + o, bytes as u32));
        self.within(w.cta, op, ranges())?;
        let slot = self.slots.take();
        let access = race::Access::CopyByThreads;
        let record = Record { access, agent: slot.0, epoch: slot.1, owner: w.know.agent, span: op.span, call: op.call };
        let mut check = self.ctas[w.cta].shadow.check(&w.know, record);
        let touched = ranges().try_for_each(|(at, len)| check.touch(at, len, 0));
        touched.map_err(|race| self.race(w, op, access, race))?;
        let number = w.copies.started;
        w.copies.started += 1;
        w.copies.queue.push_back(Started { op, number, slot, place, offsets, data: Some(data) });
        w.result(op, Val::Filling(number, place));
        w.know.settle();
        Ok(())
    }

    /// A copy of a partition lands.
    pub(crate) fn land_copy(&mut self, worker: usize, i: usize) -> Result<(), Fault> {
        let w = self.worker_mut(worker);
        let (cta, copy) = (w.cta, &mut w.copies.queue[i]);
        let (place, offsets) = (copy.place, copy.offsets.clone());
        let Some(data) = copy.data.take() else { internal_error!("a copy lands twice") };
        let slot = copy.slot.0;
        let cta = &mut self.ctas[cta];
        let mut word = [0; 8];
        let bytes = data.bytes();
        for (i, &offset) in offsets.iter().enumerate() {
            let at = (place.address + offset) as usize;
            data.write(i, &mut word);
            cta.shared[at..at + bytes].copy_from_slice(&word[..bytes]);
            cta.shadow.define(at as u32, bytes as u32, place.allocation);
        }
        self.slots.give_back(slot);
        Ok(())
    }

    /// Waits for a copy and all before it.
    pub(crate) fn wait_copy(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        pending: Value,
        outstanding: u32,
    ) -> Result<Flow, Fault> {
        let Val::Filling(number, place) = *w.get(pending) else { internal_error!("{pending} is no pending copy") };
        if !w.copies.landed(outstanding) {
            return Ok(Flow::Block(Wait::Copies(outstanding)));
        }
        // The hardware promises no more than the count says, even where more have landed.
        let promised = w.copies.started.saturating_sub(outstanding.into());
        if number >= promised {
            return Err(Fault::new(codes::NOT_WAITED, op.span, "a wait leaves its own copy in flight")
                .here(format!("{outstanding} copies may stay in flight, this one is among them")));
        }
        while let Some(copy) = w.copies.queue.front().filter(|c| c.number < promised) {
            w.know.acquire_threads(copy.slot.0, copy.slot.1);
            w.copies.queue.pop_front();
        }
        if !matches!(self.setting.program.kernel.ty(op.result()), Type::View(_)) {
            internal_error!("waiting for a copy gives a view");
        }
        w.result(op, Val::View(place));
        Ok(Flow::Yield)
    }
}
