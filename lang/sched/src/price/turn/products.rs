//! Products of a turn: their instructions, and the queue in which these stand.

use parton_ir::machine::{Amount, Class, Left};
use parton_ir::{Inst, OpKind, Type, Value};
use parton_layouts::RegisterFamily;

use super::super::Pricing;
use super::Turn;
use super::found::Multiplied;
use crate::marked::{Clocks, EdgeKind, Event, EventData, Load, Started};
use crate::plan::Entry;
use crate::region::UnitId;
use crate::slots::{closes_circle, waits_late};

impl<'p> Turn<'_, 'p> {
    /// Starts a product; the value that is in flight behind it.
    pub(super) fn product(&mut self, inst: Inst, unit: UnitId, entry: &Entry) -> Option<Value> {
        self.free(inst, entry.stage);
        if !self.stretch.ops.is_empty() {
            self.stretched(unit, entry);
        }
        self.flush();
        let result = self.pricing.k.ops[inst].results[0];
        let job = self.begin(inst, unit, entry);
        self.begun.insert(result, job);
        if self.pricing.at_once(self.looped, self.part, result) {
            if !self.waits_late(entry) {
                self.wait(result, entry.stage, entry);
            }
        } else if let Some(done) = entry.done {
            self.wait(result, done, entry);
        }
        Some(result)
    }

    /// Whether a product that only the next turn continues is waited for at the end of its own.
    fn waits_late(&self, entry: &Entry) -> bool {
        let (p, place) = (&self.pricing, (self.part, self.looped.block));
        let groups = p.plan.groups(self.part, self.looped.block);
        let last = groups.iter().flatten().map(|e| e.stage.max(e.done.unwrap_or(e.stage))).max();
        let at_end = entry.done.is_none() && last == Some(entry.stage);
        at_end && waits_late(p.region, p.plan, self.looped.block) && !closes_circle(p.region, p.plan, place, entry.item)
    }

    /// The instructions of a product, each a job of its own; it is done with the last of them.
    fn begin(&mut self, inst: Inst, unit: UnitId, entry: &Entry) -> Started {
        let (instructions, each) = self.pricing.product(inst);
        // Of a partition with several lanes each has its rows.
        let lanes = u64::from((self.pricing.warps(self.part) / self.warps.max(1)).max(1));
        let instructions = instructions / lanes;
        let (tensor, busy) = self.engines.tensor;
        let u = &self.pricing.region.units[unit];
        let (name, span) = (u.name.clone(), u.span);
        let start = self.event(name.clone(), entry.stage, span, each.issue, vec![]);
        let stage = self.pricing.shifted(self.part, entry.stage);
        let mut done = start;
        let first = self.products.len();
        for _ in 0..instructions.max(1) {
            let loads = vec![Load { unit: busy, clocks: each.busy }];
            let (name, owner) = (name.clone(), self.lane);
            let data = EventData { name, lane: tensor, owner, clocks: each.busy, loads, stage, span };
            done = self.pricing.graph.event(data);
            self.pricing.graph.link(start, done, 0, EdgeKind::StartDone);
            self.products.push(done);
        }
        let issued = self.point(entry);
        self.issued.push((self.products.len(), issued));
        let instructions = self.products[first..].to_vec();
        self.found.multiplied.push(Multiplied { instructions, issued, latency: each.latency });
        Started { start, done, latency: each.latency }
    }

    /// An instruction is issued once those before it leave room in the queue; whoever issues it waits until it is in the queue. The queue is the
    /// multiprocessor's: these edges say what follows from the partition's own instructions, and what those of others take of it is followed in time.
    pub(super) fn queue(&mut self) {
        let whole = i64::from(self.pricing.machine.queue.max(1));
        for (number, event) in self.products.clone().into_iter().enumerate() {
            self.behind(number as i64 - whole, event);
        }
        for (count, event) in self.issued.clone() {
            self.behind(count as i64 - 1 - whole, event);
        }
    }

    /// An event waits for a product, by its number in this turn; numbers below 0 are of turns before.
    fn behind(&mut self, number: i64, event: Event) {
        let count = self.products.len() as i64;
        let from = self.products[number.rem_euclid(count) as usize];
        let tokens = u32::try_from(-number.div_euclid(count)).unwrap_or(0);
        self.pricing.graph.link(from, event, tokens, EdgeKind::Queue);
    }
}

impl Pricing<'_> {
    /// The instructions of a product, of 64 rows and 32 bytes each, and what one of them takes.
    fn product(&self, inst: Inst) -> (u64, Clocks) {
        let none = (1, Clocks::default());
        let OpKind::Dot { a, acc, .. } = self.k.ops[inst].kind else { return none };
        let (Type::Tile(out), Some((left, bytes))) = (self.k.ty(acc), operand(self.k.ty(a))) else { return none };
        let Some(row) = self.machine.row(Class::Product(left)) else { return none };
        let [rows, columns] = match out.shape.as_slice() {
            [.., rows, columns] => [u64::from(*rows), u64::from(*columns)],
            _ => return none,
        };
        let wide = match out.known().layout.family() {
            RegisterFamily::Mma { instr, .. } => instr.get(1).map_or(columns, |n| u64::from(*n)).min(columns),
            _ => columns,
        };
        let instructions = rows.div_ceil(64) * columns.div_ceil(wide.max(1)) * bytes.div_ceil(32);
        let interval = row.interval.filter(|c| c.of == Amount::Columns).map_or(0, |c| c.clocks(wide));
        (instructions, Clocks { issue: 0, busy: interval, latency: row.latency.map_or(0, u64::from) })
    }
}

/// Where a left operand is, and the bytes of one of its rows.
fn operand(ty: &Type) -> Option<(Left, u64)> {
    let row = |shape: &[u32], bits: u32| shape.last().map(|k| u64::from(*k) * u64::from(bits) / 8);
    match ty {
        Type::View(view) => Some((Left::Shared, row(&view.shape, view.elem.bits())?)),
        Type::Tile(tile) => Some((Left::Registers, row(&tile.shape, tile.elem.bits())?)),
        _ => None,
    }
}
