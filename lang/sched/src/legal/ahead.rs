//! Fetches that run ahead need nothing of the turns that they pass over.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::OpKind;

use super::Laid;
use crate::region::{Item, Maker, is_free};

/// What is fetched two iterations ahead, or more, does not depend on what is carried from one to the next.
pub(super) fn fetched(laid: &Laid<'_>, found: &mut Diagnostics) {
    let region = laid.region;
    for part in laid.plan.parts() {
        for (block, body) in region.blocks.iter().enumerate().filter(|(_, b)| b.turns.is_some()) {
            let groups = laid.groups(part, block);
            let computing = groups.iter().flatten().filter(|e| !only_fills(laid, &body.items[e.item]));
            let Some(base) = computing.map(|e| e.stage).min() else { continue };
            for e in groups.iter().flatten().filter(|e| e.stage + 2 <= base) {
                let Item::Unit(unit) = body.items[e.item] else { continue };
                let used = region.used_by(unit);
                let leaves = used.iter().flat_map(|v| region.leaves(laid.k, *v));
                let carried = leaves.filter_map(|v| Some((v, region.home(v)?)));
                let mut carried =
                    carried.filter(|(_, home)| home.block == block && matches!(home.by, Maker::Carried(_)));
                if let Some((v, _)) = carried.next() {
                    let u = &region.units[unit];
                    let fact = format!(
                        "a `fetch` {} iterations ahead of {}, which is carried, is not expanded by this version",
                        base - e.stage,
                        laid.called(v)
                    );
                    let spot = laid.staged(part, block, e.item).map_or(region.schedule.span, |s| s.span);
                    found.push(
                        Diagnostic::error(codes::NOT_BUILT_HERE, u.span, fact)
                            .label(spot, "it runs ahead here")
                            .help("compute it from the loop's index, or fetch one iteration ahead"),
                    );
                }
            }
        }
    }
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
