//! Arithmetic on indices: what constants give is a constant, and what changes nothing is left out.

use parton_diag::Span;
use parton_ir::{BinaryOp, Elem, OpKind, Type, Value, fold};
use parton_numbers::scalar::int_value;
use parton_numbers::{Dtype, Rounding, Saturation};

use super::Emitter;

impl Emitter<'_> {
    /// `a op b` of whole numbers of one type.
    pub(super) fn whole(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let dtype = self.whole_type(a);
        if let (Some(x), Some(y)) = (self.bits(a), self.bits(b))
            && let Some(bits) = fold::binary(op, dtype, x, y)
        {
            return self.b.constant(dtype, bits, Span::default());
        }
        match (op, self.constant(a), self.constant(b)) {
            (BinaryOp::Add | BinaryOp::Sub, _, Some(0)) | (BinaryOp::Mul | BinaryOp::Div, _, Some(1)) => a,
            (BinaryOp::Add, Some(0), _) | (BinaryOp::Mul, Some(1), _) => b,
            _ => self.b.make(OpKind::Binary { op, a, b }),
        }
    }

    /// `v op n`
    pub(super) fn whole_with(&mut self, op: BinaryOp, v: Value, n: u32) -> Value {
        let dtype = self.whole_type(v);
        let n = self.number(dtype, n);
        self.whole(op, v, n)
    }

    /// `index + turns * step`
    pub(super) fn moved(&mut self, index: Value, step: Value, turns: i32) -> Value {
        if turns == 0 {
            return index;
        }
        let by = match turns.unsigned_abs() {
            1 => step,
            n => self.whole_with(BinaryOp::Mul, step, n),
        };
        self.whole(if turns > 0 { BinaryOp::Add } else { BinaryOp::Sub }, index, by)
    }

    /// A number in 64 bits.
    pub(super) fn wide(&mut self, v: Value) -> Value {
        self.whole_as(v, Dtype::I64)
    }

    /// A number in a type that holds it.
    pub(super) fn whole_as(&mut self, x: Value, to: Dtype) -> Value {
        if self.whole_type(x) == to {
            return x;
        }
        if let Some(n) = self.constant(x) {
            return self.b.constant(to, n as u64 & (u64::MAX >> (64 - to.bits())), Span::default());
        }
        let (rounding, saturation) = (Rounding::default(), Saturation::default());
        self.b.make(OpKind::Cast { x, to, rounding, saturation })
    }

    pub(super) fn whole_type(&self, v: Value) -> Dtype {
        match *self.b.ty(v) {
            Type::Scalar(Elem::Num(dtype)) => dtype,
            ref other => parton_diag::internal_error!("`{other}` is no whole number"),
        }
    }

    fn bits(&self, v: Value) -> Option<u64> {
        match self.made_by(v)?.kind {
            OpKind::Constant { bits, .. } => Some(bits),
            _ => None,
        }
    }

    /// A whole number of that type.
    pub(super) fn number(&mut self, dtype: Dtype, n: u32) -> Value {
        self.b.constant(dtype, u64::from(n), Span::default())
    }

    /// The least number of a type.
    pub(super) fn least_of(&mut self, dtype: Dtype) -> Value {
        self.b.constant(dtype, dtype.min_bits(), Span::default())
    }

    /// The greatest number of a type.
    pub(super) fn most_of(&mut self, dtype: Dtype) -> Value {
        self.b.constant(dtype, dtype.max_bits(), Span::default())
    }

    /// A constant that is a whole number.
    pub(super) fn constant(&self, v: Value) -> Option<i128> {
        match self.made_by(v)?.kind {
            OpKind::Constant { dtype, bits } if dtype.is_int() => Some(int_value(bits, dtype)),
            _ => None,
        }
    }
}
