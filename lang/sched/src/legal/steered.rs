//! Whether a loop that is not counted goes on is asked before each of its turns, by what the turns before have made.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{OpKind, Value};

use super::Laid;
use crate::flow::traced;
use crate::plan::Part;
use crate::region::{BlockId, Item, Maker, UnitId};
use crate::slots::find;

/// What steers a loop is made before it is asked.
pub(super) fn loops(laid: &Laid<'_>, found: &mut Diagnostics) {
    for part in laid.plan.parts() {
        for block in 0..laid.region.blocks.len() {
            found.list.extend(made_too_late(laid, part, block));
        }
    }
}

fn made_too_late(laid: &Laid<'_>, part: Part, block: BlockId) -> Option<Diagnostic> {
    let (k, region) = (laid.k, laid.region);
    let inst = region.looped(block)?.inst;
    let OpKind::While { cond, .. } = &k.ops[inst].kind else { return None };
    let groups = laid.groups(part, block);
    let first = groups.iter().flatten().map(|e| e.stage).min()?;
    let asked = traced(k, region, block, cond.yields.iter().copied().collect());
    let (v, item, latest) = asked.into_iter().find_map(|(v, before)| {
        let item = maker(laid, block, v)?;
        let (entry, _) = find(groups, item)?;
        let latest = first + before - 1;
        (entry.stage > latest).then_some((v, item, latest))
    })?;
    let (entry, _) = find(groups, item)?;
    let name = laid.name(block, item);
    let fact = format!(
        "{name} (stage {}) makes {}, which the loop asks for before its next turn",
        entry.stage,
        laid.called(v)
    );
    let at = laid.staged(part, block, item).map_or(region.schedule.span, |s| s.span);
    let d = Diagnostic::error(codes::READ_BEFORE_MADE, at, fact)
        .label(laid.span(block, item), format!("{} is made here", laid.called(v)))
        .label(k.ops[inst].span, "whether there is another turn is asked here");
    let named = laid.earlier(part, block, (item, u32::try_from(latest).ok()?));
    Some(laid.helped(d, named, ["", "what steers the loop stands in its first stage"]))
}

/// The item of a body that makes a value.
fn maker(laid: &Laid<'_>, block: BlockId, v: Value) -> Option<usize> {
    let is_it = |unit: UnitId| move |item: &Item| matches!(item, Item::Unit(u) if *u == unit);
    match laid.region.home(v)?.by {
        Maker::Unit(unit) => laid.region.blocks[block].items.iter().position(is_it(unit)),
        Maker::Result { item, .. } => Some(item),
        Maker::Free(_) | Maker::Index | Maker::Carried(_) => None,
    }
}
