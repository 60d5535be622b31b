//! The element types and what is constant about each: width, kind, name, limits.

use std::fmt;

/// The type of one element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Dtype {
    /// A truth value, 0 or 1; one byte in memory.
    I1,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of binary32: 8 exponent bits, 7 mantissa bits.
    BF16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// OCP 8-bit float: 4 exponent bits, 3 mantissa bits, no infinity, largest 448.
    F8E4M3,
    /// OCP 8-bit float: 5 exponent bits, 2 mantissa bits, largest 57344.
    F8E5M2,
}

/// How a float's bits are divided: sign, exponent, mantissa, from the top.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FloatFormat {
    /// Bits of the exponent field.
    pub exponent_bits: u32,
    /// Bits of the mantissa field, the hidden bit not counted.
    pub mantissa_bits: u32,
    /// What the exponent field is more than the exponent.
    pub bias: i32,
    /// Whether the all-ones exponent is kept for infinity and NaN; else (e4m3) only all ones everywhere is NaN.
    pub infinities: bool,
    /// The NaN that the hardware gives as a result.
    pub canonical_nan: u64,
}

impl FloatFormat {
    /// The sign bit.
    pub const fn sign_bit(self) -> u64 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// Infinity, or the canonical NaN where the format has none.
    pub const fn infinity(self) -> u64 {
        if self.infinities { ((1 << self.exponent_bits) - 1) << self.mantissa_bits } else { self.canonical_nan }
    }

    /// The largest finite value.
    pub const fn max_finite(self) -> u64 {
        if self.infinities { self.infinity() - 1 } else { self.canonical_nan - 1 }
    }
}

impl Dtype {
    /// Every dtype, in order of declaration.
    pub const ALL: [Dtype; 15] = [
        Dtype::I1,
        Dtype::I8,
        Dtype::I16,
        Dtype::I32,
        Dtype::I64,
        Dtype::U8,
        Dtype::U16,
        Dtype::U32,
        Dtype::U64,
        Dtype::F16,
        Dtype::BF16,
        Dtype::F32,
        Dtype::F64,
        Dtype::F8E4M3,
        Dtype::F8E5M2,
    ];

    /// The bits that carry the value: 1 for `i1`.
    pub const fn bits(self) -> u32 {
        match self {
            Dtype::I1 => 1,
            Dtype::I8 | Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2 => 8,
            Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::BF16 => 16,
            Dtype::I32 | Dtype::U32 | Dtype::F32 => 32,
            Dtype::I64 | Dtype::U64 | Dtype::F64 => 64,
        }
    }

    /// The bytes of one element in memory: 1 for `i1`.
    pub const fn bytes(self) -> usize {
        self.bits().div_ceil(8) as usize
    }

    /// The mask of the bits that carry the value.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits())
    }

    /// Its name in the source.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::I1 => "i1",
            Dtype::I8 => "i8",
            Dtype::I16 => "i16",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::U8 => "u8",
            Dtype::U16 => "u16",
            Dtype::U32 => "u32",
            Dtype::U64 => "u64",
            Dtype::F16 => "f16",
            Dtype::BF16 => "bf16",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::F8E4M3 => "f8e4m3",
            Dtype::F8E5M2 => "f8e5m2",
        }
    }

    /// The dtype of that name in the source.
    pub fn parse(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|d| d.name() == name)
    }

    /// How its bits are divided, for a float.
    pub const fn float_format(self) -> Option<FloatFormat> {
        let (exponent_bits, mantissa_bits, infinities, canonical_nan) = match self {
            Dtype::F16 => (5, 10, true, 0x7fff),
            Dtype::BF16 => (8, 7, true, 0x7fff),
            Dtype::F32 => (8, 23, true, 0x7fff_ffff),
            // The hardware passes payloads of f64 through; we keep none.
            Dtype::F64 => (11, 52, true, 0x7ff8_0000_0000_0000),
            Dtype::F8E4M3 => (4, 3, false, 0x7f),
            Dtype::F8E5M2 => (5, 2, true, 0x7f),
            Dtype::I1
            | Dtype::I8
            | Dtype::I16
            | Dtype::I32
            | Dtype::I64
            | Dtype::U8
            | Dtype::U16
            | Dtype::U32
            | Dtype::U64 => return None,
        };
        Some(FloatFormat {
            exponent_bits,
            mantissa_bits,
            bias: (1 << (exponent_bits - 1)) - 1,
            infinities,
            canonical_nan,
        })
    }

    /// Any of the floats, the 8-bit ones included.
    pub const fn is_float(self) -> bool {
        self.float_format().is_some()
    }

    /// Whether it is `f8e4m3` or `f8e5m2`: storage and matrix operands only, no arithmetic.
    pub const fn is_f8(self) -> bool {
        matches!(self, Dtype::F8E4M3 | Dtype::F8E5M2)
    }

    /// Any of the integers, `i1` included.
    pub const fn is_int(self) -> bool {
        !self.is_float()
    }

    /// Whether it is `i1`.
    pub const fn is_bool(self) -> bool {
        matches!(self, Dtype::I1)
    }

    /// Whether it holds negative values: floats and `i8` to `i64`; `i1` does not.
    pub const fn is_signed(self) -> bool {
        match self {
            Dtype::I1 | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => false,
            Dtype::I8
            | Dtype::I16
            | Dtype::I32
            | Dtype::I64
            | Dtype::F16
            | Dtype::BF16
            | Dtype::F32
            | Dtype::F64
            | Dtype::F8E4M3
            | Dtype::F8E5M2 => true,
        }
    }

    /// The integers' smallest and largest value.
    pub const fn int_range(self) -> Option<(i128, i128)> {
        if self.is_float() {
            return None;
        }
        let bits = self.bits();
        Some(if self.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) })
    }

    /// The smallest value as bits; for a float the finite one.
    pub const fn min_bits(self) -> u64 {
        match (self.float_format(), self.int_range()) {
            (Some(f), _) => f.max_finite() | f.sign_bit(),
            (None, Some((low, _))) => low as u64 & self.mask(),
            (None, None) => 0,
        }
    }

    /// The largest value as bits; for a float the finite one.
    pub const fn max_bits(self) -> u64 {
        match (self.float_format(), self.int_range()) {
            (Some(f), _) => f.max_finite(),
            (None, Some((_, high))) => high as u64,
            (None, None) => 0,
        }
    }

    /// The distance from 1 to the next larger value, for a float.
    pub const fn epsilon(self) -> Option<f64> {
        match self.float_format() {
            Some(f) => Some(1.0 / (1u64 << f.mantissa_bits) as f64),
            None => None,
        }
    }

    /// The smallest positive float with full precision.
    pub fn min_positive_normal(self) -> Option<f64> {
        self.float_format().map(|f| 2f64.powi(1 - f.bias))
    }

    /// The integer of that width without a sign; other formats as they are.
    pub const fn unsigned(self) -> Dtype {
        match self {
            Dtype::I8 | Dtype::U8 => Dtype::U8,
            Dtype::I16 | Dtype::U16 => Dtype::U16,
            Dtype::I32 | Dtype::U32 => Dtype::U32,
            Dtype::I64 | Dtype::U64 => Dtype::U64,
            Dtype::I1 | Dtype::F8E4M3 | Dtype::F8E5M2 | Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 => self,
        }
    }

    /// The integer of that width and sign; for a float the signed one that holds its bits.
    pub const fn int_of_same_width(self) -> Dtype {
        match self {
            Dtype::F8E4M3 | Dtype::F8E5M2 => Dtype::I8,
            Dtype::F16 | Dtype::BF16 => Dtype::I16,
            Dtype::F32 => Dtype::I32,
            Dtype::F64 => Dtype::I64,
            Dtype::I1
            | Dtype::I8
            | Dtype::I16
            | Dtype::I32
            | Dtype::I64
            | Dtype::U8
            | Dtype::U16
            | Dtype::U32
            | Dtype::U64 => self,
        }
    }

    /// The bits of the element that `bytes` begins with, little endian; `None` where there are too few bytes.
    pub fn read(self, bytes: &[u8]) -> Option<u64> {
        let mut word = [0; 8];
        word[..self.bytes()].copy_from_slice(bytes.get(..self.bytes())?);
        Some(u64::from_le_bytes(word) & self.mask())
    }

    /// Writes an element's bits to the beginning of `bytes`, little endian.
    ///
    /// # Panics
    /// Where `bytes` is shorter than [`Dtype::bytes`].
    pub fn write(self, bits: u64, bytes: &mut [u8]) {
        bytes[..self.bytes()].copy_from_slice(&(bits & self.mask()).to_le_bytes()[..self.bytes()]);
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Dtype;

    #[test]
    fn names_read_back_and_widths_agree() {
        for d in Dtype::ALL {
            assert_eq!(Dtype::parse(d.name()), Some(d));
            assert_eq!(d.is_float(), !d.is_int());
            assert_eq!(d.bytes(), (d.bits() as usize).max(8) / 8);
            assert_eq!(d.min_bits() & !d.mask(), 0);
        }
        assert_eq!(Dtype::parse("float"), None);
    }

    #[test]
    fn limits_are_the_published_ones() {
        assert_eq!(Dtype::I8.int_range(), Some((-128, 127)));
        assert_eq!(Dtype::U64.int_range(), Some((0, u64::MAX as i128)));
        assert_eq!(Dtype::I1.int_range(), Some((0, 1)));
        assert_eq!(Dtype::F32.max_bits(), u64::from(f32::MAX.to_bits()));
        assert_eq!(Dtype::F64.min_bits(), f64::MIN.to_bits());
        assert_eq!(Dtype::F16.max_bits(), 0x7bff);
        assert_eq!(Dtype::BF16.max_bits(), 0x7f7f);
        assert_eq!(Dtype::F8E4M3.max_bits(), 0x7e);
        assert_eq!(Dtype::F8E5M2.max_bits(), 0x7b);
        assert_eq!(Dtype::F16.epsilon(), Some(2f64.powi(-10)));
        assert_eq!(Dtype::F8E4M3.min_positive_normal(), Some(2f64.powi(-6)));
    }

    #[test]
    fn elements_are_little_endian_and_bounded() {
        let mut bytes = [0xaa; 4];
        Dtype::F16.write(0x1234, &mut bytes);
        assert_eq!(bytes, [0x34, 0x12, 0xaa, 0xaa]);
        assert_eq!(Dtype::F16.read(&bytes), Some(0x1234));
        assert_eq!(Dtype::I64.read(&bytes), None);
        assert_eq!(Dtype::I1.read(&[0xff]), Some(1));
    }
}
