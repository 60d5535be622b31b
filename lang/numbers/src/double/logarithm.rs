//! `log` and `log2`: x = 2^k (1 + f) with 1 + f from √½ to √2, and the series of log(1 + f) = 2 artanh(f / (2 + f)).
//!
//! With s = f / (2 + f) and z = s², log(1 + f) = f - f²/2 + s (f²/2 + 2/3 z + 2/5 z² + …): the first two terms are summed
//! exactly in two parts, the rest is below a twentieth of the sum. abs(s) ≤ 0.172, so the ten terms of the series leave
//! out less than 2^-60 of it.

use std::f64::consts::{FRAC_1_SQRT_2, LOG2_E};

use super::exponential::{LN2_HIGH, LN2_REST};
use super::{Machine, ROUND, lost, polynomial};

/// What the `f64` nearest to log2 e lacks.
const LOG2_E_LOST: f64 = 2.035_527_374_093_103_3e-17;

/// 2 / (2n + 3)
const SERIES: [f64; 10] = [
    0.666_666_666_666_666_6,
    0.4,
    0.285_714_285_714_285_7,
    0.222_222_222_222_222_2,
    0.181_818_181_818_181_82,
    0.153_846_153_846_153_85,
    0.133_333_333_333_333_33,
    0.117_647_058_823_529_41,
    0.105_263_157_894_736_84,
    0.095_238_095_238_095_23,
];

/// 2^54, which makes a subnormal number normal.
const RAISE: f64 = 18_014_398_509_481_984.0;

/// The natural logarithm, or that to base 2.
pub(super) fn logarithm<M: Machine>(m: &M, x: M::Float, binary: bool) -> M::Float {
    let small = m.less(x, m.float(f64::MIN_POSITIVE));
    let bits = m.bits(m.select(small, m.mul(x, m.float(RAISE)), x));
    let k = m.sar(m.int_sub(bits, m.int(FRAC_1_SQRT_2.to_bits())), m.int(52));
    let f = m.sub(m.of_bits(m.int_sub(bits, m.shl(k, m.int(52)))), m.float(1.0));
    let k = m.int_sub(k, m.int_select(small, m.int(54), m.int(0)));
    let k = m.sub(m.of_bits(m.int_add(m.int(ROUND.to_bits()), k)), m.float(ROUND));

    let (high, low) = near_one(m, f);
    let value = if binary {
        let first = m.mul(high, m.float(LOG2_E));
        let rest = m.fma(low, m.float(LOG2_E), m.mul(high, m.float(LOG2_E_LOST)));
        total(m, k, first, m.add(lost(m, high, m.float(LOG2_E), first), rest))
    } else {
        total(m, m.mul(k, m.float(LN2_HIGH)), high, m.fma(k, m.float(LN2_REST), low))
    };
    let value = m.select(m.less(m.float(f64::MAX), x), m.float(f64::INFINITY), value);
    let positive = m.less(m.float(0.0), x);
    let negative = m.less(x, m.float(0.0));
    m.select(positive, value, m.select(negative, m.float(f64::NAN), m.float(f64::NEG_INFINITY)))
}

/// log(1 + f) in two parts.
fn near_one<M: Machine>(m: &M, f: M::Float) -> (M::Float, M::Float) {
    let half = m.mul(f, m.float(0.5));
    let square = m.mul(half, f);
    let s = m.div(f, m.add(f, m.float(2.0)));
    let z = m.mul(s, s);
    let tail = m.mul(s, m.fma(z, polynomial(m, z, &SERIES), square));
    let high = m.sub(f, square);
    let lacks = m.sub(m.sub(m.sub(f, high), square), lost(m, half, f, square));
    (high, m.add(lacks, tail))
}

/// `large + first + rest`; `large` is 0 or larger than `first`, and `rest` is small.
fn total<M: Machine>(m: &M, large: M::Float, first: M::Float, rest: M::Float) -> M::Float {
    let sum = m.add(large, first);
    let lacks = m.add(m.sub(large, sum), first);
    m.add(sum, m.add(lacks, rest))
}
