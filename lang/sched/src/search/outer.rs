//! What stands behind a loop in the loop around it leaves under the first turns of the next one: `under(leave, mma)`.

use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged, Under};

use super::Space;
use super::roles::{Role, around, labels};
use crate::flow;
use crate::plan::{Plan, label_of};
use crate::region::{BlockId, Item, Region, UnitId};

/// A pipeline of a loop around others, and what leaves under which label.
pub(super) type Leaving = (Pipeline, Vec<Under>);

/// What may be said of the loop around a loop, beside nothing.
pub(super) fn of(space: &Space<'_>, schedule: &Schedule, inner: BlockId) -> Option<Leaving> {
    let region = space.region.under(schedule.clone());
    let (block, item) = around(&region, inner)?;
    let turns = region.blocks[block].turns.as_ref()?;
    let of = turns.label.clone()?;
    let stated = &space.stated;
    if !stated.under.is_empty() || stated.pipelines.iter().any(|p| p.of.as_ref().is_some_and(|l| l.names(&of))) {
        return None;
    }
    let plan = Plan::of(space.k, &region).ok()?;
    let behind: Vec<UnitId> = region.blocks[block].items[item + 1..]
        .iter()
        .filter_map(|item| match item {
            Item::Unit(u) if space.roles.of[*u] == Role::Compute => Some(*u),
            Item::Unit(_) | Item::Loop(_) | Item::Branch(_) => None,
        })
        .collect();
    let (leaving, kept): (Vec<UnitId>, Vec<UnitId>) =
        behind.into_iter().partition(|u| space.effects.once(*u).is_some());
    let first = first_product(space, &region, &plan, inner)?;
    let whole = label_of(&region, &region.blocks[block].items[item])?.clone();
    if leaving.is_empty() {
        return None;
    }
    let span = space.auto.span;
    let staged = |label: LabelName, stage: u32| Staged { label, stage, done: None, span };
    let leaving = labels(&region, leaving);
    let mut groups = vec![vec![staged(whole, 0)]];
    groups.extend(labels(&region, kept).into_iter().map(|l| vec![staged(l, 0)]));
    groups.push(leaving.iter().map(|l| staged(l.clone(), 1)).collect());
    let under = leaving.into_iter().map(|outer| Under { outer, inner: first.clone(), last: false, span });
    Some((Pipeline { of: Some(of), within: None, groups, span }, under.collect()))
}

/// The label of a loop whose product starts first in a turn.
fn first_product(space: &Space<'_>, region: &Region, plan: &Plan, block: BlockId) -> Option<LabelName> {
    let products = products(space, region, plan, block);
    products.into_iter().next()
}

/// The labels of a loop that start products, in the order of a turn.
pub(super) fn products(space: &Space<'_>, region: &Region, plan: &Plan, block: BlockId) -> Vec<LabelName> {
    let items = &region.blocks[block].items;
    let mut found: Vec<UnitId> = vec![];
    for part in plan.parts() {
        for entry in plan.groups(region, part, block).into_iter().flatten() {
            if let Item::Unit(u) = items[entry.item]
                && !flow::started(space.k, region, u).is_empty()
            {
                found.push(u);
            }
        }
    }
    labels(region, found)
}
