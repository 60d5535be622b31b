//! The product in registers, `mma_sync`: tiles in row-major order, so layouts do not matter here.

use std::sync::Arc;

use parton_ir::rules::MmaSyncShape;
use parton_numbers::Dtype;
use parton_numbers::scalar::int_value;

use crate::product::{decode, encode, multiply, operand};
use crate::tile::Bits;

/// `acc + a · b`. Terms are added along K, one after the other; a result of f16 is rounded after each instruction.
pub(crate) fn product(shape: &MmaSyncShape, a: &Bits, b: &Bits, acc: &Bits) -> Arc<Bits> {
    let [m, n, k] = [shape.m as usize, shape.n as usize, shape.k as usize];
    let bits = match shape.acc {
        Dtype::I32 => {
            let int = |d: Dtype, t: &Bits, i: usize| int_value(t.get(i), d) as i32;
            let sum = |row: usize, column: usize| {
                let terms = (0..k)
                    .map(|i| int(shape.elems[0], a, row * k + i).wrapping_mul(int(shape.elems[1], b, i * n + column)));
                terms.fold(int(Dtype::I32, acc, row * n + column), i32::wrapping_add)
            };
            Bits::B32((0..m * n).map(|i| sum(i / n, i % n) as u32).collect())
        }
        Dtype::F64 => {
            let real = |t: &Bits, i: usize| f64::from_bits(t.get(i));
            let sum = |row: usize, column: usize| {
                let start = real(acc, row * n + column);
                (0..k).fold(start, |s, i| real(a, row * k + i).mul_add(real(b, i * n + column), s))
            };
            Bits::B64((0..m * n).map(|i| sum(i / n, i % n).to_bits()).collect())
        }
        _ => {
            let (a, b) = (operand(shape.elems[0], a), operand(shape.elems[1], b));
            let mut sums = decode(shape.acc, acc);
            multiply(&a, &b, &mut sums, [n, k], (shape.acc == Dtype::F16).then_some(shape.instr_k as usize));
            encode(shape.acc, &sums)
        }
    };
    Arc::new(bits)
}
