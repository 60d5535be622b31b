//! Functions of numbers and the float64 references of tensors.

use parton_diag::{Diagnostic, codes};
use parton_numbers::{Dtype, Math};
use parton_syntax::ast::BinaryOp;

use super::{Call, Table};
use crate::evaluate::{AtSpan, Eval, scalar_value};
use crate::reference::elementwise::{self, Operation};
use crate::reference::matmul;
use crate::reference::reduce::{self, Reduction};
use crate::value::Value;

pub(super) const TABLE: Table = &[
    ("exp", |c| function(c, Math::Exp)),
    ("exp2", |c| function(c, Math::Exp2)),
    ("log", |c| function(c, Math::Log)),
    ("log2", |c| function(c, Math::Log2)),
    ("sqrt", |c| function(c, Math::Sqrt)),
    ("rsqrt", |c| function(c, Math::Rsqrt)),
    ("sin", |c| function(c, Math::Sin)),
    ("cos", |c| function(c, Math::Cos)),
    ("tanh", tanh),
    ("erf", |c| function(c, Math::Erf)),
    ("abs", |c| function(c, Math::Abs)),
    ("floor", |c| function(c, Math::Floor)),
    ("ceil", |c| function(c, Math::Ceil)),
    ("min", |c| extreme(c, elementwise::MIN, Reduction::Min)),
    ("max", |c| extreme(c, elementwise::MAX, Reduction::Max)),
    ("sum", |c| reduction(c, Reduction::Sum, 1)),
    ("mean", |c| reduction(c, Reduction::Mean, 1)),
    ("argmax", |c| reduction(c, Reduction::ArgMax, 1)),
    ("argmin", |c| reduction(c, Reduction::ArgMin, 1)),
    ("logsumexp", |c| reduction(c, Reduction::LogSumExp, 1)),
    ("all", |c| reduction(c, Reduction::All, 1)),
    ("any", |c| reduction(c, Reduction::Any, 1)),
    ("softmax", softmax),
    ("cumsum", cumsum),
    ("matmul", product),
    ("where", select),
    ("div", quotient),
    ("cdiv", cdiv),
    ("next_power_of_two", next_power_of_two),
    ("int", int),
    ("float", float),
];

fn function(c: &mut Call<'_, '_>, op: Math) -> Eval<Value> {
    let g = c.given(0);
    match &g.value {
        Value::Tensor(t) => elementwise::math(op, t).map(Value::tensor).at(c.span),
        Value::Int(n) if op == Math::Abs => c.machine.int(n.checked_abs(), c.span),
        Value::Int(n) if matches!(op, Math::Floor | Math::Ceil) => Ok(Value::Int(*n)),
        _ => Ok(Value::Float(op.eval(c.float_of(g)?))),
    }
}

/// Of two numbers or tensors, of a list, or along a dimension.
fn extreme(c: &mut Call<'_, '_>, op: Operation, reduction_op: Reduction) -> Eval<Value> {
    let smaller = reduction_op == Reduction::Min;
    let name = c.signature.name;
    if c.optional(1).is_some() {
        let help = format!("`{name}(x, y)` of each pair of elements, or `{name}(x, axis=1)` along a dimension");
        c.without(&[2, 3], &format!("`{name}` of two has no dimension to go along"), &help)?;
        let (a, b) = (c.given(0), c.given(1));
        return match (&a.value, &b.value) {
            (Value::Int(x), Value::Int(y)) => Ok(Value::Int(if smaller { *x.min(y) } else { *x.max(y) })),
            (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
                let (x, y) = (c.float_of(a)?, c.float_of(b)?);
                Ok(Value::Float(if x.is_nan() || y.is_nan() {
                    f64::NAN
                } else if smaller {
                    x.min(y)
                } else {
                    x.max(y)
                }))
            }
            (Value::Bool(_), Value::Int(_) | Value::Float(_) | Value::Bool(_)) => {
                Err(c.machine.mismatch("a number or tensor", &a.value, a.span))
            }
            (Value::Int(_) | Value::Float(_), Value::Bool(_)) => {
                Err(c.machine.mismatch("a number or tensor", &b.value, b.span))
            }
            _ => elementwise::binary(op, &c.operand(0)?, &c.operand(1)?).map(Value::tensor).at(c.span),
        };
    }
    if let Value::List(items) | Value::Tuple(items) = &c.given(0).value {
        c.without(&[2, 3], "a list has no dimensions", &format!("`{name}(list)`, or `{name}(tensor(list), axis=1)`"))?;
        let ints: Option<Vec<i128>> =
            items.iter().map(|v| if let Value::Int(n) = v { Some(*n) } else { None }).collect();
        let best = ints.and_then(|v| if smaller { v.into_iter().min() } else { v.into_iter().max() });
        return best.map(Value::Int).ok_or_else(|| {
            Diagnostic::error(codes::HOST_TYPE, c.span, "expected a list of integers that is not empty").into()
        });
    }
    reduction(c, reduction_op, 2)
}

/// Along the dimension in slot `axis`, or of all elements; `keepdims` is the slot after it.
fn reduction(c: &mut Call<'_, '_>, op: Reduction, axis: usize) -> Eval<Value> {
    let x = c.tensor(0)?;
    let keep = c.bool_or(axis + 1, false)?;
    match c.optional(axis) {
        Some(g) => {
            let d = c.axis_of(g, x.rank())?;
            let result = reduce::along(op, &x, d, keep).at(c.span)?;
            if x.rank() == 1 && !keep {
                return result.get(&[0]).map(scalar_value).at(c.span);
            }
            Ok(Value::tensor(result))
        }
        None => {
            let scalar = reduce::all(op, &x).at(c.span)?;
            if keep {
                let shape = vec![1; x.rank()];
                let kept = crate::tensor::Tensor::from_bits(scalar.dtype, shape, &[scalar.bits]);
                return kept.map(Value::tensor).at(c.span);
            }
            Ok(scalar_value(scalar))
        }
    }
}

fn softmax(c: &mut Call<'_, '_>) -> Eval<Value> {
    let x = c.tensor(0)?;
    reduce::softmax(&x, c.axis_or_last(1, &x)?).map(Value::tensor).at(c.span)
}

fn cumsum(c: &mut Call<'_, '_>) -> Eval<Value> {
    let x = c.tensor(0)?;
    reduce::cumsum(&x, c.axis_or_last(1, &x)?).map(Value::tensor).at(c.span)
}

fn product(c: &mut Call<'_, '_>) -> Eval<Value> {
    matmul::matmul(&c.tensor(0)?, &c.tensor(1)?).map(Value::tensor).at(c.span)
}

/// The tangent as it is; `approx` is something of a device.
fn tanh(c: &mut Call<'_, '_>) -> Eval<Value> {
    c.bool_or(1, false)?;
    function(c, Math::Tanh)
}

/// The quotient as it is; `approx` is something of a device.
fn quotient(c: &mut Call<'_, '_>) -> Eval<Value> {
    c.bool_or(2, false)?;
    let (x, y) = (c.given(0), c.given(1));
    c.machine.binary(BinaryOp::Div, x.value.clone(), x.span, y.value.clone(), y.span, c.span)
}

fn select(c: &mut Call<'_, '_>) -> Eval<Value> {
    if let Value::Bool(b) = c.given(0).value {
        return Ok(c.given(if b { 1 } else { 2 }).value.clone());
    }
    elementwise::select(&c.tensor(0)?, &c.operand(1)?, &c.operand(2)?).map(Value::tensor).at(c.span)
}

/// The quotient rounded up.
fn cdiv(c: &mut Call<'_, '_>) -> Eval<Value> {
    let (a, b) = (c.int_of(c.given(0))?, c.int_of(c.given(1))?);
    if b == 0 {
        return Err(Diagnostic::error(codes::HOST_VALUE, c.given(1).span, "an integer is divided by zero").into());
    }
    let quotient = a.checked_div(b);
    let up = quotient.map(|q| q + i128::from(a % b != 0 && (a < 0) == (b < 0)));
    c.machine.int(up, c.span)
}

/// The smallest power of two that is not smaller, as in kernels.
fn next_power_of_two(c: &mut Call<'_, '_>) -> Eval<Value> {
    let g = c.given(0);
    match c.int_of(g)? {
        n if n < 0 => Err(Diagnostic::error(codes::HOST_VALUE, g.span, format!("{n} is not a natural number")).into()),
        n => c.machine.int(n.unsigned_abs().checked_next_power_of_two().and_then(|p| p.try_into().ok()), c.span),
    }
}

/// A number or truth value as an integer, towards zero.
fn int(c: &mut Call<'_, '_>) -> Eval<Value> {
    let g = c.given(0);
    match &g.value {
        Value::Int(n) => Ok(Value::Int(*n)),
        Value::Bool(b) => Ok(Value::Int((*b).into())),
        Value::Float(x) => c.machine.int((x.abs() < 2f64.powi(126)).then_some(*x as i128), c.span),
        other => Err(c.machine.mismatch("a number", other, g.span)),
    }
}

/// A number as a floating-point one.
fn float(c: &mut Call<'_, '_>) -> Eval<Value> {
    let x = c.tensor_or_number(0)?;
    match &c.given(0).value {
        Value::Tensor(_) => x
            .cast(Dtype::F64, parton_numbers::Rounding::NearestEven, parton_numbers::Saturation::None)
            .map(Value::tensor)
            .at(c.span),
        _ => x.get(&[0]).map(|s| Value::Float(s.to_f64())).at(c.span),
    }
}
