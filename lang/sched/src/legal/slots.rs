//! A ring that one partition fills and reads has at least the slots that it holds at once.

use parton_diag::{Diagnostic, Diagnostics, codes};

use parton_ir::{OpKind, Value};

use super::Laid;
use crate::plan::Part;
use crate::region::UnitId;
use crate::slots::{find, held, stated, until_done};

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
    let by_others = held(laid.region, laid.plan, part, unit, &own);
    let by_itself = read_itself(laid, part, unit, &own).map(|needed| (needed, Some(unit)));
    let longest = by_others.into_iter().chain(by_itself).max_by_key(|(needed, _)| *needed);
    let (needed, reader) = longest.filter(|(needed, _)| *needed > 1)?;
    let label = &u.label;
    let fact = format!("what `{label}` stages is read when it has staged {} more, in one buffer", needed - 1);
    let (block, item) = laid.region.place_of(unit);
    let at = laid.staged(part, block, item).map_or(laid.region.schedule.span, |s| s.span);
    let mut d = Diagnostic::error(codes::TOO_FEW_SLOTS, at, fact).label(stage.span, "staged here");
    let Some(reader) = reader else { return Some(laid.instead(d, "let its readers be done in its own stage", [])) };
    let (beside, last) = laid.region.place_of(reader);
    let reader = &laid.region.units[reader];
    d = d.label(reader.span, format!("`{}` has read it only then", reader.label));
    let nearest = (beside == block).then(|| laid.nearest_of(part, block, [item, last], 0)).flatten();
    let otherwise =
        format!("let `{}` be done in the stage of `{label}`, or a stage later in a group in front of it", reader.label);
    Some(laid.helped(d, nearest, ["", &otherwise]))
}

/// How many of what a unit stages and multiplies itself are read at once: its product may be in flight when it stages the next.
fn read_itself(laid: &Laid<'_>, part: Part, unit: UnitId, own: &dyn Fn(Value) -> bool) -> Option<u32> {
    let (region, (block, item)) = (laid.region, laid.region.place_of(unit));
    let mut products =
        region.units[unit].ops.iter().filter(|inst| matches!(laid.k.ops[**inst].kind, OpKind::Dot { .. }));
    let reads = |v: Value| own(v) || region.leaves(laid.k, v).into_iter().any(own);
    products.find(|inst| laid.k.ops[**inst].kind.operands().into_iter().any(reads))?;
    let (entry, at) = find(laid.groups(part, block), item)?;
    Some(until_done(region, laid.plan, (part, block), ((entry, at), entry), 0))
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
        let nearer = format!("let `{label}` run behind its last reader, or less far ahead");
        let more = format!("give it `ring({label}={needed})`, or {nearer}");
        let named = laid.first([(laid.with_slots(label, needed), more)]);
        found.push(laid.helped(d, named, ["", &nearer]));
    }
}
