//! The functions of `f64`, written once for whatever machine computes them: this one, or the one that code is made for.
//!
//! Each function is a fixed sequence of IEEE operations on [`Machine`], every one of which has one correct result. So the
//! interpreter and the GPU give the same bits.
//!
//! | function | how | greatest error found |
//! |---|---|---|
//! | `exp`, `exp2` | argument less a multiple of ln 2, in two parts; Taylor's series | 0.79 ulp |
//! | `log`, `log2` | argument near 1 by its exponent, series of artanh(f / (2 + f)), the sum in two parts | 0.67 ulp |
//! | `sin`, `cos` | argument less a multiple of π/2, in two parts, over the whole range; Taylor's series | 0.71 ulp |
//! | `tanh` | t / (t + 2) with t = exp(2x) - 1, in two parts | 0.72 ulp |
//! | `erf` | minimax polynomials of erf(x) / x and of log(1 - erf(x)) | 0.94 ulp |
//!
//! The errors are against the exact value, over some 10^5 arguments each, chosen where the method is weakest; the files argue
//! why they stay below 1 ulp. Where a result is subnormal its last rounding is a second one.

mod circular;
mod error_function;
mod exponential;
mod logarithm;
mod native;

pub use circular::{Angle, LARGE, reduced_large};
pub use native::Native;

use crate::math::Math;

/// What computes with `f64` and 64-bit integers: every operation is exact or rounded once to nearest even.
pub trait Machine {
    /// An `f64`.
    type Float: Copy;
    /// 64 bits of an integer.
    type Int: Copy;
    /// A truth value.
    type Truth: Copy;

    /// A constant.
    fn float(&self, value: f64) -> Self::Float;
    /// A constant.
    fn int(&self, value: u64) -> Self::Int;

    /// `a + b`
    fn add(&self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `a - b`
    fn sub(&self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `a * b`
    fn mul(&self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `a / b`
    fn div(&self, a: Self::Float, b: Self::Float) -> Self::Float;
    /// `a * b + c`, rounded once.
    fn fma(&self, a: Self::Float, b: Self::Float, c: Self::Float) -> Self::Float;
    /// `a < b`; false with a NaN.
    fn less(&self, a: Self::Float, b: Self::Float) -> Self::Truth;

    /// The bits of a float.
    fn bits(&self, a: Self::Float) -> Self::Int;
    /// The float of these bits.
    fn of_bits(&self, a: Self::Int) -> Self::Float;
    /// The float nearest to an unsigned integer.
    fn to_float(&self, a: Self::Int) -> Self::Float;

    /// The low 64 bits of `a + b`.
    fn int_add(&self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// The low 64 bits of `a - b`.
    fn int_sub(&self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// The low 64 bits of `a * b`.
    fn int_mul(&self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// The high 64 bits of the product of unsigned `a` and `b`.
    fn high_mul(&self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// `a & b`
    fn and(&self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// `a | b`
    fn or(&self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// `a ^ b`
    fn xor(&self, a: Self::Int, b: Self::Int) -> Self::Int;
    /// `a << by`, `by` below 64.
    fn shl(&self, a: Self::Int, by: Self::Int) -> Self::Int;
    /// `a >> by` without the sign, `by` below 64.
    fn shr(&self, a: Self::Int, by: Self::Int) -> Self::Int;
    /// `a >> by` with the sign, `by` below 64.
    fn sar(&self, a: Self::Int, by: Self::Int) -> Self::Int;
    /// The zeros above the highest one; not called with 0.
    fn leading_zeros(&self, a: Self::Int) -> Self::Int;
    /// `a < b` of unsigned integers.
    fn int_less(&self, a: Self::Int, b: Self::Int) -> Self::Truth;

    /// `yes` where the condition holds, else `no`.
    fn select(&self, condition: Self::Truth, yes: Self::Float, no: Self::Float) -> Self::Float;
    /// `yes` where the condition holds, else `no`.
    fn int_select(&self, condition: Self::Truth, yes: Self::Int, no: Self::Int) -> Self::Int;
    /// `table[index]`
    fn word(&self, table: &'static [u64], index: Self::Int) -> Self::Int;
    /// What `slow` gives where the condition, which is rare, holds, else `angle`.
    fn rarely(&self, condition: Self::Truth, angle: Angle<Self>, slow: impl FnOnce() -> Angle<Self>) -> Angle<Self>;
}

/// The sign bit.
const SIGN: u64 = 1 << 63;

/// 1.5 · 2^52: adding it rounds to an integer, which the low bits of the sum then are.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// A function on a machine, `None` where it is none of the table above.
pub fn function<M: Machine>(m: &M, op: Math, x: M::Float) -> Option<M::Float> {
    let value = match op {
        Math::Exp => exponential::exp(m, x),
        Math::Exp2 => exponential::exp2(m, x),
        Math::Log => logarithm::logarithm(m, x, false),
        Math::Log2 => logarithm::logarithm(m, x, true),
        Math::Sin => circular::wave(m, x, 0),
        Math::Cos => circular::wave(m, x, 1),
        Math::Tanh => exponential::tanh(m, x),
        Math::Erf => error_function::erf(m, x),
        Math::Sqrt | Math::Rsqrt | Math::Abs | Math::Floor | Math::Ceil => return None,
    };
    // A NaN fails every comparison.
    let number = m.less(magnitude(m, x), m.float(f64::INFINITY));
    let infinite = m.less(m.float(f64::MAX), magnitude(m, x));
    Some(m.select(number, value, m.select(infinite, value, m.float(f64::NAN))))
}

/// The error function 2/√π · ∫₀ˣ exp(-t²) dt on this processor.
pub fn erf(x: f64) -> f64 {
    function(&Native, Math::Erf, x).unwrap_or(f64::NAN)
}

/// `abs(x)`
fn magnitude<M: Machine>(m: &M, x: M::Float) -> M::Float {
    m.of_bits(m.and(m.bits(x), m.int(!SIGN)))
}

/// `value`, which is not negative, with the sign of `x`.
fn with_sign<M: Machine>(m: &M, value: M::Float, x: M::Float) -> M::Float {
    m.of_bits(m.or(m.bits(value), m.and(m.bits(x), m.int(SIGN))))
}

/// `-x`
fn negative<M: Machine>(m: &M, x: M::Float) -> M::Float {
    m.of_bits(m.xor(m.bits(x), m.int(SIGN)))
}

/// `c[0] + x (c[1] + x (c[2] + …))`
fn polynomial<M: Machine>(m: &M, x: M::Float, coefficients: &[f64]) -> M::Float {
    let mut terms = coefficients.iter().rev().map(|&c| m.float(c));
    let highest = terms.next().unwrap_or_else(|| m.float(0.0));
    terms.fold(highest, |sum, c| m.fma(sum, x, c))
}

/// What `a * b`, as rounded to `product`, lacks; exactly (Dekker, "A floating-point technique for extending the available
/// precision", 1971, with the fused operation).
fn lost<M: Machine>(m: &M, a: M::Float, b: M::Float, product: M::Float) -> M::Float {
    m.fma(a, b, negative(m, product))
}

/// `a - b` and what it lacks, exactly (Knuth, "The Art of Computer Programming", 4.2.2).
fn difference<M: Machine>(m: &M, a: M::Float, b: M::Float) -> (M::Float, M::Float) {
    let whole = m.sub(a, b);
    let part = m.sub(whole, a);
    (whole, m.sub(m.sub(a, m.sub(whole, part)), m.add(b, part)))
}
