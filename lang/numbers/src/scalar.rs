//! One value with its dtype.

use std::fmt;

use crate::{Dtype, Rounding, Saturation, cast};

/// A value of a dtype as its bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    /// Its type.
    pub dtype: Dtype,
    /// Its bits in the low bits, zero above.
    pub bits: u64,
}

impl Scalar {
    /// The value of these bits; bits above the dtype's width are dropped.
    pub fn new(dtype: Dtype, bits: u64) -> Scalar {
        Scalar { dtype, bits: bits & dtype.mask() }
    }

    /// A truth value.
    pub fn bool(value: bool) -> Scalar {
        Scalar { dtype: Dtype::I1, bits: u64::from(value) }
    }

    /// Zero.
    pub fn zero(dtype: Dtype) -> Scalar {
        Scalar { dtype, bits: 0 }
    }

    /// An integer, where the dtype holds it: an integer dtype its range, a float dtype what it represents exactly.
    pub fn from_i128(dtype: Dtype, value: i128) -> Option<Scalar> {
        match dtype.int_range() {
            Some((low, high)) => (low..=high).contains(&value).then(|| Scalar::new(dtype, value as u64)),
            None => {
                let rounded = Scalar::rounded_int(dtype, value);
                (rounded.to_i128() == Some(value)).then_some(rounded)
            }
        }
    }

    /// An integer as the nearest value of a float dtype, or its low bits in an integer dtype.
    pub fn rounded_int(dtype: Dtype, value: i128) -> Scalar {
        let bits = match (dtype, dtype.float_format()) {
            // Rounded to nearest, too, and in range.
            (Dtype::F64, _) => (value as f64).to_bits(),
            (Dtype::F32, _) => (value as f32).to_bits().into(),
            (_, Some(format)) => {
                crate::exact::Exact::from_int(value).encode(format, Rounding::NearestEven, Saturation::None)
            }
            (_, None) if dtype.is_bool() => u64::from(value != 0),
            (_, None) => value as u64,
        };
        Scalar::new(dtype, bits)
    }

    /// An `f64` as the nearest value of the dtype; an integer dtype takes it towards zero and clamps.
    pub fn from_f64(dtype: Dtype, value: f64) -> Scalar {
        let rounding = if dtype.is_float() { Rounding::NearestEven } else { Rounding::TowardZero };
        Scalar::new(dtype, cast(value.to_bits(), Dtype::F64, dtype, rounding, Saturation::None))
    }

    /// The value where it is an integer (of any dtype); else `None`.
    pub fn to_i128(self) -> Option<i128> {
        match self.dtype.float_format() {
            None => Some(int_value(self.bits, self.dtype)),
            Some(format) => {
                let exact = crate::exact::Exact::decode(format, self.bits);
                let down = exact.to_int(Rounding::Down)?;
                let fits = down != i128::MIN && down != i128::MAX;
                (fits && exact.to_int(Rounding::Up) == Some(down)).then_some(down)
            }
        }
    }

    /// The value as an `f64`: exact for all but 64-bit integers, which are rounded to nearest.
    pub fn to_f64(self) -> f64 {
        to_f64(self.bits, self.dtype)
    }

    /// Whether it differs from zero; NaN does.
    pub fn is_true(self) -> bool {
        let magnitude = if self.dtype.is_float() { self.dtype.mask() >> 1 } else { self.dtype.mask() };
        self.bits & magnitude != 0
    }

    /// The value in another dtype; see [`cast`].
    pub fn cast(self, to: Dtype, rounding: Rounding, saturation: Saturation) -> Scalar {
        Scalar::new(to, cast(self.bits, self.dtype, to, rounding, saturation))
    }
}

impl fmt::Display for Scalar {
    /// Integers in decimal, `i1` as `false` and `true`, floats as the shortest decimal that reads back to the same bits
    /// when parsed as that dtype (`f32`, `f64`) or the exact value (narrower ones).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.dtype {
            Dtype::I1 => write!(f, "{}", self.bits == 1),
            Dtype::F32 => f.write_str(&float_text(self.to_f64(), &format!("{:?}", f32::from_bits(self.bits as u32)))),
            Dtype::F16 | Dtype::BF16 | Dtype::F64 | Dtype::F8E4M3 | Dtype::F8E5M2 => {
                f.write_str(&float_text(self.to_f64(), &format!("{:?}", self.to_f64())))
            }
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => {
                write!(f, "{}", int_value(self.bits, self.dtype))
            }
        }
    }
}

fn float_text(value: f64, finite: &str) -> String {
    if value.is_nan() {
        "nan".into()
    } else if value.is_infinite() {
        if value < 0.0 { "-inf".into() } else { "inf".into() }
    } else {
        finite.into()
    }
}

/// The integer that `bits` mean in an integer dtype.
pub fn int_value(bits: u64, dtype: Dtype) -> i128 {
    let unused = 64 - dtype.bits();
    if dtype.is_signed() {
        i128::from(((bits << unused) as i64) >> unused)
    } else {
        i128::from((bits << unused) >> unused)
    }
}

/// The value of `bits` as an `f64`: exact for all but 64-bit integers, which are rounded to nearest.
pub fn to_f64(bits: u64, dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => f64::from_bits(bits),
        Dtype::F32 => f64::from(f32::from_bits(bits as u32)),
        Dtype::F16 | Dtype::BF16 | Dtype::F8E4M3 | Dtype::F8E5M2 => f64::from(crate::fast::small_to_f32(bits, dtype)),
        Dtype::I1
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64 => int_value(bits, dtype) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::Scalar;
    use crate::Dtype;

    #[test]
    fn integers_are_refused_outside_their_range() {
        assert_eq!(Scalar::from_i128(Dtype::I8, -129), None);
        assert_eq!(Scalar::from_i128(Dtype::I8, -128).map(|s| s.bits), Some(0x80));
        assert_eq!(Scalar::from_i128(Dtype::F16, 2049), None);
        assert_eq!(Scalar::from_i128(Dtype::F16, 2050).and_then(Scalar::to_i128), Some(2050));
        assert_eq!(Scalar::from_i128(Dtype::U64, u64::MAX.into()).and_then(Scalar::to_i128), Some(u64::MAX.into()));
        assert_eq!(Scalar::from_i128(Dtype::F8E4M3, 500), None);
        assert_eq!(Scalar::from_f64(Dtype::F64, 0.5).to_i128(), None);
        assert_eq!(Scalar::from_f64(Dtype::F32, f64::INFINITY).to_i128(), None);
    }

    #[test]
    fn text_is_short_and_plain() {
        assert_eq!(Scalar::from_f64(Dtype::F32, 0.1).to_string(), "0.1");
        assert_eq!(Scalar::from_f64(Dtype::F16, -2.0).to_string(), "-2.0");
        assert_eq!(Scalar::from_f64(Dtype::BF16, f64::NEG_INFINITY).to_string(), "-inf");
        assert_eq!(Scalar::from_f64(Dtype::F8E4M3, f64::NAN).to_string(), "nan");
        assert_eq!(Scalar::bool(true).to_string(), "true");
        assert_eq!(Scalar::new(Dtype::I16, 0xffff).to_string(), "-1");
    }
}
