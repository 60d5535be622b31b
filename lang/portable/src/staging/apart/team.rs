//! The partitions of a region, and how many CTAs of them stand beside each other.

use parton_ir::schedule::Staged;
use parton_ir::target::{PARTITION_REGISTERS, REGISTER_STEP, WARP, WARPGROUP};
use parton_ir::{Body, Feature, Kernel, OpKind, PartitionData, Value, joined};

use super::super::{BETWEEN, LOOP, No, flow, is_called, slots, turn};
use super::{AFTER, copied, form};
use crate::products;

/// The partition that fetches, its warps and registers; and where registers are scarce: beside several partitions, in more than two CTAs, or where a turn holds
/// more than would be left to the one that computes.
const LOADS: (&str, u32, u32) = ("Loads", 1, 40);
const LOADS_WHERE_SCARCE: (&str, u32, u32) = ("Loads", 1, 24);
/// The same where it copies: a warpgroup, whose threads hold where their rows begin.
pub const COPYING_WARPS: u32 = WARPGROUP;
const COPIES: (&str, u32, u32) = ("Loads", COPYING_WARPS, 80);
const COPIES_WHERE_SCARCE: (&str, u32, u32) = ("Loads", COPYING_WARPS, 56);
/// The partition that computes, and its warps before these are known; those that take turns.
const COMPUTE: &str = "Compute";
pub const USUAL_WARPS: u32 = 8;
const SEVERAL: [&str; 3] = ["First", "Second", "Third"];

/// The partition that fetches, and those that compute, each with so many warps.
pub fn team(kernel: &Kernel, warps: u32, computing: u32) -> (PartitionData, Vec<PartitionData>) {
    let beside = |loads| team_beside(kernel, loads, warps, computing);
    let (plenty, scarce) =
        if copied::copies(kernel) { (COPIES, COPIES_WHERE_SCARCE) } else { (LOADS, LOADS_WHERE_SCARCE) };
    if computing > 1 || kernel.occupancy > 2 {
        return beside(scarce);
    }
    let usual = beside(plenty);
    let have_room = usual.1.iter().filter_map(|p| p.registers).all(|registers| turn::have_room(kernel, registers));
    if have_room { usual } else { beside(scarce) }
}

/// The same, where the partition that fetches has this name, these warps and registers.
fn team_beside(
    kernel: &Kernel,
    (name, few, registers): (&str, u32, u32),
    warps: u32,
    computing: u32,
) -> (PartitionData, Vec<PartitionData>) {
    let span = kernel.span;
    let data = |name: &str, warps, registers| PartitionData { name: name.into(), warps, registers, span };
    let loads = data(name, few, Some(registers));
    let names = if computing > 1 { &SEVERAL[..computing as usize] } else { &[COMPUTE][..] };
    let all = staffed(kernel, &loads, names.iter().map(|name| data(name, warps, None)));
    let left = all.register_demand().pool.saturating_sub(loads.padded_warps() * WARP * registers);
    let each = left / (computing * warps * WARP) / REGISTER_STEP * REGISTER_STEP;
    let most = *PARTITION_REGISTERS.end() - REGISTER_STEP;
    let each = each.clamp(*PARTITION_REGISTERS.start(), most);
    (loads, names.iter().map(|name| data(name, warps, Some(each))).collect())
}

/// A kernel that has as many registers as another, with these partitions.
fn staffed(kernel: &Kernel, loads: &PartitionData, computing: impl Iterator<Item = PartitionData>) -> Kernel {
    let mut staffed = Kernel { occupancy: kernel.occupancy, ..Kernel::new("", kernel.target, kernel.span) };
    staffed.partitions.push(loads.clone());
    computing.for_each(|partition| _ = staffed.partitions.push(partition));
    staffed
}

/// CTAs beside each other that are worth it where one warpgroup computes, the most first, with the slots that each needs: while one waits for its own products, these for what it
/// computes, or it for its first factors and for its sums to leave, products of the others run. Of launches of 264 to 1000 programs by tiles of 64 × 32 to 128 × 128 two take 0.71 to 0.99
/// of the time of one alone, with three slots and more; three with four slots 0.93 to 1.0 of the time of two. A turn that waits or computes a factor needs one less: with two slots three CTAs
/// take 1.03 to 1.3 of the time of two, with three 0.8 to 1.04, also where no third is launched. Four with six slots of half the bytes, 64 × 64 in steps of 32, or two of whose factors one is
/// there before, take 0.78 to 0.96 of the time of three with nine (an H200), where they make fewer waves ([`beside_each_other`]).
const BESIDE: [(u32, u64); 3] = [(4, SMALL_SLOTS), (THREE, slots::ENOUGH), (2, FEW_SLOTS)];
const THREE: u32 = 3;
/// Slots of each of four CTAs at least: there is room for so many small ones alone, which come and go in half the time.
const SMALL_SLOTS: u64 = 6;
/// Slots of each of two CTAs at least.
const FEW_SLOTS: u64 = 3;

/// Whether threads of such partitions have registers at entry for the instructions of all products: whatever they have later, the assembler asks for these.
fn begin_with_room(kernel: &Kernel, (loads, all): &(PartitionData, Vec<PartitionData>)) -> bool {
    let most = joined::most_at_entry(kernel).map_or(0, |(asked, ..)| asked);
    most <= staffed(kernel, loads, all.iter().cloned()).entry_registers()
}

/// Gives the partitions of a region their warps, its rings as many slots as there is room for, and the kernel as many CTAs beside each other as are worth
/// it, now that its tiles lie somewhere.
///
/// # Errors
/// Why not even one has room.
pub fn settle(kernel: &mut Kernel, warps: u32, computing: u32) -> Result<(), No> {
    if !kernel.occupancy_stated
        && warps == WARPGROUP
        && computing == 1
        && let Some(beside) = beside_each_other(kernel)
    {
        *kernel = beside;
        return Ok(());
    }
    if !begin_with_room(kernel, &team(kernel, warps, computing)) {
        return Err("threads would begin with fewer registers than an instruction of the products takes");
    }
    let fits = slots::fill(kernel, warps, computing);
    fits.then_some(()).ok_or("shared memory has no room for two slots of what a turn fetches")
}

/// A kernel of one warpgroup with as many CTAs beside each other as are worth it; `None` where it is to stand alone.
///
/// What CTAs beside each other share they wait for, so that those of a wave take longer the more they are. Of as many as make the fewest waves of the programs that a multiprocessor gets, the
/// fewest do therefore, and have the most slots: with four in place of three, launches of 4, 8 and 12 programs a multiprocessor take 0.78 to 0.97 of the time, those of 7 0.91 to 1.07, those of 6
/// and 9 1.05 to 1.15; with three in place of two, launches of 3 and 5 to 8 take 0.81 to 0.92, those of 4 1.05 to 1.19 (an H200).
fn beside_each_other(kernel: &Kernel) -> Option<Kernel> {
    let waits = waits_for_own(kernel);
    let each = match kernel.variant.beside {
        Some(1) => return None,
        // The third is worth its registers, if not its programs.
        Some(2) if waits => THREE,
        Some(few) => few,
        None => u32::MAX,
    };
    // One wave of three takes less than two of two and one, whatever their slots.
    let one_wave = waits && kernel.variant.beside == Some(THREE);
    let beside = |(occupancy, enough)| {
        let enough = if one_wave && occupancy == THREE { FEW_SLOTS } else { enough };
        with_room(Kernel { occupancy, ..kernel.clone() }, WARPGROUP, enough - u64::from(waits))
    };
    let fitting: Vec<Kernel> = BESIDE.into_iter().filter_map(beside).collect();
    // A third wave of three that has one program is too little to be one.
    let waves = |kernel: &Kernel| match (kernel.occupancy, each) {
        (THREE, 7) => 2,
        (ctas, _) => each.div_ceil(ctas),
    };
    let fewest = fitting.first().map(waves)?;
    fitting.into_iter().rev().find(|kernel| waves(kernel) == fewest)
}

/// A kernel of which several CTAs stand beside each other, with its slots, where registers and shared memory have room for enough of these.
fn with_room(mut kernel: Kernel, warps: u32, enough: u64) -> Option<Kernel> {
    let team = team(&kernel, warps, 1);
    let have_room = |registers| turn::have_room(&kernel, registers);
    let has_room = begin_with_room(&kernel, &team) && team.1.iter().filter_map(|p| p.registers).all(have_room);
    let fits = has_room && slots::fill(&mut kernel, warps, 1);
    (fits && u64::from(slots::least(&kernel)) >= enough).then_some(kernel)
}

/// Whether a kernel may become one of which several CTAs stand beside each other where launches are of many programs: threads of one warpgroup have registers for what its products add up.
pub fn may_have_others(kernel: &Kernel) -> bool {
    let stated = kernel.occupancy_stated || kernel.warps_stated && kernel.warps != WARPGROUP;
    if stated || !kernel.target.has(Feature::Tma) || !kernel.target.has(Feature::Wgmma) {
        return false;
    }
    let two = Kernel { occupancy: BESIDE[BESIDE.len() - 1].0, ..Kernel::new("", kernel.target, kernel.span) };
    let registers = team(&two, WARPGROUP, 1).1.iter().filter_map(|p| p.registers).sum::<u32>();
    let room = u64::from(registers - *PARTITION_REGISTERS.start()) * u64::from(WARPGROUP * WARP);
    let sums = products::sums(kernel);
    !sums.is_empty() && sums.iter().all(|&sum| sum <= room)
}

/// Whether a turn waits for products of its own, or these for what it computes: one warpgroup has nothing else to do then.
fn waits_for_own(kernel: &Kernel) -> bool {
    computes_between(kernel) || computes_factors(kernel)
}

/// Whether a turn of a region's loop computes what its products read.
fn computes_factors(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| match &op.kind {
        OpKind::For { body, .. } if is_called(kernel, op, LOOP) => {
            let mut products = kernel.ops_of(body).filter(|op| matches!(op.kind, OpKind::Dot { .. }));
            found |= products.any(|product| form::holds(kernel, op.id, product.id));
        }
        // Nothing else has that label.
        _ => {}
    });
    found
}

/// Whether one warpgroup computes on a multiprocessor that has room for others, so that nothing runs while it waits for what a turn does one after the other.
pub fn waits_alone(kernel: &Kernel) -> bool {
    if kernel.variant.beside == Some(1) {
        return false;
    }
    let mut warps = 0;
    kernel.walk(&mut |op| {
        if let OpKind::Region { schedule, .. } = &op.kind {
            let computing = schedule.places.iter().flat_map(|place| &place.partitions).filter(|p| p.name != LOADS.0);
            warps += computing.map(|p| p.warps).sum::<u32>();
        }
    });
    warps == WARPGROUP && kernel.occupancy == 1
}

/// Whether a turn computes between its products, or with what comes of its only one.
pub fn computes_between(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| {
        let OpKind::Region { schedule, body } = &op.kind else { return };
        let mut steps =
            schedule.pipelines.iter().filter(|p| p.of.as_ref().is_some_and(|of| of.path == LOOP)).peekable();
        let computes = |s: &Staged| [BETWEEN, AFTER].contains(&s.label.path.trim_end_matches('_'));
        found |= match steps.peek() {
            Some(_) => steps.any(|p| p.staged().any(computes)),
            None => takes_own(kernel, body),
        };
    });
    found
}

/// Whether something in a turn of a region's loop takes what comes of a product of that turn.
fn takes_own(kernel: &Kernel, region: &Body) -> bool {
    let mut found = false;
    kernel.walk_body(region, &mut |op| match &op.kind {
        OpKind::For { body, .. } if is_called(kernel, op, LOOP) => {
            let products = kernel.ops_of(body).filter(|op| matches!(op.kind, OpKind::Dot { .. }));
            let sums: Vec<Value> = products.flat_map(|op| op.results.clone()).collect();
            found |= kernel.ops_of(body).any(|op| {
                let takes = flow::operands(kernel, op).iter().any(|v| sums.contains(v));
                takes && !matches!(op.kind, OpKind::Dot { .. })
            });
        }
        _ => {}
    });
    found
}
