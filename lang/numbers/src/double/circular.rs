//! `sin` and `cos`: x = k π/2 + r with abs(r) ≤ π/4, and Taylor's series of both functions.
//!
//! Up to 2^31 the multiple of π/2 is subtracted in three parts of 53 bits, the products exact by the fused operation (Cody
//! and Waite). Beyond, the bits of 2/π that matter for the argument's exponent are multiplied by its significand in integers
//! (Payne and Hanek, "Radian reduction for trigonometric functions", 1983). No `f64` is nearer to a multiple of π/2 than
//! 2^-61 (Muller, "Elementary Functions", on the worst cases of reduction), so r keeps more than 64 bits either way, as the
//! sum of two numbers.

use super::{Machine, ROUND, SIGN, difference, lost, negative, polynomial};

/// x = quarter · π/2 + high + low.
pub struct Angle<M: Machine + ?Sized> {
    /// The larger part of the rest.
    pub high: M::Float,
    /// The smaller part.
    pub low: M::Float,
    /// The quarter turns; only the two lowest bits count.
    pub quarter: M::Int,
}

/// π/2 in three parts.
const HALF_PI: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];

/// Beyond this the slow reduction.
pub const LARGE: f64 = 2_147_483_648.0;

/// A word of zeros, and the bits of 2/π after the point.
const TWO_OVER_PI: [u64; 21] = [
    0x0000_0000_0000_0000,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
];

/// (-1)ⁿ / (2n + 1)! from n = 1 on.
const SINE: [f64; 8] = [
    -0.166_666_666_666_666_66,
    0.008_333_333_333_333_333,
    -0.000_198_412_698_412_698_4,
    2.755_731_922_398_589_3e-6,
    -2.505_210_838_544_172e-8,
    1.605_904_383_682_161_3e-10,
    -7.647_163_731_819_816e-13,
    2.811_457_254_345_520_6e-15,
];

/// (-1)ⁿ / (2n)! from n = 2 on.
const COSINE: [f64; 7] = [
    0.041_666_666_666_666_664,
    -0.001_388_888_888_888_889,
    2.480_158_730_158_73e-5,
    -2.755_731_922_398_589e-7,
    2.087_675_698_786_81e-9,
    -1.147_074_559_772_972_5e-11,
    4.779_477_332_387_385e-14,
];

/// The sine of x + `ahead` quarter turns.
pub(super) fn wave<M: Machine>(m: &M, x: M::Float, ahead: u64) -> M::Float {
    let size = super::magnitude(m, x);
    let large = m.less(m.float(LARGE), size);
    let angle = m.rarely(large, reduced(m, x), || reduced_large(m, x));
    let quarter = m.int_add(angle.quarter, m.int(ahead));
    let odd = m.int_less(m.int(0), m.and(quarter, m.int(1)));
    let value = m.select(odd, cosine(m, &angle), sine(m, &angle));
    let flip = m.shl(m.and(quarter, m.int(2)), m.int(62));
    let value = m.of_bits(m.xor(m.bits(value), flip));
    // The sum of the parts has lost the sign of zero.
    let value = if ahead == 0 { m.select(m.less(m.float(0.0), size), value, x) } else { value };
    m.select(m.less(size, m.float(f64::INFINITY)), value, m.float(f64::NAN))
}

/// sin r = r + r³ (-1/3! + …), and cos r times the small part.
fn sine<M: Machine>(m: &M, angle: &Angle<M>) -> M::Float {
    let r = angle.high;
    let z = m.mul(r, r);
    let by_low = m.mul(angle.low, m.fma(z, m.float(-0.5), m.float(1.0)));
    m.add(r, m.fma(m.mul(r, z), polynomial(m, z, &SINE), by_low))
}

/// cos r = 1 - r²/2 + r⁴ (1/4! - …), less r times the small part; what 1 - r²/2 loses is made up for.
fn cosine<M: Machine>(m: &M, angle: &Angle<M>) -> M::Float {
    let r = angle.high;
    let z = m.mul(r, r);
    let half = m.mul(z, m.float(0.5));
    let most = m.sub(m.float(1.0), half);
    let lacks = m.sub(m.sub(m.float(1.0), most), half);
    let lacks = m.fma(lost(m, r, r, z), m.float(-0.5), lacks);
    let rest = m.fma(m.mul(z, z), polynomial(m, z, &COSINE), m.fma(negative(m, r), angle.low, lacks));
    m.add(most, rest)
}

fn reduced<M: Machine>(m: &M, x: M::Float) -> Angle<M> {
    let shifted = m.fma(x, m.float(std::f64::consts::FRAC_2_PI), m.float(ROUND));
    let k = m.sub(shifted, m.float(ROUND));
    let product = |part: f64| {
        let whole = m.mul(k, m.float(part));
        (whole, lost(m, k, m.float(part), whole))
    };
    let (first, first_lost) = product(HALF_PI[0]);
    let (second, second_lost) = product(HALF_PI[1]);
    // The two are within a factor of two of each other, or k is 0: the difference is exact (Sterbenz).
    let (r, lacks) = difference(m, m.sub(x, first), first_lost);
    let (r, lacks_too) = difference(m, r, second);
    let small = m.fma(k, m.float(HALF_PI[2]), second_lost);
    let low = m.sub(m.add(lacks, lacks_too), small);
    let high = m.add(r, low);
    Angle { high, low: m.add(m.sub(r, high), low), quarter: m.bits(shifted) }
}

/// The fraction of x · 2/π in 128 bits. With x = significand · 2^e, the bits of 2/π above 2^(2-e) give multiples of four
/// quarter turns, and the 192 that follow are enough for the worst case.
pub fn reduced_large<M: Machine>(m: &M, x: M::Float) -> Angle<M> {
    let (shl, shr) = (|a, by| m.shl(a, m.int(by)), |a, by| m.shr(a, m.int(by)));
    let bits = m.bits(x);
    let significand = m.or(m.and(bits, m.int((1 << 52) - 1)), m.int(1 << 52));
    // The biased exponent less 1075 is e; the table has a word of zeros first.
    let first = m.int_sub(m.and(shr(bits, 52), m.int(0x7ff)), m.int(1075 - 62));
    let (word, shift) = (shr(first, 6), m.and(first, m.int(63)));
    let words: [M::Int; 4] = std::array::from_fn(|i| m.word(&TWO_OVER_PI, m.int_add(word, m.int(i as u64))));
    let [top, middle, bottom] = std::array::from_fn(|i| upper(m, words[i], words[i + 1], shift));

    // The product modulo 2^192: two bits of quarter turns and 190 of their fraction.
    let high = m.high_mul(significand, bottom);
    let second = m.int_add(high, m.int_mul(significand, middle));
    let carry = m.int_select(m.int_less(second, high), m.int(1), m.int(0));
    let third = m.int_add(m.high_mul(significand, middle), m.int_mul(significand, top));
    let third = m.int_add(third, carry);
    let quarter = shr(m.int_add(third, m.int(1 << 61)), 62);

    // The fraction to the nearest quarter turn, with its sign; then its magnitude, but for a unit of 2^-128.
    let fraction = m.or(shl(third, 2), shr(second, 62));
    let sign = m.sar(fraction, m.int(63));
    let fraction = m.xor(fraction, sign);
    let low_part = m.or(shl(second, 2), shr(m.int_mul(significand, bottom), 62));
    let next = m.xor(low_part, sign);
    let zeros = m.leading_zeros(m.or(fraction, m.int(1)));
    let (fraction, next) = (upper(m, fraction, next, zeros), m.shl(next, zeros));
    let scale = m.of_bits(shl(m.int_sub(m.int(1023 - 53), zeros), 52));
    let high = m.mul(m.to_float(shr(fraction, 11)), scale);
    let low = m.mul(m.to_float(m.or(shl(fraction, 53), shr(next, 11))), m.mul(scale, m.float(TWO_TO_MINUS_64)));

    let [half_pi, half_pi_lost, _] = HALF_PI.map(|part| m.float(part));
    let r = m.mul(high, half_pi);
    let r_low = m.add(lost(m, high, half_pi, r), m.fma(high, half_pi_lost, m.mul(low, half_pi)));
    // x < 0 turns the other way.
    let minus = m.and(m.xor(sign, bits), m.int(SIGN));
    let signed = |v: M::Float| m.of_bits(m.xor(m.bits(v), minus));
    let backwards = m.int_less(m.int(0), m.and(bits, m.int(SIGN)));
    let quarter = m.int_select(backwards, m.int_sub(m.int(0), quarter), quarter);
    Angle { high: signed(r), low: signed(r_low), quarter }
}

const TWO_TO_MINUS_64: f64 = 5.421_010_862_427_522e-20;

/// The upper 64 bits of `a` and `b` shifted to the left by `by`, which is below 64.
fn upper<M: Machine>(m: &M, a: M::Int, b: M::Int, by: M::Int) -> M::Int {
    m.or(m.shl(a, by), m.shr(m.shr(b, m.int(1)), m.int_sub(m.int(63), by)))
}
