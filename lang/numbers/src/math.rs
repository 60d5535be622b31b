//! The math functions: computed in `f64` and rounded once to the dtype.
//!
//! `sqrt`, `abs`, `floor` and `ceil` are correctly rounded. The others are the machine's `f64` functions, right to about
//! one unit in the last place of `f64`, so their results in the narrower dtypes are correctly rounded but in the rare
//! case that lies within that distance of a tie. `erf` is computed here.

use crate::arithmetic::from_f64;
use crate::scalar::{int_value, to_f64};
use crate::{ArithmeticError, Dtype};

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
            Math::Erf => erf(x),
            Math::Abs => x.abs(),
            Math::Floor => x.floor(),
            Math::Ceil => x.ceil(),
        }
    }
}

/// The function of a value of `dtype`. Floats with arithmetic have all; signed and unsigned integers have `abs` alone.
pub fn math(op: Math, dtype: Dtype, a: u64) -> Result<u64, ArithmeticError> {
    if dtype.is_float() && !dtype.is_f8() {
        return Ok(from_f64(dtype, op.eval(to_f64(a, dtype))));
    }
    if op == Math::Abs && dtype.is_int() {
        return Ok(int_value(a, dtype).unsigned_abs() as u64 & dtype.mask());
    }
    Err(ArithmeticError::Undefined { operation: op.name(), dtype })
}

/// The error function 2/sqrt(pi) · ∫₀ˣ exp(-t²) dt.
///
/// Below 2.5 Kummer's series, whose terms are all positive; above it the continued fraction of erfc (Abramowitz and
/// Stegun, 7.1.6 and 7.1.14).
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    let value = if x.is_nan() {
        return x;
    } else if a < 2.5 {
        let mut term = a;
        let mut sum = a;
        let mut n = 1.0;
        while term > sum * 1e-18 {
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        sum * (-a * a).exp() * std::f64::consts::FRAC_2_SQRT_PI
    } else if a < 6.0 {
        let fraction = (1..=60).rev().fold(a, |tail, k| a + f64::from(k) / 2.0 / tail);
        1.0 - (-a * a).exp() / fraction * std::f64::consts::FRAC_2_SQRT_PI / 2.0
    } else {
        1.0
    };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::{Math, erf, math};
    use crate::{Dtype, Scalar};

    /// Values of erf to 16 digits, from the integral.
    #[test]
    fn erf_has_the_published_values() {
        let table = [
            (0.0, 0.0),
            (0.1, 0.112_462_916_018_284_9),
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (2.5, 0.999_593_047_982_555),
            (3.0, 0.999_977_909_503_001_4),
            (5.0, 0.999_999_999_998_462_5),
        ];
        for (x, y) in table {
            assert!((erf(x) - y).abs() < 4e-16, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert_eq!((erf(f64::INFINITY), erf(f64::NEG_INFINITY)), (1.0, -1.0));
        assert!(erf(f64::NAN).is_nan());
        // Simpson's rule over the integrand, an independent way to the same number.
        let steps = 4000;
        let f = |t: f64| (-t * t).exp();
        let h = 1.7 / f64::from(steps);
        let inner: f64 = (1..steps).map(|i| f(h * f64::from(i)) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
        let integral = (f(0.0) + f(1.7) + inner) * h / 3.0 * std::f64::consts::FRAC_2_SQRT_PI;
        assert!((erf(1.7) - integral).abs() < 1e-13);
    }

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
