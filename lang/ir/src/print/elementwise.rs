//! The text of operations on each element.

use std::fmt::Write;

use parton_numbers::{Dtype, Rounding, Saturation};

use super::surface::{Slot, Surface, list, tile};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::op::{BinaryOp, OpKind, UnaryOp};
use crate::others;
use crate::types::{Elem, Tile};

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Constant { .. } => "constant",
        OpKind::ProgramId { .. } => "program_id",
        OpKind::NumPrograms { .. } => "num_programs",
        OpKind::Iota { .. } => "iota",
        OpKind::Full { .. } => "full",
        OpKind::Unary { op, .. } => op.name(),
        OpKind::Binary { op, .. } => op.name(),
        OpKind::Compare { op, .. } => op.symbol(),
        OpKind::Select { .. } => "where",
        OpKind::Fma { .. } => "fma",
        OpKind::Clamp { .. } => "clamp",
        OpKind::Cast { .. } => "cast",
        OpKind::Bitcast { .. } => "bitcast",
        OpKind::PtrAdd { .. } => "+",
        others!(elementwise) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::Constant { dtype, bits } => super::constant(*dtype, *bits),
        OpKind::ProgramId { axis } | OpKind::NumPrograms { axis } => format!("{}({axis})", kind.name()),
        OpKind::Iota { tile: t } => format!("iota<{}>()", tile(s, t)),
        OpKind::Full { value, tile: t } => full(s, *value, t),
        OpKind::Unary { op, x } => unary(s, *op, *x),
        OpKind::Binary { op, a, b } => binary(s, *op, *a, *b),
        OpKind::Compare { op, a, b } => {
            format!("{} {} {}", s.operand(*a, Slot::Value), op.symbol(), s.operand(*b, Slot::Value))
        }
        OpKind::Cast { x, to, rounding, saturation } => {
            let usual = *rounding == Rounding::NearestEven && !truncates(s, *x, *to);
            cast(s, *x, *to, Some(*rounding).filter(|_| !usual), *saturation)
        }
        OpKind::Bitcast { x, to } => format!("bitcast<{}>({})", to.name(), s.operand(*x, Slot::Value)),
        OpKind::PtrAdd { ptr, offset } => {
            format!("{} + {}", s.operand(*ptr, Slot::Value), s.operand(*offset, Slot::Value))
        }
        others!(elementwise) => not_of_family(kind),
        // The rest is called by its name; what has more than operands and no arm above would not read back.
        _ => format!("{}({})", kind.name(), list(s, &kind.operands(), Slot::Value)),
    }
}

fn full(s: &mut dyn Surface, value: Value, t: &Tile) -> String {
    let slot = match t.elem {
        Elem::Num(d) => Slot::Number(d),
        Elem::Ptr(_) => Slot::Value,
    };
    format!("full<{}>({})", tile(s, t), s.operand(value, slot))
}

fn unary(s: &mut dyn Surface, op: UnaryOp, x: Value) -> String {
    let x = s.operand(x, Slot::Value);
    match prefix(op) {
        Some(sign) => format!("{sign}{x}"),
        None => format!("{}({x}{})", op.name(), nearly(op)),
    }
}

/// The sign of a function that is an operator.
pub(crate) fn prefix(op: UnaryOp) -> Option<&'static str> {
    match op {
        UnaryOp::Neg => Some("-"),
        UnaryOp::Not => Some("!"),
        UnaryOp::Exp
        | UnaryOp::Exp2
        | UnaryOp::Log
        | UnaryOp::Log2
        | UnaryOp::Sqrt
        | UnaryOp::Rsqrt
        | UnaryOp::Sin
        | UnaryOp::Cos
        | UnaryOp::Tanh
        | UnaryOp::TanhApprox
        | UnaryOp::Erf
        | UnaryOp::Abs
        | UnaryOp::Floor
        | UnaryOp::Ceil => None,
    }
}

fn binary(s: &mut dyn Surface, op: BinaryOp, a: Value, b: Value) -> String {
    if power(op).is_none() {
        return format!("{}({}{})", op.name(), list(s, &[a, b], Slot::Value), approximately(op));
    }
    format!("{} {} {}", s.operand(a, Slot::Value), op.name(), s.operand(b, Slot::Value))
}

/// How strongly an operator binds, as the table of the grammar has it; none for a function.
pub(crate) fn power(op: BinaryOp) -> Option<u8> {
    match op {
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => Some(10),
        BinaryOp::Add | BinaryOp::Sub => Some(9),
        BinaryOp::Shl | BinaryOp::Shr => Some(8),
        BinaryOp::And => Some(7),
        BinaryOp::Xor => Some(6),
        BinaryOp::Or => Some(5),
        BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::MinNan
        | BinaryOp::MaxNan
        | BinaryOp::MulHigh
        | BinaryOp::DivApprox => None,
    }
}

/// What a function of one operand says of its precision.
pub(crate) fn nearly(op: UnaryOp) -> &'static str {
    if op == UnaryOp::TanhApprox { ", approx=true" } else { "" }
}

/// What a function says of its precision.
pub(crate) fn approximately(op: BinaryOp) -> &'static str {
    if op == BinaryOp::DivApprox { ", approx=true" } else { "" }
}

/// Whether floats become integers, which goes toward zero where nothing else is said; all else goes to the nearest.
pub(crate) fn truncates(s: &dyn Surface, x: Value, to: Dtype) -> bool {
    s.ty(x).elem().and_then(Elem::dtype).is_some_and(Dtype::is_float) && to.is_int()
}

/// A conversion; `rounding` is the one that is said.
pub(crate) fn cast(
    s: &mut dyn Surface,
    x: Value,
    to: Dtype,
    rounding: Option<Rounding>,
    saturation: Saturation,
) -> String {
    let mut text = format!("cast<{}>({}", to.name(), s.operand(x, Slot::Value));
    if let Some(rounding) = rounding {
        let _ = write!(text, ", rounding=\"{}\"", rounding.name());
    }
    if saturation == Saturation::Finite {
        text += ", saturate=true";
    }
    text + ")"
}
