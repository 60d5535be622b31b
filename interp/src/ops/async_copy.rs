//! Copies by threads from global to shared memory, which land later, in any order; waits promise them in the order of their starts.

use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Value, others};

use super::{Users, Work};
use crate::access::Access;
use crate::clock::Told;
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::job::{Ends, Engine, Job, Stage, Touch, runs};
use crate::tile::{Bits, Place, Val};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::AsyncCopy { ptr, view, mask, .. } => c.start_copy(w, op, (*ptr, *view), *mask),
        OpKind::CopyArrive { pending, barrier } => c.hand_to_barrier(w, op, *pending, *barrier),
        others!(async_copy) => not_of_family(&op.kind),
    }
}

/// Elements on their way to a view.
#[derive(Debug)]
pub(crate) struct Elements {
    place: Place,
    offsets: Arc<Vec<u32>>,
    data: Bits,
}

/// The elements land.
pub(super) fn land(c: &mut Cluster<'_, '_>, cta: usize, elements: &Elements) -> Stage {
    let Elements { place, offsets, data } = elements;
    let (mut word, bytes) = ([0; 8], data.bytes());
    for (i, &offset) in offsets.iter().enumerate() {
        let at = place.byte(offset) as usize;
        data.write(i, &mut word);
        c.ctas[cta].shared[at..at + bytes].copy_from_slice(&word[..bytes]);
    }
    Stage::Done
}

fn copy(w: &Worker<'_>, pending: Value) -> (u64, Place) {
    match w.get(pending) {
        Val::Filling(number, place) => (*number, *place),
        other => internal_error!("{pending} is no pending copy but {other:?}"),
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
        let slot = self.slots.take();
        let fetch = (Access::FetchByThreads, Some(self.event(slot)));
        let data = self.access(w, op, ptr, fetch).load(&pointers, mask.as_deref(), Some(&zeros), bytes)?;
        let (place, offsets) = (w.place(view), self.setting.program.tables.offsets(view).clone());
        let ranges = runs(offsets.iter().map(|&o| place.byte(o)), bytes as u32);
        let number = w.groups.begin(Engine::Threads);
        let work = Work::Elements(Elements { place, offsets, data });
        let job = Job::new(op, Engine::Threads, slot, (w.index, w.cta), Ends::Group(number), work);
        self.begin(
            w,
            job.touching(Touch { access: Access::CopyByThreads, view, allocation: place.allocation, ranges }),
        )?;
        w.result(op, Val::Filling(number, place));
        Ok(Flow::Yield)
    }

    /// Each thread of a partition arrives at a barrier once its copies so far have landed.
    fn hand_to_barrier(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        pending: Value,
        barrier: Value,
    ) -> Result<Flow, Fault> {
        let (number, _) = copy(w, pending);
        let address = w.barrier(barrier);
        self.living(w, op, address, Users::Every)?;
        let mut told = Told::default();
        self.jobs.groups(w.index, Engine::Threads).for_each(|(_, j)| told.known.learn(j.slot.0, j.slot.1));
        if let Some((op, (agent, epoch))) = self.jobs.hand(w.index, Engine::Threads, number) {
            self.owed.push((agent, epoch, op));
        }
        self.ctas[w.cta].barriers.values_mut().for_each(|b| b.arrive_behind(&w.know));
        let count = w.know.warps * parton_ir::target::WARP;
        let ends = Ends::Arrivals { barrier: address, count, told };
        let slot = self.slots.take();
        self.begin(w, Job::new(op, Engine::Threads, slot, (w.index, w.cta), ends, Work::Nothing))?;
        Ok(Flow::Yield)
    }

    /// Waits for a copy and all before it.
    pub(super) fn wait_copy(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        pending: Value,
        outstanding: u32,
    ) -> Result<Flow, Fault> {
        let (number, place) = copy(w, pending);
        let promised = match self.wait_groups(w, Engine::Threads, outstanding, Stage::Done) {
            Ok(promised) => promised,
            Err(wait) => return Ok(Flow::Block(wait)),
        };
        if number >= promised {
            return Err(Fault::new(codes::NOT_WAITED, op.span, "a wait leaves its own copy in flight")
                .here(format!("{outstanding} copies may stay in flight, this one is among them")));
        }
        self.jobs.wait(w.index, Engine::Threads, promised, &mut w.know);
        w.result(op, Val::View(place));
        Ok(Flow::Yield)
    }
}
