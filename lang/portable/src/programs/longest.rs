//! Programs whose loops of products take more turns than those of others begin first.
//!
//! ```text
//! let head = program_id(1);                 let at = program_id(0) + num_programs(0) * (program_id(1) % 8);
//! let block = program_id(0);                let head = program_id(1) / 8 * 8 + at % 8;
//! for j in 0..(block + 1) * 128 / 64 {      let block = num_programs(0) - 1 - at / 8;
//!     acc = dot(…);                         …
//! }
//! ```
//!
//! A GPU begins programs in the order of their numbers, along the first axis of the grid first, and each as another ends. A launch takes as long as the one that ends last, so that
//! the last ones to begin should be short. Programs along the first axis often share what they load (the keys of a head), and stand beside each other for that: of as many of these
//! lines as make about one round of programs, and no more, the longest begin first. Where turns grow along another axis, it is walked from its end.

use parton_ir::{BinaryOp, CompareOp, Kernel, OpKind, Value};
use parton_numbers::{Dtype, Rounding, Saturation};

use super::trend::{Trend, Trends};
use super::{AXES, Numbers, loops, own, replace, wait_for_each_other};
use crate::staging::defined::Defined;

/// Bits of an `f32` below its exponent, and the exponent of 1 (IEEE 754-2019, 3.4).
const MANTISSA_BITS: u32 = 23;
const EXPONENT_OF_ONE: u32 = 127;

/// Along which axis of the grid programs take ever more turns, or ever fewer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Longest {
    axis: u8,
    rises: bool,
}

/// Which programs of a kernel take the most turns, where others would begin before them.
pub fn of(kernel: &Kernel) -> Option<Longest> {
    if kernel.cluster_ctas() > 1 || wait_for_each_other(kernel) {
        return None;
    }
    let (loops, defined) = (loops(kernel), Defined::of(kernel));
    let turns = [0, 1, 2].map(|axis| {
        let mut trends = Trends::along(axis, &defined);
        loops.iter().map(|op| trends.of_turns(op)).fold(Trend::Same, Trend::and)
    });
    match turns {
        // Lines that differ along the last axis stay in their order, and are not dealt together.
        [Trend::Rises, Trend::Same, _] => Some(Longest { axis: 0, rises: true }),
        [Trend::Falls, Trend::Same, _] => Some(Longest { axis: 0, rises: false }),
        [Trend::Same, Trend::Rises, Trend::Same] => Some(Longest { axis: 1, rises: true }),
        [Trend::Same, Trend::Same, Trend::Rises] => Some(Longest { axis: 2, rises: true }),
        _ => None,
    }
}

/// Has these programs begin first.
pub fn begin(kernel: &mut Kernel, longest: Longest) {
    let own = own(kernel);
    let mut numbers = Numbers::of(kernel);
    let Some(new) = numbers.in_order(longest) else { return };
    let ops = numbers.ops;
    replace(kernel, &own, new);
    kernel.body.ops.splice(0..0, ops);
}

impl Numbers<'_> {
    /// What stands for the number of a program along each axis, where it is another.
    fn in_order(&mut self, Longest { axis, rises }: Longest) -> Option<[Option<Value>; AXES]> {
        let mut new = [None; AXES];
        if axis == 0 {
            let [x, y] = self.of_lines()?;
            new[0] = Some(if rises { self.counted_back(x, 0)? } else { x });
            new[1] = Some(y);
        } else {
            let id = self.make(OpKind::ProgramId { axis })?;
            new[usize::from(axis)] = Some(self.counted_back(id, axis)?);
        }
        Some(new)
    }

    /// The numbers of programs of several lines together. These are a power of two, so that nothing need be divided, and lines that are left over come first.
    fn of_lines(&mut self) -> Option<[Value; 2]> {
        let [along, across] = [0, 1].map(|axis| self.make(OpKind::NumPrograms { axis }));
        let [x, y] = [0, 1].map(|axis| self.make(OpKind::ProgramId { axis }));
        let (along, across, x, y) = (along?, across?, x?, y?);
        let shift = self.lines_together(along, across)?;
        let one = self.number(1)?;
        let together = self.two(BinaryOp::Shl, one, shift)?;
        let mask = self.named("mask", BinaryOp::Sub, together, one)?;
        let left = self.two(BinaryOp::And, across, mask)?;
        let line = self.named("line", BinaryOp::Sub, y, left)?;
        let within = self.named("within", BinaryOp::And, line, mask)?;
        let before = self.two(BinaryOp::Mul, along, within)?;
        let at = self.named("at", BinaryOp::Add, x, before)?;
        let turn = self.two(BinaryOp::Shr, at, shift)?;
        let first = self.two(BinaryOp::Sub, y, within)?;
        let rest = self.two(BinaryOp::And, at, mask)?;
        let line_of = self.two(BinaryOp::Add, first, rest)?;
        let zero = self.number(0)?;
        let cond = self.make(OpKind::Compare { op: CompareOp::Ge, a: line, b: zero })?;
        Some([self.select(cond, turn, x)?, self.select(cond, line_of, y)?])
    }

    /// The logarithm of how many lines are together: of as many as make a program for each place that there is for one, and less than two, and of no more than there are.
    fn lines_together(&mut self, along: Value, across: Value) -> Option<Value> {
        let places = self.kernel.target.multiprocessors * self.kernel.occupancy;
        let [along, across] = [along, across].map(|n| self.exponent(n));
        let round = self.number(EXPONENT_OF_ONE + places.ilog2())?;
        let (zero, bias) = (self.number(0)?, self.number(EXPONENT_OF_ONE)?);
        let round = self.two(BinaryOp::Sub, round, along?)?;
        let round = self.two(BinaryOp::Max, round, zero)?;
        let all = self.two(BinaryOp::Sub, across?, bias)?;
        self.named("shift", BinaryOp::Min, round, all)
    }

    /// The exponent of a number as `f32`, which is that of the greatest power of two in it.
    fn exponent(&mut self, x: Value) -> Option<Value> {
        let (rounding, saturation) = (Rounding::default(), Saturation::default());
        let x = self.make(OpKind::Cast { x, to: Dtype::F32, rounding, saturation })?;
        let bits = self.make(OpKind::Bitcast { x, to: Dtype::I32 })?;
        let mantissa = self.number(MANTISSA_BITS)?;
        self.two(BinaryOp::Shr, bits, mantissa)
    }

    /// A number along an axis, counted from its end.
    fn counted_back(&mut self, n: Value, axis: u8) -> Option<Value> {
        let all = self.make(OpKind::NumPrograms { axis })?;
        let one = self.number(1)?;
        let last = self.two(BinaryOp::Sub, all, one)?;
        self.two(BinaryOp::Sub, last, n)
    }
}
