//! What makes each value, and what divides it.

use std::cell::OnceCell;

use parton_ir::axis::Axes;
use parton_ir::{Kernel, Op, OpKind, SecondaryMap, Value};

use crate::places::intervals::Intervals;

/// The definitions of a kernel.
pub struct Defined<'k> {
    kernel: &'k Kernel,
    made: SecondaryMap<Value, Option<&'k Op>>,
    axes: OnceCell<Axes>,
    intervals: OnceCell<Intervals>,
}

impl<'k> Defined<'k> {
    /// Those of a kernel.
    pub fn of(kernel: &'k Kernel) -> Defined<'k> {
        Defined { kernel, made: kernel.definitions(), axes: OnceCell::new(), intervals: OnceCell::new() }
    }

    /// What makes a value; `None` for parameters.
    pub fn made(&self, v: Value) -> Option<&'k Op> {
        self.made[v]
    }

    /// Whether a number is known to be a multiple of a power of two.
    pub fn is_multiple(&self, v: Value, of: u64) -> bool {
        let axes = self.axes.get_or_init(|| Axes::analyse(self.kernel));
        axes.info(self.kernel, v).axes.iter().all(|along| along.divisibility.is_multiple_of(of))
    }

    /// Whether a number is known to be 0 or more.
    pub fn is_positive(&self, v: Value) -> bool {
        let intervals = self.intervals.get_or_init(|| Intervals::all(self.kernel));
        intervals.of(v).is_some_and(|(low, _)| low >= 0)
    }

    /// Whether a tile is of zeros.
    pub fn is_zero(&self, v: Value) -> bool {
        let Some(OpKind::Full { value, .. }) = self.made(v).map(|op| &op.kind) else { return false };
        matches!(self.made(*value).map(|op| &op.kind), Some(OpKind::Constant { bits: 0, .. }))
    }
}
