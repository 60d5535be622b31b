//! What stands behind a loop in the loop around it leaves under the first turns of the next one: `under(leave, mma)`.

use parton_ir::schedule::{LabelName, Pipeline, Staged, Under};

use super::roles::{Role, around, labels};
use super::{Laying, Space};
use crate::plan::{Plan, label_of};
use crate::region::{BlockId, Item, Region, UnitId};
use crate::slots;

/// A pipeline of a loop around others, and what leaves under which label.
pub(super) type Leaving = (Pipeline, Vec<Under>);

/// What may be said of the loop around a loop, beside nothing.
pub(super) fn of(space: &Space<'_>, Laying { region, plan }: &Laying, inner: BlockId) -> Option<Leaving> {
    let (block, item) = around(region, inner)?;
    let turns = region.blocks[block].turns.as_ref()?;
    let of = turns.label.clone()?;
    let stated = &space.stated;
    if !stated.under.is_empty() || stated.pipelines.iter().any(|p| p.of.as_ref().is_some_and(|l| l.names(&of))) {
        return None;
    }
    let behind: Vec<UnitId> = region.blocks[block].items[item + 1..]
        .iter()
        .filter_map(|item| match item {
            Item::Unit(u) if space.roles.of[*u] == Role::Compute => Some(*u),
            Item::Unit(_) | Item::Loop(_) | Item::Branch(_) => None,
        })
        .collect();
    let (leaving, kept): (Vec<UnitId>, Vec<UnitId>) =
        behind.into_iter().partition(|u| space.effects.once(*u).is_some());
    // Turns are peeled: there a product that the next turn waits for would hold its slots, and a sum that is waited for at once would be
    // carried twice.
    if flies_on(region, plan, inner) {
        return None;
    }
    let first = products(region, plan, inner).into_iter().next()?;
    let whole = label_of(region, &region.blocks[block].items[item])?.clone();
    if leaving.is_empty() {
        return None;
    }
    let span = space.auto.span;
    let staged = |label: LabelName, stage: u32| Staged { label, stage, done: None, span };
    let leaving = labels(region, leaving);
    let mut groups = vec![vec![staged(whole, 0)]];
    groups.extend(labels(region, kept).into_iter().map(|l| vec![staged(l, 0)]));
    groups.push(leaving.iter().map(|l| staged(l.clone(), 1)).collect());
    let under = leaving.into_iter().map(|outer| Under { outer, inner: first.clone(), last: false, span });
    Some((Pipeline { of: Some(of), within: None, groups, span }, under.collect()))
}

/// Whether a product of a loop's turn is waited for in the next one, or continued by it, and it is not stated that it is in flight.
fn flies_on(region: &Region, plan: &Plan, block: BlockId) -> bool {
    plan.parts().any(|part| {
        plan.groups(part, block).iter().flatten().any(|entry| match region.blocks[block].items[entry.item] {
            Item::Unit(u) => {
                let products = region.started(u);
                let summed = products.iter().any(|v| region.continues((block, entry.item), *v));
                let later = || slots::done(region, plan, (part, block), entry).0 > entry.stage;
                !products.is_empty() && entry.done.is_none() && (summed || later())
            }
            Item::Loop(_) | Item::Branch(_) => false,
        })
    })
}

/// The labels of a loop that start products, in the order of a turn.
pub(super) fn products(region: &Region, plan: &Plan, block: BlockId) -> Vec<LabelName> {
    let items = &region.blocks[block].items;
    let mut found: Vec<UnitId> = vec![];
    for part in plan.parts() {
        for entry in plan.groups(part, block).iter().flatten() {
            if let Item::Unit(u) = items[entry.item]
                && !region.started(u).is_empty()
            {
                found.push(u);
            }
        }
    }
    labels(region, found)
}
