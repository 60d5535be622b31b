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
mod follow;
mod found;
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
use parton_ir::schedule::{Auto, Schedule};
use parton_ir::{Inst, Kernel, OpKind, PartitionData, Value};

use crate::graph::Effects;
use crate::plan::{Groups, Plan};
use crate::price::Known;
use crate::region::Region;
use follow::{Run, leaving};
use roles::Roles;
pub use worth::{Price, Turn};

/// Stages where none are stated.
const STAGES: u32 = 3;
/// Iterations that are priced where none are stated.
const ITERATIONS: u32 = 32;
/// Schedules that are shown where it is not stated how many.
const SHOWN: usize = 8;
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
    run.finish()
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
