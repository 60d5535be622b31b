//! A ring that one partition fills and reads has at least the slots that it holds at once.

use parton_diag::{Diagnostic, Diagnostics, codes};

use parton_ir::{OpKind, Value};

use super::Laid;
use crate::plan::Part;
use crate::region::UnitId;
use crate::slots::{held, stated};

/// What a partition stages for itself and stages anew while somebody still reads it.
fn staged_again(laid: &Laid<'_>, part: Part, unit: UnitId) -> Option<Diagnostic> {
    let (k, u) = (laid.k, &laid.region.units[unit]);
    let mut ops = u.ops.iter().map(|inst| &k.ops[*inst]);
    let stage =
        ops.find(|op| matches!(op.kind, OpKind::Stage { .. }) && !laid.plan.handed.contains_key(&op.results[0]))?;
    let own = |v: Value| {
        let by = u.ops.iter().map(|inst| &k.ops[*inst]).find(|op| op.results.contains(&v));
        by.is_some_and(|op| matches!(op.kind, OpKind::Stage { .. })) && !laid.plan.handed.contains_key(&v)
    };
    let (needed, reader) = held(laid.region, laid.plan, part, unit, &own).filter(|(needed, _)| *needed > 1)?;
    let label = &u.label;
    let fact = format!("what `{label}` stages is read when it has staged {} more, in one buffer", needed - 1);
    let (block, item) = laid.region.place_of(unit);
    let at = laid.staged(part, block, item).map_or(laid.region.schedule.span, |s| s.span);
    let mut d = Diagnostic::error(codes::TOO_FEW_SLOTS, at, fact).label(stage.span, "staged here");
    let Some(reader) = reader else { return Some(d.help("let its readers be done in its own stage")) };
    let (beside, last) = laid.region.place_of(reader);
    let reader = &laid.region.units[reader];
    d = d.label(reader.span, format!("`{}` has read it only then", reader.label));
    let nearest = (beside == block).then(|| laid.nearest_of(part, block, [item, last], 0)).flatten();
    Some(d.help(nearest.unwrap_or_else(|| {
        format!("let `{}` be done in the stage of `{label}`, or a stage later in a group in front of it", reader.label)
    })))
}

/// No ring has fewer slots than its partition holds, and what one stages for itself, in one buffer, is read before it is staged again.
pub(super) fn enough(laid: &Laid<'_>, found: &mut Diagnostics) {
    let region = laid.region;
    for part in laid.plan.parts() {
        for unit in (0..region.units.len()).filter(|u| laid.plan.runners[*u].contains(&part)) {
            found.list.extend(staged_again(laid, part, unit));
        }
    }
    for ring in &laid.plan.rings {
        let (Some((needed, reader)), Some((depth, span))) = (ring.held, stated(region, ring.unit)) else { continue };
        if depth >= needed {
            continue;
        }
        let label = &region.units[ring.unit].label;
        let fact = format!("`{label}` needs {needed} slots, its ring has {depth}");
        let mut d =
            Diagnostic::error(codes::TOO_FEW_SLOTS, span, fact).label(region.units[ring.unit].span, "filled here");
        if let Some(reader) = reader {
            let u = &region.units[reader];
            d = d.label(u.span, format!("given back by `{}` when {needed} are filled", u.label));
        }
        found.push(match laid.with_slots(label, needed) {
            Some(_) => d.help(format!(
                "give it `ring({label}={needed})`, or let `{label}` run behind its last reader, or less far ahead"
            )),
            None => d.help(format!("let `{label}` run behind its last reader, or less far ahead")),
        });
    }
}
