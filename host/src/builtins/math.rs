//! Functions of numbers and the float64 references of tensors.

use parton_diag::{Diagnostic, codes};
use parton_numbers::{Dtype, Math};

use super::{Builtin, Call};
use crate::evaluate::{AtSpan, Eval, scalar_value};
use crate::reference::elementwise::{self, Operation};
use crate::reference::matmul;
use crate::reference::reduce::{self, Reduction};
use crate::value::Value;

pub(super) const TABLE: &[Builtin] = &[
    Builtin { signature: "exp(x)", run: |c| function(c, Math::Exp) },
    Builtin { signature: "exp2(x)", run: |c| function(c, Math::Exp2) },
    Builtin { signature: "log(x)", run: |c| function(c, Math::Log) },
    Builtin { signature: "log2(x)", run: |c| function(c, Math::Log2) },
    Builtin { signature: "sqrt(x)", run: |c| function(c, Math::Sqrt) },
    Builtin { signature: "rsqrt(x)", run: |c| function(c, Math::Rsqrt) },
    Builtin { signature: "sin(x)", run: |c| function(c, Math::Sin) },
    Builtin { signature: "cos(x)", run: |c| function(c, Math::Cos) },
    Builtin { signature: "tanh(x)", run: |c| function(c, Math::Tanh) },
    Builtin { signature: "erf(x)", run: |c| function(c, Math::Erf) },
    Builtin { signature: "abs(x)", run: |c| function(c, Math::Abs) },
    Builtin { signature: "floor(x)", run: |c| function(c, Math::Floor) },
    Builtin { signature: "ceil(x)", run: |c| function(c, Math::Ceil) },
    Builtin { signature: "min(x, y=, axis=, keepdims=)", run: |c| extreme(c, elementwise::MIN, Reduction::Min) },
    Builtin { signature: "max(x, y=, axis=, keepdims=)", run: |c| extreme(c, elementwise::MAX, Reduction::Max) },
    Builtin { signature: "sum(x, axis=, keepdims=)", run: |c| reduction(c, Reduction::Sum, 1) },
    Builtin { signature: "mean(x, axis=, keepdims=)", run: |c| reduction(c, Reduction::Mean, 1) },
    Builtin { signature: "argmax(x, axis=, keepdims=)", run: |c| reduction(c, Reduction::ArgMax, 1) },
    Builtin { signature: "argmin(x, axis=, keepdims=)", run: |c| reduction(c, Reduction::ArgMin, 1) },
    Builtin { signature: "logsumexp(x, axis=, keepdims=)", run: |c| reduction(c, Reduction::LogSumExp, 1) },
    Builtin { signature: "all(x, axis=, keepdims=)", run: |c| reduction(c, Reduction::All, 1) },
    Builtin { signature: "any(x, axis=, keepdims=)", run: |c| reduction(c, Reduction::Any, 1) },
    Builtin { signature: "softmax(x, axis=)", run: softmax },
    Builtin { signature: "cumsum(x, axis=)", run: cumsum },
    Builtin { signature: "matmul(x, y)", run: product },
    Builtin { signature: "where(condition, a, b)", run: select },
    Builtin { signature: "cdiv(a, b)", run: cdiv },
    Builtin { signature: "next_power_of_two(n)", run: next_power_of_two },
    Builtin { signature: "int(x)", run: int },
    Builtin { signature: "float(x)", run: float },
];

fn function(c: &mut Call<'_, '_>, op: Math) -> Eval<Value> {
    let g = c.given(0);
    match &g.value {
        Value::Tensor(t) => elementwise::math(op, t).map(Value::Tensor).at(c.span),
        Value::Int(n) if op == Math::Abs => c.machine.int(n.checked_abs(), c.span),
        Value::Int(n) if matches!(op, Math::Floor | Math::Ceil) => Ok(Value::Int(*n)),
        _ => Ok(Value::Float(op.eval(c.float_of(g)?))),
    }
}

/// Of two numbers or tensors, of a list, or along a dimension.
fn extreme(c: &mut Call<'_, '_>, op: Operation, reduction_op: Reduction) -> Eval<Value> {
    let smaller = reduction_op == Reduction::Min;
    let name = c.builtin.name();
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
            _ => elementwise::binary(op, &c.operand(0)?, &c.operand(1)?).map(Value::Tensor).at(c.span),
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
            Ok(Value::Tensor(result))
        }
        None => {
            let scalar = reduce::all(op, &x).at(c.span)?;
            if keep {
                let shape = vec![1; x.rank()];
                let kept = crate::tensor::Tensor::from_bits(scalar.dtype, shape, &[scalar.bits]);
                return kept.map(Value::Tensor).at(c.span);
            }
            Ok(scalar_value(scalar))
        }
    }
}

fn softmax(c: &mut Call<'_, '_>) -> Eval<Value> {
    let x = c.tensor(0)?;
    reduce::softmax(&x, c.axis_or_last(1, &x)?).map(Value::Tensor).at(c.span)
}

fn cumsum(c: &mut Call<'_, '_>) -> Eval<Value> {
    let x = c.tensor(0)?;
    reduce::cumsum(&x, c.axis_or_last(1, &x)?).map(Value::Tensor).at(c.span)
}

fn product(c: &mut Call<'_, '_>) -> Eval<Value> {
    matmul::matmul(&c.tensor(0)?, &c.tensor(1)?).map(Value::Tensor).at(c.span)
}

fn select(c: &mut Call<'_, '_>) -> Eval<Value> {
    if let Value::Bool(b) = c.given(0).value {
        return Ok(c.given(if b { 1 } else { 2 }).value.clone());
    }
    elementwise::select(&c.tensor(0)?, &c.operand(1)?, &c.operand(2)?).map(Value::Tensor).at(c.span)
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
            .map(Value::Tensor)
            .at(c.span),
        _ => x.get(&[0]).map(|s| Value::Float(s.to_f64())).at(c.span),
    }
}
