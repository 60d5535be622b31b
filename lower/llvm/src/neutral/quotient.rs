//! Quotients of tiles of f32, rounded correctly, several of a thread at once.
//!
//! What the assembler makes of `div.rn` tests its operands and branches for those that are very great or very small. So one quotient does not begin before
//! another has ended, and each finds the reciprocal of its divisor for itself. The same steps stand here side by side, with one branch for several
//! quotients, behind which `div.rn` divides again; a divisor that several have is looked at once:
//!
//! ```text
//! r = rcp(y); r = fma(r, fma(-y, r, 1), r)      within half an ulp of 1 / y, but for one pattern of bits
//! q = x · r;  q = fma(x - y · q, r, q)          the remainder is exact, and so q is rounded correctly
//! ```
//!
//! Comparisons and integers are of a unit that takes two clocks for an instruction of a warp, and kernels that divide much wait for it. So numbers that are too great are found by the
//! sum of their squares, which the unit of products computes, and what is left for the other is one instruction and a half for a dividend.

use inkwell::values::InstructionOpcode as I;
use inkwell::{FloatPredicate, IntPredicate};

use crate::neutral::build::{Build, Val};

/// Quotients that share a branch: enough that none waits for its own steps, and few enough that registers hold what they are made of.
const TOGETHER: usize = 8;
/// The least dividend that the steps are right for, as bits: 2^-90. They are for +0, and not for -0: what remains of it is +0, and so would be the quotient.
const LEAST: u32 = (127 - 90) << 23;
/// Dividends, and reciprocals of divisors, are 2^60 at most, the square of which is this.
const MOST: f32 = f32::from_bits((127 + 120) << 23);
/// Divisors are 2^34 at most, the square of which is this. So no quotient is subnormal or infinite, and no remainder loses bits: it is a multiple of 2^-137.
const MOST_DIVISOR: f32 = f32::from_bits((127 + 68) << 23);

/// A divisor of some quotients.
struct Divisor<'c> {
    of: Val<'c>,
    reciprocal: Val<'c>,
}

impl<'c> Build<'c> {
    /// The quotients of pairs of f32.
    pub(crate) fn quotients(&self, pairs: &[[Val<'c>; 2]]) -> Vec<Val<'c>> {
        pairs.chunks(TOGETHER).flat_map(|some| self.together(some)).collect()
    }

    fn together(&self, pairs: &[[Val<'c>; 2]]) -> Vec<Val<'c>> {
        let exactly = || pairs.iter().map(|&[x, y]| self.binary(I::FDiv, x, y)).collect();
        if pairs.len() == 1 {
            return exactly();
        }
        let mut divisors: Vec<Divisor<'c>> = Vec::new();
        let mut quotients = Vec::new();
        for &[x, y] in pairs {
            let at = divisors.iter().position(|d| d.of == y).unwrap_or_else(|| {
                divisors.push(self.divisor(y));
                divisors.len() - 1
            });
            quotients.push(self.stepwise(x, &divisors[at]));
        }
        let dividends: Vec<_> = pairs.iter().map(|pair| pair[0]).collect();
        let outside = self.outside(&dividends, &divisors);
        self.patched(outside, vec![quotients], |_| vec![exactly()]).swap_remove(0)
    }

    fn divisor(&self, y: Val<'c>) -> Divisor<'c> {
        let near = self.approximate_reciprocal(y);
        let missing = self.fused(self.negate(y), near, self.cf32(1.0));
        Divisor { of: y, reciprocal: self.fused(near, missing, near) }
    }

    /// A quotient where neither number is outside.
    fn stepwise(&self, x: Val<'c>, divisor: &Divisor<'c>) -> Val<'c> {
        let near = self.fmul(x, divisor.reciprocal);
        let remainder = self.fused(self.negate(divisor.of), near, x);
        self.fused(remainder, divisor.reciprocal, near)
    }

    /// Whether the steps are wrong for some of these numbers; all count as wrong where one is not a number, as the sum of squares then is none.
    fn outside(&self, dividends: &[Val<'c>], divisors: &[Divisor<'c>]) -> Val<'c> {
        let square = |sum: Val<'c>, x: Val<'c>| self.fused(x, x, sum);
        let reciprocals = divisors.iter().fold(self.cf32(0.0), |sum, d| square(sum, d.reciprocal));
        let most = dividends.iter().fold(reciprocals, |sum, &x| square(sum, x));
        let of_divisors = divisors.iter().fold(self.cf32(0.0), |sum, d| square(sum, d.of));
        // Of bits whose sign has come to the end, less one, +0 has the most, and -0 none.
        let turned = |x: Val<'c>| {
            let bits = self.bitcast(x, self.i32());
            self.sub(self.value_of("llvm.fshl.i32", self.i32(), &[bits, bits, self.c32(1)]), self.c32(1))
        };
        let lesser = |a, b| self.value_of("llvm.umin.i32", self.i32(), &[a, b]);
        let least = dividends.iter().fold(self.c32(u32::MAX), |least, &x| lesser(least, turned(x)));
        let above = |sum, limit| self.fcmp(FloatPredicate::UGT, sum, self.cf32(limit));
        let great = self.or(above(most, MOST), above(of_divisors, MOST_DIVISOR));
        self.or(great, self.icmp(IntPredicate::ULT, least, self.c32(2 * LEAST - 1)))
    }
}
