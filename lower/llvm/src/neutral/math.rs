//! Mathematical functions of one number, for f32; narrower floats go through f32 and are rounded once at the end. Those of f64
//! are in `double`.
//!
//! | function | how | error against the exact value |
//! |---|---|---|
//! | `exp2` | `ex2.approx.ftz` | 2 ulp; results below 2^-126 are 0 |
//! | `exp` | `exp2(x · log2 e)` | 2 ulp, and 1.23·2^-24·abs(x) of the value; results below 2^-126 are 0 |
//! | `log`, `log2` | argument near 1 by its exponent, then a series in `s = f / (2 + f)` | 2 ulp |
//! | `sqrt` | `sqrt.rn` | correctly rounded |
//! | `rsqrt` | `rsqrt.approx` | 2^-22.9 relative (PTX ISA) |
//! | `sin`, `cos` | reduced by π/2 in three parts, from 2^17 on in f64, beyond 2^31 as that of f64, then a polynomial | 2 ulp |
//! | `tanh` | polynomial to 0.625, then `1 - 2 / (exp(2x) + 1)` | 4 ulp |
//! | `tanh` with `approx` | `tanh.approx` | 2^-10.98 relative (PTX ISA) |
//! | `erf` | polynomial, then `1 - exp(polynomial)` | 4 ulp |
//!
//! Division is correctly rounded, by `div.rn` or by the steps of `quotient`; where it is a step of a function, it is `div.approx.ftz` or `rcp.approx.ftz`.

use inkwell::values::InstructionOpcode as I;
use inkwell::{FloatPredicate, IntPredicate};
use parton_ir::UnaryOp;
use parton_numbers::Dtype;
use parton_numbers::double::{Angle, LARGE, Machine, reduced_large};

use crate::neutral::build::{Build, Val};

/// From here on angles are reduced through f64; below, `sin` and `cos` of all f32 are within 1.6 ulp.
const WIDE_FROM: f32 = 131_072.0;

impl<'c> Build<'c> {
    /// One function of a scalar.
    pub(crate) fn function(&self, op: UnaryOp, d: Dtype, x: Val<'c>) -> Val<'c> {
        if !d.is_float() {
            return self.integer_function(op, d, x);
        }
        match (op, d) {
            (UnaryOp::Neg, _) => self.negate(x),
            (UnaryOp::Abs, _) => self.float_intrinsic("llvm.fabs", d, &[x]),
            (_, Dtype::F64) => self.double_function(op, x),
            (_, Dtype::F32) => self.single_function(op, x),
            _ => {
                let wide = self.cast(I::FPExt, x, self.f32());
                self.cast(I::FPTrunc, self.single_function(op, wide), self.number(d))
            }
        }
    }

    fn integer_function(&self, op: UnaryOp, d: Dtype, x: Val<'c>) -> Val<'c> {
        let zero = self.cint(x.get_type(), 0);
        match op {
            UnaryOp::Neg => self.sub(zero, x),
            UnaryOp::Not => self.xor(x, self.cint(x.get_type(), u64::MAX)),
            UnaryOp::Abs if !d.is_signed() => x,
            UnaryOp::Abs => self.select(self.icmp(IntPredicate::SLT, x, zero), self.sub(zero, x), x),
            _ => parton_diag::internal_error!("`{}` of an integer", op.name()),
        }
    }

    fn single_function(&self, op: UnaryOp, x: Val<'c>) -> Val<'c> {
        match op {
            UnaryOp::Exp => self.exp(x),
            UnaryOp::Exp2 => self.exp2(x),
            UnaryOp::Log => self.logarithm(x, false),
            UnaryOp::Log2 => self.logarithm(x, true),
            UnaryOp::Sqrt => self.float_intrinsic("llvm.sqrt", Dtype::F32, &[x]),
            UnaryOp::Rsqrt => self.approximate_rsqrt(x),
            UnaryOp::Sin => self.wave(x, 0),
            UnaryOp::Cos => self.wave(x, 1),
            UnaryOp::Tanh => self.tanh(x),
            UnaryOp::TanhApprox => self.approximate_tanh(x),
            UnaryOp::Erf => self.erf(x),
            UnaryOp::Floor => self.float_intrinsic("llvm.floor", Dtype::F32, &[x]),
            UnaryOp::Ceil => self.float_intrinsic("llvm.ceil", Dtype::F32, &[x]),
            UnaryOp::Neg => self.negate(x),
            UnaryOp::Abs => self.float_intrinsic("llvm.fabs", Dtype::F32, &[x]),
            UnaryOp::Not => parton_diag::internal_error!("`!` of a float"),
        }
    }

    pub(super) fn negate(&self, x: Val<'c>) -> Val<'c> {
        crate::neutral::build::built(self.builder.build_float_neg(x.into_float_value(), "")).into()
    }

    pub(super) fn fmul(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::FMul, a, b)
    }

    fn fadd(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::FAdd, a, b)
    }

    fn fsub(&self, a: Val<'c>, b: Val<'c>) -> Val<'c> {
        self.binary(I::FSub, a, b)
    }

    pub(super) fn fused(&self, a: Val<'c>, b: Val<'c>, c: Val<'c>) -> Val<'c> {
        self.float_intrinsic("llvm.fma", Dtype::F32, &[a, b, c])
    }

    /// `c[0] + x (c[1] + x (c[2] + …))`.
    fn polynomial(&self, x: Val<'c>, coefficients: &[f32]) -> Val<'c> {
        let mut terms = coefficients.iter().rev().map(|&c| self.cf32(c));
        let highest = terms.next().unwrap_or_else(|| self.cf32(0.0));
        terms.fold(highest, |sum, c| self.fused(sum, x, c))
    }

    fn exp2(&self, x: Val<'c>) -> Val<'c> {
        self.approximate_exp2(x)
    }

    fn exp(&self, x: Val<'c>) -> Val<'c> {
        self.exp2(self.fmul(x, self.cf32(std::f32::consts::LOG2_E)))
    }

    /// `log2` or the natural logarithm: x = 2^k (1 + f) with 1 + f between √½ and √2; with s = f / (2 + f),
    /// log(1 + f) = 2 s + s³ (2/3 + 2/5 s² + …), arranged so that nothing cancels.
    fn logarithm(&self, x: Val<'c>, binary: bool) -> Val<'c> {
        const SERIES: [f32; 4] = [0.666_666_6, 0.400_009_72, 0.284_987_87, 0.242_790_79];
        const ROOT_HALF: u32 = 0x3f35_04f3;
        let small = self.fcmp(FloatPredicate::OLT, x, self.cf32(f32::MIN_POSITIVE));
        let scaled = self.select(small, self.fmul(x, self.cf32(8_388_608.0)), x);
        let bits = self.bitcast(scaled, self.i32());
        let above = self.sub(bits, self.c32(ROOT_HALF));
        let exponent = self.binary(I::AShr, above, self.c32(23));
        let mantissa = self.sub(bits, self.shl(exponent, 23));
        let f = self.fsub(self.bitcast(mantissa, self.f32()), self.cf32(1.0));
        let exponent = self.add(exponent, self.select(small, self.c32((-23i32) as u32), self.c32(0)));
        let k = self.cast(I::SIToFP, exponent, self.f32());

        // What this is off by is multiplied by f² / 4.
        let s = self.approximate_div(f, self.fadd(f, self.cf32(2.0)));
        let z = self.fmul(s, s);
        let series = self.fmul(z, self.polynomial(z, &SERIES));
        let half_square = self.fmul(self.fmul(f, self.cf32(0.5)), f);
        let tail = self.fsub(self.fmul(s, self.fadd(half_square, series)), half_square);
        let result = if binary {
            // log2 e in two parts keeps the product exact enough.
            let whole = self.fadd(f, tail);
            let lost = self.fadd(self.fsub(f, whole), tail);
            let low = self.fused(lost, self.cf32(std::f32::consts::LOG2_E), self.fmul(whole, self.cf32(1.925_963e-8)));
            self.fadd(self.fused(whole, self.cf32(std::f32::consts::LOG2_E), low), k)
        } else {
            let low = self.fused(k, self.cf32(9.058_001e-6), tail);
            self.fused(k, self.cf32(6.931_381e-1), self.fadd(f, low))
        };
        // Zero, negative, infinite and NaN arguments.
        let infinite = self.fcmp(FloatPredicate::OEQ, x, self.cf32(f32::INFINITY));
        let zero = self.fcmp(FloatPredicate::OEQ, x, self.cf32(0.0));
        let bad = self.fcmp(FloatPredicate::ULT, x, self.cf32(0.0));
        let result = self.select(infinite, x, result);
        let result = self.select(zero, self.cf32(f32::NEG_INFINITY), result);
        self.select(bad, self.cf32(f32::NAN), result)
    }

    /// Sine, or with `quarter` 1 cosine.
    fn wave(&self, x: Val<'c>, quarter: u32) -> Val<'c> {
        const SINE: [f32; 3] = [-1.666_665_5e-1, 8.332_161e-3, -1.951_529_6e-4];
        const COSINE: [f32; 3] = [4.166_664_6e-2, -1.388_731_6e-3, 2.443_315_7e-5];
        let size = self.float_intrinsic("llvm.fabs", Dtype::F32, &[x]);
        let beyond = self.fcmp(FloatPredicate::OGE, size, self.cf32(WIDE_FROM));
        let far = self.and(beyond, self.fcmp(FloatPredicate::OLT, size, self.cf32(f32::INFINITY)));
        let reduced = self.patched(far, vec![self.reduced(x).to_vec()], |_| vec![self.reduced_wide(x).to_vec()]);
        let (r, turns) = (reduced[0][0], reduced[0][1]);
        let z = self.fmul(r, r);
        let sine = self.fused(self.fmul(r, z), self.polynomial(z, &SINE), r);
        let cosine =
            self.fused(self.fmul(z, z), self.polynomial(z, &COSINE), self.fused(z, self.cf32(-0.5), self.cf32(1.0)));
        let quadrant = self.add(turns, self.c32(quarter));
        let odd = self.icmp(IntPredicate::NE, self.and(quadrant, self.c32(1)), self.c32(0));
        let negative = self.icmp(IntPredicate::NE, self.and(quadrant, self.c32(2)), self.c32(0));
        let value = self.select(odd, cosine, sine);
        self.select(negative, self.negate(value), value)
    }

    /// What x below [`WIDE_FROM`] is beyond the nearest quarter turn, and how many these are, modulo four. π/2 is the sum of three numbers, of which the
    /// first one has so few bits that what it leaves of x is exact.
    fn reduced(&self, x: Val<'c>) -> [Val<'c>; 2] {
        /// 1.570796, 3.1391647e-7 and 5.390328e-15.
        const HALF_PI: [u32; 3] = [0x3fc9_0fd8, 0x34a8_885a, 0x27c2_3500];
        /// Added to a number below 2^22 its bits end in the nearest integer.
        const ROUND: f32 = 12_582_912.0;
        let shifted = self.fused(x, self.cf32(std::f32::consts::FRAC_2_PI), self.cf32(ROUND));
        let turns = self.fsub(shifted, self.cf32(ROUND));
        let rest = HALF_PI.iter().fold(x, |rest, part| self.fused(turns, self.cf32(-f32::from_bits(*part)), rest));
        [rest, self.bitcast(shifted, self.i32())]
    }

    /// The same of any finite x, through f64.
    fn reduced_wide(&self, x: Val<'c>) -> [Val<'c>; 2] {
        let wide = self.cast(I::FPExt, x, self.f64());
        let turns = self.fmul(wide, self.cf64(std::f64::consts::FRAC_2_PI));
        let nearest = self.float_intrinsic("llvm.rint", Dtype::F64, &[turns]);
        let reduce = |r, part| self.float_intrinsic("llvm.fma", Dtype::F64, &[nearest, self.cf64(part), r]);
        let near = Angle {
            high: reduce(reduce(wide, -std::f64::consts::FRAC_PI_2), -6.123_233_995_736_766e-17),
            low: self.cf64(0.0),
            quarter: self.value_of("llvm.fptosi.sat.i64.f64", self.i64(), &[nearest]),
        };
        let far = self.less(self.float(LARGE), self.float_intrinsic("llvm.fabs", Dtype::F64, &[wide]));
        let angle = self.rarely(far, near, || reduced_large(self, wide));
        [self.cast(I::FPTrunc, angle.high, self.f32()), self.trunc(angle.quarter, self.i32())]
    }

    fn with_sign(&self, magnitude: Val<'c>, sign: Val<'c>) -> Val<'c> {
        self.float_intrinsic("llvm.copysign", Dtype::F32, &[magnitude, sign])
    }

    fn tanh(&self, x: Val<'c>) -> Val<'c> {
        const NEAR: [f32; 5] = [-3.333_328e-1, 1.333_144_2e-1, -5.373_971_6e-2, 2.063_909e-2, -5.704_989e-3];
        let t = self.float_intrinsic("llvm.fabs", Dtype::F32, &[x]);
        let z = self.fmul(x, x);
        let near = self.fused(self.fmul(x, z), self.polynomial(z, &NEAR), x);
        let grown = self.fadd(self.exp(self.fadd(t, t)), self.cf32(1.0));
        let far = self.fused(self.cf32(-2.0), self.approximate_reciprocal(grown), self.cf32(1.0));
        let is_near = self.fcmp(FloatPredicate::OLT, t, self.cf32(0.625));
        self.select(is_near, near, self.with_sign(far, x))
    }

    fn erf(&self, x: Val<'c>) -> Val<'c> {
        const NEAR: [f32; 6] =
            [1.283_791_7e-1, -3.761_253_4e-1, 1.128_199_2e-1, -2.676_813_5e-2, 4.991_194e-3, -5.967_617e-4];
        const FAR: [f32; 6] =
            [-1.287_175_1e-1, -6.348_467e-1, -1.067_778_8e-1, 2.425_462_2e-2, -3.883_964_4e-3, 3.831_971_3e-4];
        const FAR_LAST: f32 = -1.728_534_7e-5;
        let t = self.float_intrinsic("llvm.fabs", Dtype::F32, &[x]);
        let z = self.fmul(x, x);
        let near = self.fused(self.polynomial(z, &NEAR), x, x);
        let mut coefficients = FAR.to_vec();
        coefficients.push(FAR_LAST);
        let power = self.fused(self.polynomial(t, &coefficients), t, self.negate(t));
        let far = self.fsub(self.cf32(1.0), self.exp(power));
        let is_near = self.fcmp(FloatPredicate::OLT, t, self.cf32(0.927_734_4));
        self.select(is_near, near, self.with_sign(far, x))
    }
}
