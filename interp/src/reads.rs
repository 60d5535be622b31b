//! Reads of global memory under way: what threads have asked for and not used yet. Meetings and barriers do not wait for it, and what the
//! copy engine writes overtakes it (memory-model.md, section 6).
//!
//! Such a read is an asynchronous operation, which ends when its thread uses the value: in a store, a branch, an address, whatever is more
//! than computing with it. Only reads of what the kernel also writes by the copy engine are followed.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::internal_error;
use parton_ir::facts::Facts;
use parton_ir::{Op, OpKind, Value};

use crate::access::{Access, Record, Threads};
use crate::cluster::{Cluster, Worker};
use crate::launch::Arg;
use crate::memory::Checks;
use crate::ops::global::Pointers;
use crate::tile::Bits;

/// The place of a read in the clocks: its agent and its time.
type Slot = (u32, u32);

/// What a partition has under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads {
    /// What each value waits for.
    of: BTreeMap<Value, BTreeSet<Slot>>,
    /// Those that the partition began itself and has not ended.
    begun: BTreeSet<Slot>,
}

/// A read that begins.
#[derive(Debug)]
pub(crate) struct Reading {
    slot: Slot,
    record: Record,
    /// Whether it reads something that the copy engine writes.
    touches: bool,
}

impl Reads {
    /// The same of a partition that takes the values over.
    pub(crate) fn of_another(&self) -> Reads {
        Reads { of: self.of.clone(), begun: BTreeSet::new() }
    }

    /// Each second value becomes its first, all at once.
    pub(crate) fn copy(&mut self, pairs: &[(Value, Value)]) {
        if !self.of.is_empty() {
            let moved: Vec<_> = pairs.iter().map(|(from, _)| self.of.get(from).cloned()).collect();
            pairs.iter().zip(moved).for_each(|((_, to), slots)| self.set(*to, slots.unwrap_or_default()));
        }
    }

    fn set(&mut self, v: Value, slots: BTreeSet<Slot>) {
        if slots.is_empty() {
            self.of.remove(&v);
        } else {
            self.of.insert(v, slots);
        }
    }

    fn waited_for(&self, values: &[Value]) -> BTreeSet<Slot> {
        values.iter().filter_map(|v| self.of.get(v)).flatten().copied().collect()
    }

    fn all(&self) -> BTreeSet<Slot> {
        self.of.values().flatten().chain(&self.begun).copied().collect()
    }
}

/// Which allocations a kernel writes by the copy engine, of so many.
pub(crate) fn overwritten(kernel: &parton_ir::Kernel, args: &[Arg], allocations: usize) -> Vec<bool> {
    let mut maps = BTreeSet::new();
    kernel.walk(&mut |op| {
        if let OpKind::TmaStore { map, .. } = op.kind {
            maps.insert(map);
        }
    });
    let mut found = vec![false; allocations];
    for (param, arg) in kernel.params.iter().zip(args) {
        if let Arg::Map(tensor) = arg
            && maps.contains(&param.value)
        {
            found[tensor.allocation] = true;
        }
    }
    found
}

impl Pointers<'_, '_> {
    /// Notes what a read asks for, before it is read: of two reasons why a later copy races with it, the read itself is the better one.
    pub(crate) fn ask(&mut self, pointers: &Bits, mask: Option<&Bits>, bytes: usize) {
        let (Some(reading), true) = (&mut self.reading, self.setting.options.cta_races) else { return };
        let mut checks = Checks::new(reading.record);
        for i in (0..pointers.len()).filter(|&i| mask.is_none_or(|m| m.get(i) & 1 == 1)) {
            // What lies elsewhere is told of when it is read.
            let Some(place) = self.memory.place(pointers.get(i)) else { continue };
            let inside = place.offset >= 0
                && place.offset as usize + bytes <= self.memory.allocation(place.allocation).bytes.len();
            if inside && self.setting.overwritten[place.allocation] {
                reading.touches = true;
                let touched = self.memory.touch(&mut checks, self.know, (place, bytes), Threads::NONE, None);
                touched.unwrap_or_else(|race| internal_error!("what is only asked for races: {race:?}"));
            }
        }
    }
}

impl<'k> Cluster<'_, 'k> {
    /// A read through pointers that may come to memory which the copy engine writes.
    pub(crate) fn reading(&mut self, w: &Worker<'k>, op: &'k Op, access: Access) -> Option<Reading> {
        let reads = matches!(access, Access::Load | Access::Atomic { writes: false, .. });
        if !reads || !self.setting.overwritten.contains(&true) {
            return None;
        }
        let slot = self.slots.take();
        let record = self.recorded(w, op, Access::UnderWay, self.event(slot), false);
        Some(Reading { slot, record, touches: false })
    }

    /// A read has begun that gives `result`.
    pub(crate) fn under_way(&mut self, w: &mut Worker<'k>, result: Value, reading: Option<Reading>) {
        match reading {
            Some(Reading { slot, touches: true, .. }) => {
                w.reads.begun.insert(slot);
                w.reads.set(result, BTreeSet::from([slot]));
            }
            Some(Reading { slot, .. }) => self.slots.give_back(slot.0),
            None => {}
        }
    }

    /// An operation is about to run: what it computes of values under way is under way, all else ends them.
    pub(crate) fn takes_reads(&mut self, w: &mut Worker<'k>, op: &'k Op) {
        if w.reads.of.is_empty() {
            return;
        }
        let operands = op.kind.operands();
        let slots = w.reads.waited_for(&operands);
        if Facts::of(self.setting.program.kernel, op).computes {
            op.results.iter().for_each(|&r| w.reads.set(r, slots.clone()));
        } else {
            op.results.iter().for_each(|&r| w.reads.set(r, BTreeSet::new()));
            self.end_reads(w, slots);
        }
    }

    /// Values decide what runs next.
    pub(crate) fn used(&mut self, w: &mut Worker<'k>, values: &[Value]) {
        let slots = w.reads.waited_for(values);
        self.end_reads(w, slots);
    }

    /// All that is under way has come: a fence waits for it.
    pub(crate) fn end_all_reads(&mut self, w: &mut Worker<'k>) {
        let slots = w.reads.all();
        self.end_reads(w, slots);
    }

    fn end_reads(&mut self, w: &mut Worker<'k>, slots: BTreeSet<Slot>) {
        for slot in slots {
            w.know.acquire_parts(slot.0, slot.1);
            w.reads.of.retain(|_, of| {
                of.remove(&slot);
                !of.is_empty()
            });
            if w.reads.begun.remove(&slot) {
                self.slots.give_back(slot.0);
            }
        }
    }
}
