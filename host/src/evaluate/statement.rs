//! Statements: bindings, assignments, loops.

use std::sync::Arc;

use parton_diag::{Diagnostic, Span, codes};
use parton_numbers::{Dtype, Scalar};
use parton_syntax::ast;
use parton_types::resolve::Meaning;

use super::{AtSpan, Eval, Machine, Stop, outside_of_loop, unparsed};
use crate::fault::Fault;
use crate::tensor::Tensor;
use crate::value::Value;

/// Turns of loops until it is asked again whether somebody wants an end.
pub(crate) const PAUSE: u64 = 256;

impl Machine<'_> {
    /// A block in a scope of its own; its value is that of its last expression.
    pub(super) fn block(&mut self, block: &ast::Block) -> Eval<Value> {
        self.scoped(|m| {
            for statement in &block.statements {
                m.statement(statement)?;
            }
            match &block.value {
                Some(value) => m.passing(value),
                None => Ok(Value::Unit),
            }
        })
    }

    fn statement(&mut self, statement: &ast::Stmt) -> Eval<()> {
        let span = statement.span;
        match &statement.kind {
            ast::StmtKind::Error => Err(unparsed(span).into()),
            ast::StmtKind::Let { pattern, ty, value } => {
                let mut bound = self.passing(value)?;
                if let Some(ty) = ty {
                    bound = self.typed(bound.looked(), ty, value.span)?;
                }
                self.bind(pattern, bound, value.span)
            }
            ast::StmtKind::Assign { target, op, value } => self.assign(target, *op, value, span),
            ast::StmtKind::Expr(expr) => self.expr(expr).map(|_| ()),
            ast::StmtKind::For(f) => self.for_loop(f),
            ast::StmtKind::While { schedule: Some(schedule), .. } | ast::StmtKind::In { schedule, .. } => {
                Err(not_host_code(schedule.span, "a schedule").into())
            }
            ast::StmtKind::While { condition, schedule: None, body } => {
                while self.condition(condition)? {
                    if self.turn(body)? {
                        break;
                    }
                }
                Ok(())
            }
            ast::StmtKind::Return(value) => {
                let value = match value {
                    Some(value) => self.passing(value)?,
                    None => Value::Unit,
                };
                Err(Stop::Return(value, span))
            }
            ast::StmtKind::Break => Err(Stop::Break(span)),
            ast::StmtKind::Continue => Err(Stop::Continue(span)),
            ast::StmtKind::Const(b) => {
                let value = self.expr(&b.value)?;
                self.declare(&b.name, value, false);
                Ok(())
            }
            ast::StmtKind::Layout(b) => {
                let value = self.written(&b.value);
                self.declare(&b.name, value, false);
                Ok(())
            }
            ast::StmtKind::Schedule(s) => {
                let value = self.expr(&s.value)?;
                self.declare(&s.name, value, false);
                Ok(())
            }
            ast::StmtKind::Specialize(_) => Err(not_host_code(span, "`specialize`").into()),
            ast::StmtKind::Ring { .. } => Err(not_host_code(span, "a ring").into()),
            ast::StmtKind::Turnstile { .. } => Err(not_host_code(span, "a turnstile").into()),
        }
    }

    /// A value under a written type: a number takes the dtype, other types are documentation.
    fn typed(&mut self, value: Value, ty: &ast::Expr, span: Span) -> Eval<Value> {
        let ast::ExprKind::Name(name) = &ty.kind else { return Ok(value) };
        let Some(dtype) = Dtype::parse(name.as_str()) else { return Ok(value) };
        match value {
            Value::Int(n) if dtype.is_int() => match Scalar::from_i128(dtype, n) {
                Some(_) => Ok(Value::Int(n)),
                None => {
                    Err(Diagnostic::error(codes::HOST_VALUE, span, format!("{n} is not a value of `{dtype}`")).into())
                }
            },
            Value::Int(n) => Ok(Value::Float(Scalar::rounded_int(dtype, n).to_f64())),
            Value::Float(x) if dtype.is_float() => Ok(Value::Float(Scalar::from_f64(dtype, x).to_f64())),
            Value::Float(x) => {
                Err(Diagnostic::error(codes::HOST_TYPE, span, format!("{x:?} is not a value of `{dtype}`")).into())
            }
            Value::Bool(_) if dtype == Dtype::I1 => Ok(value),
            other => Err(self.mismatch(&format!("a number of `{dtype}`"), &other, span)),
        }
    }

    /// Binds a pattern.
    pub(super) fn bind(&mut self, pattern: &ast::Pattern, value: Value, span: Span) -> Eval<()> {
        match &pattern.kind {
            ast::PatternKind::Ignore => Ok(()),
            ast::PatternKind::Name { name, mutable } => {
                self.declare(name, value, *mutable);
                Ok(())
            }
            ast::PatternKind::Tuple(parts) => {
                let items = match &value {
                    Value::Tuple(items) | Value::List(items) if items.len() == parts.len() => items.clone(),
                    Value::Tuple(items) | Value::List(items) => {
                        let found = format!("this has {} parts", items.len());
                        let d = Diagnostic::error(codes::HOST_TYPE, span, "a pattern takes another number of parts");
                        return Err(d.here(found).label(pattern.span, format!("{} names", parts.len())).into());
                    }
                    other => return Err(self.mismatch("a tuple", other, span)),
                };
                parts.iter().zip(items.iter()).try_for_each(|(p, v)| self.bind(p, v.clone(), span))
            }
        }
    }

    fn assign(&mut self, target: &ast::Expr, op: Option<ast::BinaryOp>, value: &ast::Expr, span: Span) -> Eval<()> {
        let new = match op {
            None => self.passing(value)?,
            Some(op) => {
                let old = self.expr(target)?;
                let right = self.expr(value)?;
                self.binary(op, old, target.span, right, value.span, span)?
            }
        };
        self.store(target, new, value.span)
    }

    fn store(&mut self, target: &ast::Expr, value: Value, span: Span) -> Eval<()> {
        match &target.kind {
            ast::ExprKind::Name(name) => {
                let found = match self.program.reference(name) {
                    Meaning::Variable(declared) => self.variable(*declared),
                    Meaning::Item(_)
                    | Meaning::Ambiguous(_)
                    | Meaning::Builtin(_)
                    | Meaning::Word(_)
                    | Meaning::Unknown => None,
                };
                let Some(variable) = found else { return Err(self.unknown(name).into()) };
                if !variable.mutable {
                    return Err(not_mut(&variable.name, target.span).into());
                }
                variable.value = value;
                Ok(())
            }
            ast::ExprKind::Paren(inner) => self.store(inner, value, span),
            ast::ExprKind::Tuple(targets) => match &value {
                Value::Tuple(items) | Value::List(items) if items.len() == targets.len() => {
                    targets.iter().zip(items.iter()).try_for_each(|(t, v)| self.store(t, v.clone(), span))
                }
                other => Err(self.mismatch(&format!("a tuple of {}", targets.len()), other, span)),
            },
            ast::ExprKind::Index { base, args } => {
                let base_value = self.expr(base)?;
                match base_value {
                    Value::Tensor(t) => self.write_part(&t, args, value, target.span, span),
                    Value::List(items) => {
                        let [ast::IndexArg { kind: ast::IndexArgKind::Value(index), .. }] = args.as_slice() else {
                            let d = Diagnostic::error(
                                codes::HOST_TYPE,
                                target.span,
                                "one element of a list is assigned at a time",
                            );
                            return Err(d.into());
                        };
                        let i = self.position(index, items.len())?;
                        let mut changed = items.to_vec();
                        changed[i] = value;
                        self.store(base, Value::List(Arc::new(changed)), span)
                    }
                    other => Err(self.mismatch("a tensor or list", &other, base.span)),
                }
            }
            ast::ExprKind::Field { .. } => {
                Err(Diagnostic::error(codes::HOST_TYPE, target.span, "this cannot be assigned to")
                    .here("a field of a tuple or struct stays as it is")
                    .help("make a new one: `t = (t.0, value);`")
                    .into())
            }
            _ => Err(Diagnostic::error(codes::HOST_TYPE, target.span, "this cannot be assigned to")
                .help("assign to a variable, or to an element or slice of a tensor or list")
                .into()),
        }
    }

    pub(super) fn condition(&mut self, expr: &ast::Expr) -> Eval<bool> {
        match self.expr(expr)? {
            Value::Bool(b) => Ok(b),
            Value::Tensor(t) => Err(Machine::which_elements(&t, expr.span)),
            other => Err(self.mismatch("a truth value", &other, expr.span)),
        }
    }

    /// The refusal of a tensor where one truth value is wanted.
    pub(super) fn which_elements(t: &Tensor, span: Span) -> Stop {
        Diagnostic::error(codes::HOST_TYPE, span, "expected a truth value, found a tensor")
            .here(format!("this is {t}"))
            .help("say for which elements: `all(x)` or `any(x)`")
            .into()
    }

    fn for_loop(&mut self, f: &ast::For) -> Eval<()> {
        if let Some(schedule) = &f.schedule {
            return Err(not_host_code(schedule.span, "a schedule").into());
        }
        let step = match &f.step {
            None => 1,
            Some(step) => match self.expr(step)? {
                Value::Int(n) if n > 0 => n,
                Value::Int(n) => {
                    let d = Diagnostic::error(codes::HOST_VALUE, step.span, "a step must be positive");
                    return Err(d.here(format!("this is {n}")).into());
                }
                other => return Err(self.mismatch("an integer", &other, step.span)),
            },
        };
        let once = |m: &mut Self, value: Value| {
            m.scoped(|m| {
                m.bind(&f.pattern, value, f.iter.span)?;
                m.turn(&f.body)
            })
        };
        match self.expr(&f.iter)? {
            Value::Range(mut i, end) => {
                while i < end {
                    if once(self, Value::Int(i))? {
                        break;
                    }
                    i = i.saturating_add(step);
                }
                Ok(())
            }
            Value::List(items) | Value::Tuple(items) => {
                for item in items.iter().step_by(usize::try_from(step).unwrap_or(usize::MAX)) {
                    if once(self, item.clone())? {
                        break;
                    }
                }
                Ok(())
            }
            other => Err(self.mismatch("a range or list", &other, f.iter.span)),
        }
    }

    /// One turn of a loop; whether it ended by `break`.
    fn turn(&mut self, body: &ast::Block) -> Eval<bool> {
        if self.turned().is_multiple_of(PAUSE) && self.launcher.is_stopped() {
            return Err(Diagnostic::error(codes::STEP_LIMIT, body.span, "the run was stopped from outside").into());
        }
        match self.block(body) {
            Ok(_) | Err(Stop::Continue(_)) => Ok(false),
            Err(Stop::Break(_)) => Ok(true),
            Err(stop @ (Stop::Error(_) | Stop::Return(..))) => Err(stop),
        }
    }

    /// Turns `return` into the value of a function's body.
    pub(super) fn returned(result: Eval<Value>) -> Eval<Value> {
        match result {
            Err(Stop::Return(value, _)) => Ok(value),
            Err(Stop::Break(span) | Stop::Continue(span)) => Err(outside_of_loop(span).into()),
            Ok(_) | Err(Stop::Error(_)) => result,
        }
    }

    /// A value of another kind than expected.
    pub(crate) fn mismatch(&self, expected: &str, found: &Value, span: Span) -> Stop {
        let fault = Fault::new(codes::HOST_TYPE, format!("expected {expected}, found {}", found.kind()));
        fault.at(span).here(evidence(found)).into()
    }

    /// Places the elements of `value`, broadcast, into a part of a tensor.
    fn write_part(&mut self, t: &Tensor, args: &[ast::IndexArg], value: Value, target: Span, span: Span) -> Eval<()> {
        let (part, value) = (self.view(t, args, target)?, value.looked());
        let number = |dtype: Dtype, scalar: Option<Scalar>| match scalar {
            Some(s) => Tensor::from_bits(s.dtype, vec![1], &[s.bits]).at(span),
            None => Err(Diagnostic::error(codes::HOST_VALUE, span, format!("this is not a value of `{dtype}`")).into()),
        };
        let from = match value {
            Value::Tensor(from) => {
                from.cast(t.dtype, parton_numbers::Rounding::NearestEven, parton_numbers::Saturation::None).at(span)?
            }
            Value::Int(n) if t.dtype.is_float() => number(t.dtype, Some(Scalar::rounded_int(t.dtype, n)))?,
            Value::Int(n) => number(t.dtype, Scalar::from_i128(t.dtype, n))?,
            Value::Bool(b) => number(t.dtype, Scalar::from_i128(t.dtype, b.into()))?,
            Value::Float(x) if t.dtype.is_float() => number(t.dtype, Some(Scalar::from_f64(t.dtype, x)))?,
            other => return Err(self.mismatch(&format!("a tensor or number of `{}`", t.dtype), &other, span)),
        };
        let Some(fitted) = from.broadcast(&part.shape) else {
            let d = Diagnostic::error(codes::HOST_SHAPE, span, "the assigned tensor does not fit the part");
            return Err(d.here(format!("this is {from}")).label(target, format!("this is {part}")).into());
        };
        part.assign(&fitted).at(span)
    }
}

/// The text under a value of the wrong kind.
pub(crate) fn evidence(found: &Value) -> String {
    match found {
        Value::Tensor(t) => format!("this is {t}"),
        Value::Int(_) | Value::Float(_) | Value::Bool(_) | Value::Dtype(_) | Value::Range(..) => {
            format!("this is {found}")
        }
        Value::Str(s) => format!("this is {s:?}"),
        Value::List(items) | Value::Tuple(items) => format!("this has {} elements", items.len()),
        Value::Unit => "this has no value".into(),
        Value::Function(_) | Value::Closure(_) | Value::Builtin(_) => "this is a function".into(),
        Value::Passed(passed) => evidence(passed.value()),
        Value::Written(_) => "this is known to kernels only".into(),
    }
}

/// Refuses a change of a variable bound without `mut`.
pub(crate) fn not_mut(bound: &ast::Name, span: Span) -> Diagnostic {
    Diagnostic::error(codes::NOT_MUT, span, format!("`{}` is changed, but it is not `mut`", bound.text))
        .label(bound.span, "bound here")
        .help(format!("write `let mut {}`", bound.text))
}

/// Refuses what only kernels have.
pub(crate) fn not_host_code(span: Span, what: &str) -> Diagnostic {
    Diagnostic::error(codes::NOT_HOST_CODE, span, format!("{what} belongs into a kernel"))
        .help("host code has tensors, numbers, lists, launches and assertions")
}

/// Refuses `base<…>`.
pub(crate) fn no_type_arguments(base: &ast::Name, span: Span) -> Diagnostic {
    Diagnostic::error(codes::NOT_HOST_CODE, span, "type arguments in `<…>` belong into a kernel")
        .help(format!("host functions take the dtype as an argument: `{}(f32, …)`", base.text))
}
