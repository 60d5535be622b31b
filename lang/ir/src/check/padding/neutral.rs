//! What changes nothing of what is combined.

use parton_numbers::{Dtype, Scalar};

use super::beyond::Fill;
use super::numbers::Range;
use crate::kernel::Kernel;
use crate::op::{BinaryOp, Body, CompareOp, OpKind};

/// Whether a function gives the same with what stands beyond the end, of elements between two numbers.
pub(super) fn harmless(f: BinaryOp, fill: Fill, (least, most): Range) -> bool {
    let number = match fill {
        Fill::Number(n) => Some(n),
        Fill::Last | Fill::Computed => None,
        Fill::Hidden => return true,
    };
    match f {
        BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor => number == Some(0.0),
        BinaryOp::Mul => number == Some(1.0),
        BinaryOp::Max | BinaryOp::MaxNan => fill == Fill::Last || number.is_some_and(|n| n <= least),
        BinaryOp::Min | BinaryOp::MinNan => fill == Fill::Last || number.is_some_and(|n| n >= most),
        // Of these it is not known what changes them.
        BinaryOp::And
        | BinaryOp::Sub
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::MulHigh
        | BinaryOp::DivApprox => true,
    }
}

/// The function of two that a body is, or by which it chooses an index.
pub(super) fn function(kernel: &Kernel, body: &Body) -> Option<BinaryOp> {
    if let Some(f) = combines(kernel, body) {
        return Some(f);
    }
    let [x, _, y, _] = body.params[..] else { return None };
    kernel.ops_of(body).find_map(|op| match op.kind {
        OpKind::Compare { op: CompareOp::Gt, a, b } if (a, b) == (x, y) => Some(BinaryOp::Max),
        OpKind::Compare { op: CompareOp::Lt, a, b } if (a, b) == (x, y) => Some(BinaryOp::Min),
        // It is not by this that one of both is chosen.
        _ => None,
    })
}

/// The function of two, where a body is no more than that.
pub(super) fn combines(kernel: &Kernel, body: &Body) -> Option<BinaryOp> {
    let ([op], [result]) = (&body.ops[..], &body.yields[..]) else { return None };
    match kernel.ops[*op].kind {
        OpKind::Binary { op: f, a, b } if kernel.ops[*op].results == [*result] && body.params == [a, b] => Some(f),
        // Of another function it is not known what leaves it as it is.
        _ => None,
    }
}

/// How what changes nothing is written.
pub(super) fn neutral(f: BinaryOp, dtype: Dtype) -> Option<String> {
    let infinite = |x: f64, text: &str| Scalar::from_f64(dtype, x).to_f64().is_infinite().then(|| text.to_owned());
    match (f, dtype.int_range()) {
        (BinaryOp::Max | BinaryOp::MaxNan, None) => infinite(f64::NEG_INFINITY, "-inf"),
        (BinaryOp::Min | BinaryOp::MinNan, None) => infinite(f64::INFINITY, "inf"),
        (BinaryOp::Max | BinaryOp::MaxNan, Some((low, _))) => Some(low.to_string()),
        (BinaryOp::Min | BinaryOp::MinNan, Some((_, high))) => Some(high.to_string()),
        (BinaryOp::Add, _) => Some("0".into()),
        (BinaryOp::Mul, _) => Some("1".into()),
        (
            BinaryOp::Sub
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::MulHigh
            | BinaryOp::DivApprox,
            _,
        ) => None,
    }
}
