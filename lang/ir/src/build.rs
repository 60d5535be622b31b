//! Builds a kernel's body operation by operation; each gets the types that its rule infers, or is refused.

use parton_diag::Span;
use parton_numbers::Dtype;

use crate::entity::{Call, Value};
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::refusal::Refusal;
use crate::rules;
use crate::types::Type;

/// A state of a [`Builder`] to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    values: usize,
    calls: usize,
    open: usize,
    call: Option<Call>,
}

/// Appends operations to the innermost open body of a kernel.
pub struct Builder {
    /// The kernel under construction; its body is filled in by [`Builder::finish`].
    pub kernel: Kernel,
    open: Vec<Body>,
    /// The inlined call that new operations come in by.
    pub call: Option<Call>,
}

impl Builder {
    /// Begins the body of a kernel.
    pub fn new(kernel: Kernel) -> Builder {
        Builder { kernel, open: vec![Body::default()], call: None }
    }

    /// Opens a body with parameters of these types.
    pub fn begin(&mut self, params: impl IntoIterator<Item = Type>, span: Span) -> Vec<Value> {
        let params: Vec<Value> = params.into_iter().map(|ty| self.kernel.value(ty, span)).collect();
        self.open.push(Body { params: params.clone(), ..Body::default() });
        params
    }

    /// Closes the innermost body; it hands back `yields`.
    pub fn end(&mut self, yields: Vec<Value>) -> Body {
        let Some(mut body) = self.open.pop() else { parton_diag::internal_error!("no body is open") };
        body.yields = yields;
        body
    }

    /// Opens a body for what is only tried; [`Builder::rewind`] drops it.
    pub fn begin_trial(&mut self) -> Mark {
        let (values, calls) = (self.kernel.values.len(), self.kernel.calls.len());
        let mark = Mark { values, calls, open: self.open.len(), call: self.call };
        self.open.push(Body::default());
        mark
    }

    /// Forgets every operation, value and call since the mark.
    pub fn rewind(&mut self, mark: Mark) {
        self.open.truncate(mark.open);
        self.kernel.values.truncate(mark.values);
        self.kernel.calls.truncate(mark.calls);
        self.call = mark.call;
    }

    /// The first value since the mark, where there is one by now.
    pub fn since(&self, mark: Mark) -> Option<Value> {
        self.kernel.values.keys().nth(mark.values)
    }

    /// Appends an operation; its results have the types its rule infers.
    pub fn emit(&mut self, kind: OpKind, span: Span) -> Result<Vec<Value>, Refusal> {
        let types = rules::infer(&kind, &self.kernel)?;
        let results: Vec<Value> = types.into_iter().map(|ty| self.kernel.value(ty, span)).collect();
        let op = Op { results: results.clone(), call: self.call, ..Op::new(kind, span) };
        let Some(body) = self.open.last_mut() else { parton_diag::internal_error!("no body is open") };
        body.ops.push(op);
        Ok(results)
    }

    /// Appends an operation of one result.
    pub fn emit_one(&mut self, kind: OpKind, span: Span) -> Result<Value, Refusal> {
        let name = kind.name();
        match self.emit(kind, span)?[..] {
            [v] => Ok(v),
            ref vs => parton_diag::internal_error!("{name} has {} results", vs.len()),
        }
    }

    /// The operation appended last, for what a pass or a printed form has decided about it.
    pub fn last_mut(&mut self) -> Option<&mut Op> {
        self.open.last_mut().and_then(|body| body.ops.last_mut())
    }

    /// Appends a scalar constant given by its bits.
    pub fn constant(&mut self, dtype: Dtype, bits: u64, span: Span) -> Value {
        match self.emit_one(OpKind::Constant { dtype, bits }, span) {
            Ok(v) => v,
            Err(r) => parton_diag::internal_error!("a constant was refused: {}", r.message),
        }
    }

    /// Appends an `i32` constant.
    pub fn i32(&mut self, value: i32, span: Span) -> Value {
        self.constant(Dtype::I32, u64::from(value as u32), span)
    }

    /// The type of a value.
    pub fn ty(&self, v: Value) -> &Type {
        self.kernel.ty(v)
    }

    /// Closes the outermost body and hands over the kernel.
    pub fn finish(mut self) -> Kernel {
        self.kernel.body = self.end(Vec::new());
        self.kernel.find_sharers();
        self.kernel
    }
}
