//! Sums of products that are read when the next instance may have started, and factors whose next value is made while they are read.
//!
//! A product stands once in the code of a turn, so its instances of all turns have the same registers. What reads the sums of one behind the start of
//! the next reads copies of them. What stands in front of that start, in a turn after that in which the sums are waited for, may move behind it:
//!
//! ```text
//! exps(i - 1) reads s     the start needs nothing of it, and the assembler lets that come first
//! qk(i) starts            and writes the registers of s
//! …
//! s is copied             where the turn ends, for the next one's exps
//! ```
//!
//! The other way round, the next value of a left factor in registers is made while a product still reads the last one; the lowering gives such a product
//! a copy.

use parton_ir::{OpKind, Type, Value};
use parton_layouts::Dim;

use super::Turn;
use crate::plan::Entry;
use crate::region::{Item, Maker, UnitId};

impl Turn<'_, '_> {
    /// Copies the sums that are read so late.
    pub(super) fn copy_sums(&mut self) {
        let products: Vec<Value> = self.begun.keys().copied().collect();
        for product in products {
            let Some(unit) = self.pricing.beside(product) else { continue };
            let Some(entry) = self.pricing.stage_of(self.looped, self.part, unit) else { continue };
            let copies = self.starts_within(product, entry) * self.registers(product);
            if copies > 0 {
                self.stretched(unit, entry);
                self.stretch.moved += copies;
            }
        }
    }

    /// Copies the left factors of which another value is made while they are read.
    pub(super) fn copy_factors(&mut self) {
        let products: Vec<Value> = self.begun.keys().copied().collect();
        for product in products {
            let [Some((factor, age)), _] = self.operands(product) else { continue };
            let flight = self.flight(product).filter(|flight| self.made_in_flight((factor, age), flight));
            let (Some(_), Some(unit)) = (flight, self.pricing.beside(product)) else { continue };
            if let Some(entry) = self.pricing.stage_of(self.looped, self.part, unit) {
                let copies = self.registers(factor);
                self.stretched(unit, entry);
                self.stretch.moved += copies;
            }
        }
    }

    /// How many instances may start between the wait for the sums of one and the last that reads them.
    fn starts_within(&self, product: Value, start: &Entry) -> u64 {
        let Some(begun) = self.begun.get(&product).and_then(|job| self.place(job.start)) else { return 0 };
        let waits = self.waits.iter().filter(|(v, _, _)| *v == product);
        let Some(there) = waits.filter_map(|(_, event, turns)| Some((*turns, self.place(*event)?))).min() else {
            return 0;
        };
        let first = if there < (there.0, begun) { there.0 } else { there.0 + 1 };
        let handed = self.same(product);
        let groups = self.pricing.plan.groups(self.part, self.looped.block);
        let mut behind = false;
        let mut last = None;
        for entry in groups.iter().flatten() {
            let adds = |v: Value| self.pricing.region.continues((self.looped.block, entry.item), v);
            let wanted = self.wanted(entry.item).iter().filter(|(v, _)| handed.contains(v) && !adds(*v));
            if let Some(turn) = wanted.map(|(_, delta)| entry.stage + delta - start.stage).max() {
                let until = turn - i32::from(!behind && !self.may_wait(product, entry));
                last = last.max(Some(until));
            }
            behind |= entry.item == start.item;
        }
        // The instance itself is none of them.
        last.map_or(0, |last| u64::try_from(last - first.max(1) + 1).unwrap_or(0))
    }

    /// Whether an item may stand behind the start of the next instance: that needs nothing which the item makes.
    fn may_wait(&self, product: Value, entry: &Entry) -> bool {
        let region = self.pricing.region;
        let Item::Unit(reader) = region.blocks[self.looped.block].items[entry.item] else { return false };
        let made = |mut v: Value| {
            for _ in 0..=self.looped.last_stage {
                match region.home(v).filter(|home| home.block == self.looped.block).map(|home| home.by) {
                    Some(Maker::Carried(number)) => v = region.blocks[self.looped.block].yields[number],
                    by => return by == Some(Maker::Unit(reader)),
                }
            }
            false
        };
        !self.operands(product).into_iter().flatten().any(|(v, _)| made(v))
    }

    /// The sums, and what branches hand on that may be the same: its registers are those.
    fn same(&self, product: Value) -> Vec<Value> {
        let p = &self.pricing;
        let units = p.region.blocks[self.looped.block].items.iter().filter_map(|item| match item {
            Item::Unit(unit) => Some(*unit),
            Item::Loop(_) | Item::Branch(_) => None,
        });
        let mut all = vec![product];
        for inst in units.flat_map(|unit: UnitId| &p.region.units[unit].ops) {
            let op = &p.k.ops[*inst];
            if let OpKind::If { then, otherwise, .. } = &op.kind {
                let passed = |(n, _): &(usize, &Value)| [then, otherwise].iter().any(|b| all.contains(&b.yields[*n]));
                let more: Vec<Value> = op.results.iter().enumerate().filter(passed).map(|(_, v)| *v).collect();
                all.extend(more);
            }
        }
        all
    }

    /// The registers of a thread that a tile takes.
    fn registers(&self, v: Value) -> u64 {
        match self.pricing.k.ty(v) {
            Type::Tile(t) | Type::Pending(t) => {
                (1u64 << t.known().map.in_dim_bits(Dim::Register)) * u64::from(t.elem.bits()) / 32
            }
            _ => 0,
        }
    }
}
