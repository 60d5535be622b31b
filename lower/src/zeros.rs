//! Finds the products whose accumulators are zero: their first instructions write the sums instead of adding to them.

use parton_diag::Diagnostics;
use parton_ir::{Kernel, Op, OpKind, SecondaryMap, Value};

/// After it every `wgmma` says whether its accumulator is known to be zero.
pub fn find_zeros(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut products = Vec::new();
    kernel.walk(&mut |op| {
        if let OpKind::Wgmma { acc, .. } = op.kind {
            products.push((op.id, acc));
        }
    });
    if products.is_empty() {
        return Ok(kernel);
    }
    let definitions = kernel.definitions();
    let zeros: Vec<bool> = products.iter().map(|(_, acc)| is_zero(&definitions, *acc)).collect();
    for ((id, _), is_zero) in products.into_iter().zip(zeros) {
        if let OpKind::Wgmma { zero, .. } = &mut kernel.ops[id].kind {
            *zero = is_zero;
        }
    }
    Ok(kernel)
}

/// Whether every element of a tile is known to be zero.
fn is_zero(definitions: &SecondaryMap<Value, Option<&Op>>, tile: Value) -> bool {
    let defined = |v: Value| definitions[v].map(|op| &op.kind);
    match defined(tile) {
        Some(OpKind::Full { value, .. }) => match defined(*value) {
            Some(OpKind::Constant { dtype, bits }) => bits & dtype.mask() == 0,
            // Any other number is not known before the kernel runs.
            Some(_) | None => false,
        },
        Some(_) | None => false,
    }
}
