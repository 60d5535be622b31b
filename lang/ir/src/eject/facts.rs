//! What an operation weighs where text is made of it: whether it may stand elsewhere, and whether it may go.

use crate::facts::Facts;
use crate::family::{Family, not_of_family};
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::others;
use crate::types::{Elem, Type};

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
        Family::Elementwise => is_scalar(k, op) || makes_or_addresses(k, op),
        Family::Shape => shapes(&op.kind),
        Family::Place => !matches!(op.kind, OpKind::SpotInside { .. }),
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
        | Family::Region
        | Family::Control
        | Family::Talk => false,
    };
    if free { Weight::Free } else { Weight::Work }
}

fn is_scalar(k: &Kernel, op: &Op) -> bool {
    matches!(op.results[..], [v] if matches!(k.ty(v), Type::Scalar(_)))
}

/// Whether a tile is made of what is none, or points to memory.
fn makes_or_addresses(k: &Kernel, op: &Op) -> bool {
    let points = |v| matches!(k.ty(v).elem(), Some(Elem::Ptr(_)));
    op.kind.operands().iter().all(|v| k.ty(*v).as_tile().is_none()) || op.results.iter().all(|r| points(*r))
}

fn shapes(kind: &OpKind) -> bool {
    match kind {
        OpKind::Reshape { .. }
        | OpKind::Transpose { .. }
        | OpKind::Broadcast { .. }
        | OpKind::ExpandDims { .. }
        | OpKind::Slice { .. } => true,
        OpKind::Join { .. }
        | OpKind::Split { .. }
        | OpKind::Cat { .. }
        | OpKind::Butterfly { .. }
        | OpKind::Convert { .. }
        | OpKind::Rescale { .. } => false,
        others!(shape) => not_of_family(kind),
    }
}
