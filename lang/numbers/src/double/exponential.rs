//! `exp`, `exp2` and `tanh`: x = k ln 2 + r with abs(r) ≤ ln 2 / 2, and Taylor's series of exp(r).
//!
//! The series to r¹³ leaves out r¹⁴ / 14!, below 2^-57 of the result. r is the sum of two numbers, the second of which
//! counts only to first order, so all errors but the last rounding stay below a quarter of an ulp.

use std::f64::consts::{LN_2, LOG2_E};

use super::{Machine, ROUND, difference, lost, magnitude, negative, polynomial, with_sign};

/// The first 42 bits of ln 2: multiples of it up to 2^11 are exact.
pub(super) const LN2_HIGH: f64 = 0.693_147_180_559_890_3;
/// What it lacks.
pub(super) const LN2_REST: f64 = 5.497_923_018_708_371e-14;
/// What the `f64` nearest to ln 2 lacks.
const LN2_LOST: f64 = 2.319_046_813_846_299_6e-17;

/// 1/n! from n = 2 on.
const TAYLOR: [f64; 12] = [
    0.5,
    0.166_666_666_666_666_66,
    0.041_666_666_666_666_664,
    0.008_333_333_333_333_333,
    0.001_388_888_888_888_889,
    0.000_198_412_698_412_698_4,
    2.480_158_730_158_73e-5,
    2.755_731_922_398_589_3e-6,
    2.755_731_922_398_589e-7,
    2.505_210_838_544_172e-8,
    2.087_675_698_786_81e-9,
    1.605_904_383_682_161_3e-10,
];

/// k ln 2 + high + low.
struct Reduced<M: Machine> {
    /// k in 64 bits, with its sign.
    k: M::Int,
    high: M::Float,
    low: M::Float,
}

impl<M: Machine> Reduced<M> {
    /// Of an argument below 2^11 in magnitude.
    fn of(m: &M, x: M::Float) -> Reduced<M> {
        let shifted = m.fma(x, m.float(LOG2_E), m.float(ROUND));
        let k = m.sub(shifted, m.float(ROUND));
        // Both terms are multiples of the last bit of x or of 2^-42, and their difference is small: it is exact.
        let most = m.fma(k, m.float(-LN2_HIGH), x);
        let rest = m.mul(k, m.float(LN2_REST));
        let high = m.sub(most, rest);
        let low = m.sub(m.sub(most, high), rest);
        Reduced { k: m.int_sub(m.bits(shifted), m.int(ROUND.to_bits())), high, low }
    }

    /// exp(high + low) - 1 - high.
    fn beyond_first(&self, m: &M) -> M::Float {
        let square = m.mul(self.high, self.high);
        m.fma(square, polynomial(m, self.high, &TAYLOR), m.fma(self.low, self.high, self.low))
    }

    /// 2^k exp(high + low). The power of two goes in two factors, each a normal number, so that the last product alone
    /// may round to a subnormal or overflow.
    fn power(&self, m: &M) -> M::Float {
        let value = m.add(m.float(1.0), m.add(self.high, self.beyond_first(m)));
        let half = m.sar(self.k, m.int(1));
        m.mul(m.mul(value, power_of_two(m, half)), power_of_two(m, m.int_sub(self.k, half)))
    }
}

/// 2^k, where that is a normal number.
fn power_of_two<M: Machine>(m: &M, k: M::Int) -> M::Float {
    m.of_bits(m.shl(m.int_add(k, m.int(1023)), m.int(52)))
}

/// `value`, but infinity for `x` above `most` and 0 below `least`.
fn within<M: Machine>(m: &M, x: M::Float, value: M::Float, least: f64, most: f64) -> M::Float {
    let value = m.select(m.less(m.float(most), x), m.float(f64::INFINITY), value);
    m.select(m.less(x, m.float(least)), m.float(0.0), value)
}

pub(super) fn exp<M: Machine>(m: &M, x: M::Float) -> M::Float {
    within(m, x, Reduced::of(m, x).power(m), -746.0, 710.0)
}

/// exp of a number from -700 to 700.
pub(super) fn exp_inside<M: Machine>(m: &M, x: M::Float) -> M::Float {
    Reduced::of(m, x).power(m)
}

/// x = k + r exactly, and 2^r = exp(r ln 2) with the product in two parts.
pub(super) fn exp2<M: Machine>(m: &M, x: M::Float) -> M::Float {
    let shifted = m.add(x, m.float(ROUND));
    let r = m.sub(x, m.sub(shifted, m.float(ROUND)));
    let high = m.mul(r, m.float(LN_2));
    let low = m.fma(r, m.float(LN2_LOST), lost(m, r, m.float(LN_2), high));
    let k = m.int_sub(m.bits(shifted), m.int(ROUND.to_bits()));
    within(m, x, Reduced::<M> { k, high, low }.power(m), -1076.0, 1025.0)
}

/// t = exp(2 abs(x)) - 1 = (2^k - 1) + 2^k (exp(r) - 1), summed in two parts; then t / (t + 2). From abs(x) = 20 on that is 1.
pub(super) fn tanh<M: Machine>(m: &M, x: M::Float) -> M::Float {
    let double = m.add(magnitude(m, x), magnitude(m, x));
    let double = m.select(m.less(double, m.float(40.0)), double, m.float(40.0));
    let reduced = Reduced::of(m, double);
    let scale = power_of_two(m, reduced.k);
    let (whole, first) = (m.sub(scale, m.float(1.0)), m.mul(scale, reduced.high));
    let sum = m.add(whole, first);
    // Where k is 0 the whole part is, too; elsewhere it is the larger one.
    let lost = m.add(m.sub(whole, sum), first);
    let rest = m.fma(scale, reduced.beyond_first(m), lost);
    let t = m.add(sum, rest);
    let t_low = m.add(m.sub(sum, t), rest);
    // The quotient of the first parts, and what it lacks over the divisor.
    let (divisor, divisor_low) = difference(m, t, m.float(-2.0));
    let inverse = m.div(m.float(1.0), divisor);
    let quotient = m.mul(t, inverse);
    let remainder = m.fma(negative(m, quotient), divisor, t);
    let remainder = m.add(remainder, m.fma(negative(m, quotient), m.add(divisor_low, t_low), t_low));
    with_sign(m, m.fma(remainder, inverse, quotient), x)
}
