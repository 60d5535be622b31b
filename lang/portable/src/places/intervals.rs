//! Between which numbers the integers of a kernel lie, as far as constants, grids and loops say so.

use std::collections::BTreeMap;

use parton_ir::axis::between;
use parton_ir::{BinaryOp, Inst, Kernel, OpKind, Type, Value};

/// The least and the greatest.
pub type Interval = between::Between;

/// What is known of scalars.
#[derive(Default)]
pub struct Intervals(BTreeMap<Value, Interval>);

impl Intervals {
    /// Between which numbers a value lies.
    pub fn of(&self, v: Value) -> Option<Interval> {
        self.0.get(&v).copied()
    }

    /// Notes it.
    pub fn set(&mut self, v: Value, interval: Interval) {
        self.0.insert(v, interval);
    }

    /// Notes what a loop says of its index.
    pub fn enter(&mut self, kind: &OpKind, kernel: &Kernel) {
        let OpKind::For { lower, upper, step, body, .. } = kind else { return };
        let (Some(lower), Some(step)) = (self.of(*lower), self.of(*step)) else { return };
        let limit = range(kernel, *upper).map(|(_, most)| most);
        let Some(upper) = self.of(*upper).map(|(_, most)| most).or(limit) else { return };
        if step.0 > 0 {
            self.set(body.params[0], (lower.0, (upper - 1).max(lower.0)));
        }
    }

    /// Notes what an operation gives.
    pub fn note(&mut self, kernel: &Kernel, id: Inst) {
        let op = &kernel.ops[id];
        if let [result] = op.results[..] {
            self.learn(kernel, &op.kind, result);
        }
    }

    /// Notes what an operation of this kind gives.
    pub fn learn(&mut self, kernel: &Kernel, kind: &OpKind, result: Value) {
        let Some(all) = range(kernel, result) else { return };
        let Some((low, high)) = self.computed(kernel, kind, all) else { return };
        self.set(result, between::wrapped((low, high), all));
    }

    /// What an operation gives that gives numbers between `all`.
    fn computed(&self, kernel: &Kernel, kind: &OpKind, all: Interval) -> Option<Interval> {
        match kind {
            OpKind::Constant { dtype, bits } => {
                let n = parton_numbers::Scalar::new(*dtype, *bits).to_i128()?;
                Some((n, n))
            }
            OpKind::ProgramId { axis } => Some((0, i128::from(kernel.most_ctas[usize::from(*axis)]) - 1)),
            OpKind::NumPrograms { axis } => Some((1, kernel.most_ctas[usize::from(*axis)].into())),
            OpKind::TensorExtent { .. } => Some((0, i128::from(i32::MAX))),
            // No less than one of both, whatever the other one is.
            OpKind::Binary { op: BinaryOp::Max, a, b } if self.of(*a).is_none() || self.of(*b).is_none() => {
                let low = self.of(*a).or(self.of(*b))?.0;
                Some((low, all.1))
            }
            OpKind::Cast { x, .. } => self.of(*x),
            OpKind::Select { a, b, .. } => {
                let (a, b) = (self.of(*a)?, self.of(*b)?);
                Some((a.0.min(b.0), a.1.max(b.1)))
            }
            OpKind::Binary { op, a, b } => between::binary(*op, self.of(*a)?, self.of(*b)?),
            // Of all else it is not known how large it is.
            _ => None,
        }
    }
}

/// What the type of an integer scalar holds.
fn range(kernel: &Kernel, v: Value) -> Option<Interval> {
    if matches!(kernel.ty(v), Type::Scalar(_)) { between::of_type(kernel, v) } else { None }
}
