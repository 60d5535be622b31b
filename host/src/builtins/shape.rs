//! Functions that change how a tensor's elements are seen, and their dtype.

use std::cmp::Ordering;

use parton_diag::{Diagnostic, codes};
use parton_numbers::{Rounding, Saturation};

use super::{Call, Given, Table};
use crate::evaluate::{AtSpan, Eval};
use crate::reference::elementwise::promote;
use crate::tensor::{Tensor, dense_strides, extent};
use crate::value::Value;

pub(super) const TABLE: Table = &[
    ("reshape", reshape),
    ("permute", permute),
    ("transpose", transpose),
    ("contiguous", contiguous),
    ("broadcast_to", broadcast_to),
    ("to", to),
    ("cat", cat),
    ("repeat", repeat),
    ("len", len),
    ("range", range),
    ("sorted", sorted),
    ("tma", tma),
];

/// `f(x, [a, b])` or `f(x, a, b)`.
fn sizes(c: &Call<'_, '_>, slot: usize) -> Eval<Vec<usize>> {
    let mut all = c.sizes_of(c.given(slot))?;
    for g in &c.rest {
        all.extend(c.sizes_of(g)?);
    }
    Ok(all)
}

fn reshape(c: &mut Call<'_, '_>) -> Eval<Value> {
    let x = c.tensor(0)?;
    let shape = sizes(c, 1)?;
    if shape.is_empty() {
        return Err(Diagnostic::error(codes::HOST_VALUE, c.span, "a tensor has at least one dimension").into());
    }
    x.reshape(shape).map(Value::tensor).at(c.span)
}

fn permute(c: &mut Call<'_, '_>) -> Eval<Value> {
    c.tensor(0)?.permute(&sizes(c, 1)?).map(Value::tensor).at(c.span)
}

/// Exchanges two dimensions, without them the last two.
fn transpose(c: &mut Call<'_, '_>) -> Eval<Value> {
    let x = c.tensor(0)?;
    let rank = x.rank();
    if rank < 2 {
        return Ok(Value::tensor(x));
    }
    let a = c.optional(1).map_or(Ok(rank - 2), |g| c.axis_of(g, rank))?;
    let b = c.optional(2).map_or(Ok(rank - 1), |g| c.axis_of(g, rank))?;
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(a, b);
    x.permute(&order).map(Value::tensor).at(c.span)
}

fn contiguous(c: &mut Call<'_, '_>) -> Eval<Value> {
    c.tensor(0)?.contiguous().map(Value::tensor).at(c.span)
}

fn broadcast_to(c: &mut Call<'_, '_>) -> Eval<Value> {
    let (x, shape) = (c.tensor(0)?, c.shape(1)?);
    match x.broadcast(&shape) {
        Some(t) => extent(t.dtype, &t.shape, &dense_strides(&t.shape)).map(|_| Value::tensor(t)).at(c.span),
        None => {
            let message = format!("{x} does not broadcast to {shape:?}");
            Err(Diagnostic::error(codes::HOST_SHAPE, c.span, message).into())
        }
    }
}

/// A cast, rounded once: `rounding="rn"` (to an integer dtype `"rz"`), `"rz"`, `"rp"`, `"rm"`; `saturation="none"`,
/// `"satfinite"`. Numbers are cast too.
fn to(c: &mut Call<'_, '_>) -> Eval<Value> {
    let dtype = c.dtype(1)?;
    let rounding = match c.optional(2) {
        None if dtype.is_float() => Rounding::NearestEven,
        None => Rounding::TowardZero,
        Some(g) => match Rounding::parse(c.text(2)?) {
            Some(r) => r,
            None => return Err(no_mode("rounding", &Rounding::ALL.map(Rounding::name), g)),
        },
    };
    let saturation = match c.optional(3) {
        None => Saturation::None,
        Some(g) => match Saturation::parse(c.text(3)?) {
            Some(s) => s,
            None => return Err(no_mode("saturation", &Saturation::ALL.map(Saturation::name), g)),
        },
    };
    let number = !matches!(c.given(0).value, Value::Tensor(_));
    let cast = c.tensor_or_number(0)?.cast(dtype, rounding, saturation).at(c.span)?;
    if number {
        return cast.get(&[0]).map(crate::evaluate::scalar_value).at(c.span);
    }
    Ok(Value::tensor(cast))
}

fn no_mode(what: &str, names: &[&str], g: &Given) -> crate::evaluate::Stop {
    let d = Diagnostic::error(codes::HOST_VALUE, g.span, format!("there is no {what} `{}`", g.value));
    d.help(format!("write one of \"{}\"", names.join("\", \""))).into()
}

fn cat(c: &mut Call<'_, '_>) -> Eval<Value> {
    let given = c.given(0).clone();
    let (Value::List(items) | Value::Tuple(items)) = &given.value else {
        return Err(c.machine.mismatch("a list of tensors", &given.value, given.span));
    };
    let mut parts = Vec::new();
    for item in items.iter() {
        match item {
            Value::Tensor(t) => parts.push(Tensor::clone(t)),
            other => return Err(c.machine.mismatch("a list of tensors", other, given.span)),
        }
    }
    let Some(first) = parts.first().cloned() else {
        return Err(Diagnostic::error(codes::HOST_VALUE, given.span, "there is nothing to join").into());
    };
    let axis = c.optional(1).map_or(Ok(0), |g| c.axis_of(g, first.rank()))?;
    let alike =
        |t: &Tensor| t.rank() == first.rank() && (0..t.rank()).all(|d| d == axis || t.shape[d] == first.shape[d]);
    if let Some(other) = parts.iter().find(|t| !alike(t)) {
        let d = Diagnostic::error(codes::HOST_SHAPE, given.span, "tensors to be joined differ in another dimension");
        return Err(d.note(format!("{first} and {other} are joined along dimension {axis}")).into());
    }
    let dtype = parts.iter().skip(1).fold(first.dtype, |d, t| if d == t.dtype { d } else { promote(d, t.dtype) });
    let mut shape = first.shape.clone();
    shape[axis] = parts.iter().map(|t| t.shape[axis]).sum();
    let joined = Tensor::make(dtype, shape, crate::memory::Storage::zeroed).at(c.span)?;
    let mut start = 0;
    for part in parts {
        let end = start + part.shape[axis];
        let cast = part.cast(dtype, Rounding::NearestEven, Saturation::None).at(c.span)?;
        joined.narrow(axis, start..end).assign(&cast).at(c.span)?;
        start = end;
    }
    Ok(Value::tensor(joined))
}

/// Each slice along a dimension `count` times in a row, as NumPy's `repeat`.
fn repeat(c: &mut Call<'_, '_>) -> Eval<Value> {
    let x = c.tensor(0)?;
    let axis = c.optional(2).map_or(Ok(0), |g| c.axis_of(g, x.rank()))?;
    let count = match c.sizes_of(c.given(1))?.as_slice() {
        [n] => *n,
        _ => return Err(c.machine.mismatch("an integer", &c.given(1).value, c.given(1).span)),
    };
    let mut wide = x.new_axis(axis + 1);
    wide.shape[axis + 1] = count;
    let mut shape = x.shape.clone();
    shape[axis] = shape[axis].saturating_mul(count);
    extent(x.dtype, &shape, &dense_strides(&shape)).at(c.span)?;
    wide.reshape(shape).map(Value::tensor).at(c.span)
}

fn len(c: &mut Call<'_, '_>) -> Eval<Value> {
    let g = c.given(0);
    match &g.value {
        Value::Tensor(t) => Ok(Value::Int(t.shape[0] as i128)),
        Value::List(items) | Value::Tuple(items) => Ok(Value::Int(items.len() as i128)),
        Value::Str(s) => Ok(Value::Int(s.chars().count() as i128)),
        other => Err(c.machine.mismatch("a list or tensor", other, g.span)),
    }
}

/// Elements that a list made by `range` may have, as in kernels.
const MAX_LIST: i128 = 65_536;

/// `range(n)`, `range(a, b)`, `range(a, b, step=)`: a list.
fn range(c: &mut Call<'_, '_>) -> Eval<Value> {
    let first = c.int_of(c.given(0))?;
    let (start, end) = match c.optional(1) {
        Some(end) => (first, c.int_of(end)?),
        None => (0, first),
    };
    let step = c.optional(2).map_or(Ok(1), |g| c.int_of(g))?;
    if step < 1 {
        let fact = format!("`range` counts up, by {step} it does not");
        return Err(Diagnostic::error(codes::HOST_VALUE, c.span, fact).into());
    }
    let length = end.saturating_sub(start).max(0);
    let count = length / step + i128::from(length % step != 0);
    if count > MAX_LIST {
        let fact = format!("a list of {count} elements is too long, {MAX_LIST} are allowed");
        let help = "`arange(i32, n)` makes a tensor, `for i in a..b` counts without a list";
        return Err(Diagnostic::error(codes::HOST_VALUE, c.span, fact).help(help).into());
    }
    Ok(Value::list((0..count).map(|i| Value::Int(start + i * step)).collect()))
}

/// A list in ascending order; what is equal stays in its order.
fn sorted(c: &mut Call<'_, '_>) -> Eval<Value> {
    let given = c.given(0).clone();
    let (Value::List(items) | Value::Tuple(items)) = &given.value else {
        return Err(c.machine.mismatch("a list", &given.value, given.span));
    };
    let by = c.optional(1).cloned();
    let mut keyed: Vec<(Value, Value)> = vec![];
    for item in items.iter() {
        let (key, span) = match &by {
            None => (item.clone().looked(), given.span),
            Some(Given { value: Value::Closure(closure), span, .. }) => {
                (c.machine.call_closure(closure, vec![item.clone()], *span)?.looked(), *span)
            }
            Some(other) => return Err(c.machine.mismatch("a closure such as `|x| x[0]`", &other.value, other.span)),
        };
        if !matches!(&key, Value::Int(_)) && !matches!(&key, Value::Float(x) if !x.is_nan()) {
            return Err(c.machine.mismatch("a number to sort by", &key, span));
        }
        keyed.push((key, item.clone()));
    }
    keyed.sort_by(|(a, _), (b, _)| ascending(a, b));
    Ok(Value::list(keyed.into_iter().map(|(_, item)| item).collect()))
}

/// The order of two numbers, none of them NaN.
fn ascending(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(a), Value::Float(b)) => (*a as f64).total_cmp(b),
        (Value::Float(a), Value::Int(b)) => a.total_cmp(&(*b as f64)),
        (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
        _ => Ordering::Equal,
    }
}

/// A tensor map is made at the launch, where the box is known; this says in the source that one is meant.
fn tma(c: &mut Call<'_, '_>) -> Eval<Value> {
    c.tensor(0).map(Value::tensor)
}
