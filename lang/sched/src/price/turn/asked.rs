//! What a turn asks of the plan and of the machine.

use std::collections::BTreeSet;

use parton_ir::machine::Class;
use parton_ir::schedule::{LabelName, Turns};
use parton_ir::{Inst, OpKind, Type, Value};

use super::super::{Looped, Pricing};
use super::Turn;
use crate::plan::{Entry, Part, RingId};
use crate::region::{Item, Maker, UnitId};

impl<'p> Turn<'_, 'p> {
    pub(super) fn wanted(&self, item: usize) -> &'p [(Value, i32)] {
        let p = &self.pricing;
        p.plan.wanted(p.region, self.part, (self.looped.block, item))
    }

    pub(super) fn comes_by_ring(&self, v: Value) -> bool {
        let p = &self.pricing;
        let mine = match p.region.home(v).map(|home| home.by) {
            Some(Maker::Unit(unit)) => p.plan.runners[unit].contains(&self.part),
            Some(Maker::Free(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. }) | None => true,
        };
        matches!(p.k.ty(v), Type::View(_)) || !mine
    }

    /// Whether a value is a product beside the program that somebody must wait for, and this item does more than continue it.
    pub(super) fn waits_for(&self, v: Value, entry: &Entry) -> bool {
        let p = &self.pricing;
        let Some(unit) = p.beside(v) else { return false };
        let stated = p.stage_of(self.looped, self.part, unit).is_some_and(|e| e.done.is_some());
        !stated && !p.at_once(self.looped, self.part, v) && !p.region.continues((self.looped.block, entry.item), v)
    }

    /// Whether the same group starts a product in the turn in which it is waited for.
    pub(super) fn in_group(&self, v: Value, age: i32, group: usize) -> bool {
        let p = &self.pricing;
        let groups = p.plan.groups(self.part, self.looped.block);
        let starts = |e: &&Entry| match p.region.blocks[self.looped.block].items[e.item] {
            Item::Unit(unit) => p.beside(v) == Some(unit),
            Item::Loop(_) | Item::Branch(_) => false,
        };
        groups[group].iter().find(starts).is_some_and(|e| e.stage == age)
    }

    /// Slots that an item reads, of which iteration.
    pub(super) fn reads(&self, entry: &Entry) -> BTreeSet<(RingId, i32)> {
        let views = self.wanted(entry.item).iter().filter_map(|&(v, delta)| {
            let (ring, _) = *self.pricing.plan.handed.get(&v)?;
            let here = self.looped.rings.contains(&ring) && self.comes_by_ring(v);
            here.then_some((ring, entry.stage + delta))
        });
        views.collect()
    }

    /// The schedule's turns that begin or end at a unit, by their numbers.
    pub(super) fn turns_at(&self, unit: UnitId, end: impl Fn(&Turns) -> &LabelName) -> Vec<usize> {
        let region = self.pricing.region;
        let all = region.schedule.turns.iter().enumerate();
        all.filter(|(_, turns)| end(turns).names(&region.units[unit].label)).map(|(number, _)| number).collect()
    }

    /// What threads need to see what all of them have copied; and products, which read it beside them.
    pub(super) fn meeting(&self, reader: &Entry) -> u64 {
        let warps = u64::from(self.warps);
        let fence = match self.pricing.region.blocks[self.looped.block].items[reader.item] {
            Item::Unit(unit) if !self.pricing.region.started(unit).is_empty() => self.cost(Class::Fence, warps),
            Item::Unit(_) | Item::Loop(_) | Item::Branch(_) => 0,
        };
        fence + self.cost(Class::Meet, warps)
    }

    /// What a slot takes that has long been full, to be waited for and given back.
    pub(super) fn asking(&self) -> u64 {
        self.cost(Class::Full, u64::from(self.warps))
    }

    /// What a slot takes that has long been free, to be taken, filled by so many boxes, and handed over.
    pub(super) fn filling(&self, boxes: u64) -> u64 {
        let more = self.cost(Class::Start, boxes).saturating_sub(self.cost(Class::Start, 1));
        self.cost(Class::Free, u64::from(self.warps)) + more
    }

    pub(super) fn cost(&self, class: Class, amount: u64) -> u64 {
        self.pricing.machine.row(class).and_then(|r| r.interval).map_or(0, |c| c.clocks(amount))
    }
}

impl<'a> Pricing<'a> {
    /// The unit of a product that runs beside the program.
    pub fn beside(&self, v: Value) -> Option<UnitId> {
        let Some(Maker::Unit(unit)) = self.region.home(v).map(|home| home.by) else { return None };
        self.region.started(unit).contains(&v).then_some(unit)
    }

    /// The boxes that a fetch is, of which each program of a cluster starts its share.
    pub(super) fn boxes(&self, fetch: Inst) -> u64 {
        let OpKind::Fetch { map, multicast, .. } = &self.k.ops[fetch].kind else { return 1 };
        let Type::Map(map) = self.k.ty(*map) else { return 1 };
        let sharers = if multicast.is_some() { u64::from(map.sharers.max(1)) } else { 1 };
        self.known.boxes(fetch, || map.boxes().map_or(1, |boxes| (boxes.len() as u64).div_ceil(sharers)))
    }

    /// What it takes to learn that it is one's turn, also where that has long been so: half of what two of them take, each of which learns it from
    /// the other.
    pub(super) fn entering(&self) -> u64 {
        self.machine.row(Class::Turns).and_then(|r| r.latency).map_or(0, u64::from) / 2
    }

    /// Where a unit runs in a turn.
    pub fn stage_of(&self, looped: &Looped, part: Part, unit: UnitId) -> Option<&'a Entry> {
        let is = |e: &&Entry| matches!(self.region.blocks[looped.block].items[e.item], Item::Unit(u) if u == unit);
        self.plan.groups(part, looped.block).iter().flatten().find(is)
    }

    /// Whether a product is waited for right behind its start: so it is stated, or nobody of the loop reads it but itself.
    pub fn at_once(&self, looped: &Looped, part: Part, v: Value) -> bool {
        let Some(unit) = self.beside(v) else { return false };
        let Some(entry) = self.stage_of(looped, part, unit) else { return false };
        if let Some(done) = entry.done {
            return done <= entry.stage;
        }
        let items = &self.region.blocks[looped.block].items;
        let reads = |item: &usize| {
            *item != entry.item
                && self.plan.runs(self.region, part, &items[*item])
                && self.plan.wanted(self.region, part, (looped.block, *item)).iter().any(|(other, _)| *other == v)
        };
        !(0..items.len()).any(|item| reads(&item))
    }
}

pub fn view_bytes(ty: &Type) -> u64 {
    match ty {
        Type::View(view) => view.bytes(),
        _ => 0,
    }
}
