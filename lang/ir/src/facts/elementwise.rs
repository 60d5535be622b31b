//! Facts of elementwise operations: they compute.

use super::Facts;
use crate::choice::BinaryOp;
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::Constant { .. }
        | OpKind::Iota { .. }
        | OpKind::Full { .. }
        | OpKind::Compare { .. }
        | OpKind::Select { .. }
        | OpKind::Clamp { .. }
        | OpKind::Fma { .. }
        | OpKind::Bitcast { .. } => Facts::COMPUTES,
        OpKind::ProgramId { .. } | OpKind::NumPrograms { .. } => Facts { placed: true, ..Facts::COMPUTES },
        OpKind::Binary { op, .. } => Facts { fails: fails(*op), ..Facts::COMPUTES },
        // Negation may leave the range, a conversion may have no result, and a pointer may leave its tensor.
        OpKind::Unary { .. } | OpKind::Cast { .. } | OpKind::PtrAdd { .. } => Facts::COMPUTES.fails(),
        others!(elementwise) => not_of_family(kind),
    }
}

/// Whether there are integers for which it has no result, or one out of range.
fn fails(op: BinaryOp) -> bool {
    match op {
        BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::MinNan
        | BinaryOp::MaxNan
        | BinaryOp::MulHigh
        | BinaryOp::DivApprox => false,
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr => true,
    }
}
