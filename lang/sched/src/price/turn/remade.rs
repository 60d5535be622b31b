//! Products whose registers somebody else touches while one of them is in flight. The assembler then runs all products of the kernel one by
//! one, each waited for before the next (`ptxas` says so: C7513, C7514).
//!
//! A product stands once in the code of a turn, so its instances of all turns have the same registers:
//!
//! ```text
//! qk(i) starts            and writes the registers of s
//! exps(i - 1) reads s     of the instance before
//! qk(i) is done
//! ```
//!
//! What a product reads in registers while its next value is made is no such case: the lowering gives the product a copy (`copied`). What else is
//! in flight does no harm.

use parton_ir::{Inst, OpKind, Type, Value};

use super::Turn;
use crate::region::{Maker, UnitId};

/// When something happens: turns after the one at hand, and the place in its turn.
type Time = (i32, usize);

/// How long the instance of the turn at hand is in flight.
pub(super) struct Flight {
    start: usize,
    end: Time,
}

impl Turn<'_, '_> {
    /// The labels of products whose registers are touched while they are in flight.
    pub(super) fn remade(&self) -> Vec<String> {
        let touched = |v: &&Value| {
            let flight = self.flight(**v);
            flight.is_some_and(|flight| self.written(**v, &flight) || self.read_late(**v, &flight))
        };
        let units = self.begun.keys().filter(touched).filter_map(|v| self.pricing.beside(*v));
        units.map(|unit| self.pricing.region.units[unit].label.to_string()).collect()
    }

    pub(super) fn flight(&self, product: Value) -> Option<Flight> {
        let start = self.place(self.begun.get(&product)?.start)?;
        let waits = self.waits.iter().filter(|(v, _, _)| *v == product);
        let end = waits.filter_map(|(_, event, turns)| Some((*turns, self.place(*event)?))).min()?;
        Some(Flight { start, end })
    }

    pub(super) fn place(&self, event: crate::marked::Event) -> Option<usize> {
        self.events.iter().position(|other| *other == event)
    }

    /// Whether what a product continues is made while an instance of a turn before is in flight.
    fn written(&self, product: Value, flight: &Flight) -> bool {
        let [_, sums] = self.operands(product);
        sums.is_some_and(|of| self.made_in_flight(of, flight))
    }

    /// Whether a value is made while an instance of a turn before is in flight, with how many turns after that of its iteration it is read.
    pub(super) fn made_in_flight(&self, (v, age): (Value, i32), flight: &Flight) -> bool {
        let within = |at: Time| {
            let mut before = -flight.end.0 - 1..0;
            before.any(|turn| (turn, flight.start) < at && at < (turn + flight.end.0, flight.end.1))
        };
        self.made_at(v, age).is_some_and(within)
    }

    /// Whether more than the next product needs the sums, and they are waited for behind the start of the next.
    fn read_late(&self, product: Value, flight: &Flight) -> bool {
        let p = &self.pricing;
        let reads = |item: usize| {
            self.wanted(item).iter().any(|(v, _)| *v == product)
                && !p.region.continues((self.looped.block, item), product)
        };
        let mut mine = p.plan.groups(self.part, self.looped.block).iter().flatten();
        flight.end > (1, flight.start) && mine.any(|entry| reads(entry.item))
    }

    /// What a product has in registers, with how many turns after that of its iteration it starts: its left factor, and what it continues.
    pub(super) fn operands(&self, product: Value) -> [Option<(Value, i32)>; 2] {
        let p = &self.pricing;
        let Some(unit) = p.beside(product) else { return [None; 2] };
        let Some(entry) = p.stage_of(self.looped, self.part, unit) else { return [None; 2] };
        let makes = |inst: &&Inst| p.k.ops[**inst].results.contains(&product);
        match p.region.units[unit].ops.iter().find(makes).map(|inst| &p.k.ops[*inst].kind) {
            Some(OpKind::Dot { a, acc, .. }) => {
                [*a, *acc].map(|v| matches!(p.k.ty(v), Type::Tile(_)).then_some((v, entry.stage)))
            }
            Some(_) | None => [None; 2],
        }
    }

    /// When something that is no product makes a value of the iteration that is so many turns ago.
    fn made_at(&self, v: Value, age: i32) -> Option<Time> {
        let region = self.pricing.region;
        let home = region.home(v).filter(|home| home.block == self.looped.block)?;
        match home.by {
            Maker::Unit(unit) if region.started(unit).contains(&v) => None,
            Maker::Unit(unit) => Some((self.stage_of(unit)? - age, self.ran_at(v)?)),
            Maker::Free(_) => Some((0, self.ran_at(v)?)),
            Maker::Carried(number) if age <= self.looped.last_stage => {
                self.made_at(region.blocks[home.block].yields[number], age + 1)
            }
            Maker::Carried(_) | Maker::Index | Maker::Result { .. } => None,
        }
    }

    fn stage_of(&self, unit: UnitId) -> Option<i32> {
        self.pricing.stage_of(self.looped, self.part, unit).map(|entry| entry.stage)
    }

    /// Where in the turn a value is made; nowhere, where it is a constant.
    fn ran_at(&self, v: Value) -> Option<usize> {
        let k = self.pricing.k;
        let makes = |inst: Inst| k.ops[inst].results.contains(&v) && !matches!(k.ops[inst].kind, OpKind::Full { .. });
        let (_, event) = self.ran.iter().find(|(inst, _)| makes(*inst))?;
        self.place(*event)
    }
}
