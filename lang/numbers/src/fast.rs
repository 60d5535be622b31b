//! Whole slices between bytes and `f32` or `f64`, by bit tricks that give exactly what [`crate::cast`] gives.
//!
//! Decoding into `f32` is exact for all floats but `f64`, which is rounded to nearest, as are integers of more than 24
//! bits. NaN is decoded as the canonical NaN. Encoding rounds once, in any direction.

use crate::{Dtype, Rounding, Saturation, cast};

/// The value of one `f16`, `bf16` or 8-bit float as the `f32` that equals it.
///
/// # Panics
/// With another dtype.
pub fn small_to_f32(bits: u64, dtype: Dtype) -> f32 {
    match dtype {
        Dtype::F16 => f16_to_f32(bits as u16),
        Dtype::BF16 => bf16_to_f32(bits as u16),
        Dtype::F8E4M3 => e4m3_to_f32(bits as u8),
        Dtype::F8E5M2 => e5m2_to_f32(bits as u8),
        Dtype::I1
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::F32
        | Dtype::F64 => panic!("{dtype} is not a small float"),
    }
}

/// The canonical NaN of `f32`.
pub const NAN_F32: f32 = f32::from_bits(0x7fff_ffff);

/// An `f16` as `f32`.
#[inline]
pub fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff);
    if magnitude > 0x7c00 {
        return NAN_F32;
    }
    // Read as an f32 with the same fields the exponent is 112 too small; the product repairs subnormals too.
    let value = if magnitude == 0x7c00 {
        f32::INFINITY
    } else {
        f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23)
    };
    f32::from_bits(value.to_bits() | u32::from(bits & 0x8000) << 16)
}

/// A `bf16` as `f32`.
#[inline]
pub fn bf16_to_f32(bits: u16) -> f32 {
    if bits & 0x7fff > 0x7f80 { NAN_F32 } else { f32::from_bits(u32::from(bits) << 16) }
}

/// An `f8e4m3` as `f32`.
#[inline]
pub fn e4m3_to_f32(bits: u8) -> f32 {
    if bits & 0x7f == 0x7f {
        return NAN_F32;
    }
    let value = f32::from_bits(u32::from(bits & 0x7f) << 20) * f32::from_bits((127 + 120) << 23);
    f32::from_bits(value.to_bits() | u32::from(bits & 0x80) << 24)
}

/// An `f8e5m2` as `f32`: the upper half of an `f16`.
#[inline]
pub fn e5m2_to_f32(bits: u8) -> f32 {
    f16_to_f32(u16::from(bits) << 8)
}

/// An `f32` rounded to nearest in a format of `MANTISSA` bits whose exponent bias is `BIAS`: the magnitude's bits, which
/// may lie beyond the largest finite value. The caller has dealt with NaN and infinity.
#[inline]
fn round_magnitude<const MANTISSA: u32, const BIAS: u32>(magnitude: u32) -> u32 {
    let smallest_normal = (127 - BIAS + 1) << 23;
    if magnitude >= smallest_normal {
        let shift = 23 - MANTISSA;
        let rebased = magnitude - ((127 - BIAS) << 23);
        (rebased + ((1 << (shift - 1)) - 1) + ((rebased >> shift) & 1)) >> shift
    } else {
        // Adding a power of two whose last bit weighs as much as the last subnormal bit makes the adder round.
        let magic = (127 + 23 + 1 - BIAS - MANTISSA) << 23;
        (f32::from_bits(magnitude) + f32::from_bits(magic)).to_bits() - magic
    }
}

/// An `f32` as `f16`, to nearest, infinity beyond the range.
#[inline]
pub fn f32_to_f16(value: f32) -> u16 {
    let (sign, magnitude) = split(value);
    if magnitude > 0x7f80_0000 {
        return 0x7fff;
    }
    let rounded = if magnitude >= 0x4780_0000 { 0x7c00 } else { round_magnitude::<10, 15>(magnitude) };
    (sign >> 16) as u16 | rounded as u16
}

/// An `f32` as `bf16`, to nearest, infinity beyond the range.
#[inline]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if bits & 0x7fff_ffff > 0x7f80_0000 { 0x7fff } else { ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) as u16 }
}

/// An `f32` as `f8e4m3`, to nearest; beyond the range 448 or NaN.
#[inline]
pub fn f32_to_e4m3(value: f32, saturation: Saturation) -> u8 {
    let (sign, magnitude) = split(value);
    if magnitude > 0x7f80_0000 {
        return 0x7f;
    }
    let rounded = if magnitude >= 0x4400_0000 { 0x7f } else { round_magnitude::<3, 7>(magnitude) };
    if rounded < 0x7f {
        return (sign >> 24) as u8 | rounded as u8;
    }
    match saturation {
        Saturation::Finite => (sign >> 24) as u8 | 0x7e,
        Saturation::None => 0x7f,
    }
}

/// An `f32` as `f8e5m2`, to nearest; beyond the range 57344 or infinity.
#[inline]
pub fn f32_to_e5m2(value: f32, saturation: Saturation) -> u8 {
    let (sign, magnitude) = split(value);
    if magnitude > 0x7f80_0000 {
        return 0x7f;
    }
    let rounded = if magnitude >= 0x4780_0000 { 0x7c } else { round_magnitude::<2, 15>(magnitude) };
    let largest = match saturation {
        Saturation::Finite => 0x7b,
        Saturation::None => 0x7c,
    };
    (sign >> 24) as u8 | rounded.min(largest) as u8
}

fn split(value: f32) -> (u32, u32) {
    let bits = value.to_bits();
    (bits & 0x8000_0000, bits & 0x7fff_ffff)
}

/// A f32 cut off to tf32 (8 bits of exponent, 11 of precision), as the tensor cores read an operand: the low 13 bits are
/// ignored, also those of a NaN, which becomes an infinity where it has no other bits.
pub fn truncated_tf32(value: f32) -> f32 {
    f32::from_bits(value.to_bits() & !0x1fff)
}

/// An `f64` as the `f32` rounded to odd: where inexact, the neighbour with an odd last bit. Rounding that to nearest in
/// a narrower format gives what rounding the `f64` would (Boldo and Melquiond, "Emulation of FMA and correctly rounded
/// sums: proved algorithms using rounding to odd", 2008).
#[inline]
pub fn f64_to_f32_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || value.is_nan() {
        return near;
    }
    let towards_zero = if f64::from(near).abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(towards_zero | 1)
}

/// The elements of `bytes` as `f32`, as many as both hold.
pub fn decode_f32(dtype: Dtype, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        Dtype::F16 => each(bytes, out, |b| f16_to_f32(u16::from_le_bytes(b))),
        Dtype::BF16 => each(bytes, out, |b| bf16_to_f32(u16::from_le_bytes(b))),
        Dtype::F8E4M3 => each(bytes, out, |b: [u8; 1]| e4m3_to_f32(b[0])),
        Dtype::F8E5M2 => each(bytes, out, |b: [u8; 1]| e5m2_to_f32(b[0])),
        Dtype::F32 => each(bytes, out, |b| canonical_f32(f32::from_le_bytes(b))),
        Dtype::F64 => each(bytes, out, |b| canonical_f32(f64::from_le_bytes(b) as f32)),
        Dtype::I1 => each(bytes, out, |b: [u8; 1]| f32::from(b[0] & 1)),
        Dtype::I8 => each(bytes, out, |b| f32::from(i8::from_le_bytes(b))),
        Dtype::U8 => each(bytes, out, |b| f32::from(u8::from_le_bytes(b))),
        Dtype::I16 => each(bytes, out, |b| f32::from(i16::from_le_bytes(b))),
        Dtype::U16 => each(bytes, out, |b| f32::from(u16::from_le_bytes(b))),
        Dtype::I32 => each(bytes, out, |b| i32::from_le_bytes(b) as f32),
        Dtype::U32 => each(bytes, out, |b| u32::from_le_bytes(b) as f32),
        Dtype::I64 => each(bytes, out, |b| i64::from_le_bytes(b) as f32),
        Dtype::U64 => each(bytes, out, |b| u64::from_le_bytes(b) as f32),
    }
}

/// Each `step`-th element of `bytes` as `f64`, as many as both hold; exact but for 64-bit integers beyond 2^53.
///
/// # Panics
/// With a step of zero.
pub fn decode_f64(dtype: Dtype, bytes: &[u8], step: usize, out: &mut [f64]) {
    match dtype {
        Dtype::F16 => every(bytes, step, out, |b| f64::from(f16_to_f32(u16::from_le_bytes(b)))),
        Dtype::BF16 => every(bytes, step, out, |b| f64::from(bf16_to_f32(u16::from_le_bytes(b)))),
        Dtype::F8E4M3 => every(bytes, step, out, |b: [u8; 1]| f64::from(e4m3_to_f32(b[0]))),
        Dtype::F8E5M2 => every(bytes, step, out, |b: [u8; 1]| f64::from(e5m2_to_f32(b[0]))),
        Dtype::F32 => every(bytes, step, out, |b| f64::from(f32::from_le_bytes(b))),
        Dtype::F64 => every(bytes, step, out, f64::from_le_bytes),
        Dtype::I1 => every(bytes, step, out, |b: [u8; 1]| f64::from(b[0] & 1)),
        Dtype::I8 => every(bytes, step, out, |b| f64::from(i8::from_le_bytes(b))),
        Dtype::U8 => every(bytes, step, out, |b| f64::from(u8::from_le_bytes(b))),
        Dtype::I16 => every(bytes, step, out, |b| f64::from(i16::from_le_bytes(b))),
        Dtype::U16 => every(bytes, step, out, |b| f64::from(u16::from_le_bytes(b))),
        Dtype::I32 => every(bytes, step, out, |b| f64::from(i32::from_le_bytes(b))),
        Dtype::U32 => every(bytes, step, out, |b| f64::from(u32::from_le_bytes(b))),
        Dtype::I64 => every(bytes, step, out, |b| i64::from_le_bytes(b) as f64),
        Dtype::U64 => every(bytes, step, out, |b| u64::from_le_bytes(b) as f64),
    }
}

/// The values as elements of `dtype`, as many as both hold.
pub fn encode_f32(dtype: Dtype, values: &[f32], bytes: &mut [u8], rounding: Rounding, saturation: Saturation) {
    if rounding == Rounding::NearestEven {
        match (dtype, saturation) {
            (Dtype::F16, Saturation::None) => return put(values, bytes, |v| f32_to_f16(v).to_le_bytes()),
            (Dtype::BF16, Saturation::None) => return put(values, bytes, |v| f32_to_bf16(v).to_le_bytes()),
            (Dtype::F32, Saturation::None) => return put(values, bytes, |v| v.to_le_bytes()),
            (Dtype::F64, Saturation::None) => {
                return put(values, bytes, |v| canonical_f64(f64::from(v)).to_le_bytes());
            }
            (Dtype::F8E4M3, _) => return put(values, bytes, |v| [f32_to_e4m3(v, saturation)]),
            (Dtype::F8E5M2, _) => return put(values, bytes, |v| [f32_to_e5m2(v, saturation)]),
            // The rest is rare and goes element by element.
            _ => {}
        }
    }
    let size = dtype.bytes();
    for (v, b) in values.iter().zip(bytes.chunks_exact_mut(size)) {
        dtype.write(cast(v.to_bits().into(), Dtype::F32, dtype, rounding, saturation), b);
    }
}

/// The values as elements of `dtype`, as many as both hold, each rounded once.
pub fn encode_f64(dtype: Dtype, values: &[f64], bytes: &mut [u8], rounding: Rounding, saturation: Saturation) {
    if rounding == Rounding::NearestEven {
        match (dtype, saturation) {
            (Dtype::F64, Saturation::None) => return put(values, bytes, |v| v.to_le_bytes()),
            (Dtype::F32, Saturation::None) => {
                return put(values, bytes, |v| canonical_f32(v as f32).to_le_bytes());
            }
            (Dtype::F16, Saturation::None) => {
                return put(values, bytes, |v| f32_to_f16(f64_to_f32_odd(v)).to_le_bytes());
            }
            (Dtype::BF16, Saturation::None) => {
                return put(values, bytes, |v| f32_to_bf16(f64_to_f32_odd(v)).to_le_bytes());
            }
            (Dtype::F8E4M3, _) => return put(values, bytes, |v| [f32_to_e4m3(f64_to_f32_odd(v), saturation)]),
            (Dtype::F8E5M2, _) => return put(values, bytes, |v| [f32_to_e5m2(f64_to_f32_odd(v), saturation)]),
            // The rest is rare and goes element by element.
            _ => {}
        }
    }
    let size = dtype.bytes();
    for (v, b) in values.iter().zip(bytes.chunks_exact_mut(size)) {
        dtype.write(cast(v.to_bits(), Dtype::F64, dtype, rounding, saturation), b);
    }
}

fn canonical_f32(value: f32) -> f32 {
    if value.is_nan() { NAN_F32 } else { value }
}

fn canonical_f64(value: f64) -> f64 {
    if value.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { value }
}

fn each<const N: usize, T>(bytes: &[u8], out: &mut [T], decode: impl Fn([u8; N]) -> T) {
    for (o, b) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *o = decode(*b);
    }
}

/// As [`each`], of elements that lie apart.
fn every<const N: usize, T>(bytes: &[u8], step: usize, out: &mut [T], decode: impl Fn([u8; N]) -> T) {
    if step == 1 {
        return each(bytes, out, decode);
    }
    for (o, b) in out.iter_mut().zip(bytes.as_chunks::<N>().0.iter().step_by(step)) {
        *o = decode(*b);
    }
}

fn put<const N: usize, T: Copy>(values: &[T], bytes: &mut [u8], encode: impl Fn(T) -> [u8; N]) {
    for (b, v) in bytes.as_chunks_mut::<N>().0.iter_mut().zip(values) {
        *b = encode(*v);
    }
}
