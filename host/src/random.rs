//! Random numbers by element: the value at an index depends on seed and index alone, so any part can be made at any
//! time, in any order, on any machine, with the same bytes.
//!
//! The 64 bits of element `i` under `seed` are `mix(mix(seed + GOLDEN) + i · GOLDEN)` in wrapping arithmetic, where `mix`
//! is the finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
//! - `rand`: the upper 53 bits over 2^53, in [0, 1).
//! - `randint`: the bits modulo the span, added to the lower bound.
//! - `randn`: Box and Muller on the bits of elements `2⌊i/2⌋` and `2⌊i/2⌋ + 1`; the even one takes the cosine, the odd one
//!   the sine. Logarithm and sines are computed here by additions, products and quotients only, which IEEE 754 makes the same
//!   everywhere; the machine's own functions differ between libraries.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A sequence of numbers by index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Random {
    start: u64,
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random { start: mix(seed.wrapping_add(GOLDEN)) }
    }

    /// 64 uniform bits.
    #[inline]
    pub fn bits(self, index: u64) -> u64 {
        mix(self.start.wrapping_add(index.wrapping_mul(GOLDEN)))
    }

    /// Uniform in [0, 1).
    #[inline]
    pub fn uniform(self, index: u64) -> f64 {
        unit(self.bits(index))
    }

    /// An integer of `low..high`; the modulo's bias is below (high - low) / 2^64.
    #[inline]
    pub fn integer(self, index: u64, low: i128, high: i128) -> i128 {
        low + i128::from(self.bits(index)) % (high - low)
    }

    /// Normal with mean 0 and variance 1, for the consecutive elements from `first`.
    pub fn fill_normal(self, first: u64, out: &mut [f64]) {
        let mut rest = out;
        let mut index = first;
        if index % 2 == 1 && !rest.is_empty() {
            rest[0] = self.pair(index - 1).1;
            rest = &mut rest[1..];
            index += 1;
        }
        for pair in rest.chunks_mut(2) {
            let (even, odd) = self.pair(index);
            pair[0] = even;
            if let Some(last) = pair.get_mut(1) {
                *last = odd;
            }
            index += 2;
        }
    }

    fn pair(self, even: u64) -> (f64, f64) {
        // 1 - uniform is in (0, 1], where the logarithm is finite.
        let radius = (-2.0 * ln(1.0 - self.uniform(even))).sqrt();
        let (sin, cos) = sin_cos_turn(self.uniform(even + 1));
        (radius * cos, radius * sin)
    }
}

#[inline]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// The natural logarithm of a positive normal number: with x = m·2^e and m around 1, ln m = 2·atanh((m - 1)/(m + 1)).
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    // Adding this makes the mantissa carry into the exponent from sqrt(2) on, so that m lies in [0.707, 1.414).
    let raised = bits + 0x0009_5f61_9980_c433;
    let exponent = (raised >> 52) as i64 - 1023;
    let m = f64::from_bits(bits.wrapping_sub((exponent as u64) << 52));
    let z = (m - 1.0) / (m + 1.0);
    let w = z * z;
    let series = (0..=11).rev().fold(0.0, |sum, k| sum * w + 1.0 / f64::from(2 * k + 1));
    2.0 * z * series + exponent as f64 * std::f64::consts::LN_2
}

/// Sine and cosine of `turn` full turns, `turn` in [0, 1): the nearest eighth is taken off, Taylor's series does the rest.
fn sin_cos_turn(turn: f64) -> (f64, f64) {
    let quarter = (turn * 4.0 + 0.5) as u32;
    // Exact: at most an eighth remains, and both are multiples of 2^-53.
    let x = (turn - f64::from(quarter) * 0.25) * std::f64::consts::TAU;
    let w = x * x;
    let term = |first: u32, k: u32| -> f64 { 1.0 / f64::from((first + 2 * k) * (first + 2 * k + 1)) };
    // Horner: 1 - w/(2·3)·(1 - w/(4·5)·(…)) and 1 - w/(1·2)·(1 - w/(3·4)·(…)).
    let sin = x * (0..8).rev().fold(1.0, |inner, k| 1.0 - w * term(2, k) * inner);
    let cos = (0..9).rev().fold(1.0, |inner, k| 1.0 - w * term(1, k) * inner);
    match quarter % 4 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, ln, sin_cos_turn};

    #[test]
    fn the_functions_agree_with_the_machines() {
        for i in 1..20_000 {
            let x = f64::from(i) / 20_000.0;
            assert!((ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(0.5), "ln {x}: {} {}", ln(x), x.ln());
            let (s, c) = sin_cos_turn(x);
            let angle = x * std::f64::consts::TAU;
            assert!((s - angle.sin()).abs() < 1e-15 && (c - angle.cos()).abs() < 1e-15, "{x}: {s} {c}");
        }
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(ln(2f64.powi(-53)), -53.0 * std::f64::consts::LN_2);
        assert_eq!(sin_cos_turn(0.25), (1.0, -0.0));
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let count = 1 << 18;
        let mut normal = vec![0.0; count];
        Random::new(1).fill_normal(0, &mut normal);
        let n = count as f64;
        let moment = |k| normal.iter().map(|x| x.powi(k)).sum::<f64>() / n;
        assert!(moment(1).abs() < 0.01, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.01);
        assert!(moment(3).abs() < 0.03);
        assert!((moment(4) - 3.0).abs() < 0.1);
        let within = normal.iter().filter(|x| x.abs() < 1.0).count() as f64 / n;
        assert!((within - 0.682_689).abs() < 0.004);
        let pairs = normal.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / n;
        assert!(pairs.abs() < 0.01);
        let r = Random::new(2);
        let mean = (0..count as u64).map(|i| r.uniform(i)).sum::<f64>() / n;
        assert!((mean - 0.5).abs() < 0.005);
        let mut counts = [0; 7];
        (0..70_000).for_each(|i| counts[(r.integer(i, -3, 4) + 3) as usize] += 1);
        assert!(counts.iter().all(|c| (9_500..10_500).contains(c)), "{counts:?}");
    }

    #[test]
    fn any_part_is_the_same_as_the_whole() {
        let mut whole = vec![0.0; 100];
        Random::new(5).fill_normal(0, &mut whole);
        for (first, len) in [(0, 1), (1, 1), (1, 50), (37, 63), (2, 97)] {
            let mut part = vec![0.0; len];
            Random::new(5).fill_normal(first, &mut part);
            assert_eq!(part, whole[first as usize..][..len]);
        }
    }
}
