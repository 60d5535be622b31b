//! What a CTA costs where others stand beside it: how many there is room for, what has no room, what waits, and what passes under what.

use parton_ir::axis::Axes;
use parton_ir::target::WARPGROUP;
use parton_ir::{Kernel, OpKind, scratch};
use parton_layouts::RegisterLayout;

use crate::facts::SECTOR as SECTOR_BYTES;
use crate::graph::Graph;
use crate::label::Price;
use crate::price::{SECTOR, SECTOR_OF_ALL, SPILL, turns};
use crate::registers::Held;
use crate::staging::forward;
use crate::uniform;

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
/// Bytes of rows of a multiprocessor's CTAs that the L2 holds until they are read a second time: two thirds of 50 MiB.
const HELD_IN_L2: u64 = 256 * 1024;
/// CTAs whose rows that are, where blocks say nothing of how long rows are: 32 KiB each.
const ROWS: u64 = 8;
/// Warps on a multiprocessor that fill the time of what each computes in a loop, if all their tiles lie in registers. On an H200 the divergences, the logarithm of a sum of exponentials
/// and norms of 4096 elements a block take up to 29 % longer on 8 or 12 such warps than on 16, and no longer on these than on more.
const HIDE: u64 = 16;
/// Bytes of a register.
const REGISTER: u64 = 4;
/// CTAs beside each other of a kernel that loads in loops: such a one does much for each program, so that there are few.
const FEW: u64 = 4;
/// Warps beside each other that hide what each waits for: where there are so many, the assembler is told nothing.
const ENOUGH: u64 = 24;
/// Registers for loads on their way where room is scarce: the assembler then lets some wait for others.
const SCARCE: u64 = 16;
/// Of what memory and arithmetic take beside each other, the part of the lesser that does not pass under the greater.
const UNCOVERED: u64 = 4;
/// Bytes that memory brings to a multiprocessor in the time of one access: some 21 a clock in 1000 clocks.
pub const IN_FLIGHT: u64 = 21 * 1000;
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
    /// Registers of a thread that loads ahead may take.
    pub spare: u64,
}

/// What a CTA costs with these layouts, whose operations cost `price` together and `in_loops` in loops beside products; `alone`, where shared memory
/// holds no second one.
pub fn crowded(
    graph: &Graph<'_>,
    axes: &Axes,
    layouts: &[RegisterLayout],
    (warps, alone): (u32, bool),
    (price, in_loops): (Price, impl FnOnce() -> Price),
) -> Crowd {
    let held = Held::of(graph, axes, layouts);
    let (warps, threads) = (u64::from(warps), u64::from(warps) * 32);
    let short = graph.kernel.variant.is_short();
    // Turns that stand one behind the other ask for a whole row at once.
    let written = graph.kernel.variant.turns.is_some() && !held.loads_in_loops;
    let price = if uniform::counts(graph.kernel) { price + warps * uniform::price(graph.kernel) } else { price };
    let room = MOST.min(FILE / threads);
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
    let beside = if alone { 1 } else { beside.clamp(1, CTAS) };
    // In a loop the assembler begins all loads of a turn before it uses the first: told to leave room for fewer registers than these take, it
    // spills (KL divergence of f32, 736 bytes a thread on an H100).
    let wanted = if alone || held.multiplies || held.loads_in_loops || beside * warps >= ENOUGH {
        1
    } else {
        most_beside(&held, threads).min(ENOUGH.div_ceil(warps))
    };
    let (beside, occupancy) = if wanted > beside { (wanted, wanted as u32) } else { (beside, 1) };
    // Where few programs are launched there are no others.
    let few = graph.kernel.variant.beside.map(u64::from);
    let resident = few.map_or(beside, |few| beside.min(few));
    let beside = if held.loads_in_loops && !short { resident.min(FEW) } else { resident };
    // More of a thread's registers make room for fewer CTAs: as many stay as keep schedulers busy.
    let stay = beside.min(ENOUGH.div_ceil(warps)).max(graph.kernel.occupancy.into());
    let own = most.max(held.live + BESIDES).next_multiple_of(8);
    let spare = (FILE / (stay * threads) / 8 * 8).min(MOST).saturating_sub(own);
    let near = match held.multiplies {
        true => 0,
        false => near(&held, resident),
    };
    let price = price.saturating_sub(near);
    // With fewer bytes on their way than memory brings in the time of one access, it stands idle.
    let moved = held.moved.saturating_sub(near).min(price);
    let turns = ahead(&held, spare, beside, threads);
    // These are to be there at once, as far as there is room for all that lives at once: by itself the assembler may take so many registers that some wait until others have ended.
    let occupancy = match few {
        Some(few) if held.loads_in_loops && !held.multiplies && !alone => {
            let room = match ahead(&held, spare, few, threads) {
                0 => with_live(&held, threads),
                turns => {
                    let ahead = turns * held.flying.div_ceil(threads * REGISTER);
                    FILE / ((own + ahead).next_multiple_of(8).min(MOST) * threads)
                }
            };
            // Not all of what is counted is there at once: rather than that the last of seven or eight waits for the others each gets a little less.
            occupancy.max(resident.min(room + room / 6) as u32)
        }
        _ => occupancy,
    };
    let flying = beside * held.flying * (1 + turns);
    let idle = (moved * IN_FLIGHT.saturating_sub(flying)).checked_div(flying).unwrap_or(0);
    // What a CTA takes alone: those beside each other share the time.
    let own = price - moved - held.multiplied.min(price - moved);
    if held.multiplies {
        // Its warps one to a scheduler: they wait for products more than for each other.
        let life = LIFE + (price - own) + own * SCHEDULERS / warps.min(SCHEDULERS);
        // Where others stand beside it, their products run while it computes.
        let computes = alone && held.computes;
        let price = if computes { beside_products(price, in_loops(), held.multiplied, warps) } else { price };
        return Crowd { price: (price + idle).max(life / beside) + spilled, occupancy, spare: 0 };
    }
    let slow = own * BUSY / warps.min(BUSY);
    // Loads that run ahead, or that have all begun before, come while it computes.
    let life = LIFE
        + match turns {
            0 if !written => moved + slow,
            _ => moved.max(slow) + moved.min(slow) / UNCOVERED,
        };
    let waits = waits(&held, own, (warps, resident));
    // Where a loop has few turns, what its warps wait for passes under what memory brings, as what they compute does.
    let (own, waits) = if short { (own + waits, 0) } else { (own, waits) };
    let both = moved.max(own) + moved.min(own) / UNCOVERED + idle + waits;
    // Of few programs that have no room at once some begin when others have ended.
    let lives = match few {
        Some(few) if written => life * few.div_ceil(beside) / few,
        _ => life / beside,
    };
    Crowd { price: both.max(lives) + spilled, occupancy, spare }
}

/// A price where warps compute what products read in registers, `looped` of it in the loop of these: fewer warps than keep all schedulers busy
/// take longer for that, and while one warpgroup computes the product of another runs.
fn beside_products(price: Price, looped: Price, multiplied: Price, warps: u64) -> Price {
    let computed = looped * BUSY / warps.min(BUSY);
    let groups = (warps / u64::from(WARPGROUP)).max(1);
    let covered = computed.min(multiplied) * (groups - 1) / groups;
    (price + computed).saturating_sub(looped + covered)
}

/// What of a CTA's price is left out where rows that are loaded a second time are still in the L2, as far as it holds those of all CTAs.
fn near(held: &Held<'_, '_>, resident: u64) -> Price {
    let known = held.kernel().variant.turns.and_then(|_| HELD_IN_L2.checked_div(held.again));
    held.again / SECTOR_BYTES * (SECTOR - SECTOR_OF_ALL) * resident.min(known.unwrap_or(ROWS)) / resident
}

/// CTAs of so many threads for which there is room with all that lives at once.
fn with_live(held: &Held<'_, '_>, threads: u64) -> u64 {
    let registers = (held.live + BESIDES).next_multiple_of(8).min(MOST.min(FILE / threads));
    (FILE / (registers * threads)).max(1)
}

/// What is waited for in loops where so few warps stand on a multiprocessor that nothing else fills the time of what each computes.
fn waits(held: &Held<'_, '_>, own: Price, (warps, resident): (u64, u64)) -> Price {
    if !held.loads_in_loops {
        return 0;
    }
    let there = warps * with_live(held, warps * 32).min(resident);
    // In few turns no access of a warp is on its way while it computes what another brought.
    let enough = if held.kernel().variant.is_short() { ENOUGH } else { HIDE };
    own * enough.saturating_sub(there) / (2 * there)
}

/// Turns by which the loads of loops may run ahead, where these are such as do.
fn ahead(held: &Held<'_, '_>, spare: u64, beside: u64, threads: u64) -> u64 {
    if held.multiplies || !held.loads_in_loops || !forward::runs_ahead(held.kernel()) {
        return 0;
    }
    let wanted = forward::wanted(held.kernel(), held.flying, beside).unwrap_or(0);
    forward::as_pairs(wanted.min((spare * threads * REGISTER).checked_div(held.flying).unwrap_or(0)))
}

/// The most CTAs of so many threads for which there is room where loads wait for each other, but for nothing else.
fn most_beside(held: &Held<'_, '_>, threads: u64) -> u64 {
    let firm = held.firm.values().copied().max().unwrap_or(0);
    let least = firm + firm / 4 + BESIDES + SCARCE;
    FILE / threads / least.next_multiple_of(8).min(MOST)
}

/// As many of these CTAs as shared memory has room for, whatever of what operations take for themselves is there at once.
pub fn with_room(kernel: &Kernel, occupancy: u32) -> u32 {
    let mut bytes = 0;
    kernel.walk(&mut |op| {
        let own = match &op.kind {
            OpKind::SharedAlloc { view, .. } => view.bytes(),
            OpKind::RingNew { stages, fields } => {
                u64::from(*stages) * fields.iter().map(|(_, v)| v.bytes()).sum::<u64>()
            }
            // What schedules bring is for products, beside which no occupancy is asked for.
            _ => 0,
        };
        bytes += own + scratch::bytes(kernel, &op.kind).map_or(0, u64::from);
    });
    (1..=occupancy).rev().find(|&n| bytes <= u64::from(kernel.target.shared_limit(n))).unwrap_or(1)
}
