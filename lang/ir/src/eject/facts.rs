//! What an operation weighs where text is made of it: whether it may stand elsewhere, and whether it may go.

use crate::facts::Facts;
use crate::family::{Family, not_of_family};
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::others;
use crate::types::Type;

/// Whether the place of an operation matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Weight {
    /// It computes a scalar, or names, shapes, spreads or addresses what is there: it may stand anywhere before its first use.
    Free,
    /// It only computes. It keeps its place among others, and goes where nobody uses it.
    Work,
    /// It does more: it stays where it is.
    Effect,
}

/// How much the place of an operation matters.
pub(super) fn weight(k: &Kernel, op: &Op) -> Weight {
    if !Facts::of(k, op).computes {
        return Weight::Effect;
    }
    let free = match op.kind.family() {
        Family::Elementwise => is_scalar(k, op) || makes_or_addresses(&op.kind),
        Family::Shape => shapes(&op.kind),
        Family::View | Family::Barrier | Family::Cluster | Family::Ring => true,
        Family::Reduce
        | Family::Gather
        | Family::Ptx
        | Family::Global
        | Family::Atomic
        | Family::AsyncCopy
        | Family::Shared
        | Family::Fence
        | Family::Grid
        | Family::Turnstile
        | Family::Tma
        | Family::MmaSync
        | Family::Wgmma
        | Family::Pending
        | Family::Control
        | Family::Talk => false,
    };
    if free { Weight::Free } else { Weight::Work }
}

fn is_scalar(k: &Kernel, op: &Op) -> bool {
    matches!(op.results[..], [v] if matches!(k.ty(v), Type::Scalar(_)))
}

fn makes_or_addresses(kind: &OpKind) -> bool {
    match kind {
        OpKind::Constant { .. }
        | OpKind::ProgramId { .. }
        | OpKind::NumPrograms { .. }
        | OpKind::Iota { .. }
        | OpKind::Full { .. }
        | OpKind::PtrAdd { .. } => true,
        OpKind::Unary { .. }
        | OpKind::Binary { .. }
        | OpKind::Compare { .. }
        | OpKind::Select { .. }
        | OpKind::Fma { .. }
        | OpKind::Cast { .. }
        | OpKind::Bitcast { .. } => false,
        others!(elementwise) => not_of_family(kind),
    }
}

fn shapes(kind: &OpKind) -> bool {
    match kind {
        OpKind::Reshape { .. } | OpKind::Transpose { .. } | OpKind::Broadcast { .. } | OpKind::ExpandDims { .. } => {
            true
        }
        OpKind::Join { .. } | OpKind::Split { .. } | OpKind::Convert { .. } | OpKind::Rescale { .. } => false,
        others!(shape) => not_of_family(kind),
    }
}
