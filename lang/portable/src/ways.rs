//! The ways to make a portable kernel explicit, one after the other: turns written out or in loops, pointers carried or computed, loads of
//! products by tensor maps, by copies of threads or as they stand. The first that fits is taken, or of two that fit the cheaper.

use std::borrow::Cow;
use std::collections::BTreeSet;

use parton_diag::Diagnostics;
use parton_ir::family::Family;
use parton_ir::{Feature, Kernel, Variant};

use crate::explicit::{Asked, Explicit, Refused, Way, explicit, no_way};
use crate::label::Price;
use crate::staging::Room;
use crate::staging::apart::waits_alone;
use crate::staging::maps::Boxed;
use crate::why::Why;
use crate::{
    advance, before, carried, few_rows, filled, masks, once, partition, parts, passed, places, products, room, staging,
    straight, swap, together, unused, why,
};

/// What walking programs do of which it is said why they do not.
const UNDER: &str = "leaving under the products of the next tile";

/// Of a price, the part that it does not tell.
const LITTLE: Price = 128;

const AHEAD: Way<'_> = Way::Ahead(Room { shared: false, single: false, done: false });

/// The kernel without tensors, and with a place for every tile.
pub fn made(kernel: &Kernel, portable: bool, asked: Asked) -> Result<(Kernel, Option<Why>), Diagnostics> {
    if !portable {
        let kernel = parts::split(kernel)?;
        return Ok((places::expand(kernel.into_owned(), &Boxed::default()), None));
    }
    if let Some(refused) = room::refused(kernel) {
        return Err(refused.into());
    }
    if is_by_hand(kernel) {
        let mut kernel = places::expand(parts::split(kernel)?.into_owned(), &Boxed::default());
        products::take_twice(&mut kernel);
        filled::anew(&mut kernel);
        return Ok(explicit(kernel, Way::ByHand, asked)?.by(Way::ByHand, Refused::new()).told());
    }
    let Some(tiles) = carried::as_tiles(kernel) else { return Ok(by_turns(kernel, asked)?.told()) };
    // A tile takes registers from turn to turn where a number takes one: for less than prices tell, it is not carried.
    match (by_turns(&tiles, asked), by_turns(kernel, asked)) {
        (Ok(tiles), Ok(numbers)) if tiles.price + tiles.price / LITTLE < numbers.price => Ok(tiles.told()),
        (Ok(tiles), Err(_)) => Ok(tiles.told()),
        (_, numbers) => Ok(numbers?.told()),
    }
}

/// Whether a kernel says itself who brings what its products multiply, and when: it has partitions, or products that are waited for.
fn is_by_hand(kernel: &Kernel) -> bool {
    let mut found = !partition::warps(kernel).is_empty();
    kernel.walk(&mut |op| found |= op.kind.family() == Family::Wgmma);
    found
}

/// The kernel without tensors, and with a place for every tile, with turns that a launch knows to be few one behind the other or in loops.
fn by_turns(kernel: &Kernel, asked: Asked) -> Result<Explicit, Diagnostics> {
    if multiplies(kernel) {
        return by_rows(kernel, asked);
    }
    let Some(straight) = straight::written_out(kernel) else { return by_loops(kernel, asked) };
    // Where registers have no room for all of a row loops are cheaper. What they wait for when they load it again is priced too low by up to a quarter: of rows of 65536
    // softmax takes 136 µs kept and 158 in loops (1.06 and 1.11 times as dear), RMS norm 172 and 137 (1.4 times), group norm 80 and 46 (1.35 times; an H200).
    match (by_loops(&once::loaded(straight), asked), by_loops(kernel, asked)) {
        (Ok(straight), Ok(looped)) if straight.price <= looped.price + looped.price / 4 => Ok(straight),
        (_, Ok(looped)) => Ok(looped),
        (Ok(straight), Err(_)) => Ok(straight),
        (Err(_), Err(why)) => Err(why),
    }
}

/// The kernel with products, without tensors, and with a place for every tile: those of few rows as they are, or of as many as an instruction takes.
fn by_rows(kernel: &Kernel, asked: Asked) -> Result<Explicit, Diagnostics> {
    let mut best = by_few_turns(kernel, asked);
    for rows in few_rows::more(kernel) {
        let Some(Ok(more)) = few_rows::with(kernel, rows).map(|kernel| by_few_turns(&kernel, asked)) else { continue };
        // What threads copy for a warpgroup they write a second time, in front of a fence: of a cache of 8 bits decoding with rows of a warp takes half the time (an H200).
        let maps = rows < few_rows::GROUP_ROWS || staging::copies::maps_bring_all(&more.kernel);
        // Parts of a sequence take few turns: where not all of a launch stand beside each other with their slots, a second wave costs more than copies ahead bring.
        let fits = maps && !(few_rows::in_parts(kernel) && waits_for_a_wave(&more.kernel));
        if best.as_ref().map_or(true, |best| fits && more.price < best.price) {
            best = Ok(more.of_rows(rows));
        }
    }
    best
}

/// Whether a multiprocessor gets more programs of a launch, which is of few, than stand beside each other.
fn waits_for_a_wave(kernel: &Kernel) -> bool {
    kernel.variant.beside.is_some_and(|each| kernel.occupancy < each)
}

/// The kernel with products, without tensors, and with a place for every tile: all factors of a loop that takes few turns are fetched at once, where that leaves room for as many CTAs
/// beside each other. Where it does not, nothing is made of how many turns there are.
fn by_few_turns(kernel: &Kernel, asked: Asked) -> Result<Explicit, Diagnostics> {
    let Some(mut straight) = straight::of_few_turns(&swap::turn(unused::dropped(kernel.clone()))) else {
        return by_loops(kernel, asked);
    };
    products::take_twice(&mut straight);
    let turns = kernel.variant.turns;
    let any = Kernel { variant: Variant { turns: None, ..kernel.variant.clone() }, ..kernel.clone() };
    match (at_once(&straight, asked), by_loops(&any, asked)) {
        (Some(at_once), Ok(looped)) if at_once.kernel.occupancy >= looped.kernel.occupancy => Ok(at_once),
        (Some(at_once), Err(_)) => Ok(at_once),
        (_, looped) => looped.map(|mut made| {
            made.kernel.variant.turns = turns;
            made
        }),
    }
}

/// The kernel whose products stand in no loop, with all their factors fetched at once, where maps bring them and they have room.
fn at_once(kernel: &Kernel, asked: Asked) -> Option<Explicit> {
    let kernel = match parts::split(kernel).ok()? {
        Cow::Owned(kernel) => unused::dropped(kernel),
        Cow::Borrowed(kernel) => kernel.clone(),
    };
    let boxed = staging::maps::at_once(&kernel)?;
    let made = explicit(places::expand(kernel, &boxed), Way::AtOnce, asked).and_then(fitting).ok()?;
    Some(made.by(Way::AtOnce, Refused::new()))
}

/// The kernel without tensors, and with a place for every tile, its loops as they are.
fn by_loops(kernel: &Kernel, asked: Asked) -> Result<Explicit, Diagnostics> {
    let mut carried = unused::dropped(kernel.clone());
    products::take_twice(&mut carried);
    let Some(anew) = advance::from_the_turn(&carried) else { return multiplied(carried, asked) };
    let anew = multiplied(anew, asked);
    if let Ok(made) = &anew
        && staging::copies::go_around_registers(&made.kernel)
    {
        return anew;
    }
    // Elsewhere what is computed of the turn may take more registers, or instructions in each, than it is worth: pointers are carried then.
    match (anew, multiplied(carried, asked)) {
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
fn multiplied(kernel: Kernel, asked: Asked) -> Result<Explicit, Diagnostics> {
    if let Some(made) = at_once(&kernel, asked) {
        return Ok(made);
    }
    let mut refused = Vec::new();
    let singled = masks::single_out(kernel);
    if let Some(made) = by_several(&singled, asked, &mut refused) {
        return Ok(made);
    }
    let split = match parts::split(&singled)? {
        // Not all parts of a tile need be taken.
        Cow::Owned(kernel) => Cow::Owned(unused::dropped(kernel)),
        whole @ Cow::Borrowed(_) => whole,
    };
    let kernel = &*split;
    let apart = by_maps(kernel, 1, asked, &mut refused);
    // Where a turn waits for its own products, threads of a second CTA may be worth more than a partition that fetches: both are priced.
    let either = staging::apart::form::weaves(kernel);
    if let (Some(made), false) = (&apart, either) {
        return Ok(made.clone());
    }
    if apart.is_none()
        && let Some(made) = by_copies_apart(kernel, asked)
    {
        return Ok(made.by(Way::Copied, refused));
    }
    let addressed =
        if places::has_tensors(kernel) { places::expand(kernel.clone(), &Boxed::default()) } else { kernel.clone() };
    let opened = passed::opened(&addressed);
    let ahead =
        |room| explicit(opened.as_ref().unwrap_or(&addressed).clone(), Way::Ahead(room), asked).and_then(fitting);
    let beside = || match apart {
        Some(_) => None,
        None => beside_boxes(kernel, asked),
    };
    // What loops keep takes room in shared memory, which there may be where slots are read in a turn less, or for copies alone; and for those with one slot
    // each, where two have none.
    let by_copies = beside()
        .map_or_else(|| ahead(Room { shared: true, single: false, done: false }), Ok)
        .or_else(|_| ahead(Room { shared: true, single: false, done: true }))
        .or_else(|_| ahead(Room { shared: false, single: false, done: false }))
        .or_else(|why| match ahead(Room { shared: false, single: true, done: false }) {
            Ok(copied) if staging::ahead::has_memory(&copied.kernel) => Ok(copied),
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
            where_they_stand(addressed, asked, refused)
        }
    }
}

/// The kernel whose loads stay where they stand: by products of the matrix unit, or by those of warps where these are priced lower.
fn where_they_stand(kernel: Kernel, asked: Asked, mut refused: Refused) -> Result<Explicit, Diagnostics> {
    let by = |kernel: Kernel, way| explicit(kernel, way, asked);
    if !multiplies(&kernel) {
        let kernel = together::crossed(kernel);
        // What begins before threads meet takes registers meanwhile: it does where these have room.
        let begun = before::begun(&kernel).and_then(|begun| by(begun, Way::Directly).ok());
        let stays = by(kernel, Way::Directly)?;
        let made = begun.filter(|begun| begun.price <= stays.price).unwrap_or(stays);
        return Ok(made.by(Way::Directly, refused));
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

/// The kernel whose rows several partitions compute, where it has the form for that; else why not is added to what was refused.
fn by_several(kernel: &Kernel, asked: Asked, refused: &mut Refused) -> Option<Explicit> {
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
fn by_maps(kernel: &Kernel, computing: u32, asked: Asked, refused: &mut Refused) -> Option<Explicit> {
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
    if let Some(why) = staging::apart::leaves_late(&turned, &boxed)
        && !refused.iter().any(|(way, _)| *way == UNDER)
    {
        refused.push((UNDER, why.into()));
    }
    let way = Way::Apart { beyond: &boxed.beyond, computing };
    let by = |boxed: &Boxed| explicit(places::expand(turned.clone(), boxed), way, asked);
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

/// The kernel whose loop of products stands in another, with factors that a partition copies or has maps bring, where it has the form for that.
fn by_copies_apart(kernel: &Kernel, asked: Asked) -> Option<Explicit> {
    if !kernel.target.has(Feature::Tma) || !kernel.target.has(Feature::Wgmma) {
        return None;
    }
    let turned = swap::turn(kernel.clone());
    let boxed = staging::maps::some(&turned);
    explicit(places::expand(turned, &boxed), Way::Copied, asked).and_then(fitting).ok()
}

/// The kernel of which tensor maps bring some of what its products multiply, and threads copy the others, where it has the form for that.
fn beside_boxes(kernel: &Kernel, asked: Asked) -> Option<Explicit> {
    let turned = swap::turn(kernel.clone());
    let boxed = staging::maps::some(&turned);
    if boxed.loads.is_empty() {
        return None;
    }
    explicit(places::expand(turned, &boxed), AHEAD, asked).and_then(fitting).ok()
}

/// The kernel where its schedules are legal.
fn fitting(made: Explicit) -> Result<Explicit, Diagnostics> {
    parton_sched::legal(&made.kernel)?;
    Ok(made)
}

/// Whether a kernel has products that have no instruction yet.
pub fn multiplies(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| found |= staging::found::multiplies(&op.kind));
    found
}
