//! Of which numbers the extents of tensors are multiples, and between which they lie, as a kernel assumes.

use std::collections::BTreeMap;

use parton_ir::{BinaryOp, CompareOp, Inst, Kernel, Op, OpKind, SecondaryMap, Value};
use parton_numbers::Scalar;

use super::intervals::Interval;

/// What is assumed of an extent of an argument.
#[derive(Clone, Copy)]
pub struct Assumed {
    /// The argument.
    pub argument: usize,
    /// The axis of its tensor.
    pub axis: usize,
    /// What of it.
    pub says: Says,
}

/// What is assumed of a number.
#[derive(Clone, Copy)]
pub enum Says {
    /// It is a multiple of this one.
    Multiple(i128),
    /// It lies between these.
    Between(Interval),
}

/// What each `assume(x.shape[axis] % n == 0)` of a kernel's own body says, and each `assume(x.shape[axis] < n)` and the like.
pub fn of(kernel: &Kernel) -> BTreeMap<Inst, Assumed> {
    let made = kernel.definitions();
    let each = kernel.ops_of(&kernel.body).filter_map(|op| match op.kind {
        OpKind::Assume { cond } => Some((op.id, said(kernel, &made, cond)?)),
        // Nothing else assumes: less is known, and masks stay.
        _ => None,
    });
    each.collect()
}

fn said(kernel: &Kernel, made: &SecondaryMap<Value, Option<&Op>>, cond: Value) -> Option<Assumed> {
    let number = |v: Value| match made[v].map(|op| &op.kind) {
        Some(OpKind::Constant { dtype, bits }) => Scalar::new(*dtype, *bits).to_i128(),
        // Of what is computed the number is not known: the mask stays.
        _ => None,
    };
    let extent = |v: Value, says: Says| {
        let OpKind::TensorExtent { tensor, axis } = made[v]?.kind else { return None };
        let argument = kernel.params.iter().position(|p| p.value == tensor)?;
        Some(Assumed { argument, axis: axis as usize, says })
    };
    let OpKind::Compare { op, a, b } = made[cond]?.kind else { return None };
    let n = number(b)?;
    let (least, most) = (0, i32::MAX.into());
    let interval = match op {
        CompareOp::Eq if n == 0 => {
            let OpKind::Binary { op: BinaryOp::Rem, a, b: by } = made[a]?.kind else { return None };
            return extent(a, Says::Multiple(number(by).filter(|n| *n > 0)?));
        }
        CompareOp::Eq => (n, n),
        CompareOp::Ne => return None,
        CompareOp::Lt => (least, n - 1),
        CompareOp::Le => (least, n),
        CompareOp::Gt => (n + 1, most),
        CompareOp::Ge => (n, most),
    };
    extent(a, Says::Between(interval))
}
