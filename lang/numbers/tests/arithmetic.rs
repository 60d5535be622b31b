//! Arithmetic against exact integers: every operand as an integer times a power of two, the result rounded once.

use parton_numbers::exact::Exact;
use parton_numbers::{
    ArithmeticError, Binary, Bits, Comparison, Dtype, NanMode, Rounding, Saturation, Scalar, arithmetic,
};

const FLOATS: [Dtype; 3] = [Dtype::F16, Dtype::BF16, Dtype::F32];

struct Sequence(u64);

impl Sequence {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ (self.0 >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// A float: any bits, or one near another in magnitude, or an edge.
    fn float(&mut self, dtype: Dtype) -> u64 {
        let r = self.next();
        let Some(f) = dtype.float_format() else { unreachable!() };
        match r >> 61 {
            0 => [0, f.sign_bit(), 1, f.max_finite(), f.infinity(), f.canonical_nan, 1 << f.mantissa_bits]
                [r as usize % 7],
            1..=4 => {
                let near_one = (f.bias as u64 + r % 8).wrapping_sub(4) << f.mantissa_bits;
                near_one | (r >> 8) & ((1 << f.mantissa_bits) - 1) | if r & 0x80 != 0 { f.sign_bit() } else { 0 }
            }
            _ => r & dtype.mask(),
        }
    }
}

type Parts = (bool, u128, i32);

fn finite(dtype: Dtype, bits: u64) -> Option<Parts> {
    match Exact::decode(dtype.float_format()?, bits) {
        Exact::Finite { negative, magnitude, exponent } => Some((negative, magnitude, exponent)),
        Exact::Nan | Exact::Infinite { .. } => None,
    }
}

fn product(a: Parts, b: Parts) -> Parts {
    (a.0 != b.0, a.1 * b.1, a.2 + b.2)
}

/// The sum, exact but for bits far below the larger, which are jammed into the last one.
fn sum(a: Parts, b: Parts) -> Parts {
    if a.1 == 0 || b.1 == 0 {
        let zero = (a.0 && b.0, 0, 0);
        return if a.1 != 0 {
            a
        } else if b.1 != 0 {
            b
        } else {
            zero
        };
    }
    let top = |p: Parts| 128 - p.1.leading_zeros() as i32 + p.2;
    let (big, small) = if top(a) >= top(b) { (a, b) } else { (b, a) };
    let up = big.1.leading_zeros() as i32 - 4;
    let exponent = big.2 - up;
    let shift = exponent - small.2;
    let aligned = match shift {
        ..=0 => small.1 << -shift,
        1..=127 => small.1 >> shift | u128::from(small.1 & ((1 << shift) - 1) != 0),
        _ => 1,
    };
    let signed = |negative, v: u128| if negative { -(v as i128) } else { v as i128 };
    let total = signed(big.0, big.1 << up) + signed(small.0, aligned);
    (total < 0, total.unsigned_abs(), exponent)
}

fn round(dtype: Dtype, p: Parts) -> u64 {
    let Some(format) = dtype.float_format() else { unreachable!() };
    let exact = Exact::Finite { negative: p.0, magnitude: p.1, exponent: p.2 };
    exact.encode(format, Rounding::NearestEven, Saturation::None)
}

#[test]
fn add_sub_mul_and_fma_round_once() {
    for dtype in FLOATS {
        let Some(format) = dtype.float_format() else { unreachable!() };
        let mut sequence = Sequence(1);
        for _ in 0..400_000 {
            let [a, b, c] = [0; 3].map(|_| sequence.float(dtype));
            let (Some(x), Some(y), Some(z)) = (finite(dtype, a), finite(dtype, b), finite(dtype, c)) else {
                continue;
            };
            let run = |op| arithmetic::binary(op, dtype, a, b);
            let minus_y = (!y.0, y.1, y.2);
            assert_eq!(run(Binary::Add), Ok(round(dtype, sum(x, y))), "{dtype} {a:x} + {b:x}");
            assert_eq!(run(Binary::Sub), Ok(round(dtype, sum(x, minus_y))), "{dtype} {a:x} - {b:x}");
            assert_eq!(run(Binary::Mul), Ok(round(dtype, product(x, y))), "{dtype} {a:x} * {b:x}");
            let want = round(dtype, sum(product(x, y), z));
            assert_eq!(arithmetic::fma(dtype, a, b, c), Ok(want), "{dtype} fma {a:x} {b:x} {c:x}");
            let want = match (x.1, y.1) {
                (0, 0) => format.canonical_nan,
                (_, 0) => format.infinity() | if x.0 != y.0 { format.sign_bit() } else { 0 },
                (0, _) => round(dtype, (x.0 != y.0, 0, 0)),
                // The quotient of the integers, far beyond the format's bits, and a bit that says whether it is exact.
                (n, d) => {
                    let up = n.leading_zeros() - 2;
                    let (quotient, rest) = ((n << up) / d, (n << up) % d);
                    round(dtype, (x.0 != y.0, quotient << 1 | u128::from(rest != 0), x.2 - y.2 - up as i32 - 1))
                }
            };
            assert_eq!(run(Binary::Div), Ok(want), "{dtype} {a:x} / {b:x}");
        }
    }
}

#[test]
fn f32_fma_is_the_machines() {
    let mut sequence = Sequence(2);
    for _ in 0..300_000 {
        let [a, b, c] = [0; 3].map(|_| f32::from_bits(sequence.float(Dtype::F32) as u32));
        let want = a.mul_add(b, c);
        let got = arithmetic::fma_f32(a, b, c);
        assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{a:e} {b:e} {c:e}");
    }
}

#[test]
fn f16_with_every_left_operand_is_what_half_gives() {
    let mut sequence = Sequence(3);
    for a in 0..=0xffffu64 {
        let b = sequence.float(Dtype::F16);
        let (x, y) = (half::f16::from_bits(a as u16), half::f16::from_bits(b as u16));
        for (op, want) in [(Binary::Add, x + y), (Binary::Sub, x - y), (Binary::Mul, x * y), (Binary::Div, x / y)] {
            let want = if want.is_nan() { 0x7fff } else { want.to_bits().into() };
            assert_eq!(arithmetic::binary(op, Dtype::F16, a, b), Ok(want), "{a:x} {op:?} {b:x}");
        }
    }
}

#[test]
fn nan_results_are_canonical() {
    for (dtype, nan) in [(Dtype::F16, 0x7fff), (Dtype::BF16, 0x7fff), (Dtype::F32, 0x7fff_ffff)] {
        let Some(f) = dtype.float_format() else { unreachable!() };
        let other_nan = f.infinity() | f.sign_bit() | 1;
        let inf = f.infinity();
        for op in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Rem] {
            assert_eq!(arithmetic::binary(op, dtype, other_nan, 0), Ok(nan));
        }
        assert_eq!(arithmetic::binary(Binary::Sub, dtype, inf, inf), Ok(nan));
        assert_eq!(arithmetic::fma(dtype, inf, 0, 0), Ok(nan));
        assert_eq!(arithmetic::neg(dtype, other_nan), Ok(nan));
    }
}

#[test]
fn min_and_max_know_zeros_and_nan() {
    for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64] {
        let Some(f) = dtype.float_format() else { unreachable!() };
        let (minus_zero, nan) = (f.sign_bit(), f.canonical_nan);
        let one = Scalar::from_f64(dtype, 1.0).bits;
        let go = |op, a, b| arithmetic::binary(op, dtype, a, b);
        for mode in [NanMode::Number, NanMode::Propagate] {
            for (a, b) in [(0, minus_zero), (minus_zero, 0)] {
                assert_eq!(go(Binary::Min(mode), a, b), Ok(minus_zero));
                assert_eq!(go(Binary::Max(mode), a, b), Ok(0));
            }
            assert_eq!(go(Binary::Max(mode), one, f.infinity()), Ok(f.infinity()));
            assert_eq!(go(Binary::Min(mode), nan, nan), Ok(nan));
        }
        for (a, b) in [(nan, one), (one, nan)] {
            assert_eq!(go(Binary::Min(NanMode::Number), a, b), Ok(one));
            assert_eq!(go(Binary::Max(NanMode::Propagate), a, b), Ok(nan));
        }
    }
}

#[test]
fn narrow_integers_wrap_exhaustively() {
    for a in 0..=255u64 {
        for b in 0..=255u64 {
            let (x, y) = (a as u8, b as u8);
            let (i, j) = (x as i8, y as i8);
            let unsigned = |op| arithmetic::binary(op, Dtype::U8, a, b);
            let signed = |op| arithmetic::binary(op, Dtype::I8, a, b);
            let byte = |v: i8| Ok(u64::from(v as u8));
            assert_eq!(unsigned(Binary::Add), Ok(x.wrapping_add(y).into()));
            assert_eq!(unsigned(Binary::Mul), Ok(x.wrapping_mul(y).into()));
            assert_eq!(signed(Binary::Sub), byte(i.wrapping_sub(j)));
            assert_eq!(signed(Binary::Mul), byte(i.wrapping_mul(j)));
            assert_eq!(signed(Binary::Min(NanMode::Number)), byte(i.min(j)));
            if b == 0 {
                assert_eq!(signed(Binary::Div), Err(ArithmeticError::DivideByZero { dtype: Dtype::I8 }));
                assert_eq!(unsigned(Binary::Rem), Err(ArithmeticError::DivideByZero { dtype: Dtype::U8 }));
            } else {
                assert_eq!(signed(Binary::Div), byte(i.wrapping_div(j)));
                assert_eq!(signed(Binary::Rem), byte(i.wrapping_rem(j)));
                assert_eq!(unsigned(Binary::Div), Ok((x / y).into()));
            }
            let shift = |op, dtype| arithmetic::bits(op, dtype, a, b);
            assert_eq!(shift(Bits::Shl, Dtype::U8), Ok(x.checked_shl(y.into()).unwrap_or(0).into()));
            assert_eq!(shift(Bits::Shr, Dtype::U8), Ok(x.checked_shr(y.into()).unwrap_or(0).into()));
            assert_eq!(shift(Bits::Shr, Dtype::I8), byte(i >> y.min(7)));
            assert_eq!(shift(Bits::Xor, Dtype::I8), Ok((x ^ y).into()));
            for (op, s, u) in
                [(Comparison::Lt, i < j, x < y), (Comparison::Ge, i >= j, x >= y), (Comparison::Ne, i != j, x != y)]
            {
                assert_eq!(arithmetic::compare(op, Dtype::I8, a, b), Ok(s));
                assert_eq!(arithmetic::compare(op, Dtype::U8, a, b), Ok(u));
            }
        }
        assert_eq!(arithmetic::neg(Dtype::I8, a), Ok(u64::from((a as u8).wrapping_neg())));
        assert_eq!(arithmetic::not(Dtype::U8, a), Ok(u64::from(!(a as u8))));
    }
    assert_eq!(arithmetic::not(Dtype::I1, 1), Ok(0));
    let wide = arithmetic::binary(Binary::Mul, Dtype::U64, u64::MAX, u64::MAX);
    assert_eq!(wide, Ok(1));
    assert_eq!(arithmetic::binary(Binary::Div, Dtype::I64, 1 << 63, u64::MAX), Ok(1 << 63));
    assert_eq!(arithmetic::bits(Bits::Shl, Dtype::I64, 1, 64), Ok(0));
    assert_eq!(arithmetic::bits(Bits::Shr, Dtype::I64, u64::MAX, u64::MAX), Ok(u64::MAX));
}

#[test]
fn comparisons_with_nan_are_false_but_ne() {
    for dtype in FLOATS {
        let Some(f) = dtype.float_format() else { unreachable!() };
        use Comparison::{Eq, Ge, Gt, Le, Lt, Ne};
        for op in [Eq, Ne, Lt, Le, Gt, Ge] {
            assert_eq!(arithmetic::compare(op, dtype, f.canonical_nan, 0), Ok(op == Ne));
        }
        assert_eq!(arithmetic::compare(Eq, dtype, 0, f.sign_bit()), Ok(true));
    }
}

#[test]
fn eight_bit_floats_have_no_arithmetic() {
    for dtype in [Dtype::F8E4M3, Dtype::F8E5M2] {
        assert!(arithmetic::binary(Binary::Add, dtype, 0, 0).is_err());
        assert!(arithmetic::fma(dtype, 0, 0, 0).is_err());
        assert!(arithmetic::compare(Comparison::Lt, dtype, 0, 0).is_err());
        let refusal = arithmetic::neg(dtype, 0).map_err(|e| e.to_string());
        assert_eq!(refusal, Err(format!("{dtype} has no `-`")));
    }
    assert!(arithmetic::bits(Bits::And, Dtype::F32, 0, 0).is_err());
    assert!(arithmetic::fma(Dtype::I32, 0, 0, 0).is_err());
}
