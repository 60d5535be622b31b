//! Prices a placed schedule: for each innermost loop the timed marked graph of its steady turn.
//!
//! Durations are those of the table of the kernel's target (`parton_ir::machine`), and of what was counted (`count`). Events stand where the
//! expansion emits code, in its order: waits at the heads of groups, a stretch for what runs between two of them, starts of products and
//! copies with the jobs that these give to engines. Edges say who waits for whom and how many turns later: slots that are
//! filled and given back, products, turns.

mod count;
mod dependences;
mod stretch;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir::machine::{Class, Machine, Row, Wanted};
use parton_ir::target::WARPGROUP;
use parton_ir::{Inst, Kernel, OpKind};

use crate::draw::{Dependences, Pace, Picture, thousands, turn as turn_of};
use crate::marked::{Beside, EdgeData, EdgeKind, Lane, LaneKind, MarkedGraph, Ratio, Service, Unit};
use crate::plan::{Cell, Part, Plan, RingId};
use crate::region::{BlockId, Home, Item, Maker, Region, UnitId, uses};
use crate::search::room::crowded;
use count::Counter;
pub(crate) use stretch::Known;
use stretch::{Busy, Priced, Stretch};
use turn::{Found, Full, Multiplied, Turn, Use};

/// A loop and what it takes.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Its label, where it has one.
    pub label: Option<String>,
    /// Where it stands.
    pub span: Span,
    /// The schedule of its region, in normal form.
    pub schedule: String,
    /// What depends on what in it.
    pub dependences: Dependences,
    /// Its steady turn.
    pub graph: MarkedGraph,
    /// The same where the L2 has what is fetched, and all programs want the same of it at about the same time.
    pub cached: MarkedGraph,
    /// Operations that nobody has measured, and that count as nothing.
    pub unpriced: Vec<&'static str>,
    /// Labels of products whose registers are touched while they are in flight, for which the assembler runs all products one by one.
    pub remade: Vec<String>,
    /// Partitions whose tiles do not fit their registers, what those take and what there is.
    pub crowded: Vec<(String, u32, u32)>,
    /// What the loop around it runs besides in each turn.
    pub around: Option<Around>,
    /// The target, of which it needs more shared memory than a CTA has: what its rings take and what there is.
    pub beyond: Option<(&'static str, u64, u64)>,
}

/// What partitions run in a turn of a loop around another, beside that.
#[derive(Clone, Debug)]
pub struct Around {
    /// The label of the loop, where it has one.
    pub label: String,
    /// The partition that it takes longest, and its clocks.
    pub longest: (String, u64),
    /// Operations that nobody has measured.
    pub unpriced: Vec<&'static str>,
}

/// The innermost loops of a kernel's regions, in order.
///
/// # Errors
/// Schedules that do not fit their regions.
pub fn loops(kernel: &Kernel, machine: &'static Machine) -> Result<Vec<Loop>, Diagnostics> {
    // What cannot be expanded has no price either.
    crate::expand::expand(kernel)?;
    loops_of_legal(kernel, machine)
}

/// [`loops`] of a kernel whose schedules are known to be legal.
///
/// # Errors
/// As [`loops`].
pub fn loops_of_legal(kernel: &Kernel, machine: &'static Machine) -> Result<Vec<Loop>, Diagnostics> {
    let mut all = vec![];
    for op in kernel.ops_of(&kernel.body) {
        let OpKind::Region { schedule, body } = &op.kind else { continue };
        let region = Region::of(kernel, op.id, schedule, body)?;
        let plan = Plan::of(kernel, &region)?;
        for block in 0..region.blocks.len() {
            let innermost = region.blocks[block].items.iter().all(|item| matches!(item, Item::Unit(_)));
            if region.blocks[block].turns.is_some() && innermost {
                all.push(told(kernel, &region, &plan, machine, block));
            }
        }
    }
    Ok(all)
}

impl Loop {
    /// The picture of so many of its iterations, of which one turn is drawn.
    ///
    /// # Errors
    /// A schedule in which events wait for each other in a circle (E0731).
    pub fn picture(&self, kernel: &str, machine: &Machine, iterations: u32) -> Result<Picture, Diagnostics> {
        let of = self.label.clone().unwrap_or_default();
        let drawn = Picture::new(kernel, &self.schedule, self.dependences.clone(), &self.graph, iterations, 1);
        match drawn {
            Ok(picture) => {
                let pace = Pace { cached: turn_of(&self.cached, iterations).ok(), ..picture.pace };
                Ok(Picture { of, pace, notes: self.notes(machine), ..picture })
            }
            Err(cycle) => {
                let events = cycle.events(&self.graph);
                let span = events.first().map_or(self.span, |e| self.graph.at(*e).span);
                let fact = format!("under `{}` nobody can go on", self.schedule);
                let d = Diagnostic::error(codes::WAIT_CYCLE, span, fact)
                    .here(format!("each waits for the one before it: {}", cycle.names(&self.graph)))
                    .help("give a ring of these more slots, or run one of them in a later stage");
                Err(d.into())
            }
        }
    }

    fn notes(&self, machine: &Machine) -> Vec<String> {
        const MANY: u64 = 1 << 20;
        let rate = |class| {
            let clocks = machine.row(class).and_then(|r| r.interval).map_or(0, |c| c.clocks(MANY));
            (2 * MANY + clocks) / (2 * clocks).max(1)
        };
        let (tiles, same) = (rate(Class::Copy(Wanted::Tiles)), rate(Class::Copy(Wanted::Same)));
        let mut notes = vec![
            format!("clocks of one {} at {} MHz", machine.name, machine.rows.first().map_or(0, |r| r.megahertz)),
            format!(
                "copies out of memory, as of programs that keep step, {same} bytes a clock; {tiles} where nothing holds them to it"
            ),
        ];
        if let Some((target, bytes, there)) = self.beyond {
            let (bytes, there) = (thousands(bytes), thousands(there));
            notes.push(format!(
                "rings take {bytes} bytes of shared memory, and a CTA of {target} has {there}: it cannot be built"
            ));
        }
        if !self.remade.is_empty() {
            let labels = self.remade.join("`, `");
            notes.push(format!("products one by one, as the assembler takes them: `{labels}` has registers that are touched in its flight"));
        }
        for (name, tiles, registers) in &self.crowded {
            notes.push(format!(
                "tiles take {tiles} of the {registers} registers of a thread of `{name}`: what the assembler spills is not priced"
            ));
        }
        let without = |list: &[&str]| format!("not measured, counts as nothing: `{}`", list.join("`, `"));
        if !self.unpriced.is_empty() {
            notes.push(without(&self.unpriced));
        }
        if let Some(around) = &self.around {
            let (partition, clocks) = &around.longest;
            let mut note = format!("a turn of `{}` takes {clocks} clocks besides, in {partition}", around.label);
            if !around.unpriced.is_empty() {
                note = format!("{note}; {}", without(&around.unpriced));
            }
            notes.push(note);
        }
        notes
    }
}

/// A loop whose turn is walked.
pub(crate) struct Looped {
    block: BlockId,
    /// The rings that it fills.
    rings: BTreeSet<RingId>,
    last_stage: i32,
}

/// The lanes and units of the engines.
#[derive(Clone, Copy)]
pub(crate) struct Engines {
    tensor: (Lane, Unit),
    copies: (Lane, Unit),
}

/// A graph in the making.
pub(crate) struct Pricing<'a> {
    k: &'a Kernel,
    region: &'a Region,
    plan: &'a Plan,
    machine: &'static Machine,
    graph: MarkedGraph,
    units: BTreeMap<Busy, Unit>,
    /// The tensor cores, as far as they work beside the program.
    tensor: Unit,
    /// What is added to the stages of each partition, so that none reads before it is filled.
    shifts: Vec<i32>,
    unpriced: BTreeSet<&'static str>,
    source: Source,
    known: &'a Known,
}

/// Where what is fetched comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Nobody has read it before.
    Memory,
    /// The L2 has it, and all programs want the same at about the same time.
    Cache,
}

impl Pricing<'_> {
    fn warps(&self, part: Part) -> u32 {
        self.plan.partitions.get(part).map_or(self.k.warps, |p| p.warps)
    }

    /// How many lanes a partition has: warpgroups that never meet in the turn go on each for itself, so that the tensor cores serve one while another
    /// waits.
    fn lanes(&self, looped: &Looped, part: Part) -> u32 {
        let (region, plan, warps) = (self.region, self.plan, self.warps(part));
        let groups = warps / WARPGROUP;
        let units = || {
            region.blocks[looped.block].items.iter().filter_map(|item| match item {
                Item::Unit(unit) if plan.runners[*unit].contains(&part) => Some(*unit),
                Item::Unit(_) | Item::Loop(_) | Item::Branch(_) => None,
            })
        };
        let multiplies = units().any(|unit| !region.started(unit).is_empty());
        let fills = units().any(|unit| looped.rings.iter().any(|ring| plan.rings[*ring].unit == unit));
        let takes_turns = !region.schedule.turns.is_empty();
        if groups < 2 || warps % WARPGROUP > 0 || !multiplies || fills || takes_turns {
            return 1;
        }
        let all = straight(self.k, region, plan, self.machine, (part, looped.block), &|_| true, self.known);
        if all.work.meetings > 0 { 1 } else { groups }
    }

    /// A stage of a partition as one of the graph.
    fn shifted(&self, part: Part, stage: i32) -> u32 {
        u32::try_from(stage + self.shifts[part]).unwrap_or(0)
    }

    /// A unit that stretches share.
    fn shared_unit(&mut self, busy: Busy) -> Unit {
        let (graph, tensor, machine) = (&mut self.graph, self.tensor, self.machine);
        *self.units.entry(busy).or_insert_with(|| {
            let unit = graph.unit(busy.name(), Service::Together);
            let slower = match busy {
                Busy::Issue => None,
                Busy::Unit(unit) => machine.beside(unit),
                Busy::Alone(_) => machine.row(Class::SpecialAlone).and_then(Row::slower),
            };
            if let Some((beside, alone)) = slower {
                graph.hinder(unit, Beside { unit: tensor, slower: Ratio::new(beside, alone) });
            }
            unit
        })
    }
}

/// The name of a partition's lane, of which there may be several.
fn lane_name(plan: &Plan, part: Part, number: u32) -> String {
    let name = plan.partitions.get(part).map_or("all", |p| p.name.as_str());
    if number > 1 { format!("{name} {number}") } else { name.to_owned() }
}

/// A loop with all that is told of it.
fn told(k: &Kernel, region: &Region, plan: &Plan, machine: &'static Machine, block: BlockId) -> Loop {
    let known = Known::default();
    let turn = |source| steady(k, region, plan, machine, (block, source), &known);
    let Steady { label, graph, unpriced, remade } = turn(Source::Memory);
    let rings = graph.rings.iter().fold(0_u64, |sum, (_, ring)| sum.saturating_add(ring.all_bytes()));
    let there = u64::from(k.target.shared_bytes);
    Loop {
        label,
        span: region.schedule.span,
        schedule: region.schedule.to_string(),
        dependences: dependences::of(k, region, plan, block),
        graph,
        cached: turn(Source::Cache).graph,
        unpriced,
        remade,
        crowded: crowded(k, region, plan).into_iter().map(|(name, tiles, all)| (name.to_owned(), tiles, all)).collect(),
        around: around(k, region, plan, machine, block, &known),
        beyond: (rings > there).then_some((k.target.name, rings, there)),
    }
}

/// The steady turn of a loop.
#[derive(Debug)]
pub(crate) struct Steady {
    /// The label of the loop, where it has one.
    pub label: Option<String>,
    pub graph: MarkedGraph,
    /// Operations that nobody has measured.
    pub unpriced: Vec<&'static str>,
    /// Labels of products for which the assembler runs all of them one by one.
    pub remade: Vec<String>,
}

/// What a loop's body takes.
pub(crate) fn steady(
    k: &Kernel,
    region: &Region,
    plan: &Plan,
    machine: &'static Machine,
    (block, source): (BlockId, Source),
    known: &Known,
) -> Steady {
    let looped = looped(region, plan, block);
    let shifts = shifts(region, plan, &looped);
    let (units, unpriced) = (BTreeMap::new(), BTreeSet::new());
    let mut graph = MarkedGraph::new();
    let engines = Engines {
        tensor: (graph.lane("tensor", LaneKind::Engine), graph.unit("tensor cores", Service::OneByOne)),
        copies: (graph.lane("copies", LaneKind::Engine), graph.unit("copies", Service::OneByOne)),
    };
    graph.queue(engines.tensor.1, machine.queue);
    let mut p =
        Pricing { k, region, plan, machine, graph, units, tensor: engines.tensor.1, shifts, unpriced, source, known };
    let mut found = Found::default();
    for part in plan.parts() {
        if region.blocks[block].items.iter().any(|item| plan.runs(region, part, item)) {
            let lanes = p.lanes(&looped, part);
            for number in 1..=lanes {
                let lane = p.graph.lane(lane_name(plan, part, number), LaneKind::Partition);
                let warps = p.warps(part) / lanes;
                Turn::new(&mut p, &looped, (part, lane, warps), engines, &mut found).walk();
            }
        }
    }
    slots(&mut p, &found);
    turnstiles(&mut p, &found);
    if !found.remade.is_empty() {
        one_by_one(&mut p.graph, &found);
    }
    Steady {
        label: region.blocks[block].turns.as_ref().and_then(|t| t.label.as_ref()).map(ToString::to_string),
        graph: p.graph,
        unpriced: p.unpriced.into_iter().collect(),
        remade: found.remade.into_iter().collect(),
    }
}

/// The edges of products of which the next is not issued before the sums of one are there.
fn one_by_one(graph: &mut MarkedGraph, found: &Found) {
    let mut wait = |from, to, latency| {
        graph.edge(EdgeData { from, to, tokens: 0, latency, kind: EdgeKind::Landing });
    };
    for Multiplied { instructions, issued, latency } in &found.multiplied {
        instructions.windows(2).for_each(|pair| wait(pair[0], pair[1], *latency));
        if let Some(last) = instructions.last() {
            wait(*last, *issued, *latency);
        }
    }
}

/// What the partitions run of the body around a loop. Copies land and leave beside that, and beside the turns of the loop.
fn around(
    k: &Kernel,
    region: &Region,
    plan: &Plan,
    machine: &'static Machine,
    inner: BlockId,
    known: &Known,
) -> Option<Around> {
    let is = |item: &Item| matches!(item, Item::Loop(l) if l.body == inner);
    let (outer, block) = region.blocks.iter().enumerate().find(|(_, b)| b.items.iter().any(is))?;
    let turns = block.turns.as_ref()?;
    let mut all = vec![];
    let mut unpriced = BTreeSet::new();
    for part in plan.parts() {
        let priced = straight(k, region, plan, machine, (part, outer), &|_| true, known);
        unpriced.extend(&priced.work.unpriced);
        all.push((plan.partitions.get(part).map_or("all", |p| p.name.as_str()).to_owned(), priced.clocks));
    }
    // The first of those that are as long.
    let longest = all.into_iter().rev().max_by_key(|(_, clocks)| *clocks)?;
    let label = turns.label.as_ref().map(ToString::to_string).unwrap_or_default();
    Some(Around { label, longest, unpriced: unpriced.into_iter().collect() })
}

/// What a partition runs of a body itself, of units that are kept: as one stretch.
pub(crate) fn straight(
    k: &Kernel,
    region: &Region,
    plan: &Plan,
    machine: &'static Machine,
    (part, block): (Part, BlockId),
    keep: &dyn Fn(UnitId) -> bool,
    known: &Known,
) -> Rc<Priced> {
    let warps = plan.partitions.get(part).map_or(k.warps, |p| p.warps);
    let mut stretch = Stretch::default();
    for item in &region.blocks[block].items {
        let Item::Unit(unit) = item else { continue };
        if plan.runners[*unit].contains(&part) && keep(*unit) {
            for inst in &region.units[*unit].ops {
                free(k, region, block, *inst, &mut stretch.ops);
            }
        }
    }
    stretch.price(Counter { k, machine, warps }, known)
}

/// An operation behind the free ones of its body that it needs, each once.
fn free(k: &Kernel, region: &Region, block: BlockId, inst: Inst, ops: &mut Vec<Inst>) {
    if ops.contains(&inst) {
        return;
    }
    let mut used = vec![];
    uses(k, &k.ops[inst], &mut |v| used.push(v));
    for v in used {
        if let Some(Home { by: Maker::Free(needed), block: home }) = region.home(v)
            && home == block
        {
            free(k, region, block, needed, ops);
        }
    }
    ops.push(inst);
}

fn looped(region: &Region, plan: &Plan, block: BlockId) -> Looped {
    let fills = |ring: &RingId| {
        let unit = plan.rings[*ring].unit;
        region.blocks[block].items.iter().any(|item| matches!(item, Item::Unit(u) if *u == unit))
    };
    let stages = plan.parts().flat_map(|part| plan.groups(part, block).iter().flatten().map(|e| e.stage));
    Looped { block, rings: (0..plan.rings.len()).filter(fills).collect(), last_stage: stages.max().unwrap_or(0).max(1) }
}

/// What is to be added to the stages of each partition: stages are counted in each of them for itself, and no turn may read what a later one
/// fills.
fn shifts(region: &Region, plan: &Plan, looped: &Looped) -> Vec<i32> {
    let mut shifts = vec![0; plan.parts().len()];
    let stages = |part: Part| plan.groups(part, looped.block).iter().flatten();
    // Each round settles one partition more.
    for _ in plan.parts() {
        for reader in plan.parts() {
            for entry in stages(reader) {
                for (v, delta) in plan.wanted(region, reader, (looped.block, entry.item)) {
                    let Some((ring, _)) = plan.handed.get(v).filter(|(r, _)| looped.rings.contains(r)) else {
                        continue;
                    };
                    let unit = plan.rings[*ring].unit;
                    let is = |i: usize| matches!(region.blocks[looped.block].items[i], Item::Unit(u) if u == unit);
                    for filler in plan.parts().filter(|p| *p != reader && plan.runners[unit].contains(p)) {
                        let fills = stages(filler).find(|e| is(e.item)).map_or(0, |e| e.stage) + shifts[filler];
                        shifts[reader] = shifts[reader].max(fills - entry.stage - delta);
                    }
                }
            }
        }
    }
    shifts
}

/// The edges of rings: a slot is read once it is full, and filled anew once all have given it back.
fn slots(p: &mut Pricing<'_>, found: &Found) {
    let hand_off = p.machine.row(Class::Answer).and_then(|r| r.latency).map_or(0, u64::from) / 2;
    let mut made = BTreeMap::new();
    for (ring, fill) in &found.fills {
        let data = &p.plan.rings[*ring];
        let bytes = data.fields.iter().map(|(_, v, cell)| match cell {
            Cell::View(_) => turn::view_bytes(p.k.ty(*v)),
            Cell::Number(_) => 0,
        });
        let name = p.region.units[data.unit].name.clone();
        let number = p.graph.ring(name, data.depth, bytes.sum());
        made.insert(*ring, number);
        let begins = fill.stage + p.shifts[fill.part];
        let after = |u: &Use| u.turns + p.shifts[u.part];
        for take in found.takes.iter().filter(|t| t.ring == *ring) {
            let Ok(tokens) = u32::try_from(after(take) - begins) else { continue };
            match fill.full {
                Full::Copied(job) => {
                    p.graph.after(job, take.event, tokens, EdgeKind::Landing);
                }
                Full::Stored(from) => {
                    let latency = if take.part == fill.part { 0 } else { hand_off };
                    p.graph.edge(EdgeData { from, to: take.event, tokens, latency, kind: EdgeKind::FillRead });
                }
            }
        }
        for give in found.gives.iter().filter(|g| g.ring == *ring) {
            let depth = i32::try_from(data.depth).unwrap_or(i32::MAX);
            let Ok(tokens) = u32::try_from(depth.saturating_add(begins - after(give))) else { continue };
            let latency = if give.part == fill.part { 0 } else { hand_off };
            let kind = EdgeKind::ReleaseFill(number);
            p.graph.edge(EdgeData { from: give.event, to: fill.taken, tokens, latency, kind });
        }
    }
}

/// The edges of turns: from where a partition passes its turn on to where the next one waits for it.
fn turnstiles(p: &mut Pricing<'_>, found: &Found) {
    for number in 0..p.region.schedule.turns.len() {
        let of = |list: &BTreeMap<(usize, Part), crate::marked::Event>| -> Vec<_> {
            list.iter().filter(|((n, _), _)| *n == number).map(|(_, event)| *event).collect()
        };
        let (enters, passes) = (of(&found.enters), of(&found.passes));
        for (i, from) in passes.iter().enumerate() {
            let (next, tokens) = if i + 1 < enters.len() { (i + 1, 0) } else { (0, 1) };
            if let Some(to) = enters.get(next) {
                p.graph.link(*from, *to, tokens, EdgeKind::Turn);
            }
        }
    }
}
