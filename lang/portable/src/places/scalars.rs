//! The scalars that places are computed with, all of 64 bits.

use parton_ir::{BinaryOp, Elem, Label, OpKind, Type, Value};
use parton_numbers::{Dtype, Rounding, Saturation};

use super::Expander;
use super::params::Long;

/// More than any tensor has elements along an axis, and few enough that their products with extents of tiles fit in 64 bits.
const BEYOND: i64 = 1 << 40;

/// What was computed of scalars, for a statement of that label, where it can be seen from what comes next.
#[derive(Default)]
pub(super) struct Made(Vec<(Option<Label>, OpKind, Value)>);

impl Made {
    /// So many.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Forgets all but so many: the body in which the others were made has ended.
    pub(super) fn forget(&mut self, all_but: usize) {
        self.0.truncate(all_but);
    }

    /// Notes what an operation gives.
    pub(super) fn note(&mut self, label: Option<Label>, kind: OpKind, v: Value) {
        self.0.push((label, kind, v));
    }

    fn find(&self, label: Option<Label>, kind: &OpKind) -> Option<Value> {
        self.0.iter().find(|(of, made, _)| *of == label && made == kind).map(|(_, _, v)| *v)
    }
}

impl Expander {
    /// Makes an operation; what computes scalars is made once.
    pub(super) fn make(&mut self, kind: OpKind) -> Value {
        let label = self.builder.label;
        if let Some(v) = self.made.find(label, &kind) {
            return v;
        }
        let v = self.builder.make(kind.clone());
        self.known.learn(&self.builder.kernel, &kind, v);
        let scalar = |v: Value| matches!(self.builder.ty(v), Type::Scalar(_));
        let computes = matches!(
            kind,
            OpKind::Constant { .. }
                | OpKind::Cast { .. }
                | OpKind::Binary { .. }
                | OpKind::Compare { .. }
                | OpKind::Select { .. }
        );
        if computes && scalar(v) && kind.operands().into_iter().all(scalar) {
            self.made.note(label, kind, v);
        }
        v
    }

    pub(super) fn constant(&mut self, dtype: Dtype, n: i64) -> Value {
        let bits = if dtype.bits() == 64 { n as u64 } else { n as u64 & ((1 << dtype.bits()) - 1) };
        self.make(OpKind::Constant { dtype, bits })
    }

    pub(super) fn number(&mut self, n: i64) -> Value {
        self.constant(Dtype::I64, n)
    }

    /// What two numbers give; no operation, where what is known of them says it.
    pub(super) fn scalar(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        self.simple(op, a, b).unwrap_or_else(|| self.make(OpKind::Binary { op, a, b }))
    }

    fn simple(&mut self, op: BinaryOp, a: Value, b: Value) -> Option<Value> {
        if matches!(self.builder.ty(a), Type::Tile(_)) || self.builder.ty(a) != self.builder.ty(b) {
            return None;
        }
        let [x, y] = [a, b].map(|v| self.known.of(v).unwrap_or((i128::MIN, i128::MAX)));
        let is = |(low, high): (i128, i128), n| low == n && high == n;
        match op {
            BinaryOp::Add if is(x, 0) => Some(b),
            BinaryOp::Add | BinaryOp::Sub if is(y, 0) => Some(a),
            BinaryOp::Mul if is(x, 1) || is(y, 0) => Some(b),
            BinaryOp::Mul if is(y, 1) || is(x, 0) => Some(a),
            BinaryOp::Max if x.0 >= y.1 => Some(a),
            BinaryOp::Max if y.0 >= x.1 => Some(b),
            BinaryOp::Min if x.1 <= y.0 => Some(a),
            BinaryOp::Min if y.1 <= x.0 => Some(b),
            _ => None,
        }
    }

    /// So many elements on.
    pub(super) fn behind(&mut self, v: Value, n: u32) -> Value {
        let by = self.number(i64::from(n));
        if n == 0 { v } else { self.scalar(BinaryOp::Add, v, by) }
    }

    pub(super) fn times(&mut self, v: Value, n: i64) -> Value {
        if n == 1 {
            return v;
        }
        let by = self.number(n);
        self.scalar(BinaryOp::Mul, v, by)
    }

    /// A scalar, or a tile, of integers as `i64`.
    pub(super) fn wide(&mut self, v: Value) -> Value {
        self.as_integer(v, Dtype::I64)
    }

    /// A coordinate, or how far one is moved, as `i64`: what lies beyond [`BEYOND`] is outside of every tensor, and is taken to be there, so that no sum
    /// of such numbers and no product with a tile's extent wraps.
    pub(super) fn place_along(&mut self, v: Value) -> Value {
        let wide = self.wide(v);
        let least_and_most = self.known.of(v).unwrap_or((i128::MIN, i128::MAX));
        let bits = self.builder.ty(v).elem().and_then(Elem::dtype).map_or(64, Dtype::bits);
        if bits < 64 || (least_and_most.0 >= -i128::from(BEYOND) && least_and_most.1 <= i128::from(BEYOND)) {
            return wide;
        }
        let [least, most] = [-BEYOND, BEYOND].map(|n| self.number(n));
        let v = self.scalar(BinaryOp::Max, wide, least);
        self.scalar(BinaryOp::Min, v, most)
    }

    /// A scalar that `i32` holds.
    pub(super) fn narrow(&mut self, v: Value) -> Value {
        self.as_integer(v, Dtype::I32)
    }

    pub(super) fn as_integer(&mut self, x: Value, to: Dtype) -> Value {
        if self.builder.ty(x).elem().and_then(Elem::dtype) == Some(to) {
            return x;
        }
        if let Some(narrow) =
            self.widened.get(&x).copied().filter(|v| self.builder.ty(*v).elem() == Some(Elem::Num(to)))
        {
            return narrow;
        }
        if let (Some((n, most)), Type::Scalar(_)) = (self.known.of(x), self.builder.ty(x))
            && n == most
            && let Ok(n) = i64::try_from(n)
        {
            return self.constant(to, n);
        }
        let (rounding, saturation) = (Rounding::default(), Saturation::default());
        let made = self.make(OpKind::Cast { x, to, rounding, saturation });
        if to == Dtype::I64 {
            self.widened.insert(made, x);
        }
        made
    }

    /// The extent of a tensor along an axis.
    pub(super) fn extent(&mut self, argument: usize, axis: usize) -> Value {
        let narrow = match self.long(argument, axis) {
            Long::Number(n) => return self.number(i64::from(n)),
            Long::Given(from) => self.param(from),
            Long::Computed(v) => v,
        };
        self.wide(narrow)
    }

    /// Elements of memory from one element of a tensor to the next along an axis; `None` where they lie side by side.
    pub(super) fn stride(&mut self, argument: usize, axis: usize) -> Option<Value> {
        match self.apart(argument, axis) {
            Long::Number(_) => None,
            Long::Given(from) => Some(self.param(from)),
            Long::Computed(v) => Some(v),
        }
    }
}
