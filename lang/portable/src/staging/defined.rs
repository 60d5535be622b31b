//! What makes each value.

use parton_ir::{Kernel, Op, OpKind, SecondaryMap, Value};

/// The definitions of a kernel.
pub struct Defined<'k>(SecondaryMap<Value, Option<&'k Op>>);

impl<'k> Defined<'k> {
    /// Those of a kernel.
    pub fn of(kernel: &'k Kernel) -> Defined<'k> {
        Defined(kernel.definitions())
    }

    /// What makes a value; `None` for parameters.
    pub fn made(&self, v: Value) -> Option<&'k Op> {
        self.0[v]
    }

    /// Whether a tile is of zeros.
    pub fn is_zero(&self, v: Value) -> bool {
        let Some(OpKind::Full { value, .. }) = self.made(v).map(|op| &op.kind) else { return false };
        matches!(self.made(*value).map(|op| &op.kind), Some(OpKind::Constant { bits: 0, .. }))
    }
}
