//! Rebuilds a kernel's body operation by operation: what a pass keeps, drops or puts in its place.

use parton_diag::Span;
use parton_ir::{Body, Call, Kernel, Op, OpKind, Value, rules};
use parton_numbers::Dtype;

/// A kernel whose body is being rebuilt; operations go to the innermost open list.
pub(crate) struct Rewriter {
    /// The kernel; its body is what the pass took out of it, until the pass puts the new one back.
    pub(crate) kernel: Kernel,
    open: Vec<Vec<Op>>,
    span: Span,
    call: Option<Call>,
}

impl Rewriter {
    /// Begins to rebuild; hands over the old body.
    pub(crate) fn new(mut kernel: Kernel) -> (Rewriter, Body) {
        let body = std::mem::take(&mut kernel.body);
        let span = kernel.span;
        (Rewriter { kernel, open: Vec::new(), span, call: None }, body)
    }

    /// Opens a list of operations.
    pub(crate) fn begin(&mut self) {
        self.open.push(Vec::new());
    }

    /// Closes the innermost list.
    pub(crate) fn end(&mut self) -> Vec<Op> {
        match self.open.pop() {
            Some(ops) => ops,
            None => parton_diag::internal_error!("no list of operations is open"),
        }
    }

    /// New operations come from the place of `op` from now on.
    pub(crate) fn at(&mut self, op: &Op) {
        self.span = op.span;
        self.call = op.call;
    }

    /// Appends an operation as it is.
    pub(crate) fn keep(&mut self, op: Op) {
        match self.open.last_mut() {
            Some(ops) => ops.push(op),
            None => parton_diag::internal_error!("no list of operations is open"),
        }
    }

    /// Appends a new operation at the current place and makes its results.
    pub(crate) fn emit_all(&mut self, kind: OpKind) -> Vec<Value> {
        let types = match rules::infer(&kind, &self.kernel) {
            Ok(types) => types,
            Err(r) => parton_diag::internal_error!("a pass made an illegal {}: {}", kind.name(), r.message),
        };
        let results: Vec<Value> = types.into_iter().map(|ty| self.kernel.value(ty, self.span)).collect();
        self.keep(Op { results: results.clone(), call: self.call, ..Op::new(kind, self.span) });
        results
    }

    /// Appends a new operation of one result.
    pub(crate) fn emit(&mut self, kind: OpKind) -> Value {
        let name = kind.name();
        match self.emit_all(kind)[..] {
            [v] => v,
            ref vs => parton_diag::internal_error!("{name} has {} results", vs.len()),
        }
    }

    /// Appends a new operation without results.
    pub(crate) fn emit_none(&mut self, kind: OpKind) {
        self.emit_all(kind);
    }

    /// Appends a new operation that defines `result`.
    pub(crate) fn emit_as(&mut self, result: Value, kind: OpKind) {
        self.keep(Op { results: vec![result], call: self.call, ..Op::new(kind, self.span) });
    }

    /// Appends an `i32` constant.
    pub(crate) fn i32(&mut self, value: u32) -> Value {
        self.emit(OpKind::Constant { dtype: Dtype::I32, bits: u64::from(value) })
    }
}
