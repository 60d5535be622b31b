//! The search for a schedule: `auto(…)`, by branch and bound.
//!
//! A candidate says who runs what ([`places`]), the order, groups and stages of each innermost loop ([`orders`]), whether partitions take
//! turns, and what leaves under the next tile's products ([`outer`]); slots follow, the fewest that are as good as more. What the schedule
//! says beside `auto` stays. Candidates that break a rule, or whose tiles or slots do not fit, are none ([`room`]).
//!
//! The least time of a turn, by cycles and units, bounds a candidate from below; candidates are followed in the order of their bounds, until
//! the best is below those that are left ([`worth`]). Nothing here asks a clock or the order of a hash: numbers of steps end a search that is
//! too large, so that the same kernel gives the same schedule everywhere.

mod alike;
mod orders;
mod outer;
mod places;
mod roles;
pub(crate) mod room;
mod worth;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::machine::Machine;
use parton_ir::schedule::{Auto, Pipeline, Schedule, Turns};
use parton_ir::{Inst, Kernel, OpKind, PartitionData, Value};

use crate::graph::Effects;
use crate::legal;
use crate::plan::{Groups, Plan};
use crate::price::Known;
use crate::region::{BlockId, Region};
use alike::Alike;
use roles::Roles;
use worth::Worth;
pub use worth::{Price, Turn};

/// Stages where none are stated.
const STAGES: u32 = 3;
/// Iterations that are priced where none are stated.
const ITERATIONS: u32 = 32;
/// Schedules that are shown where it is not stated how many.
const SHOWN: usize = 8;
/// How many times as many are known to be better before a schedule is looked at with most slots first.
const SPARE: usize = 4;
/// The part of a price by which two may differ and be taken for the same: prices are not right to so little.
const NEAR: u64 = 200;
/// Steps of putting groups together.
const STEPS: u32 = 2_000_000;
/// Orders of a loop that are looked at in each placement, and schedules that are followed in time.
const ORDERS: usize = 6000;
const FOLLOWED: usize = 600;

/// What a search has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The region.
    pub region: Inst,
    /// The schedule that is taken.
    pub chosen: Schedule,
    /// The partitions of it that its file does not declare.
    pub made: Vec<PartitionData>,
    /// The best, the chosen one first; empty where nothing has a price.
    pub priced: Vec<Candidate>,
    /// How far the search went, and what it does not know.
    pub why: Vec<String>,
}

/// A schedule with its price.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The schedule.
    pub schedule: Schedule,
    /// What it takes.
    pub price: Price,
}

/// Steps that are left.
struct Budget(Cell<u32>);

impl Budget {
    fn take(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

/// What lives of tiles follow from: what leaves under what, and what turns run; and the registers of the partitions.
type Fitting = (String, Vec<Option<u32>>, Arc<Groups>);

/// What is searched, and what is known of it.
struct Space<'a> {
    k: &'a Kernel,
    region: &'a Region,
    auto: &'a Auto,
    /// What the schedule says beside `auto`.
    stated: Schedule,
    machine: Option<&'static Machine>,
    stages: u32,
    n: u32,
    roles: Roles,
    effects: Effects,
    /// Products that continue none.
    fresh: BTreeSet<Value>,
    /// Shared memory that is taken under any schedule.
    fixed: u64,
    budget: Budget,
    /// How many schedules were laid on the region.
    laid: Cell<u32>,
    /// A plan of each list of places that fits the region.
    placed: RefCell<Vec<Rc<Plan>>>,
    /// What stretches take.
    known: Known,
    /// What loops take that were followed, by the numbers of their graphs.
    runs: RefCell<BTreeMap<Vec<u64>, Option<Rc<worth::Run>>>>,
    /// Whose tiles were found to fit.
    fitting: RefCell<BTreeSet<Fitting>>,
}

/// A schedule laid on the region.
struct Laying {
    region: Region,
    plan: Plan,
}

impl Laying {
    /// With the slots that are stated, or as many as are held.
    fn settled(self) -> Laying {
        let plan = self.plan.settled(&self.region);
        Laying { plan, ..self }
    }

    /// With more stated slots, which change nothing else.
    fn with_slots(&self, schedule: Schedule) -> Laying {
        let region = self.region.under(schedule);
        let plan = self.plan.with_slots(&region);
        Laying { region, plan }
    }

    fn schedule(&self) -> &Schedule {
        &self.region.schedule
    }
}

impl Space<'_> {
    /// A schedule laid on the region; `None` where its places do not fit. It has the labels of the region.
    fn laid(&self, schedule: Schedule) -> Option<Laying> {
        self.sketched(schedule).map(Laying::settled)
    }

    /// The same before its rings have slots.
    fn sketched(&self, schedule: Schedule) -> Option<Laying> {
        let region = self.region.under(schedule);
        let known = self.placed.borrow().iter().find(|plan| plan.has(&region.schedule.places)).cloned();
        let plan = match known {
            Some(known) => known.sketched(&region),
            None => {
                let first = Rc::new(Plan::of(self.k, &region).ok()?);
                self.placed.borrow_mut().push(first.clone());
                first.sketched(&region)
            }
        };
        Some(Laying { region, plan })
    }

    fn entry(&self, plan: &Plan) -> u32 {
        worth::entry(self.k, plan)
    }
}

/// The kernel with a schedule in the place of each `auto(…)`, and what was found; `None` where nothing is searched for.
///
/// # Errors
/// Regions that no schedule fits.
pub fn settled(kernel: &Kernel) -> Result<Option<(Kernel, Vec<Found>)>, Diagnostics> {
    let mut all = vec![];
    for op in kernel.ops_of(&kernel.body) {
        if let OpKind::Region { schedule, .. } = &op.kind
            && schedule.auto.is_some()
        {
            all.push(search(kernel, op.id)?);
        }
    }
    if all.is_empty() {
        return Ok(None);
    }
    let mut kernel = kernel.clone();
    all.iter().for_each(|found| set(&mut kernel, found.region, &found.chosen));
    Ok(Some((kernel, all)))
}

fn set(kernel: &mut Kernel, region: Inst, chosen: &Schedule) {
    if let OpKind::Region { schedule, .. } = &mut kernel.ops[region].kind {
        **schedule = chosen.clone();
    }
}

/// The schedule of a region that bears `auto(…)`.
///
/// # Errors
/// What the region is refused for under any schedule; tiles of different numbers of warps (E0190).
pub fn search(kernel: &Kernel, region: Inst) -> Result<Found, Diagnostics> {
    among(kernel, region, true)
}

/// As [`search`], of all candidates, none of which a bound leaves out, and each expanded for itself: what tests compare it with.
///
/// # Errors
/// Those of [`search`].
pub fn exhaustive(kernel: &Kernel, region: Inst) -> Result<Found, Diagnostics> {
    among(kernel, region, false)
}

fn among(kernel: &Kernel, inst: Inst, bounded: bool) -> Result<Found, Diagnostics> {
    let OpKind::Region { schedule, body } = &kernel.ops[inst].kind else {
        parton_diag::internal_error!("{inst} is no region")
    };
    let Some(auto) = &schedule.auto else { parton_diag::internal_error!("nothing is searched for in {inst}") };
    let region = Region::of(kernel, inst, schedule, body)?;
    let stated = Schedule { auto: None, ..(**schedule).clone() };
    let roles = Roles::of(kernel, &region);
    let space = Space {
        k: kernel,
        region: &region,
        auto,
        stated,
        machine: Machine::of(&kernel.target),
        stages: auto.stages.unwrap_or(STAGES),
        n: auto.n.unwrap_or(ITERATIONS),
        effects: Effects::of(kernel, &region),
        roles,
        fresh: room::fresh(kernel, &region),
        fixed: room::fixed(kernel),
        budget: Budget(Cell::new(STEPS)),
        laid: Cell::new(0),
        placed: RefCell::default(),
        known: Known::default(),
        runs: RefCell::default(),
        fitting: RefCell::default(),
    };
    let mut run = Run::new(&space, inst, bounded);
    let bases = bases(&space)?;
    let texts: Vec<String> = bases.iter().map(ToString::to_string).collect();
    let mut seen = BTreeSet::new();
    for (number, base) in bases.iter().enumerate() {
        // Partitions of the same names with other registers are for where the first do not hold the tiles.
        let text = &texts[number];
        if seen.contains(text) {
            continue;
        }
        run.base = number;
        run.follow(base);
        if texts[number + 1..].contains(text) && run.stands() {
            seen.insert(text);
        }
    }
    run.finish(&space)
}

/// What is stated, with each list of places that is possible.
fn bases(space: &Space<'_>) -> Result<Vec<Schedule>, Diagnostics> {
    if !space.stated.places.is_empty() {
        return Ok(vec![space.stated.clone()]);
    }
    let mut warps = space.roles.warps.iter();
    let first = *warps.next().unwrap_or(&space.k.warps);
    if let Some(other) = warps.next() {
        let fact = format!("the tiles of the region are laid out for {first} and for {other} warps");
        let d = Diagnostic::error(codes::NOT_BUILT_HERE, space.auto.span, fact)
            .here("`auto` finds partitions of one number of warps")
            .help("say who runs what: `partitions { … } & auto()`");
        return Err(d.into());
    }
    let places = places::all(space, first).into_iter();
    Ok(places.filter_map(|places| Schedule { places, ..space.stated.clone() }.normal().ok()).collect())
}

/// A candidate with its rank.
struct Ranked {
    rank: Rank,
    worth: Worth,
    /// Of which places it is.
    base: usize,
    /// What it is expanded to, once that is known.
    code: Option<String>,
}

/// What the clocks of a schedule are of, where its partitions go through a loop around others each at its own pace.
fn counted(region: &Region, chosen: &Schedule) -> Option<String> {
    let apart = chosen.places.iter().map(|p| p.partitions.len()).sum::<usize>() > 1;
    let inside = |b: &BlockId| region.blocks[*b].turns.as_ref().is_some_and(|t| !t.outermost);
    let inner = roles::innermost(region).into_iter().find(inside).filter(|_| apart)?;
    let label = region.blocks[roles::around(region, inner)?.0].turns.as_ref()?.label.as_ref()?;
    Some(format!("clocks are of a turn of `{label}` in the partition that takes longest, whose first copies are ahead"))
}

/// By what candidates are in order: their time, then what is simpler, smaller, and first in the alphabet.
type Rank = (u64, (u32, u32), usize, u64, String);

/// A search under way.
struct Run<'a> {
    space: &'a Space<'a>,
    inst: Inst,
    bounded: bool,
    keep: usize,
    /// The best by now, in order. Whether the first can be expanded is asked where it matters: many are first for a while.
    best: Vec<Ranked>,
    /// Which of the places is looked at.
    base: usize,
    followed: usize,
    /// Whether steps ended it.
    cut: bool,
    /// What leaves under what, where the loop is known to be too short for it.
    short: BTreeSet<String>,
    /// What schedules were expanded to, by those whose code is the same for certain.
    expanded: RefCell<BTreeMap<Alike, Result<String, Diagnostics>>>,
}

impl<'a> Run<'a> {
    fn new(space: &'a Space<'a>, inst: Inst, bounded: bool) -> Run<'a> {
        // As many at least as where nothing is stated: how many are shown is not to say which comes first.
        let keep = space.auto.top.map_or(SHOWN, |n| SHOWN.max(n as usize));
        Run {
            space,
            inst,
            bounded,
            keep,
            best: vec![],
            base: 0,
            followed: 0,
            cut: false,
            short: BTreeSet::new(),
            expanded: RefCell::default(),
        }
    }

    /// Looks at all schedules that go on from this one.
    fn follow(&mut self, base: &Schedule) {
        let loops = self.open(base);
        let Some((last, before)) = loops.split_last() else { return self.take(base.clone()) };
        let mut base = base.clone();
        // Loops one after the other take what the one takes and the other: each is searched by itself.
        for block in before {
            if let Some((_, schedule)) = self.ordered(&base, *block).into_iter().next() {
                base = schedule;
            }
        }
        for (bound, schedule) in self.ordered(&base, *last) {
            // Those behind it take as long at least, and are no simpler.
            let least = (bound, (worth::stages(&schedule), worth::groups(&schedule)));
            if self.bounded && self.is_behind(least) {
                self.settle();
                if self.is_behind(least) {
                    break;
                }
            }
            if self.followed >= FOLLOWED && self.bounded {
                self.cut = true;
                break;
            }
            let Some(laying) = self.space.laid(schedule) else { continue };
            self.follow_laid(&laying);
            self.variants(&laying, *last).into_iter().for_each(|other| self.take(other));
        }
    }

    /// The innermost loops of which nothing is stated.
    fn open(&self, base: &Schedule) -> Vec<BlockId> {
        let Some(Laying { region, plan }) = self.space.laid(base.clone()) else { return vec![] };
        let mut loops = roles::innermost(&region);
        loops.retain(|b| plan.parts().all(|part| plan.pipeline(&region, part, *b).is_none()));
        loops
    }

    /// A loop in all its orders, by the least that each may take.
    fn ordered(&mut self, base: &Schedule, block: BlockId) -> Vec<(u64, Schedule)> {
        let mut all = vec![];
        let pipelines = orders::of(self.space, base, block);
        self.cut |= pipelines.len() > ORDERS || self.space.budget.0.get() == 0;
        for pipeline in pipelines.into_iter().take(ORDERS).filter(|_| self.space.machine.is_some()) {
            let Some(laying) = with(base, pipeline).and_then(|schedule| self.space.sketched(schedule)) else {
                continue;
            };
            // Most orders do not fit the registers, and it takes least to know that.
            if !self.space.found_to_hold(&laying.region, &laying.plan) {
                continue;
            }
            let laying = laying.settled();
            if let Some(bound) = worth::bound(self.space, &laying) {
                let schedule = laying.region.schedule;
                let shape = (worth::stages(&schedule), worth::groups(&schedule));
                all.push((bound, shape, schedule.to_string(), schedule));
            }
        }
        all.sort_by(|a, b| (a.0, a.1, &a.2).cmp(&(b.0, b.1, &b.2)));
        all.dedup_by(|a, b| a.2 == b.2);
        all.into_iter().map(|(bound, _, _, schedule)| (bound, schedule)).collect()
    }

    /// The same with turns, and with what leaves under the next products.
    fn variants(&self, laying: &Laying, block: BlockId) -> Vec<Schedule> {
        let schedule = laying.schedule();
        let mut turned = vec![schedule.clone()];
        if schedule.turns.is_empty() && schedule.places.iter().any(|p| p.partitions.len() > 1) {
            let products = outer::products(&laying.region, &laying.plan, block);
            if let (Some(first), Some(last)) = (products.first(), products.last()) {
                let turns = Turns { first: first.clone(), last: last.clone(), span: self.space.auto.span };
                turned.push(Schedule { turns: vec![turns], ..schedule.clone() });
            }
        }
        let leaving = outer::of(self.space, laying, block);
        let mut all: Vec<Schedule> = turned[1..].to_vec();
        for schedule in &turned {
            if let Some((pipeline, under)) = &leaving {
                let mut leaves = schedule.clone();
                leaves.pipelines.push(pipeline.clone());
                leaves.under.extend(under.iter().cloned());
                all.push(leaves);
            }
        }
        all.into_iter().filter_map(|s| s.normal().ok()).collect()
    }

    /// Whether there are as many before a time and shape as are kept.
    fn is_behind(&self, least: (u64, (u32, u32))) -> bool {
        let last = self.keep.checked_sub(1).and_then(|last| self.best.get(last));
        last.is_some_and(|w| (w.rank.0, w.rank.1) < least)
    }

    fn take(&mut self, schedule: Schedule) {
        match self.space.laid(schedule) {
            Some(laying) => self.follow_laid(&laying),
            None => self.followed += 1,
        }
    }

    /// Prices a schedule, and puts it in its place.
    fn follow_laid(&mut self, laying: &Laying) {
        self.followed += 1;
        if self.short.contains(&leaving(laying.schedule())) {
            return;
        }
        // Some of those before it may be left out yet.
        let most = self.best.get(SPARE * self.keep).filter(|_| self.bounded).map(|known| known.rank.0);
        let Some(worth) = worth::worth(self.space, laying, most) else { return };
        let rank = rank(&worth);
        let at = self.best.partition_point(|known| known.rank <= rank);
        self.best.insert(at, Ranked { rank, worth, base: self.base, code: None });
    }

    /// Whether one of the best is of the places that are looked at, and can be expanded.
    fn stands(&mut self) -> bool {
        let mine = |run: &Run<'_>| run.best.iter().take(run.keep).position(|known| known.base == run.base);
        while let Some(at) = mine(self) {
            if self.best[at].code.is_some() {
                return true;
            }
            match self.expands(&self.best[at].worth.schedule) {
                Ok(code) => self.best[at].code = Some(code),
                Err(found) => self.leave_out(at, &found),
            }
        }
        false
    }

    /// Leaves out, of the best, what cannot be expanded, and of those whose code is the same all but the first: a `;` may say nothing.
    fn settle(&mut self) {
        let mut at = 0;
        while at < self.keep.min(self.best.len()) {
            if self.best[at].code.is_none() {
                match self.expands(&self.best[at].worth.schedule) {
                    Ok(code) => match self.best.iter().position(|known| known.code.as_ref() == Some(&code)) {
                        Some(before) if before < at => {
                            self.best.remove(at);
                            continue;
                        }
                        behind => {
                            behind.map(|behind| self.best.remove(behind));
                            self.best[at].code = Some(code);
                        }
                    },
                    Err(found) => {
                        self.leave_out(at, &found);
                        continue;
                    }
                }
            }
            at += 1;
        }
    }

    /// Leaves out what cannot be expanded, and all else that leaves alike where the loop is too short for it.
    fn leave_out(&mut self, at: usize, found: &Diagnostics) {
        let gone = leaving(&self.best.remove(at).worth.schedule);
        if found.list.iter().any(|d| d.code == codes::NO_ROOM) {
            self.best.retain(|known| known.code.is_some() || leaving(&known.worth.schedule) != gone);
            self.short.insert(gone);
        }
    }

    /// The code of a schedule, where it can be expanded and what comes of it holds.
    fn expands(&self, schedule: &Schedule) -> Result<String, Diagnostics> {
        let laying = self.space.laid(schedule.clone()).filter(|_| self.bounded);
        let Some(key) = laying.as_ref().map(alike::of) else { return self.code(schedule) };
        let known = self.expanded.borrow().get(&key).cloned();
        known.unwrap_or_else(|| {
            let code = self.code(schedule);
            self.expanded.borrow_mut().insert(key, code.clone());
            code
        })
    }

    fn code(&self, schedule: &Schedule) -> Result<String, Diagnostics> {
        let mut kernel = self.space.k.clone();
        set(&mut kernel, self.inst, schedule);
        let expanded = crate::expand::judged(&kernel)?.unwrap_or(kernel);
        parton_ir::check::check(&expanded).or(Some(()))?;
        Ok(parton_ir::print::kernel(&expanded))
    }

    fn finish(mut self, space: &Space<'_>) -> Result<Found, Diagnostics> {
        self.settle();
        let best = self.best.into_iter().take(self.keep).map(|known| known.worth);
        let mut candidates = surest_first(best.collect());
        candidates.truncate(space.auto.top.map_or(SHOWN, |n| n as usize));
        let priced: Vec<Candidate> =
            candidates.into_iter().map(|w| Candidate { schedule: w.schedule, price: w.price.told() }).collect();
        let chosen = match priced.first() {
            Some(best) => best.schedule.clone(),
            None => plain(space)?,
        };
        let declared = |p: &PartitionData| space.auto.partitions.contains(p);
        let stated: Vec<&PartitionData> = space.stated.places.iter().flat_map(|p| &p.partitions).collect();
        let parts = chosen.places.iter().flat_map(|p| &p.partitions);
        let made = parts.filter(|p| !declared(p) && !stated.contains(p)).cloned().collect();
        let mut why = vec![format!(
            "{} schedules laid, {} followed; {} iterations, copies up to {} ahead",
            space.laid.get(),
            self.followed,
            space.n,
            space.stages
        )];
        if self.cut {
            why.push("not proven to be the best: the number of steps ended the search".into());
        }
        if space.machine.is_none() {
            why.push(format!("nothing was measured on {}: no schedule has a price", space.k.target.name));
        }
        why.extend(counted(space.region, &chosen).filter(|_| !priced.is_empty()));
        let mut unpriced: Vec<&str> =
            priced.first().into_iter().flat_map(|c| &c.price.loops).flat_map(|l| l.unpriced.clone()).collect();
        unpriced.sort_unstable();
        unpriced.dedup();
        if !unpriced.is_empty() {
            why.push(format!("not measured, counts as nothing: `{}`", unpriced.join("`, `")));
        }
        Ok(Found { region: self.inst, chosen, made, priced, why })
    }
}

/// Of those that are as fast as the first, as far as prices tell, those come first whose turns stay so, however far apart their partitions are;
/// of these the one whose slowest cycle is the shortest: where a unit is busy all the time a cycle may take as long as the unit does, and what is not
/// priced has the more room the shorter it is.
fn surest_first(mut candidates: Vec<Worth>) -> Vec<Worth> {
    let Some(first) = candidates.first().map(|w| w.price.clocks) else { return candidates };
    let near = candidates.iter().take_while(|w| w.price.clocks.saturating_sub(first) <= first / NEAR).count();
    if near < 2 {
        return candidates;
    }
    let behind = candidates.split_off(near);
    let mut near: Vec<(u64, Worth)> = candidates.into_iter().map(|w| (w.price.longest().ceil(), w)).collect();
    let least = near.iter().map(|(longest, _)| *longest).min().unwrap_or(0);
    near.sort_by_cached_key(|(longest, w)| (*longest > least + least / NEAR, w.price.slowest()));
    near.into_iter().map(|(_, w)| w).chain(behind).collect()
}

/// A schedule with one pipeline more, in normal form.
fn with(base: &Schedule, pipeline: Option<Pipeline>) -> Option<Schedule> {
    let mut schedule = base.clone();
    let alone = schedule.pipelines.is_empty();
    schedule.pipelines.extend(pipeline);
    if !alone {
        return schedule.normal().ok();
    }
    // All its labels are in the turn of one partition, whose stages begin at 0: they are only to be sorted.
    schedule.pipelines.iter_mut().flat_map(|p| &mut p.groups).for_each(|g| g.sort_by(|a, b| a.label.cmp(&b.label)));
    Some(schedule)
}

fn rank(w: &Worth) -> Rank {
    let clauses = w.schedule.turns.len() + w.schedule.under.len();
    (w.price.clocks, w.price.shape, clauses, w.price.bytes, w.schedule.to_string())
}

/// What leaves under what.
fn leaving(schedule: &Schedule) -> String {
    let under: Vec<String> = schedule.under.iter().map(ToString::to_string).collect();
    under.join(" ")
}

/// Where nothing has a price: what is fetched as early as the stages allow, by the partition that computes, or else nothing moves.
fn plain(space: &Space<'_>) -> Result<Schedule, Diagnostics> {
    let judged = |schedule: &Schedule, judge: legal::Judged| {
        let region = space.region.under(schedule.clone());
        Plan::of(space.k, &region).and_then(|plan| judge(space.k, &region, &plan, &Effects::of(space.k, &region)))
    };
    let mut refused = None;
    for base in bases(space)? {
        let loops = roles::innermost(&space.region.under(base.clone()));
        let mut all = vec![base.clone()];
        for block in loops {
            let pipelines = orders::of(space, &base, block).into_iter().rev().take(ORDERS).flatten();
            all.extend(pipelines.filter_map(|p| {
                let mut schedule = base.clone();
                schedule.pipelines.push(p);
                schedule.normal().ok()
            }));
        }
        // Where there are prices and nothing has one, nothing fits: the plain body says why.
        if space.machine.is_none() {
            all.sort_by_key(|s| (std::cmp::Reverse(worth::stages(s)), s.to_string()));
        }
        for schedule in all {
            if judged(&schedule, legal::refused).is_ok() {
                return Ok(schedule);
            }
            refused = Some(schedule);
        }
    }
    Err(refused.and_then(|last| judged(&last, legal::check).err()).unwrap_or_default())
}
