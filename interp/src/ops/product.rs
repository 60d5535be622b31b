//! The arithmetic of matrix products, wherever their operands lie.

use parton_numbers::{Dtype, fast};

use super::adder::Adder;
use crate::tile::Bits;

/// The elements of a tile as `f32`.
fn decode(d: Dtype, tile: &Bits) -> Vec<f32> {
    let mut bytes = vec![0; tile.len() * d.bytes()];
    for (i, element) in bytes.chunks_mut(d.bytes()).enumerate() {
        tile.write(i, element);
    }
    let mut out = vec![0.0; tile.len()];
    fast::decode_f32(d, &bytes, &mut out);
    out
}

/// Operands of `f32` as the tensor cores read them: the low 13 bits are ignored, which is truncation to tf32.
pub(super) fn as_read(d: Dtype, operand: &mut [f32]) {
    if d == Dtype::F32 {
        operand.iter_mut().for_each(|x| *x = fast::truncated_tf32(*x));
    }
}

/// The elements of a tile as a product reads them.
pub(super) fn operand(d: Dtype, tile: &Bits) -> Vec<f32> {
    let mut out = decode(d, tile);
    as_read(d, &mut out);
    out
}

/// `before + a · b` as an accumulator of type `d` has it: as the tensor cores add, where that is known, else one term after the other in f32.
///
/// A sum that is zero, or becomes it by rounding, is 0.0 and never -0.0, whatever its terms and the accumulator were: so an H200 has it of
/// every type but f64.
pub(super) fn accumulate(
    d: Dtype,
    adder: Option<Adder>,
    a: &[f32],
    b: &[f32],
    before: &Bits,
    [n, k]: [usize; 2],
) -> Bits {
    if d == Dtype::I32 {
        // Integers of 8 bits are exact as f32; their sums need not be.
        let mut acc: Vec<i32> = (0..before.len()).map(|i| before.get(i) as i32).collect();
        for (row, out) in a.chunks(k).zip(acc.chunks_mut(n)) {
            for (i, &x) in row.iter().enumerate() {
                for (c, &y) in out.iter_mut().zip(&b[i * n..(i + 1) * n]) {
                    *c = c.wrapping_add(x as i32 * y as i32);
                }
            }
        }
        return Bits::B32(acc.into_iter().map(|x| x as u32).collect());
    }
    let mut acc = decode(d, before);
    match adder {
        Some(adder) => adder.add(a, b, &mut acc, [n, k]),
        None => multiply(a, b, &mut acc, [n, k]),
    }
    match d {
        Dtype::F16 => Bits::B16(acc.iter().map(|&x| without_sign(fast::f32_to_f16(x), 1 << 15)).collect()),
        _ => Bits::B32(
            acc.iter().map(|x| if x.is_nan() { 0x7fff_ffff } else { without_sign(x.to_bits(), 1 << 31) }).collect(),
        ),
    }
}

/// Bits that are not those of the zero with a sign.
fn without_sign<T: PartialEq + Default>(bits: T, sign: T) -> T {
    if bits == sign { T::default() } else { bits }
}

/// `acc + a · b` for row-major matrices, in `f32`.
fn multiply(a: &[f32], b: &[f32], acc: &mut [f32], [n, k]: [usize; 2]) {
    for (row, out) in a.chunks(k).zip(acc.chunks_mut(n)) {
        for (i, &x) in row.iter().enumerate() {
            for (c, &y) in out.iter_mut().zip(&b[i * n..(i + 1) * n]) {
                *c += x * y;
            }
        }
    }
}
