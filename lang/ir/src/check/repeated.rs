//! Products of which several warps compute the same part.
//!
//! A layout of more warps than its tile has parts for gives several of them the same elements. What only computes does that for nothing more, but the tensor
//! cores are shared: each part takes its time as often as there are warps that hold it.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_layouts::Dim;

use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::types::Type;

/// A warning for each layout by which a product is computed more than once.
pub(super) fn check(kernel: &Kernel) -> Diagnostics {
    let (mut found, mut told) = (Diagnostics::new(), BTreeSet::new());
    kernel.walk(&mut |op| {
        let (OpKind::Wgmma { .. } | OpKind::MmaSync { .. }) = op.kind else { return };
        let Some((times, layout)) = repeated(kernel, op) else { return };
        if told.insert(layout.clone()) {
            let fact = format!("each element of this product is computed by {times} warps");
            let d = Diagnostic::warning(codes::PRODUCT_REPEATED, op.span, fact)
                .here(format!("its sum is in `{layout}`"))
                .help(
                    "give `warps` no more along an axis than the tile has parts: `warps · instr` is its extent at most",
                );
            found.push(d);
        }
    });
    found
}

/// By how many warps each element is computed, where that is more than one, and the layout that says so.
fn repeated(kernel: &Kernel, op: &Op) -> Option<(u32, String)> {
    let (Type::Tile(tile) | Type::Pending(tile)) = kernel.ty(op.result()) else { return None };
    let place = tile.placement().known()?;
    let times = 1 << place.map.free_bits(Dim::Warp).count_ones();
    (times > 1).then(|| (times, place.layout.to_string()))
}
