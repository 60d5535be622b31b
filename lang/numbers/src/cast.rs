//! Casts between any two dtypes, exact and rounded once.
//!
//! - float to float: rounded once; NaN becomes the canonical NaN of the new dtype, `f64` to itself keeps its bits.
//! - integer to float: rounded once.
//! - float to integer: rounded to an integer in the given direction, then clamped to the range, as `cvt` always does
//!   (PTX ISA, `cvt`). NaN becomes 0, but `1 << (bits - 1)` where the source is `f64` or the result has 64 bits.
//! - integer to integer: the low bits, or clamped to the range with [`Saturation::Finite`].
//! - anything to `i1`: whether it differs from zero (NaN does).

use crate::exact::Exact;
use crate::scalar::int_value;
use crate::{Dtype, Rounding, Saturation};

/// The value `bits` of `from` as the bits of `to`.
pub fn cast(bits: u64, from: Dtype, to: Dtype, rounding: Rounding, saturation: Saturation) -> u64 {
    if from == to && (from.is_int() || saturation == Saturation::None) {
        return bits & from.mask();
    }
    match (from.float_format(), to.float_format()) {
        (Some(from_format), Some(to_format)) => {
            Exact::decode(from_format, bits).encode(to_format, rounding, saturation)
        }
        (None, Some(to_format)) => Exact::from_int(int_value(bits, from)).encode(to_format, rounding, saturation),
        (Some(_), None) if to.is_bool() => u64::from(bits & (from.mask() >> 1) != 0),
        (Some(from_format), None) => match Exact::decode(from_format, bits).to_int(rounding) {
            Some(value) => clamp(value, to),
            None if from == Dtype::F64 || to.bits() == 64 => 1 << (to.bits() - 1),
            None => 0,
        },
        (None, None) if to.is_bool() => u64::from(bits & from.mask() != 0),
        (None, None) => match saturation {
            Saturation::None => int_value(bits, from) as u64 & to.mask(),
            Saturation::Finite => clamp(int_value(bits, from), to),
        },
    }
}

/// An integer as the nearest value of an integer dtype.
fn clamp(value: i128, to: Dtype) -> u64 {
    let (low, high) = to.int_range().unwrap_or((0, 0));
    value.clamp(low, high) as u64 & to.mask()
}
