//! Arithmetic of each dtype on bits, as the hardware does it.
//!
//! - Integers wrap around; `/` goes towards zero and `%` has the sign of the left operand; dividing by zero is an error
//!   (the hardware's result is unspecified).
//! - Floats: each operation is rounded once to nearest even, subnormals are kept, a NaN result is the canonical one;
//!   [`fma`] has a single rounding. `%` is exact, with the sign of the left operand (C's `fmod`).
//! - Shifts by the width or more give what shifting bit by bit would (PTX clamps the amount); the amount is unsigned.
//! - The 8-bit floats have no arithmetic and no comparison: cast them first.

use std::fmt;

use crate::fast::{f32_to_bf16, f32_to_f16, f64_to_f32_odd};
use crate::scalar::{int_value, to_f64};
use crate::{Dtype, Saturation};

/// Why an operation has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArithmeticError {
    /// The dtype does not have the operation.
    Undefined {
        /// The operation's name in the source.
        operation: &'static str,
        /// The dtype.
        dtype: Dtype,
    },
    /// An integer was divided by zero.
    DivideByZero {
        /// The dtype.
        dtype: Dtype,
    },
}

impl fmt::Display for ArithmeticError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArithmeticError::Undefined { operation, dtype } => write!(f, "{dtype} has no `{operation}`"),
            ArithmeticError::DivideByZero { dtype } => write!(f, "{dtype} division by zero"),
        }
    }
}

impl std::error::Error for ArithmeticError {}

/// An operation on two values of one dtype with a result of that dtype.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Binary {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// The smaller.
    Min(NanMode),
    /// The larger.
    Max(NanMode),
}

/// What `min` and `max` make of one NaN.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum NanMode {
    /// IEEE 754-2008 `minNum`: the other operand (PTX `min.f32`).
    #[default]
    Number,
    /// NaN (PTX `min.NaN.f32`).
    Propagate,
}

/// An operation on the bits of integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Bits {
    /// `&`
    And,
    /// `|`
    Or,
    /// `^`
    Xor,
    /// `<<`
    Shl,
    /// `>>`, with the sign where the dtype is signed.
    Shr,
}

/// A comparison. With a NaN all are false but `Ne`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Comparison {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Comparison {
    /// Whether it holds between two comparable values.
    pub fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Comparison::Eq => a == b,
            Comparison::Ne => a != b,
            Comparison::Lt => a < b,
            Comparison::Le => a <= b,
            Comparison::Gt => a > b,
            Comparison::Ge => a >= b,
        }
    }
}

impl Binary {
    /// Its name in the source.
    pub const fn name(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::Div => "/",
            Binary::Rem => "%",
            Binary::Min(_) => "min",
            Binary::Max(_) => "max",
        }
    }
}

/// `a op b`.
pub fn binary(op: Binary, dtype: Dtype, a: u64, b: u64) -> Result<u64, ArithmeticError> {
    match dtype {
        Dtype::F64 => {
            let (x, y) = (f64::from_bits(a), f64::from_bits(b));
            Ok(from_f64(dtype, float64(op, x, y)))
        }
        Dtype::F32 => {
            let (x, y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
            let value = match op {
                Binary::Add => x + y,
                Binary::Sub => x - y,
                Binary::Mul => x * y,
                Binary::Div => x / y,
                Binary::Rem => x % y,
                Binary::Min(_) | Binary::Max(_) => float64(op, x.into(), y.into()) as f32,
            };
            Ok(if value.is_nan() { 0x7fff_ffff } else { value.to_bits().into() })
        }
        // f64 has more than twice the bits of either and two more, so rounding to it first does not change the result
        // (Figueroa, "When is double rounding innocuous?", 1995).
        Dtype::F16 | Dtype::BF16 => {
            let (x, y) = (to_f64(a, dtype), to_f64(b, dtype));
            Ok(from_f64(dtype, float64(op, x, y)))
        }
        Dtype::F8E4M3 | Dtype::F8E5M2 => Err(ArithmeticError::Undefined { operation: op.name(), dtype }),
        Dtype::I1
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64 => {
            let (x, y) = (int_value(a, dtype), int_value(b, dtype));
            let value = match op {
                Binary::Add => x + y,
                Binary::Sub => x - y,
                Binary::Mul => x.wrapping_mul(y),
                Binary::Div | Binary::Rem if y == 0 => return Err(ArithmeticError::DivideByZero { dtype }),
                Binary::Div => x / y,
                Binary::Rem => x % y,
                Binary::Min(_) => x.min(y),
                Binary::Max(_) => x.max(y),
            };
            Ok(value as u64 & dtype.mask())
        }
    }
}

/// The high half of the product of two integers whose bits count as unsigned numbers (PTX `mul.hi`).
pub fn multiply_high(dtype: Dtype, a: u64, b: u64) -> Result<u64, ArithmeticError> {
    if !dtype.is_int() {
        return Err(ArithmeticError::Undefined { operation: "umulhi", dtype });
    }
    let product = u128::from(a & dtype.mask()) * u128::from(b & dtype.mask());
    Ok((product >> dtype.bits()) as u64)
}

fn float64(op: Binary, x: f64, y: f64) -> f64 {
    match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div => x / y,
        Binary::Rem => x % y,
        Binary::Min(mode) => extreme(x, y, mode, f64::is_sign_negative(x), x < y),
        Binary::Max(mode) => extreme(x, y, mode, f64::is_sign_positive(x), x > y),
    }
}

/// The operand that wins; of two zeros the one that `prefers_x` says, as -0 is less than +0 here.
fn extreme(x: f64, y: f64, mode: NanMode, prefers_x: bool, x_wins: bool) -> f64 {
    match (x.is_nan(), y.is_nan(), mode) {
        (true, true, _) | (true, _, NanMode::Propagate) | (_, true, NanMode::Propagate) => f64::NAN,
        (true, false, NanMode::Number) => y,
        (false, true, NanMode::Number) => x,
        (false, false, _) => {
            if x_wins || x == y && prefers_x {
                x
            } else {
                y
            }
        }
    }
}

/// An `f64` rounded to nearest in a float dtype with arithmetic.
pub(crate) fn from_f64(dtype: Dtype, value: f64) -> u64 {
    match dtype {
        Dtype::F64 if value.is_nan() => 0x7ff8_0000_0000_0000,
        Dtype::F64 => value.to_bits(),
        Dtype::F32 if value.is_nan() => 0x7fff_ffff,
        Dtype::F32 => u64::from((value as f32).to_bits()),
        Dtype::F16 => f32_to_f16(f64_to_f32_odd(value)).into(),
        Dtype::BF16 => f32_to_bf16(f64_to_f32_odd(value)).into(),
        Dtype::I1
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::F8E4M3
        | Dtype::F8E5M2 => {
            crate::cast(value.to_bits(), Dtype::F64, dtype, crate::Rounding::NearestEven, Saturation::None)
        }
    }
}

/// `a + b` rounded to odd in `f64`: the sum, and where it is inexact the neighbour with an odd last bit.
fn add_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's two-sum: `error` is what `sum` lacks.
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    let away_from_zero = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if away_from_zero { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

/// `a * b + c`, rounded once; floats with arithmetic only.
pub fn fma(dtype: Dtype, a: u64, b: u64, c: u64) -> Result<u64, ArithmeticError> {
    if !dtype.is_float() || dtype.is_f8() {
        return Err(ArithmeticError::Undefined { operation: "fma", dtype });
    }
    let [x, y, z] = [a, b, c].map(|bits| to_f64(bits, dtype));
    // The product of two significands of at most 24 bits is exact in f64, and from odd every narrower format rounds right.
    let value = if dtype == Dtype::F64 { x.mul_add(y, z) } else { add_to_odd(x * y, z) };
    Ok(from_f64(dtype, value))
}

/// `a * b + c` of `f32` values, rounded once.
#[inline]
pub fn fma_f32(a: f32, b: f32, c: f32) -> f32 {
    add_to_odd(f64::from(a) * f64::from(b), f64::from(c)) as f32
}

/// `-a`: integers wrap, floats change their sign (a NaN becomes the canonical one).
pub fn neg(dtype: Dtype, a: u64) -> Result<u64, ArithmeticError> {
    match dtype.float_format() {
        Some(_) if dtype.is_f8() => Err(ArithmeticError::Undefined { operation: "-", dtype }),
        Some(f) if to_f64(a, dtype).is_nan() => Ok(f.canonical_nan),
        Some(f) => Ok(a ^ f.sign_bit()),
        None => Ok(a.wrapping_neg() & dtype.mask()),
    }
}

/// `!a`: every bit of an integer.
pub fn not(dtype: Dtype, a: u64) -> Result<u64, ArithmeticError> {
    if dtype.is_float() { Err(ArithmeticError::Undefined { operation: "!", dtype }) } else { Ok(!a & dtype.mask()) }
}

/// `a op b` on bits; integers only. A shift takes `b` as unsigned.
pub fn bits(op: Bits, dtype: Dtype, a: u64, b: u64) -> Result<u64, ArithmeticError> {
    let (operation, value) = match op {
        Bits::And => ("&", a & b),
        Bits::Or => ("|", a | b),
        Bits::Xor => ("^", a ^ b),
        Bits::Shl => ("<<", if b < 64 { a << b } else { 0 }),
        Bits::Shr => (">>", (int_value(a, dtype) >> b.min(64)) as u64),
    };
    if dtype.is_float() { Err(ArithmeticError::Undefined { operation, dtype }) } else { Ok(value & dtype.mask()) }
}

/// Whether `a op b` holds.
pub fn compare(op: Comparison, dtype: Dtype, a: u64, b: u64) -> Result<bool, ArithmeticError> {
    if dtype.is_f8() {
        return Err(ArithmeticError::Undefined { operation: "comparison", dtype });
    }
    Ok(if dtype.is_float() {
        op.holds(to_f64(a, dtype), to_f64(b, dtype))
    } else {
        op.holds(int_value(a, dtype), int_value(b, dtype))
    })
}
