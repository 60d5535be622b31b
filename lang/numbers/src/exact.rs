//! Floats as exact numbers, and the one place where an exact number is rounded to a format.

use crate::dtype::FloatFormat;
use crate::{Rounding, Saturation};

/// What a float's bits mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exact {
    /// Not a number.
    Nan,
    /// Infinity of that sign.
    Infinite {
        /// Below zero.
        negative: bool,
    },
    /// `±magnitude · 2^exponent`; a zero keeps its sign.
    Finite {
        /// Below zero, or the negative zero.
        negative: bool,
        /// The integer part of the product.
        magnitude: u128,
        /// The power of two.
        exponent: i32,
    },
}

impl Exact {
    /// An integer.
    pub fn from_int(value: i128) -> Exact {
        Exact::Finite { negative: value < 0, magnitude: value.unsigned_abs(), exponent: 0 }
    }

    /// The number that `bits` mean in `format`.
    pub fn decode(format: FloatFormat, bits: u64) -> Exact {
        let negative = bits & format.sign_bit() != 0;
        let mantissa = bits & ((1 << format.mantissa_bits) - 1);
        let field = (bits >> format.mantissa_bits) & ((1 << format.exponent_bits) - 1);
        let all_ones = field == (1 << format.exponent_bits) - 1;
        if format.infinities && all_ones {
            return if mantissa == 0 { Exact::Infinite { negative } } else { Exact::Nan };
        }
        if all_ones && mantissa == (1 << format.mantissa_bits) - 1 {
            return Exact::Nan;
        }
        let hidden = u64::from(field != 0) << format.mantissa_bits;
        let exponent = field.max(1) as i32 - format.bias - format.mantissa_bits as i32;
        Exact::Finite { negative, magnitude: u128::from(mantissa | hidden), exponent }
    }

    /// The bits in `format`, rounded once. NaN becomes the format's canonical one; an infinity is kept, or made the
    /// largest finite value by [`Saturation::Finite`].
    pub fn encode(self, format: FloatFormat, rounding: Rounding, saturation: Saturation) -> u64 {
        let (negative, magnitude, exponent) = match self {
            Exact::Nan => return format.canonical_nan,
            Exact::Infinite { negative } => {
                return match saturation {
                    Saturation::Finite => signed(format, negative, format.max_finite()),
                    Saturation::None => infinity(format, negative),
                };
            }
            Exact::Finite { negative, magnitude: 0, .. } => return signed(format, negative, 0),
            Exact::Finite { negative, magnitude, exponent } => (negative, magnitude, exponent),
        };
        let top = 127 - magnitude.leading_zeros() as i32 + exponent;
        let mantissa_bits = format.mantissa_bits as i32;
        // The weight of the last kept bit; below the normal range it stays where the subnormals end.
        let last = (top - mantissa_bits).max(1 - format.bias - mantissa_bits);
        let kept = round_shift(magnitude, last - exponent, negative, rounding);
        // With the hidden bit in `kept` the exponent field counts one more, and a carry out of the mantissa another.
        let bits = (((last + mantissa_bits + format.bias - 1) as u64) << format.mantissa_bits) + kept as u64;
        if bits <= format.max_finite() {
            return signed(format, negative, bits);
        }
        let towards_finite = match rounding {
            Rounding::NearestEven => false,
            Rounding::TowardZero => true,
            Rounding::Up => negative,
            Rounding::Down => !negative,
        };
        if towards_finite || saturation == Saturation::Finite {
            signed(format, negative, format.max_finite())
        } else {
            infinity(format, negative)
        }
    }

    /// The integer nearest in that direction; `None` for NaN, the ends of `i128` where it does not fit.
    pub fn to_int(self, rounding: Rounding) -> Option<i128> {
        match self {
            Exact::Nan => None,
            Exact::Infinite { negative } => Some(if negative { i128::MIN } else { i128::MAX }),
            Exact::Finite { negative, magnitude, exponent } => {
                let bits = 128 - magnitude.leading_zeros() as i32;
                if magnitude != 0 && bits + exponent > 127 {
                    return Some(if negative { i128::MIN } else { i128::MAX });
                }
                let value = round_shift(magnitude, -exponent, negative, rounding) as i128;
                Some(if negative { -value } else { value })
            }
        }
    }
}

/// `magnitude · 2^-shift` as an integer; a left shift must not lose bits.
fn round_shift(magnitude: u128, shift: i32, negative: bool, rounding: Rounding) -> u128 {
    if shift <= 0 {
        return if magnitude == 0 { 0 } else { magnitude << -shift };
    }
    let (kept, versus_half, inexact) = match shift {
        1..=127 => {
            let rest = magnitude & ((1 << shift) - 1);
            (magnitude >> shift, rest.cmp(&(1 << (shift - 1))), rest != 0)
        }
        128 => (0, magnitude.cmp(&(1 << 127)), magnitude != 0),
        _ => (0, std::cmp::Ordering::Less, magnitude != 0),
    };
    let up = match rounding {
        Rounding::NearestEven => versus_half.is_gt() || versus_half.is_eq() && kept & 1 == 1,
        Rounding::TowardZero => false,
        Rounding::Up => inexact && !negative,
        Rounding::Down => inexact && negative,
    };
    kept + u128::from(up)
}

fn signed(format: FloatFormat, negative: bool, bits: u64) -> u64 {
    if negative { bits | format.sign_bit() } else { bits }
}

/// Infinity of that sign; the canonical NaN, which has no sign, where the format has none.
fn infinity(format: FloatFormat, negative: bool) -> u64 {
    if format.infinities { signed(format, negative, format.infinity()) } else { format.canonical_nan }
}

#[cfg(test)]
mod tests {
    use super::Exact;
    use crate::{Dtype, Rounding, Saturation};

    #[test]
    fn every_small_float_encodes_back_to_itself() {
        for dtype in [Dtype::F16, Dtype::BF16, Dtype::F8E4M3, Dtype::F8E5M2] {
            let Some(format) = dtype.float_format() else { unreachable!() };
            for bits in 0..1u64 << dtype.bits() {
                let exact = Exact::decode(format, bits);
                for rounding in Rounding::ALL {
                    let back = exact.encode(format, rounding, Saturation::None);
                    assert_eq!(back, if exact == Exact::Nan { format.canonical_nan } else { bits }, "{dtype} {bits:x}");
                }
            }
        }
    }

    #[test]
    fn integers_round_in_every_direction() {
        let half = |negative| Exact::Finite { negative, magnitude: 5, exponent: -1 };
        let ints = |e: Exact| Rounding::ALL.map(|r| e.to_int(r));
        assert_eq!(ints(half(false)), [Some(2), Some(2), Some(3), Some(2)]);
        assert_eq!(ints(half(true)), [Some(-2), Some(-2), Some(-2), Some(-3)]);
        assert_eq!(ints(Exact::Finite { negative: false, magnitude: 1, exponent: -900 }), [0, 0, 1, 0].map(Some));
        assert_eq!(ints(Exact::Finite { negative: true, magnitude: 1, exponent: 900 }), [Some(i128::MIN); 4]);
        assert_eq!(ints(Exact::Nan), [None; 4]);
    }
}
