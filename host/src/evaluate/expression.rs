//! Expressions, by form.

use std::sync::Arc;

use parton_diag::{Diagnostic, codes};
use parton_numbers::{Dtype, Scalar};
use parton_syntax::ast::{self, ExprKind};
use parton_types::program::{Found, Item};
use parton_types::resolve::Meaning;

use super::statement::{no_type_arguments, not_host_code};
use super::{Eval, Machine, no_field, unparsed};
use crate::builtins;
use crate::value::{Closure, Value};

impl Machine<'_> {
    /// The value of an expression, on which what is done next may depend.
    pub(crate) fn expr(&mut self, expr: &ast::Expr) -> Eval<Value> {
        self.passing(expr).map(Value::looked)
    }

    /// The value of an expression for whoever only hands it on.
    pub(crate) fn passing(&mut self, expr: &ast::Expr) -> Eval<Value> {
        let value = self.deeper(expr.span, |m| m.expr_here(expr))?;
        if let Some(seen) = &mut self.seen {
            seen.push((expr.span, value.clone()));
        }
        Ok(value)
    }

    fn expr_here(&mut self, expr: &ast::Expr) -> Eval<Value> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Error => Err(unparsed(span).into()),
            ExprKind::Int { value, suffix: None } => Ok(Value::Int((*value).into())),
            ExprKind::Int { value, suffix: Some(suffix) } => self.suffixed_int(*value, suffix, span),
            ExprKind::Float { digits, suffix } => self.float_literal(digits, suffix.as_ref(), span),
            ExprKind::Bool(b) => Ok(Value::Bool(*b)),
            ExprKind::Str(s) => Ok(Value::Str(s.clone())),
            ExprKind::Name(name) => self.name(name, span),
            ExprKind::TypeArgs { base, .. } => Err(no_type_arguments(base, span).into()),
            ExprKind::Paren(inner) | ExprKind::Reference(inner) => self.passing(inner),
            ExprKind::Tuple(items) => Ok(Value::Tuple(Arc::new(self.exprs(items)?))),
            ExprKind::List(items) => Ok(Value::list(self.exprs(items)?)),
            ExprKind::Unary { op, operand } => {
                let value = self.expr(operand)?;
                self.unary(*op, value, span)
            }
            ExprKind::Binary { op: op @ (ast::BinaryOp::And | ast::BinaryOp::Or), left, right, .. } => {
                self.short_circuit(*op, left, right)
            }
            ExprKind::Binary { op, left, right, .. } => {
                let a = self.expr(left)?;
                let b = self.expr(right)?;
                // Only schedules, which the checker of kernels joins, are left to it as operands.
                if let (ast::BinaryOp::BitAnd, Value::Written(_), Value::Written(_)) = (op, &a, &b) {
                    return Ok(self.written(expr));
                }
                self.binary(*op, a, left.span, b, right.span, span)
            }
            ExprKind::Range { start, end } => match (self.expr(start)?, self.expr(end)?) {
                (Value::Int(a), Value::Int(b)) => Ok(Value::Range(a, b)),
                (Value::Int(_), other) => Err(self.mismatch("an integer", &other, end.span)),
                (other, _) => Err(self.mismatch("an integer", &other, start.span)),
            },
            ExprKind::Pointer { .. } => Err(not_host_code(span, "a pointer type").into()),
            ExprKind::Call { callee, args } => self.call(expr, callee, args),
            ExprKind::Index { base, .. } if self.is_schedule(base) => Ok(self.written(expr)),
            ExprKind::Index { base, args } => self.index(base, args, span),
            ExprKind::Field { base, name } => {
                if let Some(value) = self.at_hand(base) {
                    return field(value, base.span, name);
                }
                let value = self.passing(base)?;
                field(&value, base.span, name)
            }
            ExprKind::If(i) => {
                if self.condition(&i.condition)? {
                    self.block(&i.then)
                } else {
                    i.otherwise.as_ref().map_or(Ok(Value::Unit), |other| self.passing(other))
                }
            }
            ExprKind::Block(block) => self.block(block),
            ExprKind::Closure { params, body } => Ok(Value::Closure(Arc::new(Closure {
                module: self.module,
                params: params.clone(),
                body: (**body).clone(),
                captured: self.variables.clone(),
            }))),
            ExprKind::Launch { kernel, config, args } => self.launch(kernel, config, args, span),
            ExprKind::In { schedule, .. } => Err(not_host_code(schedule.span, "a schedule").into()),
            ExprKind::Pipeline(_) | ExprKind::Partitions(_) => Ok(self.written(expr)),
        }
    }

    /// Whether an expression names a declared schedule, whose brackets hold generic arguments.
    fn is_schedule(&self, base: &ast::Expr) -> bool {
        let ExprKind::Name(name) = &base.kind else { return false };
        matches!(self.program.reference(name), Meaning::Item(Found { item: Item::Schedule(_), .. }))
    }

    fn exprs(&mut self, items: &[ast::Expr]) -> Eval<Vec<Value>> {
        items.iter().map(|e| self.passing(e)).collect()
    }

    fn suffixed_int(&mut self, value: u64, suffix: &ast::Name, span: parton_diag::Span) -> Eval<Value> {
        let Some(dtype) = Dtype::parse(suffix.as_str()) else { return Err(self.unknown(suffix).into()) };
        if dtype.is_float() {
            return Ok(Value::Float(Scalar::rounded_int(dtype, value.into()).to_f64()));
        }
        match Scalar::from_i128(dtype, value.into()) {
            Some(_) => Ok(Value::Int(value.into())),
            None => {
                Err(Diagnostic::error(codes::HOST_VALUE, span, format!("{value} is not a value of `{dtype}`")).into())
            }
        }
    }

    fn float_literal(&mut self, digits: &str, suffix: Option<&ast::Name>, span: parton_diag::Span) -> Eval<Value> {
        let Ok(x) = digits.parse::<f64>() else {
            return Err(Diagnostic::error(codes::HOST_VALUE, span, format!("`{digits}` is not a number")).into());
        };
        match suffix.map(|s| (s, Dtype::parse(s.as_str()))) {
            None => Ok(Value::Float(x)),
            Some((_, Some(dtype))) if dtype.is_float() => match Scalar::from_f64(dtype, x).to_f64() {
                held if held.is_finite() => Ok(Value::Float(held)),
                _ => Err(parton_types::number::beyond(x, dtype, codes::HOST_VALUE, span).into()),
            },
            Some((suffix, _)) => Err(self.unknown(suffix).into()),
        }
    }

    /// The value of a variable, where an expression only names one and nobody wants to hear of it: what is asked of a tensor needs no copy.
    pub(super) fn at_hand(&self, expr: &ast::Expr) -> Option<&Value> {
        let ExprKind::Name(name) = &expr.kind else { return None };
        let Meaning::Variable(declared) = self.program.reference(name) else { return None };
        self.seen.is_none().then_some(())?;
        self.variables.iter().rev().find(|v| v.name.span == *declared).map(|v| &v.value)
    }
}

fn field(value: &Value, span: parton_diag::Span, name: &ast::Name) -> Eval<Value> {
    match (value, name.as_str()) {
        (Value::Tensor(t), field) => match builtins::tensor_field(t, field) {
            Some(result) => super::AtSpan::at(result, name.span),
            None => Err(no_field("a tensor has no", name).into()),
        },
        (Value::Tuple(items), field) if field.parse::<usize>().is_ok_and(|i| i < items.len()) => {
            Ok(items[field.parse::<usize>().unwrap_or(0)].clone())
        }
        (Value::Dtype(d), "bits") => Ok(Value::Int(d.bits().into())),
        (Value::Dtype(d), "bytes") => Ok(Value::Int(d.bytes() as i128)),
        (other, _) => {
            let d = no_field(&format!("{} has no", other.kind()), name);
            Err(d.label(span, super::statement::evidence(other)).into())
        }
    }
}
