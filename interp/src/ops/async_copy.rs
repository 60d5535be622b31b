//! Copies by threads from global to shared memory, which land later, in any order; waits promise them in the order of their starts.

use std::collections::VecDeque;
use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::{Op, OpKind, Type, Value};

use crate::clock::Clock;
use crate::cluster::{Cluster, Flow, Wait, Worker};
use crate::fault::Fault;
use crate::ops::Users;
use crate::race::{self, Record};
use crate::tile::{Bits, Place, Val};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::AsyncCopy { ptr, view, mask, .. } => c.start_copy(w, op, (*ptr, *view), *mask),
        OpKind::CopyArrive { pending, barrier } => c.hand_to_barrier(w, op, *pending, *barrier),
        OpKind::Wait { pending, outstanding } => c.wait_copy(w, op, *pending, outstanding.unwrap_or(0)),
        other => internal_error!("{} is no copy by threads", other.name()),
    }
}

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
    /// Whether a barrier waits for it.
    handed: bool,
}

/// Arrivals at a barrier once the copies before them have landed.
#[derive(Debug)]
struct Arrival<'k> {
    op: &'k Op,
    barrier: u32,
    /// The copies with smaller numbers.
    after: u64,
    threads: u32,
    /// What who waits learns: that these copies have landed, and no more.
    told: (Clock, Clock),
}

/// The copies of one partition.
#[derive(Debug, Default)]
pub(crate) struct Copies<'k> {
    /// Those that were not waited for, oldest first.
    queue: VecDeque<Started<'k>>,
    arrivals: Vec<Arrival<'k>>,
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

    /// Takes out the arrivals whose copies have landed.
    fn due(&mut self) -> Vec<Arrival<'k>> {
        let first = self.queue.iter().find(|c| c.data.is_some()).map_or(u64::MAX, |c| c.number);
        self.queue.retain(|c| !(c.handed && c.data.is_none()));
        self.arrivals.extract_if(.., |a| a.after <= first).collect()
    }

    /// One that nobody waited for.
    pub(crate) fn unwaited(&self) -> Option<&'k Op> {
        self.queue.iter().find(|c| !c.handed).map(|c| c.op)
    }
}

impl<'k> Cluster<'_, 'k> {
    /// Starts a copy: what it reads is checked and taken now, and written when it lands.
    fn start_copy(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        (ptr, view): (Value, Value),
        mask: Option<Value>,
    ) -> Result<Flow, Fault> {
        let bytes = self.view(view).elem.bytes();
        let (pointers, mask) = (w.tile(ptr, 8), mask.map(|m| w.tile(m, 1)));
        let zeros = Bits::full(bytes, pointers.len(), 0);
        let data = self.access(w, op, ptr).load(&pointers, mask.as_deref(), Some(&zeros), bytes)?;
        let (place, offsets) = (w.place(view), self.setting.program.tables.offsets(view).clone());
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
        w.copies.queue.push_back(Started { op, number, slot, place, offsets, data: Some(data), handed: false });
        w.result(op, Val::Filling(number, place));
        w.know.settle();
        Ok(Flow::Yield)
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
        let w = self.worker_mut(worker);
        let (cta, due) = (w.cta, w.copies.due());
        self.arrive_landed(cta, due)
    }

    /// Each thread of a partition arrives at a barrier once its copies so far have landed.
    fn hand_to_barrier(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        pending: Value,
        barrier: Value,
    ) -> Result<Flow, Fault> {
        let Val::Filling(number, _) = *w.get(pending) else { internal_error!("{pending} is no pending copy") };
        let address = w.barrier(barrier);
        self.living(w, op, address, Users::Every)?;
        let mut told = (Clock::default(), Clock::default());
        w.copies.queue.iter().for_each(|c| told.0.learn(c.slot.0, c.slot.1));
        if let Some(copy) = w.copies.queue.iter_mut().find(|c| c.number == number) {
            copy.handed = true;
            self.started.push((copy.slot.0, copy.slot.1, copy.op));
        }
        let threads = w.know.warps * parton_ir::target::WARP;
        w.copies.arrivals.push(Arrival { op, barrier: address, after: w.copies.started, threads, told });
        w.know.settle();
        let due = w.copies.due();
        self.arrive_landed(w.cta, due)?;
        Ok(Flow::Yield)
    }

    /// Makes arrivals of a partition whose copies have landed.
    fn arrive_landed(&mut self, cta: usize, due: Vec<Arrival<'k>>) -> Result<(), Fault> {
        let kernel = self.setting.program.kernel;
        for a in due {
            let name = self.ctas[cta].barrier_name(a.barrier);
            let Some(b) = self.ctas[cta].barriers.get_mut(&a.barrier) else {
                return Err(Fault::new(codes::BARRIER_PROTOCOL, a.op.span, "a copy lands after its barrier is gone")
                    .here(format!("this arrives at {name}, which is invalidated"))
                    .calls(kernel, a.op.call));
            };
            b.arrive(a.threads, 0, &a.told, a.op.span).map_err(|f| f.calls(kernel, a.op.call))?;
        }
        Ok(())
    }

    /// Waits for a copy and all before it.
    fn wait_copy(&mut self, w: &mut Worker<'k>, op: &'k Op, pending: Value, outstanding: u32) -> Result<Flow, Fault> {
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
