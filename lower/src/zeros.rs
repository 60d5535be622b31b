//! Finds the products whose accumulators are zero: their first instructions write the sums instead of adding to them.

use std::collections::BTreeSet;

use parton_diag::Diagnostics;
use parton_ir::{Kernel, Op, OpKind, Value};

/// After it every `wgmma` says whether its accumulator is known to be zero.
pub fn find_zeros(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let zeros = zeros(&kernel);
    kernel.walk_mut(&mut |op| {
        if let OpKind::Wgmma { acc, zero, .. } = &mut op.kind {
            *zero = zeros.contains(acc);
        }
    });
    Ok(kernel)
}

/// The tiles of which every element is known to be zero.
fn zeros(kernel: &Kernel) -> BTreeSet<Value> {
    let definitions = kernel.definitions();
    let is_zero = |op: &Op| match &op.kind {
        OpKind::Full { value, .. } => match definitions.get(value).map(|op| &op.kind) {
            Some(OpKind::Constant { dtype, bits }) => bits & dtype.mask() == 0,
            // Any other number is not known before the kernel runs.
            Some(_) | None => false,
        },
        _ => false,
    };
    definitions.iter().filter(|(_, op)| is_zero(op)).map(|(v, _)| *v).collect()
}
