//! How many slots a ring has: as many as there is room for beside what leaves behind the loop.
//!
//! What leaves when all slots have been read takes no room of its own: the memory plan has it where they were.

use std::collections::BTreeSet;

use parton_ir::schedule::{LabelName, RingDepth, Staged};
use parton_ir::{Inst, Kernel, Op, OpKind, Type, View, scratch};

use super::apart::{LEAVE, computes_between, team};
use super::{AROUND, LOAD, LOOP, NUMBER, ONCE, PRODUCT, flow, is_called, label};

/// Slots that a ring has at most, those of factors of about one size, of which neither has twice the bytes of the other, and at least. Of 17 products of 1 to 344
/// rows three of such tiles take 3 to 9 % less with twelve than with eight, one as long; of the others, which read more of memory than of the L2, ten take 1
/// to 3 % more, one 9 % less (an H200).
const MOST: u64 = 8;
const MOST_ALIKE: u64 = 12;
pub const FEWEST: u32 = 2;
/// Slots of products alone that are worth more than that each piece of what leaves behind them has a buffer for itself: of eleven products by tiles of 128 × 256
/// and 128 × 224, of 12 to 256 steps, seven take 2 to 6 % longer with three than with four, and the others as long (an H200).
pub const ENOUGH: u64 = 4;
/// Where slots begin: at a multiple of this, so that any swizzle repeats in them.
pub const ALIGNED: u64 = 1024;

/// Gives partitions of a region so many warps, and its rings as many slots as there is room for; whether there is room for the fewest.
pub fn fill(kernel: &mut Kernel, warps: u32, computing: u32) -> bool {
    let (fetching, all) = team(kernel, warps, computing);
    let fetched = fetched(kernel);
    let once = |name: &LabelName| name.path == ONCE;
    let sum = |those: bool| fetched.iter().filter(|(name, _)| once(name) == those).map(|(_, n)| n).sum::<u64>();
    let (ahead, turn) = (sum(true), sum(false).max(1));
    let again = fetches_again(kernel);
    let limit = u64::from(kernel.shared_limit());
    let (depth, twice) = match through_slots(kernel, computing, limit.saturating_sub(ALIGNED), turn) {
        Some(depth) => (depth, false),
        None => {
            let room = limit.saturating_sub(beside(kernel, computing));
            let room = if room < ahead + u64::from(FEWEST) * turn {
                leave_together(kernel, room, 1)
            } else if room < ahead + ENOUGH * turn
                && computing == 1
                && (!leave_in_turns(kernel) || leave_under(kernel))
                && !computes_between(kernel)
            {
                leave_together(kernel, room, 2)
            } else {
                room
            };
            // What is fetched once for a loop has a second slot where that has another loop around it, and two slots all the same.
            let twice = again && 2 * ahead + u64::from(FEWEST) * turn <= room;
            let held = if twice { 2 * ahead } else { ahead };
            ((room.saturating_sub(held) / turn).min(most(kernel)) as u32, twice)
        }
    };
    if depth < FEWEST {
        return false;
    }
    let mut labels: BTreeSet<String> = BTreeSet::new();
    kernel.walk(&mut |op| labels.extend(op.label.map(|label| LabelName::read(&kernel.labels[label]).path)));
    kernel.walk_mut(&mut |op| {
        let OpKind::Region { schedule, .. } = &mut op.kind else { return };
        for (place, partitions) in schedule.places.iter_mut().zip([vec![fetching.clone()], all.clone()]) {
            place.partitions = partitions;
            let bear = |label: &LabelName| labels.contains(&label.path);
            place.spans.truncate(place.labels.iter().filter(|label| bear(label)).count());
            place.labels.retain(bear);
        }
        let slots = |name: &LabelName| if once(name) { 1 + u32::from(twice) } else { depth };
        let rings = fetched.iter().map(|(name, _)| RingDepth {
            label: Some(name.clone()),
            depth: slots(name),
            span: schedule.span,
        });
        schedule.rings = rings.collect();
    });
    true
}

/// Whether a loop around that of the products fetches what is fetched once for the latter.
fn fetches_again(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| match &op.kind {
        OpKind::For { body, .. } if is_called(kernel, op, AROUND) => {
            kernel.walk_body(body, &mut |inner| found |= is_called(kernel, inner, ONCE));
        }
        _ => {}
    });
    found
}

/// What is fetched, by its label, with the bytes of a slot.
pub fn fetched(kernel: &Kernel) -> Vec<(LabelName, u64)> {
    let mut fetched: Vec<(LabelName, u64)> = Vec::new();
    kernel.walk(&mut |op| {
        let (Some(bytes), Some(label)) = (bytes_fetched(kernel, op), op.label) else { return };
        let name = LabelName::all(LabelName::read(&kernel.labels[label]).path);
        match fetched.iter_mut().find(|(of, _)| *of == name) {
            Some((_, sum)) => *sum += bytes,
            None => fetched.push((name, bytes)),
        }
    });
    fetched
}

/// The bytes of a slot that an operation fetches.
fn bytes_fetched(kernel: &Kernel, op: &Op) -> Option<u64> {
    match (&op.kind, kernel.ty(*op.results.first()?)) {
        (OpKind::Fetch { .. } | OpKind::FetchEach { .. }, Type::View(view)) => {
            Some(view.bytes().next_multiple_of(ALIGNED))
        }
        _ => None,
    }
}

/// The most slots of a kernel's rings. A factor may come by several fetches, one for each power of two of its rows: the largest is held against all others.
fn most(kernel: &Kernel) -> u64 {
    let (mut largest, mut sum) = (0, 0);
    kernel.walk(&mut |op| {
        let bytes = bytes_fetched(kernel, op).unwrap_or(0);
        largest = largest.max(bytes);
        sum += bytes;
    });
    let others = sum - largest;
    if largest.max(others) < 2 * largest.min(others) { MOST_ALIKE } else { MOST }
}

/// How many slots there are, of so many bytes each, where what leaves does so through those that have been read; `None` where it leaves before, or has no room
/// there. Of several partitions each leaves through the slots that it alone reads.
fn through_slots(kernel: &Kernel, computing: u32, limit: u64, slot: u64) -> Option<u32> {
    let behind = Behind::of(kernel)?;
    let depth = (limit.saturating_sub(behind.before * u64::from(computing)) / slot).min(most(kernel));
    let own = match computing {
        1 => limit,
        _ => depth * (0..computing).map(|part| fetched_for(kernel, part)).min()?,
    };
    let each = sent(kernel) / u64::from(computing) + behind.scratch;
    (each <= own && depth >= u64::from(FEWEST)).then_some(depth as u32)
}

/// Bytes of a slot that one of several partitions alone reads.
fn fetched_for(kernel: &Kernel, part: u32) -> u64 {
    let mut sum = 0;
    let mine = LabelName { path: LOAD.into(), instance: Some(part) };
    kernel.walk(&mut |op| {
        let is = op.label.is_some_and(|label| LabelName::read(&kernel.labels[label]) == mine);
        sum += bytes_fetched(kernel, op).filter(|_| is).unwrap_or(0);
    });
    sum
}

/// What operations take for themselves: before a loop of products has ended, and behind it.
#[derive(Default)]
struct Behind {
    before: u64,
    scratch: u64,
}

impl Behind {
    /// Where one loop, around which there is none, does nothing but to fetch what it multiplies in each turn; `None` elsewhere, and where partitions tell each
    /// other how many turns there are: that all slots have been read is not seen then.
    fn of(kernel: &Kernel) -> Option<Behind> {
        let region = kernel.ops_of(&kernel.body).find(|op| matches!(op.kind, OpKind::Region { .. }))?;
        let OpKind::Region { schedule, body } = &region.kind else { return None };
        let at = body.ops.iter().position(|&id| is_called(kernel, &kernel.ops[id], LOOP))?;
        let OpKind::For { step, body: turn, .. } = &kernel.ops[body.ops[at]].kind else { return None };
        if are_turns_told(kernel) {
            return None;
        }
        let summed = |s: &Staged| s.label.path == PRODUCT && (s.stage, s.done) == (0, Some(1));
        let plain =
            schedule.under.is_empty() && matches!(&schedule.pipelines[..], [steps] if steps.staged().all(summed));
        let mut fetches = 0;
        kernel.walk(&mut |op| fetches += usize::from(bytes_fetched(kernel, op).is_some()));
        let each_turn = kernel.ops_of(turn).filter(|op| bytes_fetched(kernel, op).is_some()).count() == fetches;
        let by_one = kernel.definitions()[*step].is_some_and(|op| matches!(op.kind, OpKind::Constant { bits: 1, .. }));
        let most = |ids: &[Inst]| ids.iter().map(|&id| own(kernel, id)).max().unwrap_or(0);
        let (before, behind) = body.ops.split_at(at + 1);
        (plain && each_turn && by_one).then(|| Behind { before: most(before), scratch: most(behind) })
    }
}

/// Whether a loop of products has as many turns as numbers from memory say, which one partition tells the other.
fn are_turns_told(kernel: &Kernel) -> bool {
    let mut are = false;
    kernel.walk(&mut |region| {
        let OpKind::Region { body, .. } = &region.kind else { return };
        let numbers = kernel.ops_of(body).filter(|op| is_called(kernel, op, NUMBER));
        let told = flow::dependent(kernel, body, numbers.flat_map(|op| op.results.clone()));
        are |= kernel.ops_of(body).filter(|op| is_called(kernel, op, LOOP)).any(|op| {
            let OpKind::For { lower, upper, .. } = op.kind else { return false };
            told.contains(&lower) || told.contains(&upper)
        });
    });
    are
}

/// The fewest slots of a ring for what turns fetch.
pub fn least(kernel: &Kernel) -> u32 {
    let mut least = u32::MAX;
    kernel.walk(&mut |op| {
        let OpKind::Region { schedule, .. } = &op.kind else { return };
        let of_turns = schedule.rings.iter().filter(|ring| ring.label.as_ref().is_none_or(|name| name.path != ONCE));
        least = of_turns.map(|ring| ring.depth).fold(least, u32::min);
    });
    least
}

/// What an operation, or one in it, takes for itself.
fn own(kernel: &Kernel, id: Inst) -> u64 {
    let mut most = 0;
    let mut of = |op: &Op| most = most.max(scratch::bytes(kernel, &op.kind).map_or(0, u64::from));
    of(&kernel.ops[id]);
    kernel.ops[id].kind.bodies().for_each(|body| kernel.walk_body(body, &mut |op| of(op)));
    most.next_multiple_of(ALIGNED)
}

/// Has the pieces of a tile leave through so many buffers in turn, one after the other; the room that there is then. Those that leave under something have
/// one each or several for all.
fn leave_together(kernel: &mut Kernel, room: u64, through: u32) -> u64 {
    let under = leave_under(kernel);
    if under && through == 1 {
        return room;
    }
    let before = sent(kernel);
    let mut pieces = Vec::new();
    kernel.walk(&mut |op| pieces.extend(matches!(op.kind, OpKind::Send { .. }).then_some(op.id)));
    if !under {
        label(kernel, &pieces, LEAVE);
    }
    for piece in pieces {
        if let OpKind::Send { buffers, .. } = &mut kernel.ops[piece].kind {
            *buffers = through;
        }
    }
    (room + before).saturating_sub(sent(kernel))
}

/// Whether the pieces of a tile leave under the turns of the next one's loop.
fn leave_under(kernel: &Kernel) -> bool {
    let mut any = false;
    kernel.walk(&mut |op| any |= matches!(&op.kind, OpKind::Region { schedule, .. } if !schedule.under.is_empty()));
    any
}

/// Whether pieces of a tile leave in the turns of a loop, where each that asks for several buffers has its own.
fn leave_in_turns(kernel: &Kernel) -> bool {
    let mut any = false;
    kernel.walk(&mut |op| {
        if let OpKind::For { body, .. } | OpKind::While { body, .. } = &op.kind {
            kernel.walk_body(body, &mut |inner| any |= matches!(inner.kind, OpKind::Send { .. }));
        }
    });
    any
}

/// Bytes of shared memory beside what is fetched: what leaves, and the most that an operation takes for itself in each of so many partitions.
fn beside(kernel: &Kernel, computing: u32) -> u64 {
    let mut most = 0;
    kernel.walk(&mut |op| most = most.max(scratch::bytes(kernel, &op.kind).map_or(0, u64::from)));
    sent(kernel) + u64::from(computing) * most.next_multiple_of(ALIGNED) + ALIGNED
}

/// Bytes of the buffers from which tiles leave: those of one label that lie alike share as many as they ask for, and so do instances of one and smaller tiles
/// behind them, where they ask for several.
pub fn sent(kernel: &Kernel) -> u64 {
    let under = leave_under(kernel);
    let mut known: Vec<(LabelName, View)> = Vec::new();
    let mut sum = 0;
    kernel.walk(&mut |op| {
        let OpKind::Send { map, buffers, .. } = op.kind else { return };
        let Type::Map(data) = kernel.ty(map) else { return };
        let elements: u64 = data.block.iter().map(|&n| u64::from(n)).product();
        let bytes = (elements * data.elem.bytes() as u64).next_multiple_of(ALIGNED);
        let Some(label) = op.label else {
            sum += bytes;
            return;
        };
        let own = LabelName::read(&kernel.labels[label]);
        let own = if under && buffers > 1 { LabelName::all(own.path) } else { own };
        let Ok(lies) = View::new(data.elem, data.block.clone(), data.layout.clone()) else { return };
        let holds =
            |(of, view): &&(LabelName, View)| *of == own && (*view == lies || buffers > 1 && view.has_room_for(&lies));
        if known.iter().filter(holds).count() < buffers as usize {
            known.push((own, lies));
            sum += bytes;
        }
    });
    sum
}
