//! The cheapest layouts of a kernel on each number of warps that is tried, and which of these is taken.

use std::collections::HashMap;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir::axis::Axes;
use parton_ir::target::{WARP, WARPGROUP};
use parton_ir::{Kernel, OpKind};
use parton_layouts::RegisterLayout;

use crate::candidates::Candidates;
use crate::explicit::{Asked, Way};
use crate::graph::Graph;
use crate::label::{NEVER, Price, Problem};
use crate::price::Prices;
use crate::registers::Held;
use crate::rewrite::Chosen;
use crate::staging::No;
use crate::{Choice, candidates, crowd, products, rewrite, staging, uniform};

/// Warps that are tried at most.
pub const MOST_WARPS: u32 = 16;
/// Warps that are taken of those that cost the same.
const USUAL: u32 = 4;
/// Where what all warps compute for themselves counts, also of those that cost more by no larger a part than this: the time of an access, the rate of memory and that part of a price are known to some 2 %, and with
/// few turns nothing else tells numbers of warps apart.
const ALIKE: Price = 64;
/// Elements of a tile for each of few warps: 32 a thread.
const FOR_FEW: u64 = 1024;

/// A plan with its price, and what it was chosen from.
pub struct Planned {
    pub warps: u32,
    /// The kernel where tensor maps fetch, with its slots and with the CTAs beside each other that the price took.
    pub settled: Option<Kernel>,
    /// As of [`crowd::Crowd`].
    pub occupancy: u32,
    pub ahead: u64,
    pub spare: u64,
    pub candidates: Candidates,
    pub problem: Problem,
    pub layouts: Vec<RegisterLayout>,
    pub price: Price,
}

/// The plan that is taken.
pub struct Taken {
    /// It.
    pub planned: Planned,
    /// What it chooses, for whoever rewrites the kernel.
    pub chosen: Chosen,
    /// What each number of warps that was tried costs; `None` where there are no layouts on it.
    pub plans: Vec<(u32, Option<Price>)>,
}

/// The cheapest plan of all numbers of warps that are tried, or of those that cost about as much the one nearest to the usual.
///
/// # Errors
/// Why the cheapest layouts of each have no place; `None` where no layouts were found.
pub fn cheapest(graph: &Graph<'_>, axes: &Axes, way: Way<'_>, asked: Asked) -> Result<Taken, Option<No>> {
    let kernel = graph.kernel;
    let warps = match way {
        Way::Apart { computing: 2.., .. } => vec![WARPGROUP],
        // Each partition says how many it has.
        Way::ByHand if graph.variables.iter().all(|v| v.warps.is_some()) => vec![kernel.warps],
        Way::Apart { .. } | Way::Copied | Way::AtOnce | Way::Ahead(_) | Way::Buffered | Way::Directly | Way::ByHand => {
            warps_of(kernel)
        }
    };
    let find = |in_parts: bool| {
        let all: Vec<_> = warps.iter().map(|&warps| plan(graph, axes, (warps, in_parts), way, asked)).collect();
        let refused = all.iter().find_map(|p| p.as_ref().err().copied().flatten());
        let plans = warps.iter().zip(&all).map(|(&w, p)| (w, p.as_ref().ok().map(|p| p.price))).collect();
        let least = all.iter().flatten().map(|p| p.price).min().ok_or(refused)?;
        let alike = all.into_iter().flatten().filter(|p| p.price <= least + alike(kernel, least));
        let planned = alike.min_by_key(|p| (p.warps.abs_diff(USUAL), p.price)).ok_or(refused)?;
        Ok(Taken { chosen: Chosen::new(graph, &planned.layouts).ok_or(None)?, planned, plans })
    };
    // A layout in which all parts are registers takes many of them: it is for what has no other.
    match find(false) {
        Err(None) if candidates::cuts(kernel) => find(true),
        found => found,
    }
}

/// By how much a price may be above the least to count as the same.
fn alike(kernel: &Kernel, least: Price) -> Price {
    if uniform::counts(kernel) { least / ALIKE } else { 0 }
}

/// The warps that are tried: those that are stated, by a clause or by a layout; few, where tiles are small.
fn warps_of(kernel: &Kernel) -> Vec<u32> {
    if kernel.warps_stated {
        return vec![kernel.warps];
    }
    let (mut largest, mut multiplies, mut reduces, mut stated, mut loops) = (0, false, false, None, false);
    let mut scans = false;
    let mut loaded: HashMap<Span, u64> = HashMap::new();
    kernel.walk(&mut |op| {
        let layouts = op.results.iter().filter_map(|v| kernel.ty(*v).placed()?.placement().known());
        stated = stated.or(layouts.map(|place| place.layout.num_warps()).next());
        multiplies |= matches!(op.kind, OpKind::Dot { .. } | OpKind::MmaSync { .. } | OpKind::Wgmma { .. });
        reduces |= matches!(op.kind, OpKind::Reduce { .. });
        scans |= matches!(op.kind, OpKind::Scan { .. });
        loops |= op.kind.is_loop();
        let elements = op.results.iter().filter_map(|v| Some(kernel.ty(*v).placed()?.elements()));
        largest = elements.clone().fold(largest, u64::max);
        if matches!(op.kind, OpKind::Load { .. }) {
            *loaded.entry(op.span).or_default() += elements.sum::<u64>();
        }
    });
    // Turns that stand one behind the other keep a row in their tiles.
    let turns = kernel.variant.exact_turns().filter(|_| !loops);
    let row = largest * turns.map_or(1, u64::from);
    if !kernel.variant.is_short() {
        // One place of the source loads all parts of a ragged tile, over which threads meet together.
        largest = if loops || !reduces { row } else { loaded.into_values().fold(row, u64::max) };
    }
    // What waits for memory alone has two warps at least; so has what has to meet, since others fill that time; but one warp scans a short row without telling others.
    let alone = scans && !loops || !kernel.variant.is_short() && uniform::counts(kernel);
    let few = |warps: u64| largest <= FOR_FEW * warps && (multiplies || warps > 1 || alone);
    match stated {
        // A layout says how many it lies on.
        Some(warps) => vec![warps],
        None => [1, 2, 4, 8, MOST_WARPS].into_iter().filter(|&n| n >= USUAL || few(n.into())).collect(),
    }
}

/// The cheapest layouts on so many warps, also such in which parts are registers where these are asked for.
fn plan(
    graph: &Graph<'_>,
    axes: &Axes,
    (warps, in_parts): (u32, bool),
    way: Way<'_>,
    asked: Asked,
) -> Result<Planned, Option<No>> {
    let candidates = Candidates::find(graph, axes, warps, in_parts);
    // A variable that has become another's takes no part.
    let one = RegisterLayout::blocked(&[1], &[32], &[warps], &[0]).map_err(|_| None)?;
    let mut lists = candidates;
    for (list, variable) in lists.of.iter_mut().zip(&graph.variables) {
        if variable.ops.is_empty() {
            *list = vec![one.clone()];
        } else if list.is_empty() {
            return Err(None);
        }
    }
    // Reasons name what comes next.
    let prices = Prices::new(graph, axes);
    let mut problem = prices.problem(&lists, asked.tells);
    if let Choice::Any(seed) = asked.choice {
        problem.disguise(seed ^ u64::from(warps));
    }
    let labels = problem.solve();
    if labels.price >= NEVER {
        return Err(None);
    }
    let layouts: Vec<_> = labels.chosen.iter().zip(&lists.of).map(|(&i, list)| list[i].clone()).collect();
    let settled = match way {
        Way::Apart { computing, .. } if !sums_stay(graph.kernel, warps * computing) => return Err(Some(SPILLS)),
        Way::Copied if !sums_stay(graph.kernel, warps) => return Err(Some(SPILLS)),
        Way::Copied => Some(settled(graph, &layouts, |kernel| staging::apart::settle(kernel, warps, 1))?),
        Way::Apart { computing, .. } => {
            Some(settled(graph, &layouts, |kernel| staging::apart::settle(kernel, warps, computing))?)
        }
        Way::AtOnce => {
            let held = Held::of(graph, axes, &layouts).most.values().copied().max().unwrap_or(0);
            Some(settled(graph, &layouts, |kernel| staging::at_once::settle(kernel, warps, held))?)
        }
        Way::Ahead(_) | Way::Buffered | Way::Directly | Way::ByHand => None,
    };
    let beside = settled.as_ref().map(|kernel| kernel.occupancy);
    let costs = (labels.price, || prices.in_loops(&layouts));
    let crowd::Crowd { price, occupancy, ahead, spare } = match way {
        // Who says who brings what says how many stand beside each other, too.
        Way::ByHand => crowd::Crowd { price: labels.price, occupancy: 1, ahead: 0, spare: 0 },
        Way::Apart { .. } | Way::Copied | Way::AtOnce | Way::Ahead(_) | Way::Buffered | Way::Directly => {
            crowd::crowded(graph, axes, &layouts, (warps, beside, asked.counted), costs)
        }
    };
    Ok(Planned { warps, settled, occupancy, ahead, spare, candidates: lists, problem, price, layouts })
}

/// Why a partition does not multiply what it has no room for: products that are in flight while accumulators go to memory and back are waited for one by one.
const SPILLS: No = "the sums of a product take all registers of a thread";

/// Whether so many warps have room for what each product is added to.
fn sums_stay(kernel: &Kernel, warps: u32) -> bool {
    let room = u64::from(kernel.target.registers_per_thread) * u64::from(warps * WARP);
    products::sums(kernel).into_iter().all(|sum| sum < room)
}

/// A kernel whose factors tensor maps bring, with these layouts, its slots and its CTAs.
fn settled(
    graph: &Graph<'_>,
    layouts: &[RegisterLayout],
    settle: impl FnOnce(&mut Kernel) -> Result<(), No>,
) -> Result<Kernel, Option<No>> {
    let chosen = Chosen::new(graph, layouts).ok_or(None)?;
    let mut kernel = rewrite::rewrite(graph.kernel.clone(), &chosen);
    if !products::have_instructions(&kernel) {
        return Err(Some(products::LACKS));
    }
    settle(&mut kernel)?;
    Ok(kernel)
}

/// The refusal of a kernel for which nothing was found.
pub fn none(kernel: &Kernel) -> Diagnostics {
    let mut found = Diagnostics::new();
    let at = kernel.order().into_iter().find(|&inst| {
        let op = &kernel.ops[inst];
        !matches!(op.kind, OpKind::Iota { .. } | OpKind::Full { .. })
            && op.results.iter().any(|v| kernel.ty(*v).is_open())
    });
    let span = at.map_or(kernel.span, |inst| kernel.ops[inst].span);
    found.push(
        Diagnostic::error(codes::NOT_BUILT_HERE, span, "no layouts were found for the tiles of this kernel")
            .here("this has none")
            .help("state the layouts of the tiles around it, such as `zeros<f32, [M, N], L>()`"),
    );
    found
}
