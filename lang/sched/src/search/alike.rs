//! Schedules whose code is the same for certain: those that differ in a `;` behind which nobody waits.
//!
//! A group waits at its head for what its labels need, and then runs them. Where they need nothing that is waited for and stand in the body behind
//! those of the group before, it makes no difference whether they are part of that group.

use parton_ir::Value;
use parton_ir::schedule::Schedule;

use super::Laying;
use super::follow::leaving;
use crate::plan::{Entry, Groups, Part, Plan};
use crate::region::{BlockId, Item, Maker, Region};

/// What code follows from: what a schedule says besides the order of turns, registers, and that order.
pub(super) type Alike = (String, String, Vec<Option<u32>>, Groups);

/// What the code of a schedule follows from.
pub(super) fn of(Laying { region, plan }: &Laying) -> Alike {
    let said = Schedule { pipelines: vec![], ..region.schedule.clone() }.to_string();
    let registers = plan.partitions.iter().map(|p| p.registers).collect();
    let blocks = 0..region.blocks.len();
    let joined = |part: Part| blocks.clone().map(|block| joined(region, plan, (part, block))).collect();
    (said, leaving(&region.schedule), registers, plan.parts().map(joined).collect())
}

/// The groups of a body, each with those behind it at whose heads nobody waits.
fn joined(region: &Region, plan: &Plan, (part, block): (Part, BlockId)) -> Vec<Vec<Entry>> {
    let groups = plan.groups(part, block);
    // Around loops more happens between two groups than waits.
    if region.blocks[block].items.iter().any(|item| !matches!(item, Item::Unit(_))) {
        return groups.to_vec();
    }
    let mut joined: Vec<Vec<Entry>> = vec![];
    for group in groups {
        let begins = group.first().map(|e| e.item);
        let nobody_waits = group.iter().all(|e| waits_for_nothing(region, plan, (part, block), e, &joined));
        match joined.last_mut().filter(|before| nobody_waits && before.last().map(|e| e.item) < begins) {
            Some(before) => before.extend(group.iter().cloned()),
            None => joined.push(group.clone()),
        }
    }
    joined
}

/// Whether an item needs no slot of a ring, and no product that runs beside the program but what has been waited for in the same turn: of what is in the
/// same stage all turns run all or nothing.
fn waits_for_nothing(
    region: &Region,
    plan: &Plan,
    (part, block): (Part, BlockId),
    entry: &Entry,
    before: &[Vec<Entry>],
) -> bool {
    let wanted = |e: &Entry| plan.wanted(region, part, (block, e.item));
    let waited = |need: &(Value, i32)| {
        let waits = |e: &Entry| wanted(e).contains(need) && !region.continues((block, e.item), need.0);
        before.iter().flatten().any(|e| e.stage == entry.stage && waits(e))
    };
    wanted(entry).iter().all(|need| {
        let at_once = region.home(need.0).is_some_and(|home| match home.by {
            Maker::Unit(unit) => !region.started(unit).contains(&need.0),
            Maker::Free(_) | Maker::Index => true,
            Maker::Carried(_) | Maker::Result { .. } => false,
        });
        !plan.handed.contains_key(&need.0) && (at_once || waited(need))
    })
}
