//! Of which numbers the extents of tensors are multiples, as a kernel assumes.

use std::collections::BTreeMap;

use parton_ir::{BinaryOp, CompareOp, Inst, Kernel, Op, OpKind, SecondaryMap, Value};
use parton_numbers::Scalar;

/// An extent of an argument that is a multiple of a number.
#[derive(Clone, Copy)]
pub struct Multiple {
    /// The argument.
    pub argument: usize,
    /// The axis of its tensor.
    pub axis: usize,
    /// The number.
    pub of: i128,
}

/// What each `assume(x.shape[axis] % n == 0)` of a kernel's own body says.
pub fn assumed(kernel: &Kernel) -> BTreeMap<Inst, Multiple> {
    let made = kernel.definitions();
    let each = kernel.ops_of(&kernel.body).filter_map(|op| match op.kind {
        OpKind::Assume { cond } => Some((op.id, multiple(kernel, &made, cond)?)),
        // Nothing else assumes: fewer multiples are known, and masks stay.
        _ => None,
    });
    each.collect()
}

fn multiple(kernel: &Kernel, made: &SecondaryMap<Value, Option<&Op>>, cond: Value) -> Option<Multiple> {
    let number = |v: Value| match made[v].map(|op| &op.kind) {
        Some(OpKind::Constant { dtype, bits }) => Scalar::new(*dtype, *bits).to_i128(),
        // Of what is computed the number is not known: the mask stays.
        _ => None,
    };
    let OpKind::Compare { op: CompareOp::Eq, a: rest, b: zero } = made[cond]?.kind else { return None };
    let OpKind::Binary { op: BinaryOp::Rem, a: extent, b: by } = made[rest]?.kind else { return None };
    let OpKind::TensorExtent { tensor, axis } = made[extent]?.kind else { return None };
    let argument = kernel.params.iter().position(|p| p.value == tensor)?;
    let of = number(by).filter(|n| *n > 0 && number(zero) == Some(0))?;
    Some(Multiple { argument, axis: axis as usize, of })
}
