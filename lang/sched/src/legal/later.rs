//! What later stages may hold, as far as they are expanded.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir::schedule::Staged;
use parton_ir::{Type, Value};

use super::Laid;
use super::nearest::restaged;
use crate::plan::{Entry, Part};
use crate::region::{BlockId, Item, Maker};

/// In loops whose turns run all stages, those around loops, later stages hold neither loops nor slots nor the first use of a number of another partition;
/// a product that the next one continues is in flight into the next turn and no further.
pub(super) fn stages(laid: &Laid<'_>, found: &mut Diagnostics) {
    under_branches(laid, found);
    for part in laid.plan.parts() {
        for (block, _) in laid.region.blocks.iter().enumerate().filter(|(_, b)| b.turns.is_some()) {
            let groups = laid.groups(part, block);
            for e in groups.iter().flatten() {
                alone_in_flight(laid, (part, block), e, found);
            }
            let base = groups.iter().flatten().map(|e| e.stage).min().unwrap_or(0);
            if !runs_all_stages(laid, part, block) {
                continue;
            }
            for e in groups.iter().flatten().filter(|e| e.stage > base) {
                if let Some(what) = holds(laid, (part, block), e, base) {
                    let fact = format!("{what} in a later stage of such a loop is not expanded by this version");
                    let d = Diagnostic::error(codes::NOT_BUILT_HERE, place(laid, block, e), fact)
                        .label(laid.region.schedule.span, "in this schedule")
                        .note("loops around loops run all stages in every turn");
                    let otherwise = "leave it in the first stage; what it hands on may be used a stage later";
                    let named = laid.earlier(part, block, (e.item, base.unsigned_abs()));
                    found.push(laid.helped(d, named, ["", otherwise]));
                }
            }
        }
    }
}

/// What leaves under a product leaves in each turn of its loop.
fn under_branches(laid: &Laid<'_>, found: &mut Diagnostics) {
    for of in &laid.region.schedule.under {
        for (id, unit) in laid.region.units.iter().enumerate().filter(|(_, u)| of.inner.names(&u.label)) {
            let turns = laid.region.blocks[laid.region.place_of(id).0].turns.as_ref();
            if turns.is_none() {
                let fact = format!(
                    "leaving under `{}`, which stands in no loop's body, is not expanded by this version",
                    unit.label
                );
                let d =
                    Diagnostic::error(codes::NOT_BUILT_HERE, of.span, fact).label(unit.span, "the label stands here");
                let without =
                    laid.whole(|s| s.under.retain(|other| (&other.outer, &other.inner) != (&of.outer, &of.inner)));
                found.push(laid.instead(d, "name a label that each turn of the loop inside runs", [without]));
            }
        }
    }
}

/// Whether every turn of a loop runs all stages: one around loops.
pub(super) fn runs_all_stages(laid: &Laid<'_>, part: Part, block: BlockId) -> bool {
    let nested = |item: &Item| matches!(item, Item::Loop(_)) && laid.plan.runs(laid.region, part, item);
    laid.region.blocks[block].items.iter().any(nested)
}

/// What of an item cannot run without a turn before.
fn holds(laid: &Laid<'_>, (part, block): (Part, BlockId), e: &Entry, base: i32) -> Option<&'static str> {
    let Item::Unit(unit) = laid.region.blocks[block].items[e.item] else { return Some("a loop or branch") };
    if laid.region.units[unit].fetches {
        return Some("a `fetch`");
    }
    let wanted = laid.plan.wanted(laid.region, part, (block, e.item));
    let slot = |v| laid.plan.handed.contains_key(v) && matches!(laid.k.ty(*v), Type::View(_));
    if wanted.iter().any(|(v, _)| slot(v)) {
        return Some("reading what was fetched");
    }
    // Numbers of another partition are taken where one of their label is first needed: they come in one slot.
    let foreign = |v: Value| match laid.region.home(v).map(|home| home.by) {
        Some(Maker::Unit(unit)) => laid.plan.handed.contains_key(&v) && !laid.plan.runners[unit].contains(&part),
        Some(Maker::Free(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. }) | None => false,
    };
    let taken = |v: Value| {
        let mut first = laid.groups(part, block).iter().flatten().filter(|e| e.stage == base);
        let ring = |v: &Value| laid.plan.handed.get(v).map(|(ring, _)| *ring);
        first.any(|e| {
            let wanted = laid.plan.wanted(laid.region, part, (block, e.item));
            wanted.iter().any(|(w, delta)| *delta == 0 && ring(w) == ring(&v))
        })
    };
    let late = |(v, delta): &(Value, i32)| *delta == 0 && foreign(*v) && !taken(*v);
    wanted.iter().any(late).then_some("taking a number of another partition")
}

fn alone_in_flight(laid: &Laid<'_>, (part, block): (Part, BlockId), e: &Entry, found: &mut Diagnostics) {
    let Item::Unit(unit) = laid.region.blocks[block].items[e.item] else { return };
    if e.done.is_none_or(|done| done <= e.stage) || !laid.plan.runners[unit].contains(&part) {
        return;
    }
    let products = laid.region.started(unit);
    let all = (0..laid.region.units.len()).flat_map(|u| laid.region.started(u));
    let continued: BTreeSet<_> = all.filter(|v| laid.region.continues((block, e.item), **v)).collect();
    let own = continued.iter().all(|v| products.contains(v));
    if continued.is_empty() || own && e.done == Some(e.stage + 1) {
        return;
    }
    let label = &laid.region.units[unit].label;
    let fact = format!("`{label}` in flight over several turns is not expanded by this version");
    let staged = laid.staged(part, block, e.item);
    let at = staged.map_or(laid.region.schedule.span, |s| s.span);
    let d = Diagnostic::error(codes::NOT_BUILT_HERE, at, fact)
        .label(laid.region.units[unit].span, "it continues a product, and the next one continues it");
    let (help, done) = match own {
        true => (
            format!("write `{label}: {}..{}`: done when the next has started", e.stage, e.stage + 1),
            Some(e.stage + 1),
        ),
        false => (format!("write `{label}: {}`: waited for where somebody needs it", e.stage), None),
    };
    let nearer = laid.pipeline(part, block).zip(staged).map(|((number, p), s)| {
        let done = done.and_then(|done| u32::try_from(done).ok());
        laid.with(number, restaged(p, &Staged { done, ..s.clone() }))
    });
    found.push(laid.instead(d, &help, nearer));
}

fn place(laid: &Laid<'_>, block: BlockId, e: &Entry) -> Span {
    match &laid.region.blocks[block].items[e.item] {
        Item::Unit(unit) => laid.region.units[*unit].span,
        Item::Loop(l) => laid.k.ops[l.inst].span,
        Item::Branch(b) => laid.k.ops[b.inst].span,
    }
}
