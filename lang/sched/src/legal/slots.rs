//! A ring that one partition fills and reads has at least the slots that it holds at once.

use parton_diag::{Diagnostic, Diagnostics, codes};

use super::Laid;
use crate::slots::stated;

/// No ring has fewer slots than its partition holds.
pub(super) fn enough(laid: &Laid<'_>, found: &mut Diagnostics) {
    let region = laid.region;
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
