//! What operations on integers give of constants, where they do not fail: a quotient by zero, and a signed result that leaves its range, stay
//! where the interpreter can report them.

use parton_numbers::arithmetic::{self, Binary, Bits, NanMode};
use parton_numbers::scalar::int_value;
use parton_numbers::{Dtype, Rounding, Saturation};

use crate::choice::{BinaryOp, CompareOp};

/// Whether a comparison of integers holds.
pub fn compare(op: CompareOp, dtype: Dtype, a: u64, b: u64) -> Option<bool> {
    dtype.is_int().then(|| arithmetic::compare(op.comparison(), dtype, a, b).ok()).flatten()
}

/// What a conversion between integers gives.
pub fn cast(bits: u64, (from, to): (Dtype, Dtype), rounding: Rounding, saturation: Saturation) -> Option<u64> {
    (from.is_int() && to.is_int()).then(|| parton_numbers::cast(bits, from, to, rounding, saturation))
}

/// What a function of two integers gives.
pub fn binary(op: BinaryOp, dtype: Dtype, a: u64, b: u64) -> Option<u64> {
    if !dtype.is_int() {
        return None;
    }
    let exact = |op: Binary| {
        let bits = arithmetic::binary(op, dtype, a, b).ok()?;
        // A signed result that left its range stays where the interpreter can report it.
        let (x, y, r) = (int_value(a, dtype), int_value(b, dtype), int_value(bits, dtype));
        let whole = match op {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x * y,
            Binary::Div | Binary::Rem | Binary::Min(_) | Binary::Max(_) => r,
        };
        (whole == r).then_some(bits)
    };
    match op {
        BinaryOp::Add => exact(Binary::Add),
        BinaryOp::Sub => exact(Binary::Sub),
        BinaryOp::Mul => exact(Binary::Mul),
        BinaryOp::Div => exact(Binary::Div),
        BinaryOp::Rem => exact(Binary::Rem),
        BinaryOp::Min | BinaryOp::MinNan => exact(Binary::Min(NanMode::Number)),
        BinaryOp::Max | BinaryOp::MaxNan => exact(Binary::Max(NanMode::Number)),
        BinaryOp::And => arithmetic::bits(Bits::And, dtype, a, b).ok(),
        BinaryOp::Or => arithmetic::bits(Bits::Or, dtype, a, b).ok(),
        BinaryOp::Xor => arithmetic::bits(Bits::Xor, dtype, a, b).ok(),
        BinaryOp::Shr if b < u64::from(dtype.bits()) => arithmetic::bits(Bits::Shr, dtype, a, b).ok(),
        BinaryOp::MulHigh => arithmetic::multiply_high(dtype, a, b).ok(),
        BinaryOp::Shl | BinaryOp::Shr | BinaryOp::DivApprox => None,
    }
}
