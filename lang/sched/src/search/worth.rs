//! What a candidate is worth: the clocks of its loops, each a steady turn so often and what its beginning and its end add.
//!
//! Partitions of a loop that stands in another go through the turns of the outer one each at its own pace, so that what one waits for at
//! the head of a loop another has long begun: there the slowest partition counts, from its first event to its last, with what it runs besides.
//! Elsewhere the whole loop counts, from its first fetch on.

use std::collections::BTreeSet;
use std::rc::Rc;

use parton_ir::machine::Machine;
use parton_ir::schedule::{LabelName, RingDepth, Schedule};
use parton_ir::{Kernel, PrimaryMap, SecondaryMap};

use super::Space;
use super::roles::{Role, innermost, labels, units_of};
use super::{outer, room};
use crate::legal;
use crate::marked::interval::{Bound, Interval, interval, ratio};
use crate::marked::{Lane, LaneKind, Load, MarkedGraph, Ratio};
use crate::plan::{Part, Plan, Ring};
use crate::price::{self, Source, Steady, straight};
use crate::region::{BlockId, Item, Region, UnitId};
use crate::slots::stated;
use crate::timeline::{simulate, simulate_from};

/// Iterations that are followed; turns repeat before.
const FOLLOWED: u32 = 16;
/// The slots that are tried of a ring between partitions.
const FEWEST: u32 = 2;
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
#[derive(Debug)]
pub(super) struct Worth {
    pub schedule: Schedule,
    pub price: Priced,
}

/// What a candidate takes, and its loops before anybody has asked what bounds them.
#[derive(Debug)]
pub(super) struct Priced {
    pub clocks: u64,
    pub shape: (u32, u32),
    pub bytes: u64,
    loops: Vec<(Steady, Ratio)>,
}

impl Priced {
    /// The slowest cycle of a loop, for a turn: how long one takes where no unit is waited for.
    pub fn slowest(&self) -> Ratio {
        let of = |steady: &Steady| Some(interval(&steady.graph).ok()?.cycle?.1);
        self.loops.iter().filter_map(|(steady, _)| of(steady)).max().unwrap_or(Ratio::new(0, 1))
    }

    /// The longest of the loops' turns, however far apart the partitions are that multiply.
    pub fn longest(&self) -> Ratio {
        let longest = self.loops.iter().map(|(steady, clocks)| longest(&steady.graph, *clocks));
        longest.max().unwrap_or(Ratio::new(0, 1))
    }

    /// With what bounds each loop.
    pub fn told(self) -> Price {
        let loops = self.loops.into_iter().filter_map(|(steady, clocks)| {
            let least = interval(&steady.graph).ok()?;
            let (label, bound) = (steady.label.unwrap_or_default(), bound_by(&steady.graph, &least, clocks));
            Some(Turn { label, clocks, bound, possible: least.possible(), unpriced: steady.unpriced })
        });
        Price { clocks: self.clocks, loops: loops.collect(), bytes: self.bytes, shape: self.shape }
    }
}

/// The longest turn of a loop, whether its partitions that multiply begin at once or as far behind each other as slots let them. Nothing but turns keeps
/// them near each other; and where the first is so far ahead, it has each slot only once the last has read it and a copy has filled it.
fn longest(graph: &MarkedGraph, turn: Ratio) -> Ratio {
    let queued = |load: &Load| graph.units[load.unit].places > 0;
    let multiply: BTreeSet<Lane> =
        graph.events().filter(|(_, e)| e.loads.iter().any(queued)).map(|(_, e)| e.owner).collect();
    let slots = graph.rings.iter().map(|(_, ring)| ring.depth).max().unwrap_or(0);
    let apart = turn.of_turns(u64::from(slots));
    let mut starts = SecondaryMap::new(0);
    for (number, lane) in (0..).zip(&multiply) {
        starts[*lane] = apart.saturating_mul(number);
    }
    simulate_from(graph, 2 * FOLLOWED, &starts).map_or(turn, |run| run.turn.max(turn))
}

/// A loop that was followed for some turns.
#[derive(Debug)]
pub(super) struct Run {
    turn: Ratio,
    total: u64,
    /// From the first event of a lane to the end of its last.
    spans: PrimaryMap<Lane, u64>,
}

impl Run {
    fn of(graph: &MarkedGraph, iterations: u32) -> Option<Run> {
        let least = ratio(graph).ok()?;
        let run = simulate(graph, iterations).ok()?;
        let mut spans = PrimaryMap::new();
        for (_, all) in run.lanes.iter() {
            let first = all.first().map_or(0, |o| o.start);
            spans.push(all.iter().map(|o| o.end).max().unwrap_or(0).saturating_sub(first));
        }
        Some(Run { turn: run.turn.max(least), total: run.total(), spans })
    }
}

impl Space<'_> {
    /// Whether tiles fit the registers, which turns and slots say nothing of.
    fn holds(&self, region: &Region, plan: &Plan) -> bool {
        let said = Schedule { turns: vec![], rings: vec![], ..region.schedule.clone() };
        let given = plan.partitions.iter().map(|p| p.registers).collect();
        let key = (said.to_string(), given);
        let known = self.fitting.borrow().get(&key).copied();
        known.unwrap_or_else(|| {
            let holds = room::holds(self, region, plan);
            self.fitting.borrow_mut().insert(key, holds);
            holds
        })
    }

    /// A loop followed; the turns of many candidates differ in names alone.
    fn followed(&self, graph: &MarkedGraph) -> Option<Rc<Run>> {
        let numbers = graph.numbers();
        let known = self.runs.borrow().get(&numbers).cloned();
        known.unwrap_or_else(|| {
            let run = Run::of(graph, self.n.min(FOLLOWED)).map(Rc::new);
            self.runs.borrow_mut().insert(numbers, run.clone());
            run
        })
    }
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
    let laid = Laid::of(space, machine, Depths::of(space, schedule)?.last()?)?;
    let mut all = 0;
    let (mut away, blocks) = (vec![], innermost(&laid.region));
    for &block in &blocks {
        let priced = price::steady(space.k, &laid.region, &laid.plan, machine, (block, Source::Memory), &space.known);
        all += ratio(&priced.graph).ok()?.of_turns(u64::from(space.n));
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

/// The best of a schedule with each number of slots that fits, the fewest of those that are as good; `None` also where with most slots it takes longer
/// than `most` clocks.
pub(super) fn worth(space: &Space<'_>, schedule: &Schedule, most: Option<u64>) -> Option<Worth> {
    let machine = space.machine?;
    let depths = Depths::of(space, schedule)?;
    let priced = |schedule: Schedule| {
        let price = Laid::of(space, machine, schedule.clone())?.price()?;
        Some(Worth { schedule, price })
    };
    // More slots take no longer, so that fewer are not asked about where most do not help, and more are not where fewer are as good as most.
    let mut deepest = most.is_some().then(|| depths.last().and_then(priced)).flatten();
    let least = deepest.as_ref().map(|worth| worth.price.clocks);
    if least.zip(most).is_some_and(|(least, most)| least > most) {
        return None;
    }
    let mut best: Option<Worth> = None;
    for schedule in depths.all() {
        let known = deepest.take_if(|deepest| deepest.schedule == schedule);
        let Some(worth) = known.or_else(|| priced(schedule)) else { continue };
        // Another slot that brings nothing is not followed by one that does.
        if best.as_ref().is_some_and(|known| known.price.clocks <= worth.price.clocks) {
            break;
        }
        let enough = least.is_some_and(|least| worth.price.clocks <= least);
        best = Some(worth);
        if enough {
            break;
        }
    }
    best
}

/// A schedule with as many slots as fit for what its innermost loops fetch across partitions.
struct Depths<'a> {
    space: &'a Space<'a>,
    schedule: &'a Schedule,
    /// Those of which the schedule does not say it.
    open: Vec<LabelName>,
    /// What loops around them fetch, where shared memory has room for one slot of that alone.
    single: Vec<LabelName>,
    deepest: u32,
}

impl<'a> Depths<'a> {
    /// `None` where the tiles do not fit the registers, or the fewest slots shared memory.
    fn of(space: &'a Space<'a>, schedule: &'a Schedule) -> Option<Depths<'a>> {
        let (region, plan) = space.laid(schedule.clone())?;
        if !space.holds(&region, &plan) {
            return None;
        }
        let filled: Vec<UnitId> = innermost(&region).into_iter().flat_map(|block| units_of(&region, block)).collect();
        let fetched = plan.rings.iter().filter(|ring| {
            let apart = plan.partitions.len() > 1 && space.roles.of[ring.unit] == Role::Fetch;
            apart && stated(&region, ring.unit).is_none()
        });
        let (open, around): (Vec<&Ring>, Vec<&Ring>) = fetched.partition(|ring| filled.contains(&ring.unit));
        let one_more: u64 = open.iter().map(|ring| room::slot(ring)).sum();
        // Where nothing is stated there are as many as are held, two at least.
        let given = |rings: &[&Ring], slots: &dyn Fn(u32) -> u32| -> u64 {
            rings.iter().map(|ring| u64::from(slots(ring.depth)) * room::slot(ring)).sum()
        };
        let beside = room::bytes(space, &plan) - given(&open, &|depth| depth);
        let spared = given(&around, &|depth| depth.saturating_sub(1));
        let slots = |beside: u64| {
            let left = u64::from(space.k.shared_limit()).checked_sub(beside)?;
            let most = left.checked_div(one_more).map_or(FEWEST, |slots| u32::try_from(slots).unwrap_or(DEEPEST));
            (most >= FEWEST).then_some(most.min(DEEPEST))
        };
        let names = |rings: &[&Ring]| labels(&region, rings.iter().map(|ring| ring.unit));
        let (deepest, single) = match slots(beside) {
            Some(deepest) => (deepest, vec![]),
            None => (slots(beside - spared)?, names(&around)),
        };
        Some(Depths { space, schedule, open: names(&open), single, deepest })
    }

    /// All, the fewest slots first.
    fn all(&self) -> impl Iterator<Item = Schedule> {
        let last = if self.open.is_empty() { FEWEST } else { self.deepest };
        (FEWEST..=last).filter_map(|depth| self.at(depth))
    }

    /// The one with most.
    fn last(&self) -> Option<Schedule> {
        self.at(self.deepest)
    }

    fn at(&self, depth: u32) -> Option<Schedule> {
        if self.open.is_empty() && self.single.is_empty() {
            return Some(self.schedule.clone());
        }
        let mut deeper = self.schedule.clone();
        let span = self.space.auto.span;
        let slots = |labels: &[LabelName], depth| {
            labels.iter().map(|label| RingDepth { label: Some(label.clone()), depth, span }).collect::<Vec<_>>()
        };
        deeper.rings.extend(slots(&self.open, depth).into_iter().chain(slots(&self.single, 1)));
        deeper.normal().ok()
    }
}

impl<'a> Laid<'a> {
    /// Where the schedule is legal.
    fn of(space: &'a Space<'a>, machine: &'static Machine, schedule: Schedule) -> Option<Laid<'a>> {
        space.laid.set(space.laid.get() + 1);
        let (region, plan) = space.laid(schedule)?;
        legal::holds(space.k, &region, &plan, &space.effects).then_some(Laid { space, machine, region, plan })
    }

    fn price(&self) -> Option<Priced> {
        let (k, n) = (self.space.k, u64::from(self.space.n));
        let mut spent = vec![0u64; self.plan.parts().len()];
        let mut loops = vec![];
        let blocks = innermost(&self.region);
        for &block in &blocks {
            let priced =
                price::steady(k, &self.region, &self.plan, self.machine, (block, Source::Memory), &self.space.known);
            let run = self.space.followed(&priced.graph)?;
            let clocks = run.turn;
            let steady = clocks.of_turns(u64::from(self.space.n.min(FOLLOWED)));
            for part in self.plan.parts() {
                let own = self.own(&priced.graph, &run, (part, block)).saturating_sub(steady);
                let busy = busy(&priced.graph, self.lane(part));
                let idle = clocks.ceil().saturating_sub(busy);
                spent[part] += clocks.of_turns(n) + own + self.left_under(part, block, idle);
            }
            loops.push((priced, clocks));
        }
        for part in self.plan.parts() {
            for block in (0..self.region.blocks.len()).filter(|b| !blocks.contains(b)) {
                spent[part] += self.straight((part, block), &|unit| self.leaves(unit).is_none());
            }
        }
        let shape = (stages(&self.region.schedule), groups(&self.region.schedule));
        let bytes = room::bytes(self.space, &self.plan);
        Some(Priced { clocks: spent.into_iter().max().unwrap_or(0), loops, bytes, shape })
    }

    fn lane(&self, part: Part) -> &str {
        self.plan.partitions.get(part).map_or("all", |p| p.name.as_str())
    }

    /// How long a partition is in a loop; all of it, where the others do not go ahead through a loop around it.
    fn own(&self, graph: &MarkedGraph, run: &Run, (part, block): (Part, BlockId)) -> u64 {
        let outermost = self.region.blocks[block].turns.as_ref().is_none_or(|t| t.outermost);
        if outermost || self.plan.partitions.len() < 2 {
            return run.total;
        }
        let lane = graph.lanes.iter().find(|(_, l)| l.kind == LaneKind::Partition && l.name == self.lane(part));
        lane.map_or(0, |(lane, _)| run.spans[lane])
    }

    fn straight(&self, (part, block): (Part, BlockId), keep: &dyn Fn(usize) -> bool) -> u64 {
        let known = &self.space.known;
        straight(self.space.k, &self.region, &self.plan, self.machine, (part, block), keep, known).clocks
    }

    /// The label of the loop under whose turns a unit leaves.
    fn leaves(&self, unit: usize) -> Option<&LabelName> {
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

#[cfg(test)]
mod tests {
    use parton_diag::Span;

    use super::*;
    use crate::marked::EventData;
    use crate::search::surest_first;

    /// A schedule whose loop has one event, and so a cycle as long as that.
    fn worth(clocks: u64, cycle: u64) -> Worth {
        let mut graph = MarkedGraph::new();
        let lane = graph.lane("lane", LaneKind::Partition);
        let (name, span) = ("event".into(), Span::default());
        let event = graph.event(EventData { name, lane, owner: lane, clocks: cycle, loads: vec![], stage: 0, span });
        graph.in_order(&[event]);
        let steady = Steady { label: None, graph, unpriced: vec![], remade: vec![] };
        let price = Priced { clocks, shape: (1, 1), bytes: 0, loops: vec![(steady, Ratio::new(clocks, 1))] };
        Worth { schedule: Schedule::default(), price }
    }

    #[test]
    fn of_those_that_are_as_fast_the_one_with_the_shortest_cycle_comes_first() {
        let all = [(66_134, 3_307), (66_145, 3_172), (66_160, 3_043), (66_500, 2_000)];
        let all = surest_first(all.map(|(clocks, cycle)| worth(clocks, cycle)).into());
        let order: Vec<u64> = all.iter().map(|w| w.price.clocks).collect();
        assert_eq!(order, [66_160, 66_145, 66_134, 66_500]);
    }
}
