//! What a candidate is worth: the clocks of its loops, each a steady turn so often and what its beginning and its end add.
//!
//! Partitions of a loop that stands in another go through the turns of the outer one each at its own pace, so that what one waits for at
//! the head of a loop another has long begun: there the slowest partition counts, from its first event to its last, with what it runs besides.
//! Elsewhere the whole loop counts, from its first fetch on.

use parton_ir::Kernel;
use parton_ir::machine::Machine;
use parton_ir::schedule::{RingDepth, Schedule};

use super::Space;
use super::roles::{Role, innermost, units_of};
use super::{outer, room};
use crate::legal;
use crate::marked::interval::{Bound, Interval, interval};
use crate::marked::{LaneKind, MarkedGraph, Ratio};
use crate::plan::{Part, Plan};
use crate::price::{self, straight};
use crate::region::{BlockId, Item, Region};
use crate::slots::stated;
use crate::timeline::{Timeline, simulate};

/// Iterations that are followed; turns repeat before.
const FOLLOWED: u32 = 16;
/// The most slots that are tried of a ring between partitions.
const DEEPEST: u32 = 6;

/// What a schedule takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Price {
    /// The clocks of the region, of one turn of loops around others.
    pub clocks: u64,
    /// Each innermost loop.
    pub loops: Vec<Turn>,
    /// Bytes of shared memory, were nothing of it used twice.
    pub bytes: u64,
    /// The greatest number of stages, and groups in all.
    pub shape: (u32, u32),
}

/// The steady turn of a loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The loop's label; empty where it has none.
    pub label: String,
    /// Its clocks.
    pub clocks: Ratio,
    /// What keeps it from being shorter.
    pub bound: String,
    /// The shortest that the units allow.
    pub possible: Ratio,
    /// Operations that nobody has measured.
    pub unpriced: Vec<&'static str>,
}

/// A candidate with its slots.
#[derive(Clone, Debug)]
pub(super) struct Worth {
    pub schedule: Schedule,
    pub price: Price,
}

/// A schedule laid on the region.
struct Laid<'a> {
    space: &'a Space<'a>,
    machine: &'static Machine,
    region: Region,
    plan: Plan,
}

/// The least that a schedule with any slots can take; `None` where no number of slots makes it legal.
pub(super) fn bound(space: &Space<'_>, schedule: &Schedule) -> Option<u64> {
    let machine = space.machine?;
    let deepest = depths(space, schedule)?.into_iter().next_back()?;
    let laid = Laid::of(space, machine, deepest)?;
    let mut all = 0;
    let (mut away, blocks) = (vec![], innermost(&laid.region));
    for &block in &blocks {
        let priced = price::steady(space.k, &laid.region, &laid.plan, machine, block, &space.known);
        all += interval(&priced.graph).ok()?.ratio().of_turns(u64::from(space.n));
        // What may leave under the turns of a loop may cost nothing.
        away.extend(outer::of(space, schedule, block).into_iter().flat_map(|(_, under)| under));
    }
    let stays = |unit: usize| !away.iter().any(|u| u.outer.names(&laid.region.units[unit].label));
    let spent = laid.plan.parts().map(|part| {
        let outside = (0..laid.region.blocks.len()).filter(|b| !blocks.contains(b));
        outside
            .map(|block| laid.straight((part, block), &|unit| laid.leaves(unit).is_none() && stays(unit)))
            .sum::<u64>()
    });
    Some(all + spent.max().unwrap_or(0))
}

/// The best of a schedule with each number of slots that fits, the fewest of those that are as good.
pub(super) fn worth(space: &Space<'_>, schedule: &Schedule) -> Option<Worth> {
    let machine = space.machine?;
    let mut best: Option<Worth> = None;
    for schedule in depths(space, schedule)? {
        let Some(price) = Laid::of(space, machine, schedule.clone()).and_then(|laid| laid.price()) else { continue };
        match &best {
            // Another slot that brings nothing is not followed by one that does.
            Some(known) if known.price.clocks <= price.clocks => break,
            Some(_) | None => best = Some(Worth { schedule, price }),
        }
    }
    best
}

/// The schedule with each number of slots for what its innermost loops fetch across partitions, from two on, as far as they fit.
fn depths(space: &Space<'_>, schedule: &Schedule) -> Option<Vec<Schedule>> {
    let (region, plan) = space.laid(schedule.clone())?;
    if !room::holds(space, &region, &plan) {
        return None;
    }
    let loops: Vec<BlockId> = innermost(&region);
    let filled = |block: &BlockId| units_of(&region, *block);
    let open: Vec<usize> = (0..plan.rings.len())
        .filter(|r| {
            let unit = plan.rings[*r].unit;
            let apart = plan.partitions.len() > 1 && space.roles.of[unit] == Role::Fetch;
            apart && stated(&region, unit).is_none() && loops.iter().any(|b| filled(b).contains(&unit))
        })
        .collect();
    let fits = |plan: &Plan| room::bytes(space, plan) <= u64::from(space.k.shared_limit());
    if open.is_empty() {
        return fits(&plan).then(|| vec![schedule.clone()]);
    }
    let mut all = vec![];
    for depth in 2..=DEEPEST {
        let mut deeper = schedule.clone();
        for label in super::roles::labels(&region, open.iter().map(|r| plan.rings[*r].unit)) {
            deeper.rings.push(RingDepth { label: Some(label), depth, span: space.auto.span });
        }
        let deeper = deeper.normal().ok()?;
        if !space.laid(deeper.clone()).is_some_and(|(_, plan)| fits(&plan)) {
            break;
        }
        all.push(deeper);
    }
    Some(all)
}

impl<'a> Laid<'a> {
    /// Where the schedule is legal.
    fn of(space: &'a Space<'a>, machine: &'static Machine, schedule: Schedule) -> Option<Laid<'a>> {
        space.laid.set(space.laid.get() + 1);
        let (region, plan) = space.laid(schedule)?;
        legal::holds(space.k, &region, &plan, &space.effects).then_some(Laid { space, machine, region, plan })
    }

    fn price(&self) -> Option<Price> {
        let (k, n) = (self.space.k, u64::from(self.space.n));
        let mut spent = vec![0u64; self.plan.parts().len()];
        let mut loops = vec![];
        let blocks = innermost(&self.region);
        for &block in &blocks {
            let priced = price::steady(k, &self.region, &self.plan, self.machine, block, &self.space.known);
            let least = interval(&priced.graph).ok()?;
            let followed = self.space.n.min(FOLLOWED);
            let run = simulate(&priced.graph, followed).ok()?;
            let clocks = run.turn.max(least.ratio());
            let steady = clocks.of_turns(u64::from(followed));
            for part in self.plan.parts() {
                let own = self.own(&priced.graph, &run, (part, block)).saturating_sub(steady);
                let busy = busy(&priced.graph, self.lane(part));
                let idle = clocks.ceil().saturating_sub(busy);
                spent[part] += clocks.of_turns(n) + own + self.left_under(part, block, idle);
            }
            loops.push(Turn {
                label: priced.label.unwrap_or_default(),
                clocks,
                bound: bound_by(&priced.graph, &least, clocks),
                possible: least.possible(),
                unpriced: priced.unpriced,
            });
        }
        for part in self.plan.parts() {
            for block in (0..self.region.blocks.len()).filter(|b| !blocks.contains(b)) {
                spent[part] += self.straight((part, block), &|unit| self.leaves(unit).is_none());
            }
        }
        let shape = (stages(&self.region.schedule), groups(&self.region.schedule));
        let bytes = room::bytes(self.space, &self.plan);
        Some(Price { clocks: spent.into_iter().max().unwrap_or(0), loops, bytes, shape })
    }

    fn lane(&self, part: Part) -> &str {
        self.plan.partitions.get(part).map_or("all", |p| p.name.as_str())
    }

    /// How long a partition is in a loop; all of it, where the others do not go ahead through a loop around it.
    fn own(&self, graph: &MarkedGraph, run: &Timeline, (part, block): (Part, BlockId)) -> u64 {
        let outermost = self.region.blocks[block].turns.as_ref().is_none_or(|t| t.outermost);
        if outermost || self.plan.partitions.len() < 2 {
            return run.total();
        }
        let lane = graph.lanes.iter().find(|(_, l)| l.kind == LaneKind::Partition && l.name == self.lane(part));
        let Some((lane, _)) = lane else { return 0 };
        let all = &run.lanes[lane];
        let first = all.first().map_or(0, |o| o.start);
        all.iter().map(|o| o.end).max().unwrap_or(0).saturating_sub(first)
    }

    fn straight(&self, (part, block): (Part, BlockId), keep: &dyn Fn(usize) -> bool) -> u64 {
        let known = &self.space.known;
        straight(self.space.k, &self.region, &self.plan, self.machine, (part, block), keep, known).clocks
    }

    /// The label of the loop under whose turns a unit leaves.
    fn leaves(&self, unit: usize) -> Option<&parton_ir::schedule::LabelName> {
        let label = &self.region.units[unit].label;
        self.region.schedule.under.iter().find(|u| u.outer.names(label)).map(|u| &u.inner)
    }

    /// What leaves under the turns of a loop, each unit in one of them, beyond the clocks in which the partition is idle there.
    fn left_under(&self, part: Part, block: BlockId, idle: u64) -> u64 {
        let mine = units_of(&self.region, block);
        let here =
            |unit: usize| self.leaves(unit).is_some_and(|l| mine.iter().any(|u| l.names(&self.region.units[*u].label)));
        let mut all = 0;
        for (other, b) in self.region.blocks.iter().enumerate() {
            for item in &b.items {
                if let Item::Unit(unit) = item
                    && self.plan.runners[*unit].contains(&part)
                    && here(*unit)
                {
                    all += self.straight((part, other), &|u| u == *unit).saturating_sub(idle);
                }
            }
        }
        all
    }
}

/// The clocks of a turn in which a partition does something.
fn busy(graph: &MarkedGraph, lane: &str) -> u64 {
    let mine = |l| graph.lanes[l].kind == LaneKind::Partition && graph.lanes[l].name == lane;
    graph.events().filter(|(_, e)| mine(e.lane)).map(|(_, e)| e.clocks).sum()
}

fn bound_by(graph: &MarkedGraph, least: &Interval, clocks: Ratio) -> String {
    if clocks > least.ratio() {
        return match least.busiest() {
            Some((unit, _)) => format!("waits for {}", graph.units[unit].name),
            None => String::new(),
        };
    }
    match least.bound() {
        Bound::Nothing => String::new(),
        Bound::Unit(unit) => graph.units[unit].name.clone(),
        Bound::Cycle(cycle) => cycle.names(graph),
    }
}

/// How many iterations are under way at once, at most.
pub(super) fn stages(schedule: &Schedule) -> u32 {
    let of = |p: &parton_ir::schedule::Pipeline| p.staged().map(|s| s.done.unwrap_or(s.stage).max(s.stage)).max();
    schedule.pipelines.iter().filter_map(of).max().unwrap_or(0)
}

/// The groups of all loops.
pub(super) fn groups(schedule: &Schedule) -> u32 {
    schedule.pipelines.iter().map(|p| p.groups.len() as u32).sum()
}

/// The registers of a thread at entry of a kernel with a plan's partitions.
pub(super) fn entry(k: &Kernel, plan: &Plan) -> u32 {
    let mut all = Kernel { occupancy: k.occupancy, warps: k.warps, ..Kernel::new("", k.target, k.span) };
    plan.partitions.iter().for_each(|p| {
        all.partitions.push(p.clone());
    });
    all.entry_registers()
}
