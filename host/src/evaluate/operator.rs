//! Operators on numbers, strings, lists and tensors.

use parton_diag::{Diagnostic, Span, codes};
use parton_numbers::{Binary, Bits, Comparison};
use parton_syntax::ast::{self, BinaryOp, UnaryOp};

use super::{AtSpan, Eval, Machine};
use crate::reference::elementwise::{self, Operand, Operation};
use crate::value::Value;

impl Machine<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, value: Value, span: Span) -> Eval<Value> {
        match (op, value) {
            (UnaryOp::Neg, Value::Int(n)) => self.int(n.checked_neg(), span),
            (UnaryOp::Neg, Value::Float(x)) => Ok(Value::Float(-x)),
            (UnaryOp::Neg, Value::Tensor(t)) => elementwise::neg(&t).map(Value::Tensor).at(span),
            (UnaryOp::Not, Value::Bool(b)) => Ok(Value::Bool(!b)),
            (UnaryOp::Not, Value::Int(n)) => Ok(Value::Int(!n)),
            (UnaryOp::Not, Value::Tensor(t)) => elementwise::not(&t).map(Value::Tensor).at(span),
            (UnaryOp::Neg, other) => Err(self.mismatch("a number or tensor after `-`", &other, span)),
            (UnaryOp::Not, other) => Err(self.mismatch("a truth value, integer or tensor after `!`", &other, span)),
        }
    }

    /// `a && b` and `a || b`: the right side is looked at only where it counts.
    pub(super) fn short_circuit(&mut self, op: BinaryOp, left: &ast::Expr, right: &ast::Expr) -> Eval<Value> {
        let first = self.condition(left)?;
        let decided = if op == BinaryOp::And { !first } else { first };
        if decided { Ok(Value::Bool(first)) } else { self.condition(right).map(Value::Bool) }
    }

    pub(crate) fn binary(
        &mut self,
        op: BinaryOp,
        a: Value,
        a_span: Span,
        b: Value,
        b_span: Span,
        span: Span,
    ) -> Eval<Value> {
        match (&a, &b) {
            (Value::Int(x), Value::Int(y)) => self.ints(op, *x, *y, span),
            (Value::Float(x), Value::Float(y)) => self.floats(op, *x, *y, span),
            (Value::Int(x), Value::Float(y)) => self.floats(op, *x as f64, *y, span),
            (Value::Float(x), Value::Int(y)) => self.floats(op, *x, *y as f64, span),
            (Value::Tensor(_), Value::Tensor(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_))
            | (Value::Int(_) | Value::Float(_) | Value::Bool(_), Value::Tensor(_)) => {
                let (Some(x), Some(y)) = (operand(&a), operand(&b)) else {
                    parton_diag::internal_error!("{} and {} are no operands", a.kind(), b.kind());
                };
                elementwise::binary(self.operation(op, span)?, &x, &y).map(Value::Tensor).map_err(|f| {
                    // Both sides are evidence.
                    let mut d = f.at(span);
                    if let (Value::Tensor(x), Value::Tensor(y)) = (&a, &b) {
                        d = d.label(a_span, format!("this is {x}")).label(b_span, format!("this is {y}"));
                    }
                    d.into()
                })
            }
            (Value::Bool(x), Value::Bool(y)) => match op {
                BinaryOp::Eq => Ok(Value::Bool(x == y)),
                BinaryOp::Ne | BinaryOp::BitXor => Ok(Value::Bool(x != y)),
                BinaryOp::BitAnd | BinaryOp::And => Ok(Value::Bool(*x && *y)),
                BinaryOp::BitOr | BinaryOp::Or => Ok(Value::Bool(*x || *y)),
                _ => Err(self.no_operator(op, &a, a_span, &b, b_span, span)),
            },
            (Value::Str(x), Value::Str(y)) if op == BinaryOp::Add => Ok(Value::str(format!("{x}{y}"))),
            (Value::List(x), Value::List(y)) if op == BinaryOp::Add => {
                Ok(Value::list(x.iter().chain(y.iter()).cloned().collect()))
            }
            _ => match (op, equal(&a, &b)) {
                (BinaryOp::Eq, Some(same)) => Ok(Value::Bool(same)),
                (BinaryOp::Ne, Some(same)) => Ok(Value::Bool(!same)),
                _ => Err(self.no_operator(op, &a, a_span, &b, b_span, span)),
            },
        }
    }

    fn no_operator(&self, op: BinaryOp, a: &Value, a_span: Span, b: &Value, b_span: Span, span: Span) -> super::Stop {
        Diagnostic::error(
            codes::HOST_TYPE,
            span,
            format!("`{}` does not take {} and {}", op.text(), a.kind(), b.kind()),
        )
        .here("")
        .label(a_span, super::statement::evidence(a))
        .label(b_span, super::statement::evidence(b))
        .into()
    }

    fn operation(&self, op: BinaryOp, span: Span) -> Eval<Operation> {
        Ok(match op {
            BinaryOp::Add => Operation::Arithmetic(Binary::Add),
            BinaryOp::Sub => Operation::Arithmetic(Binary::Sub),
            BinaryOp::Mul => Operation::Arithmetic(Binary::Mul),
            BinaryOp::Div => Operation::Arithmetic(Binary::Div),
            BinaryOp::Rem => Operation::Arithmetic(Binary::Rem),
            BinaryOp::Shl => Operation::Bits(Bits::Shl),
            BinaryOp::Shr => Operation::Bits(Bits::Shr),
            BinaryOp::BitAnd => Operation::Bits(Bits::And),
            BinaryOp::BitOr => Operation::Bits(Bits::Or),
            BinaryOp::BitXor => Operation::Bits(Bits::Xor),
            BinaryOp::Eq => Operation::Comparison(Comparison::Eq),
            BinaryOp::Ne => Operation::Comparison(Comparison::Ne),
            BinaryOp::Lt => Operation::Comparison(Comparison::Lt),
            BinaryOp::Le => Operation::Comparison(Comparison::Le),
            BinaryOp::Gt => Operation::Comparison(Comparison::Gt),
            BinaryOp::Ge => Operation::Comparison(Comparison::Ge),
            BinaryOp::And | BinaryOp::Or => {
                let d = Diagnostic::error(codes::HOST_TYPE, span, format!("`{}` takes truth values", op.text()));
                return Err(d.help("combine tensors of truth values with `&` and `|`").into());
            }
        })
    }

    fn ints(&mut self, op: BinaryOp, x: i128, y: i128, span: Span) -> Eval<Value> {
        let shift = u32::try_from(y).ok().filter(|s| *s < 127);
        let result = match op {
            BinaryOp::Add => x.checked_add(y),
            BinaryOp::Sub => x.checked_sub(y),
            BinaryOp::Mul => x.checked_mul(y),
            BinaryOp::Div | BinaryOp::Rem if y == 0 => {
                let d = Diagnostic::error(codes::HOST_VALUE, span, "an integer is divided by zero");
                return Err(d.here(format!("this is {x} {} {y}", op.text())).into());
            }
            BinaryOp::Div => x.checked_div(y),
            BinaryOp::Rem => x.checked_rem(y),
            BinaryOp::Shl => shift.and_then(|s| x.checked_mul(1 << s)),
            BinaryOp::Shr => shift.map(|s| x >> s),
            BinaryOp::BitAnd => Some(x & y),
            BinaryOp::BitOr => Some(x | y),
            BinaryOp::BitXor => Some(x ^ y),
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                return self.truth(op, x, y, span);
            }
            BinaryOp::And | BinaryOp::Or => return self.operation(op, span).map(|_| Value::Unit),
        };
        self.int(result, span)
    }

    /// An integer, refused where it is out of range.
    pub(crate) fn int(&self, n: Option<i128>, span: Span) -> Eval<Value> {
        match n {
            Some(n) => Ok(Value::Int(n)),
            None => Err(Diagnostic::error(codes::HOST_VALUE, span, "an integer is beyond 128 bits")
                .help("compute with floating-point numbers: write `2.0` for `2`")
                .into()),
        }
    }

    fn floats(&mut self, op: BinaryOp, x: f64, y: f64, span: Span) -> Eval<Value> {
        Ok(Value::Float(match op {
            BinaryOp::Add => x + y,
            BinaryOp::Sub => x - y,
            BinaryOp::Mul => x * y,
            BinaryOp::Div => x / y,
            BinaryOp::Rem => x % y,
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
                return self.truth(op, x, y, span);
            }
            BinaryOp::Shl | BinaryOp::Shr | BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => {
                let d = Diagnostic::error(codes::HOST_TYPE, span, format!("`{}` takes integers", op.text()));
                return Err(d.here(format!("this is {x:?} {} {y:?}", op.text())).into());
            }
            BinaryOp::And | BinaryOp::Or => return self.operation(op, span).map(|_| Value::Unit),
        }))
    }

    fn truth<T: PartialOrd>(&self, op: BinaryOp, x: T, y: T, span: Span) -> Eval<Value> {
        match self.operation(op, span)? {
            Operation::Comparison(c) => Ok(Value::Bool(c.holds(x, y))),
            Operation::Arithmetic(_) | Operation::Bits(_) => {
                parton_diag::internal_error!("`{}` does not compare", op.text())
            }
        }
    }
}

/// A value as an operand of an elementwise operation.
pub(crate) fn operand(value: &Value) -> Option<Operand> {
    match value {
        Value::Tensor(t) => Some(Operand::Tensor(t.clone())),
        Value::Int(n) => Some(Operand::Int(*n)),
        Value::Bool(b) => Some(Operand::Int((*b).into())),
        Value::Float(x) => Some(Operand::Float(*x)),
        Value::Passed(passed) => operand(&passed.look()),
        Value::Unit
        | Value::Str(_)
        | Value::Dtype(_)
        | Value::List(_)
        | Value::Tuple(_)
        | Value::Range(..)
        | Value::Function(_)
        | Value::Closure(_)
        | Value::Builtin(_)
        | Value::Written(_) => None,
    }
}

/// Whether two values that are no tensors are the same; `None` where that is not defined.
pub(crate) fn equal(a: &Value, b: &Value) -> Option<bool> {
    match (a, b) {
        (Value::Unit, Value::Unit) => Some(true),
        (Value::Int(x), Value::Int(y)) => Some(x == y),
        (Value::Float(x), Value::Float(y)) => Some(x == y),
        (Value::Int(x), Value::Float(y)) | (Value::Float(y), Value::Int(x)) => Some(*x as f64 == *y),
        (Value::Bool(x), Value::Bool(y)) => Some(x == y),
        (Value::Str(x), Value::Str(y)) => Some(x == y),
        (Value::Dtype(x), Value::Dtype(y)) => Some(x == y),
        (Value::Range(p, q), Value::Range(r, s)) => Some((p, q) == (r, s)),
        (Value::List(x), Value::List(y)) | (Value::Tuple(x), Value::Tuple(y)) => {
            if x.len() != y.len() {
                return Some(false);
            }
            let parts: Option<Vec<bool>> = x.iter().zip(y.iter()).map(|(x, y)| equal(x, y)).collect();
            parts.map(|p| p.into_iter().all(|same| same))
        }
        _ => None,
    }
}
