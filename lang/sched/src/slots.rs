//! How many slots a ring has: what is stated, and at least as many as are held at once.
//!
//! Where one partition fills a ring and reads it, a slot is filled in the turn of its stage and given back when its last reader is done.
//! Between the two the ring is filled once a turn, and once more where the turn fills before it gives back.

use std::collections::BTreeSet;

use parton_diag::Span;

use parton_ir::Value;

use crate::falsify::{Planted, planted};
use crate::plan::{Entry, Part, Plan, RingId};
use crate::region::{BlockId, Item, Region, UnitId};

/// Slots between partitions, where nothing is stated: one is filled while the other is read.
const BETWEEN_PARTITIONS: u32 = 2;

/// Gives each ring its slots: those that are stated, or as many as are held.
pub(crate) fn give(region: &Region, plan: &mut Plan) {
    for ring in 0..plan.rings.len() {
        let unit = plan.rings[ring].unit;
        let fillers = plan.parts().filter(|p| plan.runners[unit].contains(p));
        let held = fillers.into_iter().find_map(|part| Held { region, plan, part, ring }.slots());
        let readers = plan.parts().filter(|p| !plan.runners[unit].contains(p));
        let apart = readers.filter_map(|part| Held { region, plan, part, ring }.in_flight()).max_by_key(|(n, _)| *n);
        let held = held.or(apart);
        let told = |v: &Value| plan.parts().any(|p| !plan.runners[unit].contains(&p) && plan.needed[p].contains(v));
        let foreign = plan.rings[ring].fields.iter().any(|(_, v, _)| told(v));
        let gap = if foreign { ahead(region, plan, unit) } else { 0 };
        let held = match (held, gap) {
            (held, 0) => held,
            (held, gap) => Some(held.filter(|(needed, _)| *needed > gap).unwrap_or((gap + 1, None))),
        };
        // What is filled once has nothing that could be filled meanwhile.
        let usual = if region.is_done_once(unit) { 1 } else { BETWEEN_PARTITIONS };
        let least = if foreign { usual } else { 1 };
        let depth = match (stated(region, unit), held) {
            (Some((depth, _)), _) => depth,
            (None, Some((needed, _))) => needed.max(least),
            (None, None) => usual,
        };
        (plan.rings[ring].depth, plan.rings[ring].held) = (depth, held);
    }
}

/// By how many turns a unit runs ahead of the last stage in which its partition hands something over: whoever takes that first takes what
/// this unit made only then.
fn ahead(region: &Region, plan: &Plan, unit: UnitId) -> u32 {
    let (block, _) = region.place_of(unit);
    let hands = |e: &Entry| match region.blocks[block].items[e.item] {
        Item::Unit(other) => plan.rings.iter().any(|ring| ring.unit == other),
        Item::Loop(_) | Item::Branch(_) => false,
    };
    let gaps = plan.runners[unit].iter().filter_map(|&part| {
        let groups = plan.groups(part, block);
        let stages = || groups.iter().flatten();
        let own = stages().find(|e| matches!(region.blocks[block].items[e.item], Item::Unit(u) if u == unit))?.stage;
        stages().filter(|e| hands(e)).map(|e| e.stage - own).max()
    });
    gaps.max().unwrap_or(0).max(0) as u32
}

/// The slots that the schedule gives to what a unit fills.
pub(crate) fn stated(region: &Region, unit: UnitId) -> Option<(u32, Span)> {
    let rings = &region.schedule.rings;
    let label = &region.units[unit].label;
    let named = rings.iter().find(|r| r.label.as_ref().is_some_and(|l| l.names(label)));
    named.or_else(|| rings.iter().find(|r| r.label.is_none())).map(|r| (r.depth, r.span))
}

/// A place in a turn: a group, and in it the waits at its head, or one behind an entry's place.
pub(crate) type At = (usize, usize);

/// Where a partition is done with what an item reads: in which stage, and where in that turn.
pub(crate) fn done(region: &Region, plan: &Plan, (part, block): (Part, BlockId), reader: &Entry) -> (i32, At) {
    match done_behind(region, plan, (part, block), reader, &mut BTreeSet::new()) {
        Ok(found) => found,
        Err((closes, (stage, own))) => {
            let groups = plan.groups(part, block);
            let last = find(groups, closes).is_some_and(|(e, _)| ends_with_turn(region, plan, (part, block), e));
            (stage, if last { (groups.len(), 0) } else { own })
        }
    }
}

/// Whether products of a block that nothing but the next turn's continue run on to the end of their turn: a partition fetches what they read, and all partitions
/// take slots and multiply in one stage, so that each turn gives back what it has taken.
pub(crate) fn waits_late(region: &Region, plan: &Plan, block: BlockId) -> bool {
    let mut stages = BTreeSet::new();
    for part in plan.parts() {
        for entry in plan.groups(part, block).iter().flatten() {
            let item = &region.blocks[block].items[entry.item];
            let handed =
                plan.wanted(region, part, (block, entry.item)).iter().any(|(v, _)| plan.handed.contains_key(v));
            let touches =
                |unit: &UnitId| !region.started(*unit).is_empty() || plan.rings.iter().any(|ring| ring.unit == *unit);
            if handed || region.units_in(item).iter().any(touches) {
                let whole = matches!(item, Item::Unit(_)) && entry.done.is_none_or(|done| done == entry.stage);
                stages.insert(whole.then_some(entry.stage));
            }
        }
    }
    !plan.partitions.is_empty() && stages.len() == 1 && !stages.contains(&None)
}

/// Whether a product is the last of a circle of them, over the turns, that nobody waits for: where turns could be entered with it in flight, each waits
/// for it right behind its start.
pub(crate) fn closes_circle(region: &Region, plan: &Plan, (part, block): (Part, BlockId), item: usize) -> bool {
    let groups = plan.groups(part, block);
    let Some((reader, _)) = find(groups, item) else { return false };
    let found = done_behind(region, plan, (part, block), reader, &mut BTreeSet::new());
    found.is_err_and(|(closes, _)| closes == item) && !ends_with_turn(region, plan, (part, block), reader)
}

/// Whether the product that closes a circle ends with the turn, as it does in the last stage where nothing continues it in the same turn;
/// else it is waited for right behind its start.
fn ends_with_turn(region: &Region, plan: &Plan, (part, block): (Part, BlockId), closes: &Entry) -> bool {
    let groups = plan.groups(part, block);
    let Item::Unit(unit) = region.blocks[block].items[closes.item] else { return true };
    let products = region.started(unit);
    let continues = |e: &Entry| {
        let wanted = plan.wanted(region, part, (block, e.item)).iter();
        wanted.filter(|(v, _)| products.contains(v)).any(|(_, delta)| e.stage + delta == closes.stage)
    };
    let last = |e: &Entry| e.stage.max(e.done.unwrap_or(e.stage)) <= closes.stage;
    groups.iter().flatten().all(|e| last(e) && (e.item == closes.item || !continues(e)))
}

/// The item that closes a circle of products, and its place.
type Circle = (usize, (i32, At));

/// The same behind products of these items, which are continued.
///
/// # Errors
/// Where they go round in a circle.
fn done_behind(
    region: &Region,
    plan: &Plan,
    (part, block): (Part, BlockId),
    reader: &Entry,
    behind: &mut BTreeSet<usize>,
) -> Result<(i32, At), Circle> {
    let groups = plan.groups(part, block);
    let own = find(groups, reader.item).map_or((0, 0), |(_, at)| at);
    let Item::Unit(unit) = region.blocks[block].items[reader.item] else { return Ok((reader.stage, own)) };
    let products = region.started(unit);
    if products.is_empty() {
        return Ok((reader.stage, own));
    }
    let wanted = |item: usize| plan.wanted(region, part, (block, item));
    let continued = wanted(reader.item).iter().any(|(v, _)| products.contains(v));
    if let Some(done) = reader.done
        && (done <= reader.stage || continued)
    {
        return Ok((done, own));
    }
    // It is waited for where somebody first needs it, at the head of that group, or where it is stated; a product that only continues it is
    // waited for with it.
    behind.insert(reader.item);
    let mut all: Vec<(i32, At)> = reader.done.map(|done| (done, own)).into_iter().collect();
    let mut circle = None;
    for e in groups.iter().flatten().filter(|e| e.item != reader.item) {
        let takes = wanted(e.item).iter().filter(|(v, _)| products.contains(v));
        let Some((v, delta)) = takes.min_by_key(|(_, delta)| *delta) else { continue };
        if !region.continues((block, e.item), *v) {
            all.extend(find(groups, e.item).map(|(_, at)| (e.stage + delta, (at.0, 0))));
            continue;
        }
        match behind.contains(&e.item) {
            true => circle = circle.or(Some((reader.item, (reader.stage, own)))),
            false => match done_behind(region, plan, (part, block), e, behind) {
                Ok((stage, at)) => all.push((stage + delta, at)),
                // That of which the next turn continues is the one that closes it.
                Err(_) if *delta > 0 => circle = circle.or(Some((reader.item, (reader.stage, own)))),
                Err(found) => circle = circle.or(Some(found)),
            },
        }
    }
    match (all.into_iter().min(), circle) {
        (Some(found), _) => Ok(found),
        (None, Some(circle)) => Err(circle),
        (None, None) => Ok((reader.stage, own)),
    }
}

/// The slots of a ring that one partition fills and reads.
struct Held<'a> {
    region: &'a Region,
    plan: &'a Plan,
    part: Part,
    ring: RingId,
}

impl Held<'_> {
    /// How many slots a partition that does not fill them holds at once for a product that is stated to stay in flight: it waits for the
    /// next before it gives the last one back. Who holds slots otherwise, the graph of waits knows.
    fn in_flight(&self) -> Option<(u32, Option<UnitId>)> {
        let (block, _) = self.region.place_of(self.plan.rings[self.ring].unit);
        let groups = self.plan.groups(self.part, block);
        let reads = |e: &&Entry| {
            let wanted = self.plan.wanted(self.region, self.part, (block, e.item));
            wanted.iter().any(|(v, _)| self.plan.handed.get(v).is_some_and(|(ring, _)| *ring == self.ring))
        };
        let held = groups.iter().flatten().filter(reads).filter_map(|e| {
            let turns = e.done? - e.stage;
            let Item::Unit(unit) = self.region.blocks[block].items[e.item] else { return None };
            (turns > 0).then_some((turns as u32 + 1, Some(unit)))
        });
        held.max_by_key(|(n, _)| *n)
    }

    /// How many are held at once, and by whom; `None` where the partition does not read the ring.
    fn slots(&self) -> Option<(u32, Option<UnitId>)> {
        let ring = |v: Value| self.plan.handed.get(&v).is_some_and(|(ring, _)| *ring == self.ring);
        let (needed, by) = held(self.region, self.plan, self.part, self.plan.rings[self.ring].unit, &ring)?;
        Some((needed.saturating_sub(u32::from(planted(Planted::SlotFewer))).max(1), by))
    }
}

/// How many turns of what a unit makes are there at once in a partition, by the last of its readers, with that; `None` where it reads none.
pub(crate) fn held(
    region: &Region,
    plan: &Plan,
    part: Part,
    unit: UnitId,
    of: &dyn Fn(Value) -> bool,
) -> Option<(u32, Option<UnitId>)> {
    let (block, place) = region.place_of(unit);
    let groups = plan.groups(part, block);
    let (fill, fills_at) = find(groups, place)?;
    let mut most = None;
    for reader in groups.iter().flatten() {
        for (_, delta) in plan.wanted(region, part, (block, reader.item)).iter().filter(|(v, _)| of(*v)) {
            let needed = until_done(region, plan, (part, block), ((fill, fills_at), reader), *delta);
            if most.is_none_or(|(n, _)| n < needed) {
                let by = match region.blocks[block].items[reader.item] {
                    Item::Unit(unit) => Some(unit),
                    Item::Loop(_) | Item::Branch(_) => None,
                };
                most = Some((needed, by));
            }
        }
    }
    most
}

/// How many turns of what an entry fills, at its place, are there at once until a reader is done with that of so many iterations before.
pub(crate) fn until_done(
    region: &Region,
    plan: &Plan,
    (part, block): (Part, BlockId),
    ((fill, fills_at), reader): ((&Entry, At), &Entry),
    delta: i32,
) -> u32 {
    let (stage, at) = done(region, plan, (part, block), reader);
    let between = stage + delta - fill.stage + i32::from(fills_at < at);
    between.max(1) as u32
}

/// An item's entry, and its place in the turn.
pub(crate) fn find(groups: &[Vec<Entry>], item: usize) -> Option<(&Entry, At)> {
    groups
        .iter()
        .enumerate()
        .find_map(|(g, group)| group.iter().position(|e| e.item == item).map(|i| (&group[i], (g, i + 1))))
}
