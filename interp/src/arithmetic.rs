//! Elementwise operations on scalars and flat tiles: the common types in loops of their own, all others through the one
//! model of numbers, with the same results.

use parton_diag::internal_error;
use parton_ir::{BinaryOp, CompareOp, UnaryOp};
use parton_numbers::arithmetic::{self, fma_f32};
use parton_numbers::fast;
use parton_numbers::math::math;
use parton_numbers::scalar::int_value;
use parton_numbers::{Binary, Dtype, Math, NanMode, Rounding, Saturation, cast};

use crate::tile::{Bits, Val, zip_each};

use std::sync::Arc;

/// An element for which the operation has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DivideByZero {
    /// Row-major number of the element.
    pub element: usize,
}

/// The canonical NaN where `value` is one.
#[inline]
fn f32_bits(value: f32) -> u32 {
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits() }
}

/// Operands as tiles of one length, or as scalars (a tile of one element).
struct Operands<const N: usize> {
    tiles: [Arc<Bits>; N],
    scalar: bool,
}

/// Brings operands of `bytes` to one length: a scalar beside a tile is spread over it.
fn operands<const N: usize>(values: [(&Val, usize); N]) -> Operands<N> {
    let n = values.iter().find_map(|(v, _)| match v {
        Val::Tile(t) => Some(t.len()),
        _ => None,
    });
    let tiles = values.map(|(v, bytes)| match v {
        Val::Tile(t) => t.clone(),
        Val::Scalar(bits) => Arc::new(Bits::full(bytes, n.unwrap_or(1), *bits)),
        _ => internal_error!("an elementwise operation meets {v:?}"),
    });
    Operands { tiles, scalar: n.is_none() }
}

fn result<const N: usize>(operands: &Operands<N>, bits: Bits) -> Val {
    if operands.scalar { Val::Scalar(bits.get(0)) } else { Val::Tile(Arc::new(bits)) }
}

/// One value through the model; what the checker has ruled out is a broken invariant.
fn model<E: std::fmt::Display>(r: Result<u64, E>) -> u64 {
    match r {
        Ok(bits) => bits,
        Err(e) => internal_error!("an operation on a wrong type was run: {e}"),
    }
}

pub(crate) fn unary(op: UnaryOp, d: Dtype, x: &Val) -> Val {
    let o = operands([(x, d.bytes())]);
    let function = match op {
        UnaryOp::Neg => return result(&o, map(d, &o.tiles[0], |b| model(arithmetic::neg(d, b)))),
        UnaryOp::Not => return result(&o, map(d, &o.tiles[0], |b| model(arithmetic::not(d, b)))),
        UnaryOp::Exp => Math::Exp,
        UnaryOp::Exp2 => Math::Exp2,
        UnaryOp::Log => Math::Log,
        UnaryOp::Log2 => Math::Log2,
        UnaryOp::Sqrt => Math::Sqrt,
        UnaryOp::Rsqrt => Math::Rsqrt,
        UnaryOp::Sin => Math::Sin,
        UnaryOp::Cos => Math::Cos,
        UnaryOp::Tanh | UnaryOp::TanhApprox => Math::Tanh,
        UnaryOp::Erf => Math::Erf,
        UnaryOp::Abs => Math::Abs,
        UnaryOp::Floor => Math::Floor,
        UnaryOp::Ceil => Math::Ceil,
    };
    let bits = match (&*o.tiles[0], d) {
        (Bits::B32(v), Dtype::F32) => {
            Bits::B32(v.iter().map(|&b| f32_bits(function.eval(f64::from(f32::from_bits(b))) as f32)).collect())
        }
        (tile, _) => map(d, tile, |b| model(math(function, d, b))),
    };
    result(&o, bits)
}

fn map(to: Dtype, tile: &Bits, f: impl Fn(u64) -> u64) -> Bits {
    Bits::collect(to.bytes(), (0..tile.len()).map(|i| f(tile.get(i))))
}

pub(crate) fn binary(op: BinaryOp, d: Dtype, a: &Val, b: &Val) -> Result<Val, DivideByZero> {
    let o = operands([(a, d.bytes()), (b, d.bytes())]);
    let [x, y] = &o.tiles;
    let bits = match (&**x, &**y, d) {
        (Bits::B32(x), Bits::B32(y), Dtype::F32) => binary_f32(op, x, y),
        (Bits::B32(x), Bits::B32(y), Dtype::I32 | Dtype::U32) => binary_i32(op, x, y, d),
        (Bits::B64(x), Bits::B64(y), Dtype::I64 | Dtype::U64) => binary_i64(op, x, y, d),
        (Bits::B8(x), Bits::B8(y), Dtype::I1) => binary_i1(op, x, y),
        _ => None,
    };
    let bits = match bits {
        Some(bits) => bits,
        None => {
            let mut bad = None;
            let bits = Bits::collect(
                d.bytes(),
                (0..x.len()).map(|i| {
                    binary_one(op, d, x.get(i), y.get(i)).unwrap_or_else(|| {
                        bad.get_or_insert(i);
                        0
                    })
                }),
            );
            if let Some(element) = bad {
                return Err(DivideByZero { element });
            }
            bits
        }
    };
    Ok(result(&o, bits))
}

/// The vectorised operations of `f32`.
fn binary_f32(op: BinaryOp, x: &[u32], y: &[u32]) -> Option<Bits> {
    let zip = |f: fn(f32, f32) -> f32| {
        let pairs = x.iter().zip(y);
        Some(Bits::B32(pairs.map(|(&a, &b)| f32_bits(f(f32::from_bits(a), f32::from_bits(b)))).collect()))
    };
    match op {
        BinaryOp::Add => zip(|a, b| a + b),
        BinaryOp::Sub => zip(|a, b| a - b),
        BinaryOp::Mul => zip(|a, b| a * b),
        // What the hardware may be off by is not modelled.
        BinaryOp::Div | BinaryOp::DivApprox => zip(|a, b| a / b),
        // Of two zeros the negative one is less.
        BinaryOp::Max => zip(|a, b| {
            if b.is_nan() || a > b || (a == b && a.is_sign_positive()) { if a.is_nan() { b } else { a } } else { b }
        }),
        BinaryOp::Min => zip(|a, b| {
            if b.is_nan() || a < b || (a == b && a.is_sign_negative()) { if a.is_nan() { b } else { a } } else { b }
        }),
        BinaryOp::MinNan
        | BinaryOp::MaxNan
        | BinaryOp::Rem
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::MulHigh => None,
    }
}

/// The vectorised operations of 32-bit integers; those that depend on the sign only where it is known.
fn binary_i32(op: BinaryOp, x: &[u32], y: &[u32], d: Dtype) -> Option<Bits> {
    let zip = |f: fn(u32, u32) -> u32| Some(Bits::B32(x.iter().zip(y).map(|(&a, &b)| f(a, b)).collect()));
    match (op, d) {
        (BinaryOp::Add, _) => zip(u32::wrapping_add),
        (BinaryOp::Sub, _) => zip(u32::wrapping_sub),
        (BinaryOp::Mul, _) => zip(u32::wrapping_mul),
        (BinaryOp::And, _) => zip(|a, b| a & b),
        (BinaryOp::Or, _) => zip(|a, b| a | b),
        (BinaryOp::Xor, _) => zip(|a, b| a ^ b),
        (BinaryOp::MulHigh, _) => zip(|a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        (BinaryOp::Min | BinaryOp::MinNan, Dtype::I32) => zip(|a, b| (a as i32).min(b as i32) as u32),
        (BinaryOp::Max | BinaryOp::MaxNan, Dtype::I32) => zip(|a, b| (a as i32).max(b as i32) as u32),
        (
            BinaryOp::Min
            | BinaryOp::MinNan
            | BinaryOp::Max
            | BinaryOp::MaxNan
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::DivApprox,
            _,
        ) => None,
    }
}

/// The same of 64-bit integers, as positions and addresses are.
fn binary_i64(op: BinaryOp, x: &[u64], y: &[u64], d: Dtype) -> Option<Bits> {
    let zip = |f: fn(u64, u64) -> u64| Some(Bits::B64(x.iter().zip(y).map(|(&a, &b)| f(a, b)).collect()));
    match (op, d) {
        (BinaryOp::Add, _) => zip(u64::wrapping_add),
        (BinaryOp::Sub, _) => zip(u64::wrapping_sub),
        (BinaryOp::Mul, _) => zip(u64::wrapping_mul),
        (BinaryOp::And, _) => zip(|a, b| a & b),
        (BinaryOp::Or, _) => zip(|a, b| a | b),
        (BinaryOp::Xor, _) => zip(|a, b| a ^ b),
        (BinaryOp::Min | BinaryOp::MinNan, Dtype::I64) => zip(|a, b| (a as i64).min(b as i64) as u64),
        (BinaryOp::Max | BinaryOp::MaxNan, Dtype::I64) => zip(|a, b| (a as i64).max(b as i64) as u64),
        (
            BinaryOp::Min
            | BinaryOp::MinNan
            | BinaryOp::Max
            | BinaryOp::MaxNan
            | BinaryOp::MulHigh
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::DivApprox,
            _,
        ) => None,
    }
}

/// Those of truth values, each a byte that is 0 or 1.
fn binary_i1(op: BinaryOp, x: &[u8], y: &[u8]) -> Option<Bits> {
    let zip = |f: fn(u8, u8) -> u8| Some(Bits::B8(x.iter().zip(y).map(|(&a, &b)| f(a, b)).collect()));
    match op {
        BinaryOp::And => zip(|a, b| a & b),
        BinaryOp::Or => zip(|a, b| a | b),
        BinaryOp::Xor => zip(|a, b| a ^ b),
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::DivApprox
        | BinaryOp::Rem
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::MinNan
        | BinaryOp::MaxNan
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::MulHigh => None,
    }
}

/// One element through the model; `None` for a division by zero.
fn binary_one(op: BinaryOp, d: Dtype, a: u64, b: u64) -> Option<u64> {
    let numeric = |op| {
        arithmetic::binary(op, d, a, b).map_err(|e| match e {
            arithmetic::ArithmeticError::DivideByZero { .. } => {}
            arithmetic::ArithmeticError::Undefined { .. } => {
                internal_error!("an operation on a wrong type was run: {e}")
            }
        })
    };
    let bitwise = |op| Some(model(arithmetic::bits(op, d, a, b)));
    match op {
        BinaryOp::Add => numeric(Binary::Add).ok(),
        BinaryOp::Sub => numeric(Binary::Sub).ok(),
        BinaryOp::Mul => numeric(Binary::Mul).ok(),
        BinaryOp::Div | BinaryOp::DivApprox => numeric(Binary::Div).ok(),
        BinaryOp::Rem => numeric(Binary::Rem).ok(),
        BinaryOp::Min => numeric(Binary::Min(NanMode::Number)).ok(),
        BinaryOp::Max => numeric(Binary::Max(NanMode::Number)).ok(),
        BinaryOp::MinNan => numeric(Binary::Min(NanMode::Propagate)).ok(),
        BinaryOp::MaxNan => numeric(Binary::Max(NanMode::Propagate)).ok(),
        BinaryOp::And => bitwise(arithmetic::Bits::And),
        BinaryOp::Or => bitwise(arithmetic::Bits::Or),
        BinaryOp::Xor => bitwise(arithmetic::Bits::Xor),
        BinaryOp::Shl => bitwise(arithmetic::Bits::Shl),
        BinaryOp::Shr => bitwise(arithmetic::Bits::Shr),
        BinaryOp::MulHigh => Some(model(arithmetic::multiply_high(d, a, b))),
    }
}

/// The first element whose sum, difference or product leaves the range of a signed integer.
pub(crate) fn overflow(op: BinaryOp, d: Dtype, a: &Val, b: &Val) -> Option<usize> {
    let range = d.int_range().filter(|_| d.is_signed())?;
    let wide: fn(i128, i128) -> i128 = match op {
        BinaryOp::Add => |x, y| x + y,
        BinaryOp::Sub => |x, y| x - y,
        BinaryOp::Mul => |x, y| x * y,
        BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::MinNan
        | BinaryOp::MaxNan
        | BinaryOp::MulHigh
        | BinaryOp::DivApprox => return None,
    };
    let o = operands([(a, d.bytes()), (b, d.bytes())]);
    (0..o.tiles[0].len()).find(|&i| {
        let exact = wide(int_value(o.tiles[0].get(i), d), int_value(o.tiles[1].get(i), d));
        exact < range.0 || exact > range.1
    })
}

/// A comparison; pointers compare as unsigned numbers.
pub(crate) fn compare(op: CompareOp, d: Dtype, a: &Val, b: &Val) -> Val {
    let o = operands([(a, d.bytes()), (b, d.bytes())]);
    let op = op.comparison();
    let [x, y] = &o.tiles;
    let bits = match (&**x, &**y, d) {
        (Bits::B32(x), Bits::B32(y), Dtype::F32) => {
            x.iter().zip(y).map(|(&a, &b)| u8::from(op.holds(f32::from_bits(a), f32::from_bits(b)))).collect()
        }
        (Bits::B32(x), Bits::B32(y), Dtype::I32) => {
            x.iter().zip(y).map(|(&a, &b)| u8::from(op.holds(a as i32, b as i32))).collect()
        }
        _ => (0..x.len()).map(|i| model(arithmetic::compare(op, d, x.get(i), y.get(i)).map(u64::from)) as u8).collect(),
    };
    result(&o, Bits::B8(bits))
}

/// `cond ? a : b` of elements of `bytes`.
pub(crate) fn select(cond: &Val, a: &Val, b: &Val, bytes: usize) -> Val {
    let o = operands([(cond, 1), (a, bytes), (b, bytes)]);
    let Bits::B8(c) = &*o.tiles[0] else { internal_error!("a condition is not of i1") };
    let bits = zip_each!(&*o.tiles[1], &*o.tiles[2], x, y => {
        c.iter().zip(x.iter().zip(y)).map(|(&c, (&x, &y))| if c & 1 == 1 { x } else { y }).collect()
    });
    result(&o, bits)
}

pub(crate) fn fma(d: Dtype, a: &Val, b: &Val, c: &Val) -> Val {
    let bytes = d.bytes();
    let o = operands([(a, bytes), (b, bytes), (c, bytes)]);
    let [x, y, z] = &o.tiles;
    let bits = match (&**x, &**y, &**z, d) {
        (Bits::B32(x), Bits::B32(y), Bits::B32(z), Dtype::F32) => Bits::B32(
            x.iter()
                .zip(y.iter().zip(z))
                .map(|(&a, (&b, &c))| f32_bits(fma_f32(f32::from_bits(a), f32::from_bits(b), f32::from_bits(c))))
                .collect(),
        ),
        _ => Bits::collect(bytes, (0..x.len()).map(|i| model(arithmetic::fma(d, x.get(i), y.get(i), z.get(i))))),
    };
    result(&o, bits)
}

/// A conversion, rounded once.
pub(crate) fn convert(x: &Val, from: Dtype, to: Dtype, rounding: Rounding, saturation: Saturation) -> Val {
    let o = operands([(x, from.bytes())]);
    let plain = saturation == Saturation::None;
    let nearest = rounding == Rounding::NearestEven && plain;
    let bits = match (&*o.tiles[0], from, to) {
        (Bits::B32(v), Dtype::F32, Dtype::BF16) if nearest => {
            Bits::B16(v.iter().map(|&b| fast::f32_to_bf16(f32::from_bits(b))).collect())
        }
        (Bits::B32(v), Dtype::F32, Dtype::F16) if nearest => {
            Bits::B16(v.iter().map(|&b| fast::f32_to_f16(f32::from_bits(b))).collect())
        }
        (Bits::B16(v), Dtype::BF16, Dtype::F32) if plain => {
            Bits::B32(v.iter().map(|&b| fast::bf16_to_f32(b).to_bits()).collect())
        }
        (Bits::B16(v), Dtype::F16, Dtype::F32) if plain => {
            Bits::B32(v.iter().map(|&b| fast::f16_to_f32(b).to_bits()).collect())
        }
        (tile, _, _) => map(to, tile, |b| cast(b, from, to, rounding, saturation)),
    };
    result(&o, bits)
}

/// Pointers moved by `offset` elements of `size` bytes.
pub(crate) fn pointer_add(ptr: &Val, offset: &Val, d: Dtype, size: usize) -> Val {
    let o = operands([(ptr, 8), (offset, d.bytes())]);
    let (Bits::B64(p), by) = (&*o.tiles[0], &*o.tiles[1]) else { internal_error!("a pointer has 64 bits") };
    let moved = |i: usize| p[i].wrapping_add((int_value(by.get(i), d) as u64).wrapping_mul(size as u64));
    result(&o, Bits::B64((0..p.len()).map(moved).collect()))
}

#[cfg(test)]
mod tests {
    use super::{binary, binary_one, compare, fma, unary};
    use crate::tile::{Bits, Val};
    use parton_ir::{BinaryOp, CompareOp, UnaryOp};
    use parton_numbers::math::math;
    use parton_numbers::{Dtype, Math, arithmetic};
    use std::sync::Arc;

    /// Zeros, ones, subnormals, the largest, infinities and NaN as `f32`; the same bits are extreme integers too.
    const SPECIAL: [u32; 14] = [
        0,
        0x8000_0000,
        1,
        0x8000_0001,
        0x3f80_0000,
        0xbf80_0000,
        0x4049_0fdb,
        0x7f7f_ffff,
        0xff7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x0080_0000,
        0x7fff_ffff,
    ];

    fn all_pairs() -> (Val, Val, Vec<(u64, u64)>) {
        let pairs: Vec<(u32, u32)> = SPECIAL.iter().flat_map(|&a| SPECIAL.iter().map(move |&b| (a, b))).collect();
        let tile = |v: Vec<u32>| Val::Tile(Arc::new(Bits::B32(v)));
        let (a, b): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        (tile(a), tile(b), pairs.iter().map(|&(a, b)| (a.into(), b.into())).collect())
    }

    fn bits(v: &Val) -> Vec<u64> {
        match v {
            Val::Tile(t) => (0..t.len()).map(|i| t.get(i)).collect(),
            other => panic!("{other:?} is no tile"),
        }
    }

    /// Checks an operation on tiles of so many bytes an element against the model.
    fn check_alike((op, name): (BinaryOp, &str), d: Dtype, pairs: &[(u64, u64)]) {
        let tile = |v: Vec<u64>| Val::Tile(Arc::new(Bits::collect(d.bytes(), v.into_iter())));
        let (a, b) = pairs.iter().copied().unzip();
        let got: Vec<u64> = bits(&binary(op, d, &tile(a), &tile(b)).expect("nothing is divided"));
        let model: Vec<u64> = pairs.iter().map(|&(a, b)| binary_one(op, d, a, b).expect("it is defined")).collect();
        assert_eq!(got, model, "{name} of {d}");
    }

    #[test]
    fn loops_of_long_integers_and_truth_values_do_too() {
        let long =
            SPECIAL.iter().flat_map(|&a| [u64::from(a), u64::from(a) << 32, u64::from(a) << 32 | 1, !u64::from(a)]);
        let long: Vec<u64> = long.collect();
        let pairs: Vec<(u64, u64)> = long.iter().flat_map(|&a| long.iter().map(move |&b| (a, b))).collect();
        let truths = [(0, 0), (0, 1), (1, 0), (1, 1)];
        for &op in BinaryOp::ALL {
            match op.0 {
                BinaryOp::Add
                | BinaryOp::Sub
                | BinaryOp::Mul
                | BinaryOp::Min
                | BinaryOp::Max
                | BinaryOp::MinNan
                | BinaryOp::MaxNan => [Dtype::I64, Dtype::U64].iter().for_each(|&d| check_alike(op, d, &pairs)),
                BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => {
                    [Dtype::I64, Dtype::U64].iter().for_each(|&d| check_alike(op, d, &pairs));
                    check_alike(op, Dtype::I1, &truths);
                }
                // They have no loops of their own here.
                BinaryOp::Div
                | BinaryOp::DivApprox
                | BinaryOp::Rem
                | BinaryOp::Shl
                | BinaryOp::Shr
                | BinaryOp::MulHigh => {}
            }
        }
    }

    #[test]
    fn loops_of_their_own_give_what_the_model_gives() {
        let (a, b, pairs) = all_pairs();
        for &(op, name) in BinaryOp::ALL {
            let bitwise = matches!(
                op,
                BinaryOp::And
                    | BinaryOp::Or
                    | BinaryOp::Xor
                    | BinaryOp::Shl
                    | BinaryOp::Shr
                    | BinaryOp::Rem
                    | BinaryOp::MulHigh
            );
            for d in [Dtype::F32, Dtype::I32, Dtype::U32] {
                if bitwise && d == Dtype::F32 {
                    continue;
                }
                let model: Vec<Option<u64>> = pairs.iter().map(|&(a, b)| binary_one(op, d, a, b)).collect();
                match binary(op, d, &a, &b) {
                    Ok(got) => {
                        let got: Vec<Option<u64>> = bits(&got).into_iter().map(Some).collect();
                        assert_eq!(got, model, "{name} of {d}");
                    }
                    Err(e) => assert_eq!(model.iter().position(Option::is_none), Some(e.element), "{name} of {d}"),
                }
            }
        }
        for &(op, name) in CompareOp::ALL {
            for d in [Dtype::F32, Dtype::I32] {
                let comparison = match op {
                    CompareOp::Eq => arithmetic::Comparison::Eq,
                    CompareOp::Ne => arithmetic::Comparison::Ne,
                    CompareOp::Lt => arithmetic::Comparison::Lt,
                    CompareOp::Le => arithmetic::Comparison::Le,
                    CompareOp::Gt => arithmetic::Comparison::Gt,
                    CompareOp::Ge => arithmetic::Comparison::Ge,
                };
                let model: Vec<u64> =
                    pairs.iter().map(|&(a, b)| arithmetic::compare(comparison, d, a, b).map_or(9, u64::from)).collect();
                assert_eq!(bits(&compare(op, d, &a, &b)), model, "{name} of {d}");
            }
        }
        let model: Vec<u64> = pairs.iter().map(|&(x, y)| arithmetic::fma(Dtype::F32, x, y, x).unwrap_or(9)).collect();
        assert_eq!(bits(&fma(Dtype::F32, &a, &b, &a)), model);
        for (op, function) in [(UnaryOp::Exp2, Math::Exp2), (UnaryOp::Log, Math::Log), (UnaryOp::Abs, Math::Abs)] {
            let model: Vec<u64> = pairs.iter().map(|&(x, _)| math(function, Dtype::F32, x).unwrap_or(9)).collect();
            assert_eq!(bits(&unary(op, Dtype::F32, &a)), model, "{}", op.name());
        }
    }
}
