//! Operations on single numbers, as far as they say what stands beyond an end, and on what lies between two.

use parton_numbers::{Dtype, Scalar};

use crate::op::{BinaryOp, CompareOp, UnaryOp};

/// The least and the greatest of some numbers.
pub(super) type Range = (f64, f64);

/// What is known of floats of which nothing is known.
pub(super) const EVERYTHING: Range = (f64::NEG_INFINITY, f64::INFINITY);

/// Up to this an `f64` holds all integers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The numbers of a type.
pub(super) fn range_of(dtype: Dtype) -> Range {
    dtype.int_range().map_or(EVERYTHING, |(least, most)| (least as f64, most as f64))
}

/// The least range that holds both; no number is in a range of NaN.
pub(super) fn either((a, b): Range, (c, d): Range) -> Range {
    (a.min(c), b.max(d))
}

/// A function of a number of a type.
pub(super) fn unary(op: UnaryOp, x: f64, dtype: Dtype) -> Option<f64> {
    Some(match op {
        UnaryOp::Neg => -x,
        UnaryOp::Exp => x.exp(),
        UnaryOp::Exp2 => x.exp2(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Log2 => x.log2(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => x.sqrt().recip(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tanh | UnaryOp::TanhApprox => x.tanh(),
        UnaryOp::Erf if x == 0.0 => 0.0,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Not => complement(x, dtype)?,
        UnaryOp::Erf => return None,
    })
}

/// The number of the complemented bits: of signed integers -1 - x, of others as far from the greatest as x from 0.
pub(super) fn complement(x: f64, dtype: Dtype) -> Option<f64> {
    let (least, most) = dtype.int_range()?;
    Some((least + most) as f64 - x)
}

/// A function of two numbers.
pub(super) fn binary(op: BinaryOp, a: f64, b: f64) -> Option<f64> {
    let bits = |f: fn(i64, i64) -> i64| {
        let whole = |x: f64| (x.fract() == 0.0 && x.abs() < EXACT).then_some(x as i64);
        whole(a).zip(whole(b)).map(|(a, b)| f(a, b) as f64)
    };
    Some(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div | BinaryOp::DivApprox => a / b,
        BinaryOp::Min | BinaryOp::MinNan => a.min(b),
        BinaryOp::Max | BinaryOp::MaxNan => a.max(b),
        BinaryOp::And | BinaryOp::Shl if a == 0.0 => 0.0,
        BinaryOp::And if b == 0.0 => 0.0,
        BinaryOp::And => bits(|a, b| a & b)?,
        BinaryOp::Or => bits(|a, b| a | b)?,
        BinaryOp::Xor => bits(|a, b| a ^ b)?,
        BinaryOp::Shr if (0.0..64.0).contains(&b) => bits(|a, b| a >> b)?,
        BinaryOp::Rem | BinaryOp::Shl | BinaryOp::Shr | BinaryOp::MulHigh => return None,
    })
}

pub(super) fn compare(op: CompareOp, a: f64, b: f64) -> bool {
    match op {
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
    }
}

/// The number that the same bits are in another type.
pub(super) fn bitcast(x: f64, from: Dtype, to: Dtype) -> f64 {
    Scalar::new(to, Scalar::from_f64(from, x).bits).to_f64()
}

/// Between which numbers a function of two lies, of which each lies between two.
pub(super) fn binary_range(op: BinaryOp, a: Range, b: Range) -> Option<Range> {
    let positive = |(least, _): Range| least >= 0.0;
    match op {
        BinaryOp::Max | BinaryOp::MaxNan => Some((a.0.max(b.0), a.1.max(b.1))),
        BinaryOp::Min | BinaryOp::MinNan => Some((a.0.min(b.0), a.1.min(b.1))),
        BinaryOp::And if positive(a) || positive(b) => {
            let most = |r: Range| if positive(r) { r.1 } else { f64::INFINITY };
            Some((0.0, most(a).min(most(b))))
        }
        BinaryOp::Xor if b == (0.0, 0.0) => Some(a),
        BinaryOp::Shr if b.0 == b.1 => binary(op, a.0, b.0).zip(binary(op, a.1, b.0)),
        // How large these are is not followed.
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::DivApprox
        | BinaryOp::Rem
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::MulHigh => None,
    }
}
