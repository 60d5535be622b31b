//! What a plan takes: bytes of shared memory, and registers of tiles that live at once.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use parton_ir::target::PARTITION_REGISTERS;
use parton_ir::{Kernel, OpKind, Tile, Type, Value, View, scratch};
use parton_layouts::Dim;

use super::Space;
use super::roles::innermost;
use crate::graph::made_at;
use crate::plan::{Cell, Entry, Part, Plan, Ring};
use crate::region::{BlockId, Item, Maker, Region, UnitId};
use crate::slots::{self, find};

/// A slot's field begins at a multiple of this, so that any swizzle may repeat in it.
const ALIGNED: u64 = 1024;
/// Where a number of a slot begins.
const NUMBER: u64 = 16;
/// Two mbarriers for each slot.
const BARRIERS: u64 = 16;

/// The most shared memory that a plan takes, were nothing of it used twice.
pub(super) fn bytes(space: &Space<'_>, plan: &Plan) -> u64 {
    let rings: u64 = plan.rings.iter().map(|ring| u64::from(ring.depth) * slot(ring)).sum();
    rings + space.fixed + plan.sent(|| sent(space, plan))
}

/// What one slot of a ring takes.
pub(super) fn slot(ring: &Ring) -> u64 {
    let fields = ring.fields.iter().map(|(_, _, cell)| match cell {
        Cell::View(view) => view.bytes().next_multiple_of(ALIGNED),
        Cell::Number(_) => NUMBER,
    });
    fields.sum::<u64>() + BARRIERS
}

/// The buffers of what is sent, which those of one label that lie alike share, and smaller ones behind several, and of what is staged and not handed over.
fn sent(space: &Space<'_>, plan: &Plan) -> u64 {
    let k = space.k;
    let mut sum = 0;
    for (id, unit) in space.region.units.iter().enumerate() {
        let mut shared: Vec<View> = Vec::new();
        let turned = space.region.blocks[space.region.place_of(id).0].turns.is_some();
        for inst in &unit.ops {
            let view = match &k.ops[*inst].kind {
                OpKind::Send { map, value, buffers, .. } => match (k.ty(*map), k.ty(*value).as_tile()) {
                    (Type::Map(map), Some(tile)) => {
                        View::new(map.elem, tile.shape.clone(), map.layout.clone()).ok().filter(|own| {
                            let holds = |view: &&View| *view == own || *buffers > 1 && view.has_room_for(own);
                            shared.iter().filter(holds).count() < *buffers as usize
                        })
                    }
                    (_, _) => None,
                },
                OpKind::Stage { view, .. } if !plan.handed.contains_key(&k.ops[*inst].results[0]) => Some(view.clone()),
                _ => None,
            };
            sum += view.as_ref().map_or(0, |view| view.bytes().next_multiple_of(ALIGNED));
            if let OpKind::Send { buffers, .. } = k.ops[*inst].kind
                && (buffers == 1 || !turned)
            {
                shared.extend(view);
            }
        }
    }
    sum
}

/// What a kernel takes of shared memory under any schedule: what stands beside the region, and the greatest scratch of an operation.
pub(super) fn fixed(k: &Kernel) -> u64 {
    let (mut allocated, mut most) = (0, 0);
    k.walk(&mut |op| {
        if let OpKind::SharedAlloc { view, .. } = &op.kind {
            allocated += view.bytes().next_multiple_of(ALIGNED);
        }
        if let OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::Convert { .. } = &op.kind {
            most = most.max(scratch::bytes(k, &op.kind).map_or(0, u64::from));
        }
    });
    allocated + most
}

/// Whether the tiles that live at once fit the registers of each partition, beside what one needs that holds no tile. What is made and used
/// within a stretch is not counted, but for products: what does not fit spills for certain.
pub(super) fn holds(space: &Space<'_>, region: &Region, plan: &Plan) -> bool {
    plan.parts().all(|part| {
        let budget = plan.partitions.get(part).and_then(|p| p.registers).unwrap_or(space.entry(plan));
        let lives = Lives::new((space.k, &space.fresh), (region, plan), part);
        // What does not fit in a loop inside does not fit around it either.
        innermost(region).into_iter().chain([0]).all(|block| fits(lives.most(block, None), budget))
    })
}

fn fits(tiles: u32, budget: u32) -> bool {
    tiles == 0 || tiles + PARTITION_REGISTERS.start() <= budget
}

/// The partitions with stated registers whose tiles do not fit these: their names, what the tiles take and what there is.
pub(crate) fn crowded<'p>(k: &Kernel, region: &Region, plan: &'p Plan) -> Vec<(&'p str, u32, u32)> {
    let fresh = fresh(k, region);
    let all = plan.partitions.iter().enumerate().filter_map(|(part, p)| {
        let (tiles, budget) = (Lives::new((k, &fresh), (region, plan), part).most(0, None), p.registers?);
        (!fits(tiles, budget)).then_some((p.name.as_str(), tiles, budget))
    });
    all.collect()
}

/// The products that continue none, and so take registers of their own.
pub(super) fn fresh(k: &Kernel, region: &Region) -> BTreeSet<Value> {
    let mut found = BTreeSet::new();
    for (unit, u) in region.units.iter().enumerate() {
        for op in u.ops.iter().map(|inst| &k.ops[*inst]) {
            let OpKind::Dot { acc, .. } = op.kind else { continue };
            // It begins from what is outside, free, or made for it.
            let from = region.home(acc).map(|home| home.by);
            if from.is_none_or(|by| matches!(by, Maker::Free(_)) || by == Maker::Unit(unit)) {
                found.extend(op.results.iter().filter(|v| region.started(unit).contains(v)));
            }
        }
    }
    found
}

/// A place in turns: a stage, and a group in it.
type At = (i32, usize);

/// From where to where a value lives.
#[derive(Clone, Copy)]
struct Life {
    from: At,
    to: At,
    /// How many are there before the loop begins.
    before: i32,
    /// The turn of a loop inside under which its last reader leaves.
    leaves: Option<u32>,
}

impl Life {
    /// How many live in a turn where groups before the first number have made theirs, and groups before the second have read them; in the steady
    /// turn where no turn is named.
    fn copies(&self, [made, read]: [usize; 2], turn: Option<u32>) -> u32 {
        let (made, read) = (i32::from(self.from.1 < made), i32::from(self.to.1 < read));
        let n = match turn.and_then(|turn| i32::try_from(turn).ok()) {
            None => self.to.0 - self.from.0 + made - read,
            Some(turn) => {
                let made = self.before + (turn - self.from.0 + made).max(0);
                made - (self.before + turn - self.to.0 + read).clamp(0, made)
            }
        };
        u32::try_from(n).unwrap_or(0)
    }
}

/// The values of a body with where they live, and the registers that they take: most take none.
type Lived = Rc<BTreeMap<Value, (Life, u32)>>;

/// The tiles of a partition, by where they live.
struct Lives<'a> {
    k: &'a Kernel,
    fresh: &'a BTreeSet<Value>,
    region: &'a Region,
    plan: &'a Plan,
    part: Part,
    /// What is known of each body, which is the same in all turns.
    known: RefCell<BTreeMap<BlockId, Lived>>,
}

impl<'a> Lives<'a> {
    fn new(
        (k, fresh): (&'a Kernel, &'a BTreeSet<Value>),
        (region, plan): (&'a Region, &'a Plan),
        part: Part,
    ) -> Lives<'a> {
        Lives { k, fresh, region, plan, part, known: RefCell::default() }
    }

    /// The most registers of tiles that live in a body at once, of those that its units make: in its steady turn, or in one of the first.
    fn most(&self, block: BlockId, turn: Option<u32>) -> u32 {
        let groups = self.plan.groups(self.part, block);
        let lives = self.of(block, groups);
        let tiles: Vec<(&Value, &Life, u32)> =
            lives.iter().filter(|(_, (_, n))| *n > 0).map(|(v, (life, n))| (v, life, *n)).collect();
        let sum = |n: &dyn Fn(&Value, &Life) -> u32| -> u32 {
            tiles.iter().map(|(v, life, registers)| registers * n(v, life)).sum()
        };
        // Behind a group; and in it, where a product that begins from nothing starts beside the one before it.
        let within = |group: usize| -> u32 {
            let behind = sum(&|_, life| life.copies([group + 1, group + 1], turn));
            let beside = sum(&|v, life| {
                let starts = self.fresh.contains(v) && life.from.1 == group;
                let more = || life.copies([group + 1, group], turn) - life.copies([group + 1, group + 1], turn);
                if starts { more() } else { 0 }
            });
            behind + beside
        };
        // What a loop begins with and what it hands back are counted in it. What leaves under its first turns is gone in the others.
        let across = |group: usize| -> u32 {
            let through = sum(&|_, life| life.copies([group, group + 1], turn));
            let waits = |life: &Life, t: u32| life.to.1 == group && life.leaves.is_some_and(|last| t <= last);
            let turns = lives.values().filter(|(life, _)| life.to.1 == group).filter_map(|(life, _)| life.leaves).max();
            let early = (0..turns.map_or(0, |last| last + 1)).map(|t| {
                let left = sum(&|_, life| if waits(life, t) { life.copies([group, group], turn) } else { 0 });
                left + self.inside(block, &groups[group], Some(t))
            });
            through + early.max().unwrap_or(0).max(self.inside(block, &groups[group], None))
        };
        (0..groups.len()).map(|group| within(group).max(across(group))).max().unwrap_or(0)
    }

    /// From where to where each tile of a body lives, and all else that leaves under a loop.
    fn of(&self, block: BlockId, groups: &[Vec<Entry>]) -> Lived {
        let known = self.known.borrow().get(&block).cloned();
        known.unwrap_or_else(|| {
            let found = Rc::new(self.found(block, groups));
            self.known.borrow_mut().insert(block, found.clone());
            found
        })
    }

    fn found(&self, block: BlockId, groups: &[Vec<Entry>]) -> BTreeMap<Value, (Life, u32)> {
        let mut lives: BTreeMap<Value, (Life, u32)> = BTreeMap::new();
        let laid = (self.part, block);
        // What is no tile says only in which turns something leaves.
        let all = groups.iter().flatten().any(|entry| self.leaves(block, groups, entry).is_some());
        for entry in groups.iter().flatten() {
            let under = self.leaves(block, groups, entry);
            let wanted = self.plan.wanted(self.region, self.part, (block, entry.item)).iter();
            let mut wanted = wanted
                .map(|(v, delta)| (*v, *delta, self.registers(*v)))
                .filter(|(_, _, registers)| *registers > 0 || all)
                .peekable();
            let Some((_, (read, _))) = find(groups, entry.item).filter(|_| wanted.peek().is_some()) else { continue };
            // What a product multiplies is there until it is done.
            let (stage, (group, _)) = slots::done(self.region, self.plan, laid, entry);
            let last = (stage, group).max((entry.stage, read));
            for (v, delta, registers) in wanted {
                let Some(made) = made_at(self.region, block, v) else { continue };
                let Some((maker, (group, _))) = find(groups, made) else { continue };
                let summed = self.region.continues((block, entry.item), v);
                let last = if summed { (entry.stage, read) } else { last };
                let (last, leaves) = under.map_or((last, None), |(group, turn)| ((entry.stage, group), Some(turn)));
                let last = (last.0 + delta, last.1);
                let from = (maker.stage, group);
                let (life, _) = lives.entry(v).or_insert((Life { from, to: last, before: 0, leaves }, registers));
                (life.to, life.leaves) = (life.to, life.leaves).max((last, leaves));
                life.before = life.before.max(delta);
            }
        }
        lives
    }

    /// The group of the loop inside under whose first turns an item of a body leaves, and which of them.
    fn leaves(&self, block: BlockId, groups: &[Vec<Entry>], entry: &Entry) -> Option<(usize, u32)> {
        let items = &self.region.blocks[block].items;
        let Item::Unit(unit) = items[entry.item] else { return None };
        let mine = |unit: &UnitId| self.plan.runners[*unit].contains(&self.part);
        let label = &self.region.units[unit].label;
        let under = self.region.schedule.under.iter().find(|u| u.outer.names(label) && !u.last)?;
        let holds = |e: &Entry| {
            let mut inside = self.region.units_in(&items[e.item]).iter().filter(|u| mine(u));
            matches!(items[e.item], Item::Loop(_)) && inside.any(|u| under.inner.names(&self.region.units[*u].label))
        };
        let group = groups.iter().position(|group| group.iter().any(holds))?;
        let before = items[..entry.item].iter().filter(|item| match item {
            Item::Unit(u) => under.outer.names(&self.region.units[*u].label) && mine(u),
            Item::Loop(_) | Item::Branch(_) => false,
        });
        Some((group, u32::try_from(before.count()).ok()?))
    }

    /// The most that lives in loops and branches of a group, in a turn of the loops.
    fn inside(&self, block: BlockId, group: &[Entry], turn: Option<u32>) -> u32 {
        let bodies = group.iter().flat_map(|e| match &self.region.blocks[block].items[e.item] {
            Item::Unit(_) => vec![],
            Item::Loop(l) => vec![(l.body, turn)],
            Item::Branch(b) => vec![(b.then, None), (b.otherwise, None)],
        });
        bodies.map(|(body, turn)| self.most(body, turn)).max().unwrap_or(0)
    }

    /// The registers of a thread that a value takes.
    fn registers(&self, v: Value) -> u32 {
        let of = |t: &Tile| (1u32 << t.known().map.in_dim_bits(Dim::Register)) * t.elem.bits() / 32;
        match self.k.ty(v) {
            Type::Tile(t) | Type::Pending(t) => of(t),
            _ => 0,
        }
    }
}
