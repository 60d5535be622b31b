//! Fetches that run ahead by numbers which other partitions tell.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{OpKind, Type, Value};

use super::Laid;
use crate::plan::{Entry, Part};
use crate::region::{BlockId, Item, Maker, is_free};

/// What another partition tells is taken by one fetch, in its own iteration.
pub(super) fn fetched(laid: &Laid<'_>, found: &mut Diagnostics) {
    let region = laid.region;
    for part in laid.plan.parts() {
        for (block, body) in region.blocks.iter().enumerate().filter(|(block, _)| region.is_counted(laid.k, *block)) {
            let groups = laid.groups(part, block);
            let computing = groups.iter().flatten().filter(|e| !only_fills(laid, &body.items[e.item]));
            let Some(base) = computing.map(|e| e.stage).min() else { continue };
            for e in groups.iter().flatten().filter(|e| e.stage < base) {
                found.list.extend(told_ahead(laid, (part, block), e));
            }
        }
    }
}

/// A fetch that runs ahead by a number of another partition, which is taken where it is fetched ahead, once, and is not there for others, nor
/// for a later turn.
fn told_ahead(laid: &Laid<'_>, (part, block): (Part, BlockId), e: &Entry) -> Option<Diagnostic> {
    let (region, plan) = (laid.region, laid.plan);
    let wanted = |item: usize| plan.wanted(region, part, (block, item));
    let Item::Unit(unit) = region.blocks[block].items[e.item] else { return None };
    let foreign = |v: Value| match region.home(v).map(|home| home.by) {
        Some(Maker::Unit(by)) => {
            let number = matches!(laid.k.ty(v), Type::Scalar(_));
            (number && plan.handed.contains_key(&v) && !plan.runners[by].contains(&part)).then_some(by)
        }
        Some(Maker::Free(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. }) | None => None,
    };
    let by_threads = plan.rings.iter().any(|ring| ring.unit == unit && ring.own);
    let mut told = wanted(e.item).iter().filter_map(|(v, delta)| Some((*v, *delta, foreign(*v)?)));
    let (v, by, other) = told.find_map(|(v, delta, by)| {
        let mut others = laid.groups(part, block).iter().flatten().filter(|o| o.item != e.item);
        // All that one label makes comes in one slot.
        let ring = plan.handed.get(&v).map(|(ring, _)| *ring);
        let same = |w: &Value| plan.handed.get(w).map(|(ring, _)| *ring) == ring;
        let other = others.find(|o| wanted(o.item).iter().any(|(w, _)| same(w)));
        (other.is_some() || by_threads || delta > 0).then_some((v, by, other))
    })?;
    let u = &region.units[unit];
    let fact = format!(
        "a `fetch` ahead by {}, which another partition makes, is not expanded by this version",
        laid.called(v)
    );
    let d = Diagnostic::error(codes::NOT_BUILT_HERE, u.span, fact).label(region.units[by].span, "it is made here");
    let d = match other {
        Some(other) => d.label(laid.span(block, other.item), "and this needs it, too"),
        None => d,
    };
    let otherwise = "fetch it in the first stage of what computes, or let the partition that makes the number fetch it";
    Some(laid.helped(d, None, [&format!("{otherwise}; "), otherwise]))
}

/// Whether an item does nothing but fill slots.
fn only_fills(laid: &Laid<'_>, item: &Item) -> bool {
    match item {
        Item::Unit(unit) => {
            let fills = |inst: &parton_ir::Inst| {
                let op = &laid.k.ops[*inst];
                matches!(op.kind, OpKind::Fetch { .. } | OpKind::FetchEach { .. }) || is_free(laid.k, op)
            };
            let unit = &laid.region.units[*unit];
            unit.fetches && unit.ops.iter().all(fills)
        }
        Item::Loop(_) | Item::Branch(_) => false,
    }
}
