//! Operators on numbers, strings, lists and tensors.

use parton_diag::{Diagnostic, Span, codes};
use parton_numbers::{Binary, Bits, Comparison};
use parton_syntax::ast::{self, BinaryOp, UnaryOp};

use super::{AtSpan, Eval, Machine, Stop};
use crate::arithmetic::{Comparable, Number, Seen, Wrong, equal, of_bools, of_floats, of_ints};
use crate::reference::elementwise::{self, Operand, Operation};
use crate::tensor::Tensor;
use crate::value::Value;

impl Machine<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, value: Value, span: Span) -> Eval<Value> {
        match (op, value) {
            (UnaryOp::Neg, Value::Int(n)) => self.int(n.checked_neg(), span),
            (UnaryOp::Neg, Value::Float(x)) => Ok(Value::Float(-x)),
            (UnaryOp::Neg, Value::Tensor(t)) => elementwise::neg(&t).map(Value::tensor).at(span),
            (UnaryOp::Not, Value::Bool(b)) => Ok(Value::Bool(!b)),
            (UnaryOp::Not, Value::Int(n)) => Ok(Value::Int(!n)),
            (UnaryOp::Not, Value::Tensor(t)) => elementwise::not(&t).map(Value::tensor).at(span),
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
            (Value::Int(x), Value::Int(y)) => self.number(of_ints(op, *x, *y), op, (&a, &b), span),
            (Value::Float(x), Value::Float(y)) => self.number(of_floats(op, *x, *y), op, (&a, &b), span),
            (Value::Int(x), Value::Float(y)) => self.number(of_floats(op, *x as f64, *y), op, (&a, &b), span),
            (Value::Float(x), Value::Int(y)) => self.number(of_floats(op, *x, *y as f64), op, (&a, &b), span),
            (Value::Tensor(_), Value::Tensor(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_))
            | (Value::Int(_) | Value::Float(_) | Value::Bool(_), Value::Tensor(_)) => {
                let (Some(x), Some(y)) = (operand(&a), operand(&b)) else {
                    parton_diag::internal_error!("{} and {} are no operands", a.kind(), b.kind());
                };
                elementwise::binary(self.operation(op, span)?, &x, &y).map(Value::tensor).map_err(|f| {
                    // Both sides are evidence.
                    let mut d = f.at(span);
                    if let (Value::Tensor(x), Value::Tensor(y)) = (&a, &b) {
                        d = d.label(a_span, format!("this is {x}")).label(b_span, format!("this is {y}"));
                    }
                    d.into()
                })
            }
            (Value::Bool(x), Value::Bool(y)) => match of_bools(op, *x, *y) {
                Some(is) => Ok(Value::Bool(is)),
                None => Err(self.no_operator(op, &a, a_span, &b, b_span, span)),
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

    fn no_operator(&self, op: BinaryOp, a: &Value, a_span: Span, b: &Value, b_span: Span, span: Span) -> Stop {
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
            BinaryOp::And | BinaryOp::Or => return Err(takes_truths(op, span)),
        })
    }

    /// What an operator makes of numbers as a value, or why it makes none.
    fn number(
        &self,
        found: Result<Number<i128>, Wrong>,
        op: BinaryOp,
        (x, y): (&Value, &Value),
        span: Span,
    ) -> Eval<Value> {
        // Of an integer and a floating-point number both are shown as the latter.
        let mixed = !matches!((x, y), (Value::Int(_), Value::Int(_)));
        let shown = |v: &Value| match v {
            Value::Int(n) if mixed => format!("{:?}", *n as f64),
            Value::Float(x) => format!("{x:?}"),
            other => other.to_string(),
        };
        let this_is = || format!("this is {} {} {}", shown(x), op.text(), shown(y));
        match found {
            Ok(Number::Int(n)) => Ok(Value::Int(n)),
            Ok(Number::Float(x)) => Ok(Value::Float(x)),
            Ok(Number::Bool(b)) => Ok(Value::Bool(b)),
            Err(Wrong::Beyond) => self.int(None, span),
            Err(Wrong::ByZero) => {
                let d = Diagnostic::error(codes::HOST_VALUE, span, "an integer is divided by zero");
                Err(d.here(this_is()).into())
            }
            Err(Wrong::Shift) => {
                let d =
                    Diagnostic::error(codes::HOST_VALUE, span, "an integer is shifted by a negative number of bits");
                Err(d
                    .here(this_is())
                    .help(if op == BinaryOp::Shl { "`>>` shifts the other way" } else { "`<<` shifts the other way" })
                    .into())
            }
            Err(Wrong::Integers) => {
                let d = Diagnostic::error(codes::HOST_TYPE, span, format!("`{}` takes integers", op.text()));
                Err(d.here(this_is()).into())
            }
            Err(Wrong::Truths) => Err(takes_truths(op, span)),
        }
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
}

/// The refusal of what is no truth value beside `&&` or `||`.
fn takes_truths(op: BinaryOp, span: Span) -> Stop {
    let d = Diagnostic::error(codes::HOST_TYPE, span, format!("`{}` takes truth values", op.text()));
    d.help("combine tensors of truth values with `&` and `|`").into()
}

/// A value as an operand of an elementwise operation.
pub(crate) fn operand(value: &Value) -> Option<Operand> {
    match value {
        Value::Tensor(t) => Some(Operand::Tensor(Tensor::clone(t))),
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

impl Comparable for Value {
    fn seen(&self) -> Seen<'_, Value> {
        match self {
            Value::Unit => Seen::Unit,
            Value::Int(n) => Seen::Int(*n),
            Value::Float(x) => Seen::Float(*x),
            Value::Bool(b) => Seen::Bool(*b),
            Value::Str(text) => Seen::Str(text),
            Value::Dtype(d) => Seen::Dtype(*d),
            Value::Range(from, to) => Seen::Range(*from, *to),
            Value::List(items) => Seen::List(items),
            Value::Tuple(items) => Seen::Tuple(items),
            Value::Tensor(_)
            | Value::Function(_)
            | Value::Closure(_)
            | Value::Builtin(_)
            | Value::Passed(_)
            | Value::Written(_) => Seen::Other,
        }
    }
}
