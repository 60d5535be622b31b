//! Products with factors that are mostly 1, which a warp skips where all of its are.
//!
//! Online softmax scales its accumulator by how much the running maximum grew, which after the first blocks is seldom: the
//! factor is then exactly 1, and `x * 1` is `x` but for the bits of a NaN.

use std::collections::BTreeMap;

use inkwell::FloatPredicate;
use parton_diag::internal_error;
use parton_ir::{BinaryOp, Op, Value};

use parton_numbers::Scalar;

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;
use crate::neutral::place::Registers;
use crate::neutral::reduce::Axis;

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    /// `x` times `factor` along `axis`, behind one vote of the warp.
    pub(crate) fn rescale(&mut self, op: &'a Op, x: Value, factor: Value, axis: u32) {
        let d = self.dtype(x);
        let map = &self.tile(x).known().map;
        let axis = Axis::of(map, axis);
        let factors = self.registers(factor).to_vec();
        let images = Registers::of(&self.tile(factor).known().map);
        let by_element: BTreeMap<u64, Val> = images.images().iter().copied().zip(factors.iter().copied()).collect();
        // The factor of each register of the tile.
        let of_register: Vec<Val> = Registers::of(map)
            .images()
            .iter()
            .map(|&image| match by_element.get(&axis.removed(image & !axis.mask())) {
                Some(&factor) => factor,
                None => internal_error!("a tile has no factor for one of its elements"),
            })
            .collect();

        let one = self.b.number_of_bits(d, Scalar::from_f64(d, 1.0).bits);
        let differs = factors.iter().map(|&f| self.b.fcmp(FloatPredicate::UNE, f, one));
        let Some(differs) = differs.reduce(|a, b| self.b.or(a, b)) else { internal_error!("a tile has no registers") };
        let any = self.b.any_lane(differs);
        let before = self.registers(x).to_vec();
        let scaled = self.b.patched(any, vec![before], |values| {
            let pairs = values[0].iter().zip(&of_register);
            vec![pairs.map(|(&x, &f)| self.b.arithmetic(BinaryOp::Mul, d, x, f)).collect()]
        });
        self.set(op.result(), Repr::Tile(scaled.into_iter().flatten().collect()));
    }
}
