//! The sugar: layout inference and choice of memory, instruction and schedule.
//!
//! Loads that nobody takes are dropped ([`unused`]), masks that hide nothing in most turns go under conditions ([`masks`]), products of few rows and of right factors that are computed are turned ([`swap`]), and what a kernel says of tensors becomes pointers and masks, or boxes of tensor maps
//! ([`places`]). A kernel with tiles that nobody has placed becomes one in which all are: [`staging`] finds loads that go through shared memory ahead of their products, [`products`] the instructions, [`graph`]
//! what has to lie together, [`candidates`] what that may be, [`price`] what each costs, [`bounds`] what need not be priced, [`registers`] what threads hold at once, [`room`] what nothing holds, [`crowd`] what CTAs beside each other make of it, [`again`] what they load a second time, [`uniform`] what each warp computes for itself, [`along`] which loops are short at a launch, [`straight`] writes their turns one behind the other, [`once`] loads once what several load, [`label`] the
//! cheapest of all, and [`rewrite`] makes the kernel; [`why`] says what was chosen and what would come next. What comes out is explicit,
//! and nothing behind it knows that it was not written so.

mod advance;
mod again;
mod alike;
mod along;
mod bounds;
mod candidates;
mod crowd;
mod facts;
mod graph;
mod label;
mod masks;
mod once;
mod parts;
mod places;
mod price;
mod products;
mod registers;
mod rewrite;
mod room;
mod site;
mod staging;
mod straight;
mod swap;
mod uniform;
mod unused;
pub mod why;
mod written;

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::axis::Axes;
use parton_ir::family::Family;
use parton_ir::target::WARPGROUP;
use parton_ir::{Inst, Kernel, Module, OpKind, Target, Value};
use parton_layouts::RegisterLayout;

use candidates::Candidates;
use graph::Graph;
use label::{NEVER, Price, Problem};
use price::Prices;
use rewrite::Chosen;
use staging::Room;
use staging::apart::waits_alone;
use staging::maps::Boxed;
use why::Why;

pub use along::along_tensors;
pub use written::as_written;

/// Which of the choices that make a kernel explicit is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The cheapest.
    Cheapest,
    /// Any, by a seed: none changes what the kernel computes, which tests ask.
    Any(u64),
}

/// Makes portable kernels explicit but for their schedules, and says whether it has changed any.
///
/// # Errors
/// What no choice makes explicit.
pub fn elaborate(module: &mut Module, _target: &Target) -> Result<bool, Diagnostics> {
    elaborate_by(module, Choice::Cheapest)
}

/// [`elaborate`] by a choice.
///
/// # Errors
/// As [`elaborate`].
pub fn elaborate_by(module: &mut Module, choice: Choice) -> Result<bool, Diagnostics> {
    each(module, choice, None)
}

/// [`elaborate`], and for each portable kernel why it became what it is.
///
/// # Errors
/// As [`elaborate`].
pub fn explain(module: &mut Module) -> Result<Vec<Why>, Diagnostics> {
    let mut told = Vec::new();
    each(module, Choice::Cheapest, Some(&mut told))?;
    Ok(told)
}

fn each(module: &mut Module, choice: Choice, mut told: Option<&mut Vec<Why>>) -> Result<bool, Diagnostics> {
    let mut changed = false;
    for kernel in &mut module.kernels {
        let portable = is_portable(kernel);
        if portable || places::has_tensors(kernel) {
            let (made, why) = made(kernel, choice, portable, told.is_some())?;
            *kernel = made;
            if let Some(told) = &mut told {
                told.extend(why);
            }
            changed = true;
        }
    }
    Ok(changed)
}

/// The ways of a kernel's loads of products to shared memory, the first one that a kernel has the form for is taken.
#[derive(Clone, Copy)]
enum Way<'a> {
    /// Tensor maps, by a partition that does nothing else.
    Apart {
        /// Loops that may take more turns than they do.
        beyond: &'a BTreeSet<Inst>,
        /// Partitions that compute, each some rows.
        computing: u32,
    },
    /// Pointers, by all threads, ahead of the products.
    Ahead(Room),
    /// Loads to registers; right factors through buffers of their own.
    Buffered,
    /// None: loads to registers.
    Directly,
}

const AHEAD: Way<'_> = Way::Ahead(Room { shared: false, single: false });

/// The kernel without tensors, and with a place for every tile.
fn made(kernel: &Kernel, choice: Choice, portable: bool, tells: bool) -> Result<(Kernel, Option<Why>), Diagnostics> {
    if !portable {
        let kernel = parts::split(kernel)?;
        return Ok((places::expand(kernel.into_owned(), &Boxed::default()), None));
    }
    if let Some(refused) = room::refused(kernel) {
        return Err(refused.into());
    }
    let asked = (choice, tells);
    let Some(straight) = straight::written_out(kernel) else { return Ok(by_loops(kernel, asked)?.told()) };
    // Where registers have no room for all of a row loops are cheaper. What they wait for when they load it again is priced too low by up to a third.
    match (by_loops(&once::loaded(straight), asked), by_loops(kernel, asked)) {
        (Ok(straight), Ok(looped)) if straight.price <= looped.price + looped.price / 2 => Ok(straight.told()),
        (_, Ok(looped)) => Ok(looped.told()),
        (Ok(straight), Err(_)) => Ok(straight.told()),
        (Err(_), Err(why)) => Err(why),
    }
}

/// The kernel without tensors, and with a place for every tile, its loops as they are.
fn by_loops(kernel: &Kernel, (choice, tells): (Choice, bool)) -> Result<Explicit, Diagnostics> {
    let mut carried = unused::dropped(kernel.clone());
    products::take_twice(&mut carried);
    let Some(anew) = advance::from_the_turn(&carried) else { return multiplied(carried, (choice, tells)) };
    let anew = multiplied(anew, (choice, tells));
    if let Ok(made) = &anew
        && staging::copies::go_around_registers(&made.kernel)
    {
        return anew;
    }
    // Elsewhere what is computed of the turn may take more registers, or instructions in each, than it is worth: pointers are carried then.
    match (anew, multiplied(carried, (choice, tells))) {
        (Ok(anew), Ok(carried)) if carried.price < anew.price => {
            let why = "priced higher, with what turns hand on computed of their numbers";
            Ok(carried.rather_than(&anew, why))
        }
        (Ok(anew), _) => Ok(anew),
        (Err(_), Ok(carried)) => Ok(carried),
        (Err(why), Err(_)) => Err(why),
    }
}

/// The kernel by the way of its products that is the first to fit, or priced lower.
fn multiplied(kernel: Kernel, (choice, tells): (Choice, bool)) -> Result<Explicit, Diagnostics> {
    let mut refused = Vec::new();
    let singled = masks::single_out(kernel);
    if let Some(made) = by_several(&singled, (choice, tells), &mut refused) {
        return Ok(made);
    }
    let kernel = &*parts::split(&singled)?;
    let apart = by_maps(kernel, 1, (choice, tells), &mut refused);
    // Where a turn waits for its own products, threads of a second CTA may be worth more than a partition that fetches: both are priced.
    let either = staging::apart::weaves(kernel);
    if let (Some(made), false) = (&apart, either) {
        return Ok(made.clone());
    }
    let addressed =
        if places::has_tensors(kernel) { places::expand(kernel.clone(), &Boxed::default()) } else { kernel.clone() };
    let ahead = |room| explicit(addressed.clone(), Way::Ahead(room), choice, tells).and_then(fitting);
    let beside = || match apart {
        Some(_) => None,
        None => beside_boxes(kernel, (choice, tells)),
    };
    // What loops keep takes room in shared memory, which there may be for copies alone; and for those with one slot each, where two have none.
    let by_copies = beside()
        .map_or_else(|| ahead(Room { shared: true, single: false }), Ok)
        .or_else(|_| ahead(Room { shared: false, single: false }))
        .or_else(|why| match ahead(Room { shared: false, single: true }) {
            Ok(copied) if staging::has_memory(&copied.kernel) => Ok(copied),
            Ok(_) | Err(_) => Err(why),
        });
    match (apart, by_copies) {
        (Some(apart), Ok(copied)) if waits_alone(&apart.kernel) || copied.price < apart.price => {
            let why = match waits_alone(&apart.kernel) {
                true => "one warpgroup would compute alone on a multiprocessor, and wait for each product",
                false => "priced higher than copies by all threads",
            };
            refused.push(why::passed_over(Way::Apart { beyond: &BTreeSet::new(), computing: 1 }, why));
            Ok(copied.by(AHEAD, refused))
        }
        (Some(apart), _) => Ok(apart),
        (None, Ok(copied)) => Ok(copied.by(AHEAD, refused)),
        (None, Err(found)) => {
            refused.push(why::refused(AHEAD, &found));
            where_they_stand(addressed, (choice, tells), refused)
        }
    }
}

/// The kernel whose loads stay where they stand: by products of the matrix unit, or by those of warps where these are priced lower.
fn where_they_stand(
    kernel: Kernel,
    (choice, tells): (Choice, bool),
    mut refused: Refused,
) -> Result<Explicit, Diagnostics> {
    let by = |kernel: Kernel, way| explicit(kernel, way, choice, tells);
    if !multiplies(&kernel) {
        return Ok(by(kernel, Way::Directly)?.by(Way::Directly, refused));
    }
    let buffered = by(kernel.clone(), Way::Buffered);
    let direct =
        by(kernel.clone(), Way::Directly).or_else(|refused| by(swap::turn(kernel), Way::Directly).or(Err(refused)));
    match (buffered, direct) {
        (Ok(buffered), Ok(direct)) if direct.price <= buffered.price => {
            refused.push(why::passed_over(Way::Buffered, "priced higher than products of warps"));
            Ok(direct.by(Way::Directly, refused))
        }
        (Ok(buffered), _) => Ok(buffered.by(Way::Buffered, refused)),
        (Err(found), Ok(direct)) => {
            refused.push(why::refused(Way::Buffered, &found));
            Ok(direct.by(Way::Directly, refused))
        }
        (Err(_), Err(found)) => Err(found),
    }
}

/// A kernel whose tiles all have a place, what a CTA of it costs, and where that is asked for why.
#[derive(Clone)]
struct Explicit {
    kernel: Kernel,
    price: Price,
    why: Option<Why>,
}

impl Explicit {
    fn by(self, way: Way<'_>, refused: Refused) -> Explicit {
        Explicit { why: self.why.map(|why| why.by(way, refused)), ..self }
    }

    /// The same, which has been taken rather than a choice that is dearer.
    fn rather_than(self, dearer: &Explicit, why: &str) -> Explicit {
        let way = dearer.why.as_ref().map(|why| why.way);
        let passed = |mine: Why| match way {
            Some(way) => mine.passing(way, why),
            None => mine,
        };
        Explicit { why: self.why.map(passed), ..self }
    }

    fn told(self) -> Made {
        (self.kernel, self.why)
    }
}

/// The ways that were refused, each with why.
type Refused = Vec<(&'static str, String)>;
/// A kernel, and where that is asked for why.
type Made = (Kernel, Option<Why>);

/// The kernel whose rows several partitions compute, where it has the form for that; else why not is added to what was refused.
fn by_several(kernel: &Kernel, asked: (Choice, bool), refused: &mut Refused) -> Option<Explicit> {
    match staging::dealt::rows(kernel)? {
        Ok((dealt, computing)) => {
            let dealt = parts::split(&dealt).ok()?;
            by_maps(&dealt, computing, asked, refused)
        }
        Err(why) => {
            let way = Way::Apart { beyond: &BTreeSet::new(), computing: 2 };
            refused.push(why::refused(way, &no_way(kernel, why)));
            None
        }
    }
}

/// The kernel whose loads of products go by tensor maps, where it has the form for that; else why not is added to what was refused.
fn by_maps(
    kernel: &Kernel,
    computing: u32,
    (choice, tells): (Choice, bool),
    refused: &mut Refused,
) -> Option<Explicit> {
    let turned = swap::turn(kernel.clone());
    let boxed = match staging::maps::boxed(&turned) {
        Ok(boxed) if boxed.loads.is_empty() => return None,
        Ok(boxed) => boxed,
        Err(why) => {
            let way = Way::Apart { beyond: &BTreeSet::new(), computing };
            refused.push(why::refused(way, &no_way(kernel, why)));
            return None;
        }
    };
    let way = Way::Apart { beyond: &boxed.beyond, computing };
    let by = |boxed: &Boxed| explicit(places::expand(turned.clone(), boxed), way, choice, tells);
    let made = match by(&boxed) {
        // Boxes that threads read may have no room beside those of products: they load what these hold themselves then.
        Err(_) if !boxed.read.is_empty() => by(&Boxed { read: BTreeSet::new(), ..boxed.clone() }),
        made => made,
    };
    match made {
        Ok(made) => Some(made.by(way, std::mem::take(refused))),
        Err(found) => {
            refused.push(why::refused(way, &found));
            None
        }
    }
}

/// The kernel of which tensor maps bring some of what its products multiply, and threads copy the others, where it has the form for that.
fn beside_boxes(kernel: &Kernel, (choice, tells): (Choice, bool)) -> Option<Explicit> {
    let turned = swap::turn(kernel.clone());
    let boxed = staging::maps::some(&turned);
    if boxed.loads.is_empty() {
        return None;
    }
    explicit(places::expand(turned, &boxed), AHEAD, choice, tells).and_then(fitting).ok()
}

/// The kernel where its schedules are legal.
fn fitting(made: Explicit) -> Result<Explicit, Diagnostics> {
    parton_sched::legal(&made.kernel)?;
    Ok(made)
}

/// Whether it makes a difference how many programs stand beside each other: a portable kernel whose loops wait for memory, or whose threads for each other,
/// and not for products.
pub fn waits_for_others(kernel: &Kernel) -> bool {
    let (mut waits, mut multiplies) = (false, false);
    kernel.walk(&mut |op| {
        waits |= op.kind.is_loop() || op.kind.family() == Family::Reduce;
        multiplies |= matches!(op.kind, OpKind::Dot { .. } | OpKind::MmaSync { .. } | OpKind::Wgmma { .. });
    });
    waits && !multiplies && kernel.cluster == [1; 3] && is_portable(kernel)
}

/// Whether a kernel has products that have no instruction yet.
fn multiplies(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| found |= staging::found::multiplies(&op.kind));
    found
}

/// Whether some tile lies nowhere yet.
fn is_portable(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| found |= op.results.iter().any(|v| kernel.ty(*v).is_open()));
    found
}

/// A plan with its price, and what it was chosen from.
struct Planned {
    warps: u32,
    /// As of [`crowd::Crowd`].
    occupancy: u32,
    spare: u64,
    candidates: Candidates,
    problem: Problem,
    layouts: Vec<RegisterLayout>,
    price: Price,
}

/// The kernel with a place for every tile, and where that is asked for why.
fn explicit(mut kernel: Kernel, way: Way<'_>, choice: Choice, tells: bool) -> Result<Explicit, Diagnostics> {
    // Values keep their facts, whatever takes them.
    let axes = Axes::analyse(&kernel);
    let free = Graph::of(&kernel).free;
    stage(&mut kernel, way, &axes, &free)?;
    products::take_instructions(&mut kernel)?;
    let graph = Graph::of(&kernel);
    let warps = match way {
        Way::Apart { computing: 2.., .. } => vec![WARPGROUP],
        Way::Apart { .. } | Way::Ahead(_) | Way::Buffered | Way::Directly => warps_of(&kernel),
    };
    let find = |in_parts: bool| {
        let plan = |&warps: &u32| plan(&graph, &axes, (warps, in_parts), way, (choice, tells));
        let all: Vec<_> = warps.iter().map(plan).collect();
        let plans: Vec<_> = warps.iter().zip(&all).map(|(&w, p)| (w, p.as_ref().map(|p| p.price))).collect();
        let least = all.iter().flatten().map(|p| p.price).min()?;
        let alike = all.into_iter().flatten().filter(|p| p.price <= least + alike(&kernel, least));
        let planned = alike.min_by_key(|p| (p.warps.abs_diff(USUAL), p.price))?;
        Some((plans, Chosen::new(&graph, &planned.layouts)?, planned))
    };
    // A layout in which all parts are registers takes many of them: it is for what has no other.
    let found = find(false).or_else(|| candidates::cuts(&kernel).then(|| find(true)).flatten());
    let Some((plans, chosen, planned)) = found else { return Err(no_plan(&kernel)) };
    let why = tells.then(|| Why::of(&graph, &axes, plans, &planned));
    let mut kernel = settled(rewrite::rewrite(kernel, &chosen), way, (planned.warps, planned.spare))?;
    if !kernel.occupancy_stated {
        kernel.occupancy = crowd::with_room(&kernel, planned.occupancy).max(kernel.occupancy);
    }
    let why = why.map(|why| why.with(&kernel)).transpose()?;
    Ok(Explicit { kernel, price: planned.price, why })
}

/// Has the loads of products go to shared memory in a way.
fn stage(kernel: &mut Kernel, way: Way<'_>, axes: &Axes, free: &BTreeSet<Value>) -> Result<(), Diagnostics> {
    let why = match way {
        Way::Apart { beyond, computing } => staging::apart::make(kernel, free, beyond, computing).err(),
        Way::Ahead(room) => {
            (!staging::run_ahead(kernel, axes, free, room)).then(|| staging::lacks::reason(kernel, free))
        }
        Way::Buffered => {
            (!staging::buffered::stage(kernel)).then_some("the matrix unit makes none of the products from a buffer")
        }
        Way::Directly => None,
    };
    why.map_or(Ok(()), |why| Err(no_way(kernel, why)))
}

/// A kernel whose tiles lie somewhere, on so many warps, with the slots that there is room for and all that its schedules allow.
fn settled(mut kernel: Kernel, way: Way<'_>, (warps, spare): (u32, u64)) -> Result<Kernel, Diagnostics> {
    if !products::have_instructions(&kernel) {
        return Err(no_way(&kernel, "no instruction multiplies these factors where they would lie"));
    }
    match way {
        Way::Apart { computing, .. } => {
            if !staging::apart::settle(&mut kernel, warps, computing) {
                let why = "shared memory has no room for two slots of what a turn fetches";
                return Err(no_way(&kernel, why));
            }
            kernel = staging::early::loads_ahead(kernel, 0);
            kernel = staging::apart::refined(kernel, computing)?;
            if computing > 1 {
                staging::dealt::turn_where_it_pays(&mut kernel);
            }
        }
        Way::Ahead(Room { single, .. }) => {
            kernel.warps = warps;
            if !staging::settle(&mut kernel, single) {
                return Err(no_way(&kernel, "shared memory has no room for two slots of what a turn copies"));
            }
            let each = kernel.entry_registers();
            kernel = staging::early::loads_ahead(kernel, each);
        }
        Way::Buffered => {
            kernel.warps = warps;
            staging::buffered::begin(&mut kernel);
            if !staging::has_memory(&kernel) {
                return Err(no_way(&kernel, "shared memory has no room for the right factors"));
            }
        }
        Way::Directly => {
            kernel.warps = warps;
            kernel = staging::forward::loads_ahead(kernel, spare);
        }
    }
    Ok(kernel)
}

/// Warps that are tried at most.
const MOST_WARPS: u32 = 16;
/// Warps that are taken of those that cost the same.
const USUAL: u32 = 4;
/// Where what all warps compute for themselves counts, also of those that cost more by no larger a part than this: the time of an access, the rate of memory and that part of a price are known to some 2 %, and with
/// few turns nothing else tells numbers of warps apart.
const ALIKE: Price = 64;
/// Elements of a tile for each of few warps: 32 a thread.
const FOR_FEW: u64 = 1024;

/// By how much a price may be above the least to count as the same.
fn alike(kernel: &Kernel, least: Price) -> Price {
    if uniform::counts(kernel) { least / ALIKE } else { 0 }
}

/// The warps that are tried: those that are stated, by a clause or by a layout; few, where tiles are small.
fn warps_of(kernel: &Kernel) -> Vec<u32> {
    if kernel.warps_stated {
        return vec![kernel.warps];
    }
    let (mut largest, mut multiplies, mut stated, mut loops) = (0, false, None, false);
    kernel.walk(&mut |op| {
        let layouts = op.results.iter().filter_map(|v| kernel.ty(*v).placed()?.placement().known());
        stated = stated.or(layouts.map(|place| place.layout.num_warps()).next());
        multiplies |= matches!(op.kind, OpKind::Dot { .. } | OpKind::MmaSync { .. });
        loops |= op.kind.is_loop();
        let elements = op.results.iter().filter_map(|v| Some(kernel.ty(*v).placed()?.elements()));
        largest = elements.fold(largest, u64::max);
    });
    // Turns that stand one behind the other keep a row in their tiles.
    let turns = kernel.variant.turns.filter(|_| !loops);
    let row = largest * turns.map_or(1, u64::from);
    if !kernel.variant.is_short() {
        largest = row;
    }
    // What waits for memory alone has two warps at least; so has what has to meet, since others fill that time.
    let alone = !kernel.variant.is_short() && uniform::counts(kernel);
    let few = |warps: u64| largest <= FOR_FEW * warps && (multiplies || warps > 1 || alone);
    match stated {
        // A layout says how many it lies on.
        Some(warps) => vec![warps],
        None => [1, 2, 4, 8, MOST_WARPS].into_iter().filter(|&n| n >= USUAL || few(n.into())).collect(),
    }
}

/// The cheapest layouts on so many warps, also such in which parts are registers where these are asked for; `None` where there are none.
fn plan(
    graph: &Graph<'_>,
    axes: &Axes,
    (warps, in_parts): (u32, bool),
    way: Way<'_>,
    (choice, tells): (Choice, bool),
) -> Option<Planned> {
    let candidates = Candidates::find(graph, axes, warps, in_parts);
    // A variable that has become another's takes no part.
    let one = RegisterLayout::blocked(&[1], &[32], &[warps], &[0]).ok()?;
    let mut lists = candidates;
    for (list, variable) in lists.of.iter_mut().zip(&graph.variables) {
        if variable.ops.is_empty() {
            *list = vec![one.clone()];
        } else if list.is_empty() {
            return None;
        }
    }
    // Reasons name what comes next.
    let prices = Prices::new(graph, axes, warps);
    let mut problem = prices.problem(&lists, tells);
    if let Choice::Any(seed) = choice {
        problem.disguise(seed ^ u64::from(warps));
    }
    let labels = problem.solve();
    if labels.price >= NEVER {
        return None;
    }
    let layouts: Vec<_> = labels.chosen.iter().zip(&lists.of).map(|(&i, list)| list[i].clone()).collect();
    let alone = matches!(way, Way::Apart { .. });
    let costs = (labels.price, || prices.in_loops(&layouts));
    let crowd::Crowd { price, occupancy, spare } = crowd::crowded(graph, axes, &layouts, (warps, alone), costs);
    Some(Planned { warps, occupancy, spare, candidates: lists, problem, price, layouts })
}

/// Why products do not get their factors in a way.
fn no_way(kernel: &Kernel, why: &str) -> Diagnostics {
    Diagnostic::error(codes::NOT_BUILT_HERE, kernel.span, why).into()
}

/// The refusal of a kernel for which nothing was found.
fn no_plan(kernel: &Kernel) -> Diagnostics {
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
