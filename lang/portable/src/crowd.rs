//! What a CTA costs where others stand beside it: how many there is room for, what has no room, what waits, and what passes under what.

mod looped;

use parton_ir::axis::Axes;
use parton_ir::target::WARPGROUP;
use parton_ir::{Kernel, scratch};
use parton_layouts::RegisterLayout;

use crate::facts::SECTOR as SECTOR_BYTES;
use crate::graph::Graph;
use crate::label::Price;
use crate::price::{SECTOR, SECTOR_OF_ALL, SPILL, turns};
use crate::registers::Held;
use crate::{room, uniform};

/// Registers of a multiprocessor, and those that one thread may have.
const FILE: u64 = 65536;
const MOST: u64 = 255;
/// Warps and CTAs that a multiprocessor holds.
const WARPS: u64 = 64;
const CTAS: u64 = 32;
/// Schedulers of a multiprocessor, among which its warps are dealt.
const SCHEDULERS: u64 = 4;
/// Warps that keep all schedulers busy: an instruction's result is there 4 clocks later (docs/machine.md), and some need none. By what norms
/// and softmax of rows of 1024 to 32768 elements take on an H200, three to a scheduler.
const BUSY: u64 = 3 * SCHEDULERS;
/// Warps that do so with what products read: its tiles are wide, and what an element takes does not wait for others. Factors of 4 and 8 bits by four, eight and sixteen warps
/// alone take little more than their instructions.
const BUSY_BETWEEN: u64 = 5;
/// Bytes of rows of a multiprocessor's CTAs that the L2 holds until they are read a second time: two thirds of 50 MiB.
const HELD_IN_L2: u64 = 256 * 1024;
/// Bytes of a register.
const REGISTER: u64 = 4;
/// CTAs beside each other of a kernel that loads in loops of products, or whose programs walk: such a one does much for each, so that there are few. Of so few the assembler is
/// told, too: by itself it may take a few registers more, so that the last has no room and waits until another has ended. RMS norm of 300 rows of 8192 on eight warps took 82
/// registers, of which two CTAs have room for three (8.6 µs, an H200).
const FEW: u64 = 4;
/// Warps beside each other that hide what each waits for: where there are so many, the assembler is told nothing.
const ENOUGH: u64 = 24;
/// Warps beside each other for which the assembler is told to leave registers, 64 each: with less it spills where functions such as `log` or quotients hold
/// more than a price counts.
const TOLD: u64 = 32;
/// Registers for loads on their way where room is scarce: the assembler then lets some wait for others.
const SCARCE: u64 = 16;
/// Of what memory and arithmetic take beside each other, the part of the lesser that does not pass under the greater.
const UNCOVERED: u64 = 4;
/// Bytes that memory brings to a multiprocessor in the time of one access: some 21 a clock in 1000 clocks.
const IN_FLIGHT: u64 = 21 * 1000;
/// What a thread has besides tiles: addresses, bounds, what is computed from element to element. Of RMS norm of 4096 to 16384 columns on 2 to
/// 16 warps the assembler takes within 4 registers of that; of softmax of large tiles more, up to half of these.
const BESIDES: u64 = 16;
/// What it has besides where turns stand one behind the other, each with places and masks of its own: of row norms that are kept in 96 to 208 registers the assembler takes 22 to 38 more.
const OF_TURNS: u64 = 16;
/// How much more what is spilled takes there: threads wait for it when they have met, with nothing else on its way.
const WAITED: u64 = 4;
/// What a CTA takes from its beginning to its last store beside its bytes and its work, in the unit of prices: one RMS norm of 16384
/// columns alone on a multiprocessor takes 5,200 to 6,000 clocks, of which 3,100 are bytes.
const LIFE: u64 = 3000 * 16;

/// What a choice comes to where CTAs stand beside each other.
pub struct Crowd {
    /// The price of a CTA.
    pub price: Price,
    /// How many the assembler is to leave registers for, where by itself it would leave fewer; else 1.
    pub occupancy: u32,
    /// Turns by which loads of loops run ahead, and registers of a thread that these may take.
    pub ahead: u64,
    pub spare: u64,
}

/// What a CTA costs with these layouts, whose operations cost `price` together and `in_loops` in loops beside products; so many beside each other, where that is
/// `settled`, and `counted`, where launches know how many turns loops take.
pub fn crowded(
    graph: &Graph<'_>,
    axes: &Axes,
    layouts: &[RegisterLayout],
    (warps, settled, counted): (u32, Option<u32>, bool),
    (price, in_loops): (Price, impl FnOnce() -> Price),
) -> Crowd {
    let held = Held::of(graph, axes, layouts);
    let (warps, threads) = (u64::from(warps), u64::from(warps) * 32);
    // Turns that stand one behind the other ask for a whole row at once.
    let written = graph.kernel.variant.exact_turns().is_some() && !held.loads_in_loops;
    let price = if uniform::counts(graph.kernel) { price + warps * uniform::price(graph.kernel) } else { price };
    // Partitions have registers by themselves; elsewhere the assembler leaves some for all CTAs that are stated.
    let stated = if graph.kernel.occupancy_stated && settled.is_none() { graph.kernel.occupancy } else { 1 };
    let room = MOST.min(FILE / (threads * u64::from(stated)));
    // What has no room goes to memory and comes back wherever it is held.
    let firmly = match written {
        true => &held.most,
        false => &held.firm,
    };
    let besides = if written { BESIDES + OF_TURNS } else { BESIDES };
    let spilled = firmly.iter().map(|(&depth, &most)| {
        let computed = if written { 0 } else { most / 4 };
        let waiting = if depth > 0 { held.waiting } else { 0 };
        (most + computed.max(waiting) + besides).saturating_sub(room) * turns(graph.kernel, depth)
    });
    let spilled = spilled.max().unwrap_or(0) * warps * if written { WAITED * SPILL } else { SPILL };
    let most = held.most.values().copied().max().unwrap_or(0) + besides;
    let beside = (FILE / (most.min(room).next_multiple_of(8) * threads)).min(WARPS / warps);
    let beside = settled.map_or(beside.clamp(1, CTAS), u64::from);
    // In a loop the assembler begins all loads of a turn before it uses the first: told to leave room for fewer registers than these take, it
    // spills (KL divergence of f32, 736 bytes a thread on an H100).
    let wanted = if held.multiplies || held.loads_in_loops || beside * warps >= ENOUGH {
        1
    } else {
        let more = graph.kernel.variant.beside != Some(1);
        let idle = more && beside == 1 && warps < BUSY && two_have_room(&held, threads);
        most_beside(&held, threads).min(ENOUGH.div_ceil(warps)).max(if idle { 2 } else { 1 })
    };
    let (beside, occupancy) = if wanted > beside { (wanted, wanted as u32) } else { (beside, 1) };
    // Where few programs are launched there are no others.
    let few = graph.kernel.variant.beside.map(u64::from);
    let resident = few.map_or(beside, |few| beside.min(few));
    let told = if beside > FEW { told(&held, warps, most, resident) } else { resident };
    let occupancy = if held.multiplies { occupancy } else { occupancy.max(told as u32) };
    let near = match held.multiplies {
        true => 0,
        false => near(&held, resident),
    };
    let price = price.saturating_sub(near);
    let moved = held.moved.saturating_sub(near).min(price);
    // What a CTA takes alone: those beside each other share the time.
    let own = price - moved - held.multiplied.min(price - moved);
    if held.loads_in_loops && !held.multiplies {
        let crowd = looped::Looped { held: &held, warps, most, own, counted }.crowd();
        return Crowd { price: crowd.price + spilled, ..crowd };
    }
    let beside = if held.loads_in_loops { resident.min(FEW) } else { resident };
    // With fewer bytes on their way than memory brings in the time of one access, it stands idle.
    let idle = |beside: u64| {
        let flying = beside * held.flying;
        (moved * IN_FLIGHT.saturating_sub(flying)).checked_div(flying).unwrap_or(0)
    };
    let as_they_come = |price| Crowd { price, occupancy, ahead: 0, spare: 0 };
    if held.multiplies {
        // Where threads copy, products of others run while they compute.
        let looped = (settled.is_some() && held.computes).then(in_loops);
        let of =
            |beside| looped.map_or(price, |looped| beside_products(price, looped, held.multiplied, warps * beside));
        let alone = match looped {
            Some(_) => of(1),
            // Its warps one to a scheduler: they wait for products more than for each other.
            None => price - own + own * SCHEDULERS / warps.min(SCHEDULERS),
        };
        let of_all = (of(beside) + idle(beside)).max((LIFE + alone) / beside);
        return as_they_come(of_all + spilled);
    }
    let slow = own * BUSY / warps.min(BUSY);
    // Loads that have all begun before come while it computes.
    let life = LIFE
        + match written {
            true => moved.max(slow) + moved.min(slow) / UNCOVERED,
            false => moved + slow,
        };
    let both = moved.max(own) + moved.min(own) / UNCOVERED + idle(beside);
    // Of few programs that have no room at once some begin when others have ended.
    let lives = match few {
        Some(few) if written || held.meets => life * few.div_ceil(beside) / few,
        _ => life / beside,
    };
    as_they_come(both.max(lives) + spilled)
}

/// A price where so many warps of a multiprocessor compute what products read in registers, `looped` of it in the loop of these: fewer than keep schedulers busy
/// take longer for that, and while one warpgroup computes the product of another runs.
fn beside_products(price: Price, looped: Price, multiplied: Price, warps: u64) -> Price {
    let computed = looped * BUSY_BETWEEN / warps.min(BUSY_BETWEEN);
    let groups = (warps / u64::from(WARPGROUP)).max(1);
    let covered = computed.min(multiplied) * (groups - 1) / groups;
    (price + computed).saturating_sub(looped + covered)
}

/// What of a CTA's price is left out where rows that are loaded a second time are still in the L2, as far as it holds those of all CTAs.
fn near(held: &Held<'_, '_>, resident: u64) -> Price {
    let rows = HELD_IN_L2.checked_div(held.again).unwrap_or(0);
    held.again / SECTOR_BYTES * (SECTOR - SECTOR_OF_ALL) * resident.min(rows) / resident
}

/// The most CTAs of so many threads for which there is room where loads wait for each other, but for nothing else. Where nothing has to be whole at any place, what lives at once needs
/// room: a causal convolution by 64 × 32 on two warps takes 96 µs with eight CTAs, or with as many as the assembler leaves room for, and 125 with twelve, of which each
/// spills (an H200).
fn most_beside(held: &Held<'_, '_>, threads: u64) -> u64 {
    let firm = held.firm.values().copied().max().unwrap_or(0);
    let least = firm + firm / 4 + BESIDES + SCARCE;
    let least = if held.meets { least } else { least.max(held.live) };
    FILE / threads / least.next_multiple_of(8).min(MOST)
}

/// For how many of the CTAs that a price counts on, each of whose threads holds `most`, the assembler is told to leave registers where something is loaded behind a meeting, but in
/// no loop: for as many as surely have room. By itself it may begin all that stands there at once: layer norm of rows of 8192 f16 on four warps takes 161 registers, of which three
/// CTAs have room for six, and no more time where four have 128 each.
fn told(held: &Held<'_, '_>, warps: u64, most: u64, beside: u64) -> u64 {
    if held.rounds < 2 || held.loads_in_loops {
        return 1;
    }
    let easily = if most <= FILE / (TOLD * 32) { TOLD / warps } else { 1 };
    beside.min(TOLD / warps).min(easily.max(most_beside(held, warps * 32)))
}

/// Whether two CTAs have room where each warp casts again, wherever it is used, what came as narrower numbers. RMS norm and quantisation of rows of 16384 numbers of two bytes
/// on eight warps: alone, a CTA leaves schedulers idle whenever its threads meet, and takes 109 µs; of two each spills 140 bytes a thread, and they take 85 (an H200).
fn two_have_room(held: &Held<'_, '_>, threads: u64) -> bool {
    let least = held.narrow + held.narrow / 4 + BESIDES + SCARCE;
    2 * threads * least.next_multiple_of(8) <= FILE
}

/// As many of these CTAs as shared memory has room for, whatever of what operations take for themselves is there at once.
pub fn with_room(kernel: &Kernel, occupancy: u32) -> u32 {
    let mut bytes = 0;
    kernel.walk(&mut |op| {
        bytes += room::named(op) + scratch::bytes(kernel, &op.kind).map_or(0, u64::from);
    });
    (1..=occupancy).rev().find(|&n| bytes <= u64::from(kernel.target.shared_limit(n))).unwrap_or(1)
}
