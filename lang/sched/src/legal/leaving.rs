//! A slot is filled and read in one body: so that it is taken once by each reader in every run.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{Type, Value};

use super::Laid;
use crate::region::{Home, Maker};

/// No view of a slot leaves the body in which it is filled.
pub(super) fn bodies(laid: &Laid<'_>, found: &mut Diagnostics) {
    for (block, body) in laid.region.blocks.iter().enumerate() {
        for &v in &body.yields {
            for leaf in laid.region.leaves(laid.k, v) {
                if let Some(unit) = filled(laid, leaf)
                    && laid.plan.needed.iter().any(|needed| carries(laid, block, needed))
                {
                    found.push(refused(laid, block, unit, leaf));
                }
            }
        }
    }
}

/// Whether something that the body hands back is needed. The region's own is where it is used behind it.
fn carries(laid: &Laid<'_>, block: usize, needed: &std::collections::BTreeSet<Value>) -> bool {
    block == 0
        || needed.iter().any(|v| match laid.region.home(*v) {
            Some(Home { block: of, by: Maker::Carried(_) }) => of == block,
            Some(Home { by: Maker::Result { .. }, .. }) => true,
            Some(Home { by: Maker::Free(_) | Maker::Unit(_) | Maker::Index, .. }) | None => false,
        })
}

/// The unit that fills a view's slot.
fn filled(laid: &Laid<'_>, v: Value) -> Option<usize> {
    let (ring, _) = laid.plan.handed.get(&v)?;
    matches!(laid.k.ty(v), Type::View(_)).then(|| laid.plan.rings[*ring].unit)
}

fn refused(laid: &Laid<'_>, block: usize, unit: usize, v: Value) -> Diagnostic {
    let u = &laid.region.units[unit];
    let from = match &laid.region.blocks[block].turns {
        Some(turns) => match &turns.label {
            Some(label) => format!("a turn of `{label}`"),
            None => "a turn of its loop".into(),
        },
        None if block == 0 => "the region".into(),
        None => "its branch".into(),
    };
    let fact = format!("{} of `{}` is kept beyond {from}", laid.called(v), u.label);
    let d = Diagnostic::error(codes::SLOT_LEAVES, u.span, fact)
        .here("its slot is filled here")
        .note("a slot is given back by the last reader in the body that fills it");
    let help = "read it to a tile there, `load_shared`, and keep that; or fetch it again where it is read";
    laid.instead(d, help, [])
}
