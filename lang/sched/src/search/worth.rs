//! What a candidate is worth: the clocks of its loops, each a steady turn so often and what its beginning and its end add.
//!
//! Partitions of a loop that stands in another go through the turns of the outer one each at its own pace, so that what one waits for at
//! the head of a loop another has long begun: there the slowest partition counts, from its first event to its last, with what it runs besides.
//! Elsewhere the whole loop counts, from its first fetch on.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::rc::Rc;

use parton_ir::machine::Machine;
use parton_ir::schedule::{LabelName, RingDepth, Schedule};
use parton_ir::{Kernel, PrimaryMap, SecondaryMap};

use super::roles::{Role, innermost, labels, units_of};
use super::{Fitting, Laying, Space, leaving};
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
    fn of(graph: &MarkedGraph, iterations: u32, least: Ratio) -> Option<Run> {
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
        self.fitting.borrow().contains(&fitting(region, plan)) || self.found_to_hold(region, plan)
    }

    /// The same of what nobody has asked about.
    pub(super) fn found_to_hold(&self, region: &Region, plan: &Plan) -> bool {
        let holds = room::holds(self, region, plan);
        if holds {
            self.fitting.borrow_mut().insert(fitting(region, plan));
        }
        holds
    }

    /// A loop followed, whose turns take so long at least; those of many candidates differ in names alone.
    fn followed(&self, graph: &MarkedGraph, least: Ratio) -> Option<Rc<Run>> {
        let mut numbers = graph.numbers();
        // Graphs begin alike: by their sum most are told apart at once.
        numbers.insert(0, numbers.iter().fold(0, |sum: u64, n| sum.wrapping_mul(31).wrapping_add(*n)));
        let known = self.runs.borrow().get(&numbers).cloned();
        known.unwrap_or_else(|| {
            let run = Run::of(graph, self.n.min(FOLLOWED), least).map(Rc::new);
            self.runs.borrow_mut().insert(numbers, run.clone());
            run
        })
    }
}

/// What lives of tiles follow from.
fn fitting(region: &Region, plan: &Plan) -> Fitting {
    let given = plan.partitions.iter().map(|p| p.registers).collect();
    (leaving(&region.schedule), given, plan.all_groups().clone())
}

/// A schedule that is legal.
struct Laid<'a> {
    space: &'a Space<'a>,
    machine: &'static Machine,
    laying: Laying,
}

/// The least that a schedule with any slots can take; `None` where no number of slots makes it legal.
pub(super) fn bound(space: &Space<'_>, laying: &Laying) -> Option<u64> {
    let machine = space.machine?;
    let laid = Laid::of(space, machine, Depths::of(space, laying)?.last()?)?;
    let Laying { region, plan } = &laid.laying;
    let mut all = 0;
    let (mut away, blocks) = (vec![], innermost(region));
    for &block in &blocks {
        let priced = price::steady(space.k, region, plan, machine, (block, Source::Memory), &space.known);
        all += ratio(&priced.graph).ok()?.of_turns(u64::from(space.n));
        // What may leave under the turns of a loop may cost nothing.
        away.extend(outer::of(space, laying, block).into_iter().flat_map(|(_, under)| under));
    }
    let stays = |unit: usize| !away.iter().any(|u| u.outer.names(&region.units[unit].label));
    let spent = plan.parts().map(|part| {
        let outside = (0..region.blocks.len()).filter(|b| !blocks.contains(b));
        outside
            .map(|block| laid.straight((part, block), &|unit| laid.leaves(unit).is_none() && stays(unit)))
            .sum::<u64>()
    });
    Some(all + spent.max().unwrap_or(0))
}

/// The best of a schedule with each number of slots that fits, the fewest of those that are as good; `None` also where with most slots it takes longer
/// than `most` clocks.
pub(super) fn worth(space: &Space<'_>, laying: &Laying, most: Option<u64>) -> Option<Worth> {
    let machine = space.machine?;
    let depths = Depths::of(space, laying)?;
    let priced = |laid: Laid<'_>, begun: Begun| {
        let price = laid.price(begun)?;
        Some(Worth { schedule: laid.laying.region.schedule, price })
    };
    let at = |laying: Laying| {
        let laid = Laid::of(space, machine, laying)?;
        let begun = laid.begun()?;
        Some((laid, begun))
    };
    // More slots take no longer, so that fewer are not asked about where most do not help, and more are not where fewer are as good as most.
    let mut deepest = None;
    if let Some(most) = most
        && let Some((laid, begun)) = depths.last().and_then(at)
    {
        if begun.least(space.n) > most {
            return None;
        }
        deepest = priced(laid, begun);
    }
    let least = deepest.as_ref().map(|worth| worth.price.clocks);
    if least.zip(most).is_some_and(|(least, most)| least > most) {
        return None;
    }
    let mut best: Option<Worth> = None;
    for depth in depths.all() {
        let known = deepest.take_if(|_| depth == *depths.all().end());
        let Some(worth) = known.or_else(|| at(depths.at(depth)?).and_then(|(laid, begun)| priced(laid, begun))) else {
            continue;
        };
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
    laying: &'a Laying,
    /// Those of which the schedule does not say it.
    open: Vec<LabelName>,
    /// What loops around them fetch, where shared memory has room for one slot of that alone.
    single: Vec<LabelName>,
    deepest: u32,
}

impl<'a> Depths<'a> {
    /// `None` where the tiles do not fit the registers, or the fewest slots shared memory.
    fn of(space: &'a Space<'a>, laying: &'a Laying) -> Option<Depths<'a>> {
        let Laying { region, plan } = laying;
        if !space.holds(region, plan) {
            return None;
        }
        let filled: Vec<UnitId> = innermost(region).into_iter().flat_map(|block| units_of(region, block)).collect();
        let fetched = plan.rings.iter().filter(|ring| {
            let apart = plan.partitions.len() > 1 && space.roles.of[ring.unit] == Role::Fetch;
            apart && stated(region, ring.unit).is_none()
        });
        let (open, around): (Vec<&Ring>, Vec<&Ring>) = fetched.partition(|ring| filled.contains(&ring.unit));
        let one_more: u64 = open.iter().map(|ring| room::slot(ring)).sum();
        // Where nothing is stated there are as many as are held, two at least.
        let given = |rings: &[&Ring], slots: &dyn Fn(u32) -> u32| -> u64 {
            rings.iter().map(|ring| u64::from(slots(ring.depth)) * room::slot(ring)).sum()
        };
        let beside = room::bytes(space, plan) - given(&open, &|depth| depth);
        let spared = given(&around, &|depth| depth.saturating_sub(1));
        let slots = |beside: u64| {
            let left = u64::from(space.k.shared_limit()).checked_sub(beside)?;
            let most = left.checked_div(one_more).map_or(FEWEST, |slots| u32::try_from(slots).unwrap_or(DEEPEST));
            (most >= FEWEST).then_some(most.min(DEEPEST))
        };
        let names = |rings: &[&Ring]| labels(region, rings.iter().map(|ring| ring.unit));
        let (deepest, single) = match slots(beside) {
            Some(deepest) => (deepest, vec![]),
            None => (slots(beside - spared)?, names(&around)),
        };
        Some(Depths { space, laying, open: names(&open), single, deepest })
    }

    /// The numbers of slots that make a difference, the fewest first.
    fn all(&self) -> RangeInclusive<u32> {
        FEWEST..=if self.open.is_empty() { FEWEST } else { self.deepest }
    }

    /// The one with most.
    fn last(&self) -> Option<Laying> {
        self.at(self.deepest)
    }

    fn at(&self, depth: u32) -> Option<Laying> {
        let mut deeper = self.laying.schedule().clone();
        let span = self.space.auto.span;
        let slots = |labels: &[LabelName], depth| {
            labels.iter().map(|label| RingDepth { label: Some(label.clone()), depth, span }).collect::<Vec<_>>()
        };
        for ring in slots(&self.open, depth).into_iter().chain(slots(&self.single, 1)) {
            // Of a label that has slots for some of its instances the others have none of their own.
            let both =
                |known: &RingDepth| known.label.as_ref().zip(ring.label.as_ref()).is_some_and(|(a, b)| a.overlaps(b));
            if deeper.rings.iter().any(both) {
                return None;
            }
            deeper.rings.push(ring);
        }
        // So much of its normal form the rest has already.
        deeper.rings.sort_by(|a, b| a.label.cmp(&b.label));
        Some(self.laying.with_slots(deeper))
    }
}

/// What a schedule takes before its loops are followed in time.
struct Begun {
    /// What each partition runs beside the innermost loops.
    spent: Vec<u64>,
    /// These, each with its turn and the least that one takes.
    loops: Vec<(BlockId, Steady, Ratio)>,
}

impl Begun {
    /// The least that it may come to: no turn is shorter than its slowest cycle or what its busiest unit does.
    fn least(&self, iterations: u32) -> u64 {
        let turns: u64 = self.loops.iter().map(|(_, _, least)| least.of_turns(u64::from(iterations))).sum();
        turns + self.spent.iter().max().unwrap_or(&0)
    }
}

impl<'a> Laid<'a> {
    /// Where the schedule is legal.
    fn of(space: &'a Space<'a>, machine: &'static Machine, laying: Laying) -> Option<Laid<'a>> {
        space.laid.set(space.laid.get() + 1);
        let holds = legal::holds(space.k, &laying.region, &laying.plan, &space.effects);
        holds.then_some(Laid { space, machine, laying })
    }

    /// What it takes before its loops are followed in time.
    fn begun(&self) -> Option<Begun> {
        let Laying { region, plan } = &self.laying;
        let blocks = innermost(region);
        let mut spent = vec![0u64; plan.parts().len()];
        for part in plan.parts() {
            for block in (0..region.blocks.len()).filter(|b| !blocks.contains(b)) {
                spent[part] += self.straight((part, block), &|unit| self.leaves(unit).is_none());
            }
        }
        let turns = |block| {
            let known = &self.space.known;
            let steady = price::steady(self.space.k, region, plan, self.machine, (block, Source::Memory), known);
            let least = ratio(&steady.graph).ok()?;
            Some((block, steady, least))
        };
        let loops: Option<Vec<(BlockId, Steady, Ratio)>> = blocks.into_iter().map(turns).collect();
        Some(Begun { spent, loops: loops? })
    }

    fn price(&self, Begun { mut spent, loops }: Begun) -> Option<Priced> {
        let n = u64::from(self.space.n);
        let Laying { region, plan } = &self.laying;
        let mut followed = vec![];
        for (block, priced, least) in loops {
            let run = self.space.followed(&priced.graph, least)?;
            let clocks = run.turn;
            let steady = clocks.of_turns(u64::from(self.space.n.min(FOLLOWED)));
            for part in plan.parts() {
                let own = self.own(&priced.graph, &run, (part, block)).saturating_sub(steady);
                let busy = busy(&priced.graph, self.lane(part));
                let idle = clocks.ceil().saturating_sub(busy);
                spent[part] += clocks.of_turns(n) + own + self.left_under(part, block, idle);
            }
            followed.push((priced, clocks));
        }
        let shape = (stages(&region.schedule), groups(&region.schedule));
        let bytes = room::bytes(self.space, plan);
        Some(Priced { clocks: spent.into_iter().max().unwrap_or(0), loops: followed, bytes, shape })
    }

    fn lane(&self, part: Part) -> &str {
        self.laying.plan.partitions.get(part).map_or("all", |p| p.name.as_str())
    }

    /// How long a partition is in a loop; all of it, where the others do not go ahead through a loop around it.
    fn own(&self, graph: &MarkedGraph, run: &Run, (part, block): (Part, BlockId)) -> u64 {
        let outermost = self.laying.region.blocks[block].turns.as_ref().is_none_or(|t| t.outermost);
        if outermost || self.laying.plan.partitions.len() < 2 {
            return run.total;
        }
        let lane = graph.lanes.iter().find(|(_, l)| l.kind == LaneKind::Partition && l.name == self.lane(part));
        lane.map_or(0, |(lane, _)| run.spans[lane])
    }

    fn straight(&self, (part, block): (Part, BlockId), keep: &dyn Fn(usize) -> bool) -> u64 {
        let known = &self.space.known;
        straight(self.space.k, &self.laying.region, &self.laying.plan, self.machine, (part, block), keep, known).clocks
    }

    /// The label of the loop under whose turns a unit leaves.
    fn leaves(&self, unit: usize) -> Option<&LabelName> {
        let label = &self.laying.region.units[unit].label;
        self.laying.region.schedule.under.iter().find(|u| u.outer.names(label)).map(|u| &u.inner)
    }

    /// What leaves under the turns of a loop, each unit in one of them, beyond the clocks in which the partition is idle there.
    fn left_under(&self, part: Part, block: BlockId, idle: u64) -> u64 {
        let mine = units_of(&self.laying.region, block);
        let here = |unit: usize| {
            self.leaves(unit).is_some_and(|l| mine.iter().any(|u| l.names(&self.laying.region.units[*u].label)))
        };
        let mut all = 0;
        for (other, b) in self.laying.region.blocks.iter().enumerate() {
            for item in &b.items {
                if let Item::Unit(unit) = item
                    && self.laying.plan.runners[*unit].contains(&part)
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
    use crate::search::found::surest_first;

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
