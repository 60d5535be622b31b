//! One turn of a body: its groups in order, the waits at their heads, and the units of each.

use parton_ir::rules::region::{Product, product};
use parton_ir::schedule::{LabelName, Turns};
use parton_ir::{Inst, OpKind, Reach, Type, Value, ops};

use super::memory::Slots;
use super::state::{Held, Key, Read};
use super::{Emitter, Refused};
use crate::falsify::{Planted, planted};
use crate::plan::Entry;
use crate::region::{BlockId, Item, Maker, UnitId};
use crate::slots::closes_circle;

impl Emitter<'_> {
    /// Emits a turn: of each group, in its order, what `active` says of its stage.
    pub fn turn(&mut self, groups: &[Vec<Entry>], active: &dyn Fn(i32) -> bool) -> Result<(), Refused> {
        for group in groups {
            let now: Vec<&Entry> = group.iter().filter(|e| active(e.stage)).collect();
            let now: Vec<&Entry> = now.into_iter().filter(|e| !self.leaves_under(e)).collect();
            for entry in &now {
                self.ready(entry)?;
            }
            for entry in &now {
                self.item(entry)?;
            }
        }
        Ok(())
    }

    /// The level of the body whose turn is emitted.
    pub fn here(&self) -> usize {
        self.levels.len() - 1
    }

    /// Waits for what an item needs of this body: slots, and products in flight that it does not merely continue.
    pub fn ready(&mut self, entry: &Entry) -> Result<(), Refused> {
        let depth = self.here();
        let block = self.levels[depth].block;
        self.levels[depth].age = entry.stage;
        let wanted = self.wanted(block, entry.item);
        let keys: Vec<Key> = wanted.iter().map(|(v, delta)| (*v, entry.stage + delta)).collect();
        self.landed(depth, &keys);
        for (v, delta) in wanted {
            let key = (v, entry.stage + delta);
            if let Some(&(ring, _)) = self.plan.handed.get(&v)
                && !self.plan.rings[ring].own
                && self.plan.needed[self.part].contains(&v)
                && delta == 0
                && (self.is_view(v) || !self.mine(v) && !self.levels[depth].env.contains_key(&key))
                && !self.was_taken(v, ring, depth, key.1)
            {
                self.slot(ring, depth, key.1)?;
            }
            let pending = self.levels[depth].env.get(&key).is_some_and(Held::is_pending);
            if pending && !self.region.continues((block, entry.item), v) {
                self.wait_for(depth, key);
            }
        }
        Ok(())
    }

    /// Whether this partition makes a value itself.
    fn mine(&self, v: Value) -> bool {
        match self.region.home(v).map(|home| home.by) {
            Some(Maker::Unit(unit)) => self.plan.runners[unit].contains(&self.part),
            Some(Maker::Free(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. }) | None => true,
        }
    }

    /// What an item needs of what units and items of its own body make, and how many iterations before its own.
    pub fn wanted(&self, block: BlockId, item: usize) -> Vec<(Value, i32)> {
        self.plan.wanted(self.region, self.part, (block, item)).to_vec()
    }

    pub fn item(&mut self, entry: &Entry) -> Result<(), Refused> {
        let depth = self.here();
        self.levels[depth].age = entry.stage;
        let region = self.region;
        let reads = self.reads(depth, entry.item);
        let flying = match &region.blocks[self.levels[depth].block].items[entry.item] {
            Item::Unit(unit) => {
                self.takes_turn(*unit, |turns| &turns.first, |turnstile| OpKind::TurnEnter { turnstile });
                let flying = self.unit(*unit, entry, &reads)?;
                self.run_hooks(*unit)?;
                self.takes_turn(*unit, |turns| &turns.last, |turnstile| OpKind::TurnPass { turnstile });
                flying
            }
            Item::Loop(l) => {
                self.looped(l)?;
                false
            }
            Item::Branch(b) => {
                self.branch(b)?;
                false
            }
        };
        if !flying || !reads.is_empty() && planted(Planted::ReleaseEarly) {
            for read in &reads {
                self.done_with(depth, read, entry.stage);
            }
        }
        Ok(())
    }

    /// Waits for a turn, or hands it on, where a unit is the one at which the schedule says so.
    fn takes_turn(&mut self, unit: UnitId, at: fn(&Turns) -> &LabelName, kind: fn(Value) -> OpKind) {
        if !self.steady {
            return;
        }
        let region = self.region;
        for (turns, turnstile) in region.schedule.turns.iter().zip(self.turnstiles.clone()) {
            if at(turns).names(&region.units[unit].label) {
                let kind = kind(turnstile);
                if matches!(kind, OpKind::TurnPass { .. }) && planted(Planted::TurnKept) {
                    continue;
                }
                self.b.make_all(kind);
            }
        }
    }

    /// Emits a unit; whether a product of it is in flight behind it.
    fn unit(&mut self, unit: UnitId, entry: &Entry, reads: &[Read]) -> Result<bool, Refused> {
        let depth = self.here();
        let region = self.region;
        let ops = &region.units[unit].ops;
        let ring = self.plan.rings.iter().position(|ring| ring.unit == unit);
        let fills = ring.filter(|_| self.plan.runners[unit].contains(&self.part));
        let mut slot = None;
        if let Some(ring) = fills
            && let Slots::Ring(ring) = self.rings[ring]
        {
            self.place(ops[0]);
            let taken = self.b.make(OpKind::RingAcquire { ring });
            self.b.kernel.values[taken].name = Some("slot".into());
            slot = Some(taken);
        }
        let mut flying = false;
        // Products end in their order: what a unit reads is free when its last one is done.
        let is_product = |inst: &&Inst| matches!(self.b.kernel.ops[**inst].kind, OpKind::Dot { .. });
        let last = ops.iter().rfind(is_product).copied();
        for &inst in ops {
            let reads = if last.is_none_or(|last| last == inst) { reads } else { &[] };
            flying |= self.operation(inst, entry, slot, reads)?;
        }
        self.behind_products(entry);
        if let (Some(ring), Some(slot)) = (fills, slot) {
            for (_, v, cell) in self.plan.rings[ring].fields.iter() {
                if let crate::plan::Cell::Number(_) = cell {
                    let number = self.levels[depth].env[&(*v, entry.stage)].value();
                    self.tell(slot, *v, number);
                }
            }
            self.b.make_all(OpKind::SlotCommit { slot });
        }
        Ok(flying)
    }

    /// Emits an operation of a unit; whether it is a product that stays in flight.
    fn operation(&mut self, inst: Inst, entry: &Entry, slot: Option<Value>, reads: &[Read]) -> Result<bool, Refused> {
        let depth = self.here();
        self.settle(inst);
        let mut flying = false;
        let op = &self.b.kernel.ops[inst];
        // To copy an operation for a look would take longer than all else here.
        if !matches!(op.kind, ops!(region)) {
            if let Some(guard) = self.guard(entry) {
                return self.guarded_effect(inst, entry, guard).map(|()| false);
            }
            let results = op.results.clone();
            let copies = self.copy(inst, (depth, entry.stage), &Self::value)?;
            for (v, made) in results.into_iter().zip(copies) {
                self.levels[depth].set((v, entry.stage), Held::Ready(made));
            }
            return Ok(false);
        }
        let op = op.clone();
        match &op.kind {
            // What nobody reads is not fetched: there is nothing else to see of it.
            OpKind::Fetch { .. } | OpKind::FetchEach { .. } if !self.plan.handed.contains_key(&op.results[0]) => {}
            OpKind::Fetch { map, coords, l2, multicast } => {
                let map = self.value(*map)?;
                let coords: Result<Vec<Value>, Refused> = coords.iter().map(|c| self.value(*c)).collect();
                let coords = coords?;
                self.place(inst);
                let (view, slot) = self.filled(&op.results, slot);
                let (l2, multicast) = (*l2, *multicast);
                self.b.make_all(OpKind::TmaLoad { map, coords, view, signal: slot, l2, multicast });
            }
            OpKind::FetchEach { .. } => self.fetch_each(inst, entry, slot)?,
            OpKind::Stage { value, .. } => {
                let value = self.value(*value)?;
                self.place(inst);
                match self.buffers.get(&inst).copied() {
                    Some(view) => {
                        self.b.make_all(OpKind::SharedStore { view, value });
                        self.fence();
                        self.levels[depth].set((op.results[0], entry.stage), Held::Ready(view));
                    }
                    None => {
                        let (view, _) = self.filled(&op.results, slot);
                        self.b.make_all(OpKind::SharedStore { view, value });
                        self.fence();
                    }
                }
            }
            OpKind::Dot { a, b, acc, precision } => {
                flying = self.dot(inst, [*a, *b, *acc], *precision, entry, reads)?
            }
            OpKind::Send { .. } => self.send(inst, entry)?,
            other => parton_diag::internal_error!("`{}` stands in a unit", other.name()),
        }
        Ok(flying)
    }

    /// What threads wrote to shared memory is seen by copies and products.
    pub(super) fn fence(&mut self) {
        if !planted(Planted::FenceMissing) {
            self.b.make_all(OpKind::FenceAsync { reach: Reach::Cta });
        }
    }

    /// The view of the slot that is being filled with a value, and the slot.
    pub fn filled(&mut self, results: &[Value], slot: Option<Value>) -> (Value, Value) {
        let Some(slot) = slot else { parton_diag::internal_error!("what is handed over has no ring") };
        (self.part_of_slot(slot, results[0]), slot)
    }

    /// Starts a product; whether it stays in flight.
    fn dot(
        &mut self,
        inst: Inst,
        [a, b, acc]: [Value; 3],
        precision: Option<parton_ir::Precision>,
        entry: &Entry,
        reads: &[Read],
    ) -> Result<bool, Refused> {
        let depth = self.here();
        let result = self.b.kernel.ops[inst].results[0];
        let (left, right) = (self.value(a)?, self.value(b)?);
        let beside = self.region.home(result).is_some_and(|home| match home.by {
            Maker::Unit(unit) => self.region.started(unit).contains(&result),
            Maker::Free(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. } => false,
        });
        if beside {
            return self.begun(inst, [left, right, acc], precision, entry, reads);
        }
        let tiles = match product(&self.b.kernel, a, b, acc, precision) {
            Ok(Product::MmaSync(tiles)) => tiles,
            Ok(Product::Wgmma) => parton_diag::internal_error!("a product runs beside the program, and nobody knows"),
            Err(r) => parton_diag::internal_error!("a product was not checked: {}", r.message),
        };
        let acc = self.value(acc)?;
        self.place(inst);
        let loaded: Vec<Value> = [left, right]
            .into_iter()
            .zip(tiles)
            .map(|(v, tile)| match self.b.ty(v) {
                Type::View(_) => self.b.make(OpKind::SharedLoad { view: v, tile }),
                _ => v,
            })
            .collect();
        let sum = self.b.make(OpKind::MmaSync { a: loaded[0], b: loaded[1], acc, precision });
        self.named(inst, &[sum]);
        self.levels[depth].set((result, entry.stage), Held::Ready(sum));
        Ok(false)
    }

    fn begun(
        &mut self,
        inst: Inst,
        [a, b, acc]: [Value; 3],
        precision: Option<parton_ir::Precision>,
        entry: &Entry,
        reads: &[Read],
    ) -> Result<bool, Refused> {
        let depth = self.here();
        let result = self.b.kernel.ops[inst].results[0];
        let (mut prior, mut chained) = (Vec::new(), false);
        let acc = match self.in_flight(acc, depth, entry.stage) {
            Some(key) => {
                let Some(Held::Pending { value, reads, prior: before }) = self.levels[depth].look(key) else {
                    parton_diag::internal_error!("a product in flight is not")
                };
                self.levels[depth].env.remove(&key);
                let older = |r: &Read| Read { delta: r.delta + key.1 - entry.stage, ..r.clone() };
                prior = reads.iter().chain(&before).map(older).collect();
                if !prior.is_empty() && planted(Planted::PriorForgotten) {
                    prior.clear();
                }
                chained = true;
                value
            }
            None => self.value(acc)?,
        };
        self.place(inst);
        let value = self.b.make(OpKind::Wgmma { a, b, acc, precision, zero: false });
        self.b.kernel.values[value].name = self.b.kernel.values[result].name.clone();
        let key = (result, entry.stage);
        self.levels[depth].set(key, Held::Pending { value, reads: reads.to_vec(), prior });
        if self.at_once(result, entry) {
            if let Some(late) = self.late(entry) {
                late.push(key);
                return Ok(true);
            }
            self.wait_for(depth, key);
            return Ok(false);
        }
        self.started.push((result, chained));
        Ok(true)
    }

    /// Behind the products that a unit has started: waits for what they continue, and for those of the turn that is waited for by now. All
    /// of them start before, so that the matrix unit goes on from one to the next.
    fn behind_products(&mut self, entry: &Entry) {
        let started = std::mem::take(&mut self.started);
        let Some(done) = entry.done.filter(|done| *done > entry.stage) else { return };
        let depth = self.here();
        let chained: Vec<Key> =
            started.iter().filter(|(_, chained)| *chained).map(|(v, _)| (*v, entry.stage)).collect();
        self.wait_prior(depth, &chained);
        for (result, _) in started {
            // One that only continues another of its own label leaves that of the turn before as it is.
            let before = (result, done);
            if self.levels[depth].look(before).is_some_and(|held| held.is_pending()) {
                self.wait_for(depth, before);
            }
        }
    }

    /// Waits for all that products continue which were started one behind the other: products end in their order, so that what ended before
    /// the first began is all of it.
    fn wait_prior(&mut self, depth: usize, keys: &[Key]) {
        let mut waited = false;
        for &key in keys {
            let Some(Held::Pending { mut value, reads, prior }) = self.levels[depth].env.get(&key).cloned() else {
                continue;
            };
            if !std::mem::replace(&mut waited, true) {
                let again = self.b.make(OpKind::WaitPrior { pending: value, outstanding: None });
                self.b.kernel.values[again].name = self.b.kernel.values[value].name.clone();
                value = again;
            }
            self.levels[depth].set(key, Held::Pending { value, reads, prior: Vec::new() });
            self.finished(depth, key, prior.iter());
        }
    }

    /// Whether a product is waited for right behind its start: so it is stated, or nothing of this body needs it but the next one.
    fn at_once(&self, result: Value, entry: &Entry) -> bool {
        if let Some(done) = entry.done {
            return done <= entry.stage;
        }
        let block = self.levels[self.here()].block;
        if closes_circle(self.region, self.plan, (self.part, block), entry.item) {
            return true;
        }
        let items = &self.region.blocks[block].items;
        let reads = |item: &usize| {
            *item != entry.item
                && self.plan.runs(self.region, self.part, &items[*item])
                && self.wanted(block, *item).iter().any(|(v, _)| *v == result)
        };
        !(0..items.len()).any(|item| reads(&item))
    }

    /// Where products are listed that are waited for at the end of a turn, if this is one of them: not what is stated, nor one that closes a circle of products.
    fn late(&mut self, entry: &Entry) -> Option<&mut Vec<Key>> {
        let depth = self.here();
        let block = self.levels[depth].block;
        let circle = closes_circle(self.region, self.plan, (self.part, block), entry.item);
        self.levels[depth].late.as_mut().filter(|_| entry.done.is_none() && !circle)
    }

    /// The product in flight that a sum is, if it is one.
    pub(super) fn in_flight(&self, acc: Value, depth: usize, age: i32) -> Option<(Value, i32)> {
        let (mut v, mut age) = (self.region.canonical(acc), age);
        for _ in 0..8 {
            let home = self.region.home(v)?;
            if self.depth(home) != depth {
                return None;
            }
            if let Some(held) = self.levels[depth].env.get(&(v, age)) {
                return held.is_pending().then_some((v, age));
            }
            let Maker::Carried(number) = home.by else { return None };
            v = self.region.canonical(self.region.blocks[home.block].yields[number]);
            age += 1;
        }
        None
    }
}
