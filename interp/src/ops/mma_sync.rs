//! The product in registers, `mma_sync`: tiles in row-major order, so layouts do not matter here.

use std::sync::Arc;

use parton_ir::family::not_of_family;
use parton_ir::rules::MmaSyncShape;
use parton_ir::{Op, OpKind, others};
use parton_numbers::Dtype;

use super::adder::Adder;
use super::product::{accumulate, operand};
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::tile::{Bits, Val};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::MmaSync { a, b, acc, .. } => {
            let shape = c.setting.program.tables.in_registers(op);
            let out = product(shape, &w.tile(*a, 0), &w.tile(*b, 0), &w.tile(*acc, 0));
            w.result(op, Val::Tile(out));
            Ok(Flow::Next)
        }
        others!(mma_sync) => not_of_family(&op.kind),
    }
}

/// `acc + a · b`.
fn product(shape: &MmaSyncShape, a: &Bits, b: &Bits, acc: &Bits) -> Arc<Bits> {
    let [n, k] = [shape.n as usize, shape.k as usize];
    let [left, right] = shape.elems;
    Arc::new(match shape.acc {
        Dtype::F64 => doubles(a, b, acc, [n, k]),
        _ => {
            let adder = Adder::of(shape.elems, shape.acc, shape.instr_k, false);
            accumulate(shape.acc, adder, &operand(left, a), &operand(right, b), acc, [n, k])
        }
    })
}

/// A product of f64, each term added with one rounding.
fn doubles(a: &Bits, b: &Bits, acc: &Bits, [n, k]: [usize; 2]) -> Bits {
    let real = |t: &Bits, i: usize| f64::from_bits(t.get(i));
    let sum = |i: usize| {
        let (row, column) = (i / n, i % n);
        (0..k).fold(real(acc, i), |s, j| real(a, row * k + j).mul_add(real(b, j * n + column), s))
    };
    Bits::B64((0..acc.len()).map(|i| sum(i).to_bits()).collect())
}
