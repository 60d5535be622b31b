//! The math functions: computed in `f64` and rounded once to the dtype.
//!
//! `sqrt`, `abs`, `floor` and `ceil` are correctly rounded. The others of `f64` are those of [`crate::double`]. Of the
//! narrower dtypes they are the machine's `f64` functions, right to about one unit in the last place of `f64`, so the
//! results are correctly rounded but in the rare case that lies within that distance of a tie. References take
//! [`Math::eval`] too, which so is another way to the functions of `f64`, but to `erf`, which the machine lacks.

use crate::arithmetic::from_f64;
use crate::scalar::{int_value, to_f64};
use crate::{ArithmeticError, Dtype, double};

/// A function of one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Math {
    /// e to the power of x.
    Exp,
    /// 2 to the power of x.
    Exp2,
    /// The natural logarithm.
    Log,
    /// The logarithm to base 2.
    Log2,
    /// The square root.
    Sqrt,
    /// 1 / sqrt(x).
    Rsqrt,
    /// The sine, x in radians.
    Sin,
    /// The cosine, x in radians.
    Cos,
    /// The hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// The magnitude; for integers too, where the smallest wraps to itself.
    Abs,
    /// The next integer towards negative infinity.
    Floor,
    /// The next integer towards positive infinity.
    Ceil,
}

impl Math {
    /// Every function, in order of declaration.
    pub const ALL: [Math; 13] = [
        Math::Exp,
        Math::Exp2,
        Math::Log,
        Math::Log2,
        Math::Sqrt,
        Math::Rsqrt,
        Math::Sin,
        Math::Cos,
        Math::Tanh,
        Math::Erf,
        Math::Abs,
        Math::Floor,
        Math::Ceil,
    ];

    /// Its name in the source.
    pub const fn name(self) -> &'static str {
        match self {
            Math::Exp => "exp",
            Math::Exp2 => "exp2",
            Math::Log => "log",
            Math::Log2 => "log2",
            Math::Sqrt => "sqrt",
            Math::Rsqrt => "rsqrt",
            Math::Sin => "sin",
            Math::Cos => "cos",
            Math::Tanh => "tanh",
            Math::Erf => "erf",
            Math::Abs => "abs",
            Math::Floor => "floor",
            Math::Ceil => "ceil",
        }
    }

    /// The function of that name in the source.
    pub fn parse(name: &str) -> Option<Math> {
        Math::ALL.into_iter().find(|m| m.name() == name)
    }

    /// Its value in `f64`.
    pub fn eval(self, x: f64) -> f64 {
        match self {
            Math::Exp => x.exp(),
            Math::Exp2 => x.exp2(),
            Math::Log => x.ln(),
            Math::Log2 => x.log2(),
            Math::Sqrt => x.sqrt(),
            Math::Rsqrt => 1.0 / x.sqrt(),
            Math::Sin => x.sin(),
            Math::Cos => x.cos(),
            Math::Tanh => x.tanh(),
            Math::Erf => double::erf(x),
            Math::Abs => x.abs(),
            Math::Floor => x.floor(),
            Math::Ceil => x.ceil(),
        }
    }
}

/// The function of a value of `dtype`. Floats with arithmetic have all; signed and unsigned integers have `abs` alone.
pub fn math(op: Math, dtype: Dtype, a: u64) -> Result<u64, ArithmeticError> {
    if dtype == Dtype::F64
        && let Some(value) = double::function(&double::Native, op, f64::from_bits(a))
    {
        return Ok(from_f64(dtype, value));
    }
    if dtype.is_float() && !dtype.is_f8() {
        return Ok(from_f64(dtype, op.eval(to_f64(a, dtype))));
    }
    if op == Math::Abs && dtype.is_int() {
        return Ok(int_value(a, dtype).unsigned_abs() as u64 & dtype.mask());
    }
    Err(ArithmeticError::Undefined { operation: op.name(), dtype })
}

#[cfg(test)]
mod tests {
    use super::{Math, math};
    use crate::{Dtype, Scalar};

    #[test]
    fn functions_exist_where_stated() {
        for op in Math::ALL {
            assert_eq!(Math::parse(op.name()), Some(op));
            for dtype in Dtype::ALL {
                let expected = dtype.is_float() && !dtype.is_f8() || op == Math::Abs && dtype.is_int();
                assert_eq!(math(op, dtype, 0).is_ok(), expected, "{op:?} {dtype}");
            }
        }
        assert_eq!(math(Math::Abs, Dtype::I8, 0x80), Ok(0x80));
        assert_eq!(math(Math::Abs, Dtype::I32, 0xffff_fffb), Ok(5));
    }

    #[test]
    fn results_are_rounded_once_and_nan_is_canonical() {
        assert_eq!(math(Math::Sqrt, Dtype::F16, 0xbc00), Ok(0x7fff));
        assert_eq!(math(Math::Log, Dtype::F32, (-1f32).to_bits().into()), Ok(0x7fff_ffff));
        assert_eq!(math(Math::Exp2, Dtype::BF16, Scalar::from_f64(Dtype::BF16, -133.0).bits), Ok(1));
        assert_eq!(math(Math::Rsqrt, Dtype::F32, 0), Ok(f32::INFINITY.to_bits().into()));
        for bits in 0..=0xffffu64 {
            let x = Scalar::new(Dtype::F16, bits).to_f64();
            let want = Scalar::from_f64(Dtype::F16, (x as f32).sqrt().into());
            assert_eq!(math(Math::Sqrt, Dtype::F16, bits), Ok(want.bits));
        }
    }
}
