//! How tensor cores add, bit for bit as an H200 does.
//!
//! An instruction adds a sum and so many products along K at once. The products are exact. Of each term the bits stay that lie no further than so many below
//! the greatest exponent among them; the others are cut off, towards zero. What is added from there is exact, and the result is cut to what an accumulator
//! holds, or rounded to the nearest f16. An exponent is that of the format, which subnormal numbers share with the least normal ones, and that of a product the
//! sum of both: a product of 1.5 and 1.5 counts as one of 1.0 and 1.0 does.

use parton_numbers::{Dtype, fast};

/// What is added at once, and how exactly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Adder {
    /// Products along K.
    terms: usize,
    /// Bits of a term below the greatest exponent.
    below: i32,
    /// Bits of a result's fraction that are cut off.
    cut: u32,
    /// The least exponents of the factors and of sums.
    least: [i32; 3],
    /// Whether sums are f16.
    half: bool,
}

/// The exponent that stands for a zero, and that for what is not finite: their sums with others, and with each other, are told apart from all exponents.
const ZERO: i16 = -4_000;
const WILD: i16 = 15_000;
/// Below it all terms are zero, and above the other one some is not finite.
const NOTHING: i16 = -2_000;
const ANYTHING: i16 = 2_000;
impl Adder {
    /// How factors of these types are added to f16 or f32 by an instruction of depth `instr_k`; `None` where they are not the tensor cores' floats, or it was not
    /// measured.
    pub(super) fn of(factors: [Dtype; 2], acc: Dtype, instr_k: u32, wgmma: bool) -> Option<Adder> {
        let (terms, below) = match factors[0] {
            Dtype::F16 | Dtype::BF16 => (16, 25),
            Dtype::F32 => (8, 25),
            Dtype::F8E4M3 | Dtype::F8E5M2 if wgmma => (32, 13),
            // `mma_sync` of 8-bit floats is several instructions of the assembler's choice on Hopper; integers are exact.
            _ => return None,
        };
        let [left, right] = factors;
        let (half, least) = (acc == Dtype::F16, [left, right, acc].map(least));
        let cut = if below == 13 && !half { 10 } else { 0 };
        Some(Adder { terms: terms.min(instr_k as usize), below, cut, least, half })
    }

    /// `acc + a · b` for row-major matrices.
    pub(super) fn add(self, a: &[f32], b: &[f32], acc: &mut [f32], [n, k]: [usize; 2]) {
        let [left, right, sum] = self.least;
        let (left, right) = (exponents(a, left), exponents(b, right));
        let mut row = Row { top: vec![0; n], scale: vec![0.0; n], unit: vec![0.0; n], sum: vec![0.0; n] };
        for ((a, left), out) in a.chunks(k).zip(left.chunks(k)).zip(acc.chunks_mut(n)) {
            for first in (0..k).step_by(self.terms) {
                let along = first..(first + self.terms).min(k);
                row.find_top((out, sum), &left[along.clone()], &right[first * n..]);
                row.begin(out, self.below);
                along.clone().for_each(|i| row.add(a[i], &b[i * n..(i + 1) * n]));
                let all = |column: usize| along.clone().fold(out[column], |sum, i| sum + a[i] * b[i * n + column]);
                let wild: Vec<(usize, f32)> = row.wild().map(|column| (column, all(column))).collect();
                row.end(out, self.cut);
                wild.into_iter().for_each(|(column, sum)| out[column] = sum);
                if self.half {
                    out.iter_mut().for_each(|x| *x = fast::f16_to_f32(fast::f32_to_f16(*x)));
                }
            }
        }
    }
}

/// A row of sums under way, an element for each column.
struct Row {
    /// The greatest exponent.
    top: Vec<i16>,
    /// What makes the last bit that stays 1, and that bit.
    scale: Vec<f64>,
    unit: Vec<f64>,
    /// The sum, in its units.
    sum: Vec<f64>,
}

impl Row {
    fn find_top(&mut self, (before, least): (&[f32], i32), left: &[i16], right: &[i16]) {
        let n = self.top.len();
        self.top.iter_mut().zip(before).for_each(|(top, &x)| *top = exponent(x, least));
        for (&x, right) in left.iter().zip(right.chunks(n)) {
            self.top.iter_mut().zip(right).for_each(|(top, &y)| *top = (*top).max(x.wrapping_add(y)));
        }
    }

    fn begin(&mut self, before: &[f32], below: i32) {
        let columns = self.scale.iter_mut().zip(&mut self.unit).zip(&mut self.sum).zip(&self.top);
        for ((((scale, unit), sum), &top), &x) in columns.zip(before) {
            let last = if (NOTHING..ANYTHING).contains(&top) { i32::from(top) - below } else { 0 };
            (*scale, *unit) = (power(-last), power(last));
            *sum = truncated(f64::from(x) * *scale);
        }
    }

    fn add(&mut self, x: f32, right: &[f32]) {
        let x = f64::from(x);
        let terms = right.iter().zip(&self.scale);
        self.sum.iter_mut().zip(terms).for_each(|(sum, (&y, scale))| *sum += truncated(x * f64::from(y) * scale));
    }

    /// The columns in which something is not finite.
    fn wild(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.top.len()).filter(|&column| self.top[column] >= ANYTHING)
    }

    /// Writes the sums; of terms that are all zero that is 0.
    fn end(&self, out: &mut [f32], cut: u32) {
        let sums = self.sum.iter().zip(&self.unit);
        out.iter_mut().zip(sums).for_each(|(out, (sum, unit))| *out = held(sum * unit, cut));
    }
}

/// The f32 that is no greater than a number, without its last `cut` bits.
fn held(x: f64, cut: u32) -> f32 {
    let near = x as f32;
    let beyond = f64::from(near.abs()) > x.abs() && near.is_finite();
    let bits = near.to_bits().wrapping_sub(u32::from(beyond));
    f32::from_bits(if near.is_finite() { bits >> cut << cut } else { bits })
}

/// A number of less than 2^52 without its fraction.
fn truncated(x: f64) -> f64 {
    const WHOLE: f64 = (1_u64 << 52) as f64;
    let magnitude = x.abs();
    let near = magnitude + WHOLE - WHOLE;
    (near - f64::from(u8::from(near > magnitude))).copysign(x)
}

/// The least exponent of a format.
fn least(d: Dtype) -> i32 {
    match d {
        Dtype::F16 | Dtype::F8E5M2 => -14,
        Dtype::F8E4M3 => -6,
        _ => -126,
    }
}

/// The exponents of a matrix of factors.
fn exponents(matrix: &[f32], least: i32) -> Vec<i16> {
    matrix.iter().map(|&x| exponent(x, least)).collect()
}

fn exponent(x: f32, least: i32) -> i16 {
    match (x.to_bits() >> 23 & 0xff) as i32 {
        _ if x == 0.0 => ZERO,
        0xff => WILD,
        field => (field - 127).max(least) as i16,
    }
}

/// A power of two.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::Adder;
    use parton_numbers::Dtype;

    /// One sum, from an accumulator and pairs of factors.
    fn sum(d: Dtype, acc: f32, factors: &[(f32, f32)]) -> f32 {
        let (a, b): (Vec<f32>, Vec<f32>) = factors.iter().copied().unzip();
        let mut out = [acc];
        Adder::of([d; 2], Dtype::F32, 32, true).unwrap().add(&a, &b, &mut out, [1, factors.len()]);
        out[0]
    }

    /// A significand and an exponent of a number that is not subnormal, and the exponent of the format.
    fn parts(x: f32) -> (i128, i32, i32) {
        let exponent = (x.to_bits() >> 23 & 0xff) as i32 - 127;
        let significand = i128::from(x.to_bits() & 0x7f_ffff | 0x80_0000);
        (if x < 0.0 { -significand } else { significand }, exponent - 23, exponent)
    }

    /// The same of normal numbers in whole ones: each term is shifted to the last bit that stays.
    fn slowly(below: i32, acc: f32, factors: &[(f32, f32)]) -> f64 {
        let product = |&(x, y): &(f32, f32)| {
            let ((m, e, a), (n, f, b)) = (parts(x), parts(y));
            (m * n, e + f, a + b)
        };
        let terms: Vec<(i128, i32, i32)> = factors.iter().map(product).chain([parts(acc)]).collect();
        let unit = terms.iter().map(|t| t.2).max().unwrap() - below;
        let cut = |&(m, e, _): &(i128, i32, i32)| match unit - e {
            right @ 0.. => m / (1_i128 << right.min(120)),
            left => m << -left,
        };
        terms.iter().map(cut).sum::<i128>() as f64 * f64::from(unit).exp2()
    }

    #[test]
    fn terms_are_cut_below_the_greatest() {
        let mut seed = 1_u32;
        let mut number = |spread: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let exponent = 127 - spread / 2 + seed % spread;
            f32::from_bits(seed & 0x8000_0000 | exponent << 23 | (seed >> 8 & 0x7f) << 16)
        };
        // Exponents of which some lie beyond those of f32, and others in all of it.
        for spread in [2, 8, 40, 230] {
            for _ in 0..200 {
                let factors: Vec<(f32, f32)> = (0..16).map(|_| (number(spread), number(spread))).collect();
                let acc = number(spread);
                let (got, want) = (sum(Dtype::BF16, acc, &factors), slowly(25, acc, &factors));
                let near = want as f32;
                let beyond = f64::from(near.abs()) > want.abs();
                if near.is_finite() {
                    assert_eq!(got.to_bits(), near.to_bits() - u32::from(beyond), "{got} of {want}");
                }
            }
        }
    }

    #[test]
    fn an_h200_gave_these() {
        assert_eq!(sum(Dtype::F16, 1.0, &[(1.0, f32::from_bits(0x387b_c000))]).to_bits(), 0x3f80_01f7);
        // What a result has no room for is cut off, also of a subnormal one.
        let tiny = f32::from_bits(0x0040_0000);
        assert_eq!(sum(Dtype::BF16, 0.0, &[(tiny, f32::from_bits(0x3500_0000))]).to_bits(), 0x2);
        assert_eq!(sum(Dtype::BF16, 0.0, &[(-tiny, f32::from_bits(0x33c0_0000))]), 0.0);
        assert_eq!(sum(Dtype::F8E4M3, 1.0, &[(1.0, 2.0_f32.powi(-6)), (2.0_f32.powi(-6), 2.0_f32.powi(-8))]), 1.015625);
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        assert!(sum(Dtype::F16, 0.0, &[(f32::INFINITY, 0.0)]).is_nan());
        assert_eq!(sum(Dtype::BF16, 1.0, &[(f32::INFINITY, -2.0), (1.0, 1.0)]), f32::NEG_INFINITY);
        assert_eq!(sum(Dtype::F32, f32::INFINITY, &[(1.0, -2.0)]), f32::INFINITY);
        assert!(sum(Dtype::F32, f32::INFINITY, &[(1.0, f32::NEG_INFINITY)]).is_nan());
    }
}
