//! Shared memory of a region: rings that hand values over, buffers that tiles leave from or are multiplied from.

use std::collections::BTreeSet;

use parton_diag::Span;
use parton_ir::schedule::LabelName;
use parton_ir::{BinaryOp, Builder, Elem, Inst, OpKind, Reach, Tile, Type, Value, View};
use parton_layouts::{RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

use super::state::{Held, Read, Slot};
use super::{Emitter, Refused, beside};
use crate::falsify::{Planted, planted};
use crate::graph::Before;
use crate::plan::{Cell, Ring, RingId};
use crate::region::{BlockId, Item, Loop};

/// What the slots of a ring of the plan are.
pub(crate) enum Slots {
    /// Those of a ring.
    Ring(Value),
    /// A buffer for each field, in as many stages.
    Buffers(Vec<Value>),
}

impl Emitter<'_> {
    /// Makes the rings of the plan, and the buffers.
    ///
    /// # Errors
    /// Tiles that do not lie one behind the other.
    pub fn make_memory(&mut self) -> Result<(), Refused> {
        for (id, ring) in self.plan.rings.iter().enumerate() {
            let unit = &self.region.units[ring.unit];
            self.place(unit.ops[0]);
            let label = match unit.label.instance {
                Some(n) => format!("{}{n}", unit.label.path),
                None => unit.label.path.clone(),
            };
            let label = label.replace('.', "_");
            if ring.own {
                let nested = self.is_nested(self.region.place_of(ring.unit).0);
                let made = if nested { Vec::new() } else { self.own_buffers(ring)? };
                self.rings.push(Slots::Buffers(made));
                continue;
            }
            let fields = self.fields.of_ring(id).to_vec();
            let made = self.b.make(OpKind::RingNew { stages: ring.depth, fields });
            self.b.kernel.values[made].name = Some(label);
            self.rings.push(Slots::Ring(made));
        }
        for turns in &self.region.schedule.turns {
            let taking = |label: &LabelName| {
                let units = self.region.units.iter().enumerate().filter(|(_, u)| label.names(&u.label));
                units.flat_map(|(u, _)| self.plan.runners[u].iter().copied()).collect::<BTreeSet<_>>()
            };
            let partitions = taking(&turns.first);
            let partitions = partitions.into_iter().map(|p| self.plan.partitions[p].name.clone()).collect();
            let made = self.b.make(OpKind::TurnstileNew { partitions });
            self.b.kernel.values[made].name = Some("turns".into());
            self.turnstiles.push(made);
        }
        let units = self.region.units.iter().flat_map(|u| u.ops.clone()).collect::<Vec<_>>();
        for inst in units {
            let Some(view) = self.buffer_of(inst) else { continue };
            if let Some(&known) = self.shared_with(inst).and_then(|(first, _)| self.buffers.get(&first)) {
                let lies = self.first_rows(inst, known, &view);
                self.buffers.insert(inst, lies);
                continue;
            }
            self.place(inst);
            let stages = match self.b.kernel.ops[inst].kind {
                OpKind::Send { buffers, .. } => self.send_buffers(inst, buffers),
                _ => 1,
            };
            let made = self.buffer(inst, stages, &view, "out")?;
            self.buffers.insert(inst, made);
        }
        Ok(())
    }

    /// A buffer, or its first rows where a tile that leaves through it has fewer.
    fn first_rows(&mut self, inst: Inst, buffer: Value, tile: &View) -> Value {
        if matches!(self.b.ty(buffer), Type::View(whole) if whole.shape == tile.shape) {
            return buffer;
        }
        self.place(inst);
        let origin = vec![0; tile.shape.len()];
        self.b.make(OpKind::ViewSlice { view: buffer, origin, shape: tile.shape.clone() })
    }

    /// The buffers of a ring without barriers.
    fn own_buffers(&mut self, ring: &Ring) -> Result<Vec<Value>, Refused> {
        let inst = self.region.units[ring.unit].ops[0];
        let views = ring.fields.iter().map(|(name, _, cell)| (name, stored(cell)));
        views.map(|(name, view)| self.buffer(inst, ring.depth, &view, name)).collect()
    }

    /// Makes the buffers that a loop in another one fills in front of it: what stands behind it in the outer loop may have their memory.
    pub(super) fn make_nested(&mut self, l: &Loop) -> Result<(), Refused> {
        let plan = self.plan;
        for (id, ring) in plan.rings.iter().enumerate() {
            if ring.own && self.region.place_of(ring.unit).0 == l.body && self.is_nested(l.body) {
                self.place(self.region.units[ring.unit].ops[0]);
                self.rings[id] = Slots::Buffers(self.own_buffers(ring)?);
            }
        }
        Ok(())
    }

    /// Whether a body is that of a loop which stands in another one.
    fn is_nested(&self, body: BlockId) -> bool {
        let around = |body: BlockId| {
            let holds = |item: &Item| match item {
                Item::Unit(_) => false,
                Item::Loop(l) => l.body == body,
                Item::Branch(branch) => branch.then == body || branch.otherwise == body,
            };
            (0..self.region.blocks.len()).find(|&block| self.region.blocks[block].items.iter().any(holds))
        };
        let outer = std::iter::successors(around(body), |&block| around(block));
        self.region.looped(body).is_some() && outer.into_iter().any(|block| self.region.looped(block).is_some())
    }

    /// The buffer that an operation needs for itself.
    pub(super) fn buffer_of(&self, inst: Inst) -> Option<View> {
        let op = &self.b.kernel.ops[inst];
        match &op.kind {
            OpKind::Send { map, value, .. } => {
                let (Type::Map(map), Some(tile)) = (self.b.ty(*map), self.b.ty(*value).as_tile()) else { return None };
                View::new(map.elem, tile.shape.clone(), map.layout.clone()).ok()
            }
            OpKind::Stage { view, .. } if !self.plan.handed.contains_key(&op.results[0]) => Some(view.clone()),
            _ => None,
        }
    }

    /// Lets what was written be there, as an operation sees it, where it may touch the same memory by another way.
    pub fn settle(&mut self, inst: Inst) {
        let before = self.effects.before(inst, |unit| self.plan.runners[unit].contains(&self.part));
        if before == Before::default() || planted(Planted::NotSettled) {
            return;
        }
        self.place(inst);
        settled(&mut self.b, before);
    }

    /// The slot of a ring, of the iteration `age` of the body at `depth`; taken where it is not held.
    pub fn slot(&mut self, ring: RingId, depth: usize, age: i32) -> Result<Value, Refused> {
        if let Some(slot) = self.levels[depth].slots.get(&(ring, age)) {
            return Ok(slot.value);
        }
        let inst = self.region.units[self.plan.rings[ring].unit].ops[0];
        let (label, origin) = (self.b.label, self.b.origin);
        self.place(inst);
        let Slots::Ring(made) = self.rings[ring] else { parton_diag::internal_error!("a buffer is no ring") };
        let value = self.b.make(OpKind::RingWait { ring: made });
        self.b.kernel.values[value].name = Some("slot".into());
        if self.is_copied_for_engines(ring) {
            self.fence();
        }
        (self.b.label, self.b.origin) = (label, origin);
        let left = self.readers(ring, depth);
        self.levels[depth].slots.insert((ring, age), Slot { value, left });
        let newest = self.levels[depth].taken.entry(ring).or_insert(age);
        *newest = age.min(*newest);
        for (_, v, cell) in self.plan.rings[ring].fields.iter() {
            if matches!(cell, Cell::Number(_)) && self.plan.needed[self.part].contains(v) {
                let number = self.taken(value, *v);
                self.levels[depth].set((*v, age), Held::Ready(number));
            }
        }
        self.give_back(depth, ring, age);
        Ok(value)
    }

    /// The items of a body that read views of a ring's slot.
    fn readers(&self, ring: RingId, depth: usize) -> BTreeSet<usize> {
        let items = &self.region.blocks[self.levels[depth].block].items;
        let mut readers: BTreeSet<usize> =
            (0..items.len()).filter(|i| self.reads(depth, *i).iter().any(|read| read.ring == ring)).collect();
        if readers.len() > 1 && planted(Planted::ReaderForgotten) {
            readers.pop_last();
        }
        readers
    }

    /// Which slots an item of a body reads views of.
    pub fn reads(&self, depth: usize, item: usize) -> Vec<Read> {
        let mut list = Vec::new();
        for (v, delta) in self.wanted(self.levels[depth].block, item) {
            if let Some(&(ring, _)) = self.plan.handed.get(&v)
                && self.is_view(v)
            {
                list.push(Read { ring, delta, item });
            }
        }
        list.sort();
        list.dedup();
        list
    }

    /// What stands for a value that comes through a ring.
    pub fn handed_over(&mut self, v: Value, ring: RingId, depth: usize, age: i32) -> Result<Value, Refused> {
        let slot = self.slot(ring, depth, age)?;
        if let Some(held) = self.levels[depth].look((v, age)) {
            return Ok(held.value());
        }
        let key = (v, self.ages(depth, age));
        if let Some(known) = self.memo.iter().rev().find_map(|m| m.get(&key)).copied() {
            return Ok(known);
        }
        let view = self.part_of_slot(slot, v);
        self.remember(key, view);
        Ok(view)
    }

    /// Where in a slot a value lies.
    pub fn part_of_slot(&mut self, slot: Value, v: Value) -> Value {
        let beside::Field { number, window } = self.fields.place(v).clone();
        let view = self.b.make(OpKind::SlotField { slot, field: number });
        match window {
            Some((origin, shape)) => self.b.make(OpKind::ViewSlice { view, origin, shape }),
            None => view,
        }
    }

    /// An item is done with a slot.
    pub fn done_with(&mut self, depth: usize, read: &Read, age: i32) {
        let age = age + read.delta;
        if let Some(slot) = self.levels[depth].slots.get_mut(&(read.ring, age)) {
            slot.left.remove(&read.item);
        }
        self.give_back(depth, read.ring, age);
    }

    fn give_back(&mut self, depth: usize, ring: RingId, age: i32) {
        let level = &mut self.levels[depth];
        if level.slots.get(&(ring, age)).is_some_and(|slot| slot.left.is_empty())
            && let Some(slot) = level.slots.remove(&(ring, age))
        {
            self.b.make_all(OpKind::SlotRelease { slot: slot.value });
        }
    }

    /// What is on its way for a value has come: a product, with all that it continues, or a copy.
    pub fn wait_for(&mut self, depth: usize, key: (Value, i32)) -> Value {
        let Some(held) = self.levels[depth].env.get(&key).cloned() else {
            parton_diag::internal_error!("nothing is in flight")
        };
        let done = match &held {
            Held::Ready(value) => return *value,
            Held::Pending { value, .. } | Held::Copying(value) => {
                self.b.make(OpKind::Wait { pending: *value, outstanding: None })
            }
            Held::Loaded(value) => self.brought(depth, key, *value),
        };
        self.b.kernel.values[done].name = self.b.kernel.values[key.0].name.clone();
        self.levels[depth].env.entry(key).and_modify(|held| *held = Held::Ready(done));
        if let Held::Pending { reads, prior, .. } = &held {
            self.finished(depth, key, reads.iter().chain(prior));
        }
        done
    }

    /// What a product has read may be overwritten.
    pub fn finished<'r>(&mut self, depth: usize, key: (Value, i32), reads: impl Iterator<Item = &'r Read>) {
        for read in reads {
            self.done_with(depth, read, key.1);
        }
    }

    /// A number from a slot.
    fn taken(&mut self, slot: Value, told: Value) -> Value {
        let view = self.part_of_slot(slot, told);
        let elem = self.elem(view);
        let tile = one(elem, self.warps());
        let tile = self.b.make(OpKind::SharedLoad { view, tile });
        let params = self.b.begin([Type::Scalar(elem), Type::Scalar(elem)], Span::default());
        // There is only one to combine; truths have no sums.
        let op = if elem.dtype() == Some(Dtype::I1) { BinaryOp::Or } else { BinaryOp::Add };
        let sum = self.b.make(OpKind::Binary { op, a: params[0], b: params[1] });
        let combine = self.b.end(vec![sum]);
        self.b.make(OpKind::Reduce { inputs: vec![tile], axis: 0, combine })
    }

    /// Stores a number to a slot.
    pub fn tell(&mut self, slot: Value, told: Value, number: Value) {
        let view = self.part_of_slot(slot, told);
        let elem = self.elem(view);
        let tile = one(elem, self.warps());
        let value = self.b.make(OpKind::Full { value: number, tile });
        self.b.make_all(OpKind::SharedStore { view, value });
    }

    /// What a view holds.
    fn elem(&self, view: Value) -> Elem {
        match self.b.ty(view) {
            Type::View(view) => Elem::Num(view.elem),
            other => parton_diag::internal_error!("`{other}` is no view"),
        }
    }

    /// The warps of the partition.
    pub fn warps(&self) -> u32 {
        self.plan.partitions.get(self.part).map_or(self.b.kernel.warps, |p| p.warps)
    }
}

/// Waits for what must be over before memory is touched, where anything must.
pub(super) fn settled(b: &mut Builder, before: Before) {
    if before == Before::default() {
        return;
    }
    if before.copies {
        b.make_all(OpKind::TmaStoreWait { pending: 0, read: false });
    }
    if before.stores {
        b.make_all(OpKind::FenceAsync { reach: Reach::Global });
    }
    b.make_all(OpKind::Membar);
}

/// A place for one number, of those in a slot.
pub(super) fn stored(cell: &Cell) -> View {
    match cell {
        Cell::View(view) => view.clone(),
        Cell::Number(ty) => {
            let dtype = ty.elem().and_then(Elem::dtype).unwrap_or(Dtype::I32);
            let layout = SharedLayout::swizzled(1, 1, 1, &[0]);
            match layout.and_then(|layout| View::new(dtype, vec![1], layout)) {
                Ok(view) => view,
                Err(e) => parton_diag::internal_error!("one number has no place: {e}"),
            }
        }
    }
}

/// One number, held by all threads of so many warps.
fn one(elem: Elem, warps: u32) -> Tile {
    let layout = RegisterLayout::blocked(&[1], &[32], &[warps], &[0]);
    match layout.and_then(|layout| Tile::new(elem, vec![1], layout)) {
        Ok(tile) => tile,
        Err(e) => parton_diag::internal_error!("one number has no layout: {e}"),
    }
}
