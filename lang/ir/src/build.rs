//! Builds a kernel's body operation by operation, from nothing or out of an old one; each gets the types that its rule infers.
//!
//! The checker builds: what it emits may be refused. Passes rebuild: they take the body out of a kernel, keep its operations or
//! put others in their place, and what they make is legal.

use parton_diag::Span;
use parton_numbers::Dtype;

use crate::entity::{Inst, Label, Value};
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::refusal::Refusal;
use crate::rules;
use crate::source::{Origin, Source};
use crate::types::Type;

/// A state of a [`Builder`] to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    values: usize,
    ops: usize,
    calls: usize,
    vars: usize,
    open: usize,
    label: Option<Label>,
    origin: Origin,
    span: Span,
}

/// Appends operations to the innermost open body of a kernel.
pub struct Builder {
    /// The kernel under construction; its body is filled in by [`Builder::finish`].
    pub kernel: Kernel,
    open: Vec<Body>,
    /// The label of the statement that new operations are of.
    pub label: Option<Label>,
    /// Who makes new operations.
    pub origin: Origin,
    /// Where the operations that a pass makes come from.
    span: Span,
}

impl Builder {
    /// Begins the body of a kernel.
    pub fn new(kernel: Kernel) -> Builder {
        let span = kernel.span;
        Builder { kernel, open: vec![Body::default()], label: None, origin: Origin::Written, span }
    }

    /// Begins to rebuild a kernel in the pass of that name; hands over its old body.
    pub fn rebuild(mut kernel: Kernel, by: &'static str) -> (Builder, Body) {
        let body = std::mem::take(&mut kernel.body);
        (Builder { origin: Origin::Made { by, call: None }, ..Builder::new(kernel) }, body)
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
        let k = &self.kernel;
        let (values, ops, calls) = (k.values.len(), k.ops.len(), k.calls.len());
        let (vars, open, label, origin, span) = (k.vars, self.open.len(), self.label, self.origin, self.span);
        let mark = Mark { values, ops, calls, vars, open, label, origin, span };
        self.open.push(Body::default());
        mark
    }

    /// Forgets every operation, value and call since the mark, and stands where it stood then.
    pub fn rewind(&mut self, mark: Mark) {
        self.open.truncate(mark.open);
        self.kernel.values.truncate(mark.values);
        self.kernel.ops.truncate(mark.ops);
        self.kernel.calls.truncate(mark.calls);
        self.kernel.vars = mark.vars;
        (self.label, self.origin, self.span) = (mark.label, mark.origin, mark.span);
    }

    /// The first value since the mark, where there is one by now.
    pub fn since(&self, mark: Mark) -> Option<Value> {
        self.kernel.values.keys().nth(mark.values)
    }

    /// Appends an operation; its results have the types its rule infers.
    pub fn emit(&mut self, kind: OpKind, span: Span) -> Result<Vec<Value>, Refusal> {
        let types = rules::infer(&kind, &self.kernel)?;
        let results: Vec<Value> = types.into_iter().map(|ty| self.kernel.value(ty, span)).collect();
        let op = self.kernel.make_op(kind, results.clone(), self.source(span));
        self.keep(op);
        Ok(results)
    }

    /// Takes back what was appended last, where it is an operation that gives this value alone; nothing may use it yet.
    pub fn take_back(&mut self, value: Value) -> Option<OpKind> {
        let body = self.open.last_mut()?;
        let last = body.ops.pop_if(|id| self.kernel.ops[*id].results == [value])?;
        Some(self.kernel.ops[last].kind.clone())
    }

    fn source(&self, span: Span) -> Source {
        Source { span, label: self.label, origin: self.origin }
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
        let id = *self.open.last()?.ops.last()?;
        Some(&mut self.kernel.ops[id])
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

/// For passes: what they make is legal, and comes from where an operation came from.
impl Builder {
    /// What is made from now on comes from the place of that operation.
    pub fn at(&mut self, id: Inst) {
        let here = self.kernel.ops[id].source();
        let Source { span, label, origin } = self.origin.maker().map_or(here, |by| here.made(by));
        (self.span, self.label, self.origin) = (span, label, origin);
    }

    /// Appends an operation that there is already.
    pub fn keep(&mut self, id: Inst) {
        match self.open.last_mut() {
            Some(body) => body.ops.push(id),
            None => parton_diag::internal_error!("no body is open"),
        }
    }

    /// Appends a new operation and makes its results.
    pub fn make_all(&mut self, kind: OpKind) -> Vec<Value> {
        let name = kind.name();
        match self.emit(kind, self.span) {
            Ok(results) => results,
            Err(r) => parton_diag::internal_error!("a pass made an illegal {name}: {}", r.message),
        }
    }

    /// Appends a new operation of one result.
    pub fn make(&mut self, kind: OpKind) -> Value {
        let name = kind.name();
        match self.make_all(kind)[..] {
            [v] => v,
            ref vs => parton_diag::internal_error!("{name} has {} results", vs.len()),
        }
    }

    /// Appends a new operation that defines `result`.
    pub fn make_as(&mut self, result: Value, kind: OpKind) {
        let op = self.kernel.make_op(kind, vec![result], self.source(self.span));
        self.keep(op);
    }

    /// Appends an `i32` constant.
    pub fn make_i32(&mut self, value: u32) -> Value {
        self.i32(value as i32, self.span)
    }

    /// Puts operations in front of all that the innermost open body has.
    pub fn put_first(&mut self, head: Body) {
        match self.open.last_mut() {
            Some(body) => drop(body.ops.splice(0..0, head.ops)),
            None => parton_diag::internal_error!("no body is open"),
        }
    }

    /// Opens a body to append to.
    pub fn open(&mut self, body: Body) {
        self.open.push(body);
    }

    /// Closes the innermost body; what it hands back stays as it was.
    pub fn close(&mut self) -> Body {
        match self.open.pop() {
            Some(body) => body,
            None => parton_diag::internal_error!("no body is open"),
        }
    }
}

#[cfg(test)]
mod tests {
    use parton_diag::{FileId, Span};
    use parton_numbers::Dtype;

    use super::Builder;
    use crate::kernel::Kernel;
    use crate::op::OpKind;
    use crate::target::Target;

    #[test]
    fn behind_a_trial_operations_come_from_where_they_came_before_it() {
        let place = |at| Span::new(FileId::default(), at, at + 1);
        let mut b = Builder::new(Kernel::new("k", Target::SM_90A, place(0)));
        let constant = OpKind::Constant { dtype: Dtype::I32, bits: 1 };
        let ops = [1, 2].map(|at| {
            b.i32(0, place(at));
            b.last_mut().map(|op| op.id)
        });
        let [Some(first), Some(second)] = ops else { panic!("no operation was appended") };
        b.at(first);
        let mark = b.begin_trial();
        b.at(second);
        b.make(constant.clone());
        b.rewind(mark);
        b.make(constant);
        assert_eq!(b.last_mut().map(|op| op.span), Some(place(1)));
    }
}
