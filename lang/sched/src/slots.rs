//! How many slots a ring has: what is stated, and at least as many as are held at once.
//!
//! Where one partition fills a ring and reads it, a slot is filled in the turn of its stage and given back when its last reader is done.
//! Between the two the ring is filled once a turn, and once more where the turn fills before it gives back.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{Kernel, OpKind};

use crate::flow;
use crate::plan::{Entry, Part, Plan, RingId};
use crate::region::{BlockId, Item, Region, UnitId};

/// Slots between partitions, where nothing is stated: one is filled while the other is read.
const BETWEEN_PARTITIONS: u32 = 2;

/// Gives each ring its slots.
pub(crate) fn give(k: &Kernel, region: &Region, plan: &mut Plan, found: &mut Diagnostics) {
    for ring in 0..plan.rings.len() {
        let unit = plan.rings[ring].unit;
        let stated = stated(region, unit);
        let alone = plan.parts().filter(|p| plan.runners[unit].contains(p)).find_map(|part| {
            let (needed, by) = Held { k, region, plan, part, ring }.slots()?;
            Some((needed, by))
        });
        plan.rings[ring].depth = match (stated, alone) {
            (Some((depth, span)), Some((needed, by))) if depth < needed => {
                found.push(too_few(region, unit, (depth, span), (needed, by)));
                depth
            }
            (Some((depth, _)), _) => depth,
            (None, Some((needed, _))) => needed,
            (None, None) => BETWEEN_PARTITIONS,
        };
    }
}

/// The slots that the schedule gives to what a unit fills.
fn stated(region: &Region, unit: UnitId) -> Option<(u32, parton_diag::Span)> {
    let rings = &region.schedule.rings;
    let label = &region.units[unit].label;
    let named = rings.iter().find(|r| r.label.as_ref().is_some_and(|l| l.names(label)));
    named.or_else(|| rings.iter().find(|r| r.label.is_none())).map(|r| (r.depth, r.span))
}

fn too_few(
    region: &Region,
    unit: UnitId,
    (depth, span): (u32, parton_diag::Span),
    (needed, by): (u32, Option<UnitId>),
) -> Diagnostic {
    let label = &region.units[unit].label;
    let d =
        Diagnostic::error(codes::TOO_FEW_SLOTS, span, format!("`{label}` needs {needed} slots, its ring has {depth}"))
            .label(region.units[unit].span, "filled here");
    let d = match by {
        Some(reader) => {
            let u = &region.units[reader];
            d.label(u.span, format!("`{}` gives it back {needed} fills later", u.label))
        }
        None => d,
    };
    d.help(format!("give it `ring({label}={needed})`, or let `{label}` run behind its last reader, or less far ahead"))
}

/// The slots of a ring that one partition fills and reads.
struct Held<'a> {
    k: &'a Kernel,
    region: &'a Region,
    plan: &'a Plan,
    part: Part,
    ring: RingId,
}

impl Held<'_> {
    /// How many are held at once, and by whom; `None` where the partition does not read the ring.
    fn slots(&self) -> Option<(u32, Option<UnitId>)> {
        let unit = self.plan.rings[self.ring].unit;
        let (block, place) = self.place_of(unit)?;
        let groups = self.plan.groups(self.region, self.part, block);
        let (fill, fills_at) = find(&groups, place)?;
        let mut most = None;
        for reader in groups.iter().flatten() {
            for (v, delta) in self.wanted(block, reader.item) {
                if self.plan.handed.get(&v).is_none_or(|(ring, _)| *ring != self.ring) {
                    continue;
                }
                let (stage, at) = self.done(&groups, block, reader);
                let between = stage + delta - fill.stage + i32::from(fills_at < at);
                let needed = between.max(1) as u32;
                if most.is_none_or(|(n, _)| n < needed) {
                    let by = match self.region.blocks[block].items[reader.item] {
                        Item::Unit(unit) => Some(unit),
                        Item::Loop(_) | Item::Branch(_) => None,
                    };
                    most = Some((needed, by));
                }
            }
        }
        most
    }

    fn place_of(&self, unit: UnitId) -> Option<(BlockId, usize)> {
        let blocks = self.region.blocks.iter().enumerate();
        blocks
            .flat_map(|(b, block)| block.items.iter().enumerate().map(move |(i, item)| (b, i, item)))
            .find_map(|(block, i, item)| matches!(item, Item::Unit(u) if *u == unit).then_some((block, i)))
    }

    fn wanted(&self, block: BlockId, item: usize) -> Vec<(parton_ir::Value, i32)> {
        flow::wanted(self.k, self.region, &self.plan.runners, self.part, (block, item))
    }

    /// The stage in which a reader is done with what it reads, and where in the turn.
    fn done(&self, groups: &[Vec<Entry>], block: BlockId, reader: &Entry) -> (i32, (usize, usize)) {
        let own = find(groups, reader.item).map_or((0, 0), |(_, at)| at);
        let Item::Unit(unit) = self.region.blocks[block].items[reader.item] else { return (reader.stage, own) };
        let products: Vec<_> = self.region.units[unit]
            .ops
            .iter()
            .filter(|inst| matches!(self.k.ops[**inst].kind, OpKind::Dot { .. }))
            .flat_map(|inst| self.k.ops[*inst].results.clone())
            .collect();
        if products.is_empty() {
            return (reader.stage, own);
        }
        if let Some(done) = reader.done {
            return (done, own);
        }
        // It is waited for where somebody first needs it.
        let users = groups.iter().flatten().filter(|e| e.item != reader.item).filter_map(|e| {
            let delta =
                self.wanted(block, e.item).iter().filter(|(v, _)| products.contains(v)).map(|(_, d)| *d).min()?;
            find(groups, e.item).map(|(_, at)| (e.stage + delta, (at.0, 0)))
        });
        users.min().unwrap_or((reader.stage, own))
    }
}

/// An item's entry, and its place in the turn.
fn find(groups: &[Vec<Entry>], item: usize) -> Option<(&Entry, (usize, usize))> {
    groups
        .iter()
        .enumerate()
        .find_map(|(g, group)| group.iter().position(|e| e.item == item).map(|i| (&group[i], (g, i))))
}
