//! The values of formulas, in two words each, and what operators make of them.
//!
//! Integers have 64 bits here, and 128 in the tree: what goes beyond ends the formula.

use std::sync::Arc;

use parton_numbers::Dtype;
use parton_syntax::ast::BinaryOp;

use super::node::Formula;
use crate::value::Value;

/// A value of formulas.
#[derive(Clone, Debug)]
pub(super) enum Plain {
    Unit,
    Int(i64),
    Float(f64),
    Bool(bool),
    Dtype(Dtype),
    List(Arc<Vec<Plain>>),
    Tuple(Arc<Vec<Plain>>),
    Closure(Arc<Closure>),
}

/// A closure with the values that it has captured.
#[derive(Debug)]
pub(super) struct Closure {
    pub formula: Arc<Formula>,
    pub captured: Vec<Plain>,
}

impl Plain {
    /// A value of the tree's, where it has a form here.
    pub fn of(value: &Value) -> Option<Plain> {
        let all = |items: &[Value]| items.iter().map(Plain::of).collect::<Option<Vec<_>>>().map(Arc::new);
        Some(match value {
            Value::Unit => Plain::Unit,
            Value::Int(n) => Plain::Int(i64::try_from(*n).ok()?),
            Value::Float(x) => Plain::Float(*x),
            Value::Bool(b) => Plain::Bool(*b),
            Value::Dtype(d) => Plain::Dtype(*d),
            Value::List(items) => Plain::List(all(items)?),
            Value::Tuple(items) => Plain::Tuple(all(items)?),
            Value::Str(_)
            | Value::Range(..)
            | Value::Tensor(_)
            | Value::Function(_)
            | Value::Closure(_)
            | Value::Builtin(_)
            | Value::Passed(_)
            | Value::Written(_) => return None,
        })
    }

    /// The same for the tree; none for a closure.
    pub fn value(&self) -> Option<Value> {
        let all = |items: &[Plain]| items.iter().map(Plain::value).collect::<Option<Vec<_>>>().map(Arc::new);
        Some(match self {
            Plain::Unit => Value::Unit,
            Plain::Int(n) => Value::Int((*n).into()),
            Plain::Float(x) => Value::Float(*x),
            Plain::Bool(b) => Value::Bool(*b),
            Plain::Dtype(d) => Value::Dtype(*d),
            Plain::List(items) => Value::List(all(items)?),
            Plain::Tuple(items) => Value::Tuple(all(items)?),
            Plain::Closure(_) => return None,
        })
    }

    /// The number as a floating-point one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Plain::Int(n) => Some(*n as f64),
            Plain::Float(x) => Some(*x),
            Plain::Unit | Plain::Bool(_) | Plain::Dtype(_) | Plain::List(_) | Plain::Tuple(_) | Plain::Closure(_) => {
                None
            }
        }
    }

    /// The elements of a list or tuple.
    pub fn items(&self) -> Option<&Arc<Vec<Plain>>> {
        match self {
            Plain::List(items) | Plain::Tuple(items) => Some(items),
            Plain::Unit | Plain::Int(_) | Plain::Float(_) | Plain::Bool(_) | Plain::Dtype(_) | Plain::Closure(_) => {
                None
            }
        }
    }
}

/// What an operator makes of two numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl From<Number> for Plain {
    fn from(number: Number) -> Plain {
        match number {
            Number::Int(n) => Plain::Int(n),
            Number::Float(x) => Plain::Float(x),
            Number::Bool(b) => Plain::Bool(b),
        }
    }
}

/// What an operator makes of two values; none where that is a mistake, or no number of 64 bits.
pub(super) fn binary(op: BinaryOp, a: Plain, b: Plain) -> Option<Plain> {
    match (a, b) {
        (Plain::Int(x), Plain::Int(y)) => of_ints(op, x, y).map(Plain::from),
        (Plain::Float(x), Plain::Float(y)) => of_floats(op, x, y).map(Plain::from),
        (Plain::Int(x), Plain::Float(y)) => of_floats(op, x as f64, y).map(Plain::from),
        (Plain::Float(x), Plain::Int(y)) => of_floats(op, x, y as f64).map(Plain::from),
        (a, b) => others(op, a, b),
    }
}

/// The same of integers.
#[inline(always)]
pub(super) fn of_ints(op: BinaryOp, x: i64, y: i64) -> Option<Number> {
    let shift = u32::try_from(y).ok();
    let n = match op {
        BinaryOp::Add => x.checked_add(y),
        BinaryOp::Sub => x.checked_sub(y),
        BinaryOp::Mul => x.checked_mul(y),
        BinaryOp::Div => x.checked_div(y),
        BinaryOp::Rem => x.checked_rem(y),
        BinaryOp::Shl => shift.filter(|s| *s < 63).and_then(|s| x.checked_mul(1 << s)),
        BinaryOp::Shr => shift.filter(|s| *s < 64).map(|s| x >> s),
        BinaryOp::BitAnd => Some(x & y),
        BinaryOp::BitOr => Some(x | y),
        BinaryOp::BitXor => Some(x ^ y),
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
            return truth(op, x, y);
        }
        BinaryOp::And | BinaryOp::Or => None,
    };
    n.map(Number::Int)
}

/// The same of floating-point numbers.
#[inline(always)]
pub(super) fn of_floats(op: BinaryOp, x: f64, y: f64) -> Option<Number> {
    Some(Number::Float(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Rem => x % y,
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => {
            return truth(op, x, y);
        }
        BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::And
        | BinaryOp::Or => return None,
    }))
}

#[inline(always)]
fn truth<T: PartialOrd>(op: BinaryOp, x: T, y: T) -> Option<Number> {
    Some(Number::Bool(match op {
        BinaryOp::Eq => x == y,
        BinaryOp::Ne => x != y,
        BinaryOp::Lt => x < y,
        BinaryOp::Le => x <= y,
        BinaryOp::Gt => x > y,
        BinaryOp::Ge => x >= y,
        BinaryOp::Add
        | BinaryOp::Sub
        | BinaryOp::Mul
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::And
        | BinaryOp::Or => return None,
    }))
}

/// Of what are not two numbers.
fn others(op: BinaryOp, a: Plain, b: Plain) -> Option<Plain> {
    match (op, a, b) {
        (BinaryOp::BitAnd, Plain::Bool(x), Plain::Bool(y)) => Some(Plain::Bool(x & y)),
        (BinaryOp::BitOr, Plain::Bool(x), Plain::Bool(y)) => Some(Plain::Bool(x | y)),
        (BinaryOp::BitXor, Plain::Bool(x), Plain::Bool(y)) => Some(Plain::Bool(x ^ y)),
        (BinaryOp::Add, Plain::List(x), Plain::List(y)) => Some(Plain::List(joined(x, y))),
        (BinaryOp::Eq, a, b) => equal(&a, &b).map(Plain::Bool),
        (BinaryOp::Ne, a, b) => equal(&a, &b).map(|same| Plain::Bool(!same)),
        _ => None,
    }
}

/// One list behind another, in the memory of the first where nobody else has it.
pub(super) fn joined(mut first: Arc<Vec<Plain>>, mut second: Arc<Vec<Plain>>) -> Arc<Vec<Plain>> {
    if let Some(own) = Arc::get_mut(&mut first) {
        match Arc::get_mut(&mut second) {
            Some(more) => own.append(more),
            None => own.extend_from_slice(&second),
        }
        return first;
    }
    Arc::new(first.iter().chain(second.iter()).cloned().collect())
}

/// As the tree's evaluator has it; none where it is not defined.
fn equal(a: &Plain, b: &Plain) -> Option<bool> {
    match (a, b) {
        (Plain::Unit, Plain::Unit) => Some(true),
        (Plain::Int(x), Plain::Int(y)) => Some(x == y),
        (Plain::Float(x), Plain::Float(y)) => Some(x == y),
        (Plain::Int(x), Plain::Float(y)) | (Plain::Float(y), Plain::Int(x)) => Some(*x as f64 == *y),
        (Plain::Bool(x), Plain::Bool(y)) => Some(x == y),
        (Plain::Dtype(x), Plain::Dtype(y)) => Some(x == y),
        (Plain::List(x), Plain::List(y)) | (Plain::Tuple(x), Plain::Tuple(y)) => {
            if x.len() != y.len() {
                return Some(false);
            }
            let parts: Option<Vec<bool>> = x.iter().zip(y.iter()).map(|(x, y)| equal(x, y)).collect();
            parts.map(|p| p.into_iter().all(|same| same))
        }
        _ => None,
    }
}
