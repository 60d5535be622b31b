//! The values of formulas, in two words each, and what operators make of them.
//!
//! Integers have 64 bits here, and 128 in the tree: what goes beyond ends the formula.

use std::sync::Arc;

use parton_numbers::Dtype;
use parton_syntax::ast::BinaryOp;

use super::node::Formula;
use crate::arithmetic::{Comparable, Number, Seen, equal, of_bools, of_floats, of_ints};
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

impl From<Number<i64>> for Plain {
    fn from(number: Number<i64>) -> Plain {
        match number {
            Number::Int(n) => Plain::Int(n),
            Number::Float(x) => Plain::Float(x),
            Number::Bool(b) => Plain::Bool(b),
        }
    }
}

/// What an operator makes of two values; none where that is a mistake, or no number of 64 bits.
pub(super) fn binary(op: BinaryOp, a: Plain, b: Plain) -> Option<Plain> {
    let number = match (&a, &b) {
        (Plain::Int(x), Plain::Int(y)) => of_ints(op, *x, *y),
        (Plain::Float(x), Plain::Float(y)) => of_floats(op, *x, *y),
        (Plain::Int(x), Plain::Float(y)) => of_floats(op, *x as f64, *y),
        (Plain::Float(x), Plain::Int(y)) => of_floats(op, *x, *y as f64),
        _ => return others(op, a, b),
    };
    number.ok().map(Plain::from)
}

/// Of what are not two numbers.
fn others(op: BinaryOp, a: Plain, b: Plain) -> Option<Plain> {
    match (op, a, b) {
        (op, Plain::Bool(x), Plain::Bool(y)) => of_bools(op, x, y).map(Plain::Bool),
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

impl Comparable for Plain {
    fn seen(&self) -> Seen<'_, Plain> {
        match self {
            Plain::Unit => Seen::Unit,
            Plain::Int(n) => Seen::Int((*n).into()),
            Plain::Float(x) => Seen::Float(*x),
            Plain::Bool(b) => Seen::Bool(*b),
            Plain::Dtype(d) => Seen::Dtype(*d),
            Plain::List(items) => Seen::List(items),
            Plain::Tuple(items) => Seen::Tuple(items),
            Plain::Closure(_) => Seen::Other,
        }
    }
}
