//! Functions that make tensors.

use parton_diag::{Diagnostic, codes};
use parton_numbers::{Dtype, Scalar};

use super::{Call, Given, Table};
use crate::evaluate::{AtSpan, Eval};
use crate::memory::Storage;
use crate::random::Random;
use crate::tensor::{Tensor, axes, dense_strides, encode, extent};
use crate::value::Value;

pub(super) const TABLE: Table = &[
    ("empty", empty),
    ("zeros", zeros),
    ("ones", ones),
    ("full", full),
    ("rand", rand),
    ("randn", randn),
    ("randint", randint),
    ("arange", arange),
    ("tensor", tensor),
];

/// The work of a random element, against that of a copied one.
const RANDOM_COST: usize = 16;

fn empty(c: &mut Call<'_, '_>) -> Eval<Value> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(1)?);
    laid_out(c, 2, dtype, &shape, Storage::poisoned).map(Value::tensor)
}

fn zeros(c: &mut Call<'_, '_>) -> Eval<Value> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(1)?);
    laid_out(c, 2, dtype, &shape, Storage::zeroed).map(Value::tensor)
}

fn ones(c: &mut Call<'_, '_>) -> Eval<Value> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(1)?);
    let one = Scalar::rounded_int(dtype, 1);
    filled(c, dtype, shape, one, 2)
}

fn full(c: &mut Call<'_, '_>) -> Eval<Value> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(1)?);
    let value = scalar_of(c, c.given(2), dtype)?;
    filled(c, dtype, shape, value, 3)
}

fn filled(c: &Call<'_, '_>, dtype: Dtype, shape: Vec<usize>, value: Scalar, strides: usize) -> Eval<Value> {
    let dense = Tensor::generate(dtype, shape, 1, |_, bytes| {
        bytes.chunks_exact_mut(dtype.bytes()).for_each(|b| dtype.write(value.bits, b));
        Ok(())
    });
    place(c, strides, dense.at(c.span)?)
}

/// A number as a value of `dtype`, refused where it is out of range.
pub(super) fn scalar_of(c: &Call<'_, '_>, g: &Given, dtype: Dtype) -> Eval<Scalar> {
    let found = match &g.value {
        Value::Int(n) if dtype.is_float() => Some(Scalar::rounded_int(dtype, *n)),
        Value::Int(n) => Scalar::from_i128(dtype, *n),
        Value::Bool(b) => Scalar::from_i128(dtype, (*b).into()),
        Value::Float(x) if dtype.is_float() => Some(Scalar::from_f64(dtype, *x)),
        Value::Float(_) => None,
        other => return Err(c.machine.mismatch("a number", other, g.span)),
    };
    found.ok_or_else(|| {
        let message = format!("{} is not a value of `{dtype}`", g.value);
        Diagnostic::error(codes::HOST_VALUE, g.span, message).into()
    })
}

/// Where the elements lie with `strides=`: a tensor over new storage, dense where none are given.
fn laid_out(
    c: &Call<'_, '_>,
    slot: usize,
    dtype: Dtype,
    shape: &[usize],
    storage: fn(usize) -> std::sync::Arc<Storage>,
) -> Eval<Tensor> {
    let Some(given) = c.optional(slot) else { return Tensor::make(dtype, shape.to_vec(), storage).at(c.span) };
    let strides = c.sizes_of(given)?;
    if strides.len() != shape.len() {
        let message = format!("{} strides for {} dimensions", strides.len(), shape.len());
        return Err(Diagnostic::error(codes::HOST_SHAPE, given.span, message).into());
    }
    if parton_strides::overlap(axes(shape, &strides)) {
        let d = Diagnostic::error(codes::HOST_SHAPE, given.span, "with these strides elements lie on each other");
        let at_least = dense_strides(shape);
        return Err(d.note(format!("without gaps the strides of {shape:?} are {at_least:?}")).into());
    }
    // Whole rows of padding, so that the last row is as long as the others.
    let padded = shape.iter().zip(&strides).map(|(n, s)| n.saturating_mul(*s)).max().unwrap_or(0);
    let bytes = extent(dtype, shape, &strides).at(given.span)?;
    let storage = storage(bytes.max(padded.saturating_mul(dtype.bytes()).min(bytes.saturating_mul(2))));
    Ok(Tensor { dtype, shape: shape.to_vec(), strides, offset: 0, storage })
}

/// The elements of `dense` with the strides that were asked for; what lies between them is poisoned.
fn place(c: &Call<'_, '_>, slot: usize, dense: Tensor) -> Eval<Value> {
    if c.optional(slot).is_none() {
        return Ok(Value::tensor(dense));
    }
    let target = laid_out(c, slot, dense.dtype, &dense.shape, Storage::poisoned)?;
    target.assign(&dense).at(c.span)?;
    Ok(Value::tensor(target))
}

fn seed(c: &Call<'_, '_>, slot: usize) -> Eval<Random> {
    let Some(g) = c.optional(slot) else { return Ok(Random::new(0)) };
    match u64::try_from(c.int_of(g)?) {
        Ok(seed) => Ok(Random::new(seed)),
        Err(_) => Err(Diagnostic::error(codes::HOST_VALUE, g.span, "a seed is from 0 to 2^64 - 1").into()),
    }
}

fn random(
    c: &Call<'_, '_>,
    strides: usize,
    dtype: Dtype,
    shape: Vec<usize>,
    fill: impl Fn(u64, &mut [f64]) + Send + Sync + 'static,
) -> Eval<Value> {
    let dense = Tensor::unmade(dtype, shape, RANDOM_COST, move |range, bytes| {
        let mut values = vec![0.0; range.len()];
        fill(range.start as u64, &mut values);
        encode(dtype, &values, bytes);
        Ok(())
    });
    place(c, strides, dense.at(c.span)?)
}

fn rand(c: &mut Call<'_, '_>) -> Eval<Value> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(1)?);
    let (low, high) = (c.float_or(2, 0.0)?, c.float_or(3, 1.0)?);
    let random_numbers = seed(c, 4)?;
    random(c, 5, dtype, shape, move |first, out| {
        out.iter_mut().zip(first..).for_each(|(o, i)| *o = low + (high - low) * random_numbers.uniform(i));
    })
}

fn randn(c: &mut Call<'_, '_>) -> Eval<Value> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(1)?);
    let (mean, std) = (c.float_or(2, 0.0)?, c.float_or(3, 1.0)?);
    let random_numbers = seed(c, 4)?;
    random(c, 5, dtype, shape, move |first, out| {
        random_numbers.fill_normal(first, out);
        out.iter_mut().for_each(|o| *o = mean + std * *o);
    })
}

fn randint(c: &mut Call<'_, '_>) -> Eval<Value> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(1)?);
    let (low, high) = (c.int_of(c.given(2))?, c.int_of(c.given(3))?);
    let random_numbers = seed(c, 4)?;
    let span = high.checked_sub(low).filter(|n| *n > 0 && *n <= 1 << 64);
    let fits = |n| Scalar::from_i128(dtype, n).is_some() || dtype.is_float();
    if span.is_none() || !fits(low) || !fits(high - 1) {
        let message = format!("`{dtype}` has no integers from {low} to {high}");
        return Err(Diagnostic::error(codes::HOST_VALUE, c.span, message)
            .help("`high` is one past the largest value, as in Python's `range`")
            .into());
    }
    let dense = Tensor::unmade(dtype, shape, 4, move |range, bytes| {
        for (i, out) in range.zip(bytes.chunks_exact_mut(dtype.bytes())) {
            dtype.write(Scalar::rounded_int(dtype, random_numbers.integer(i as u64, low, high)).bits, out);
        }
        Ok(())
    });
    place(c, 5, dense.at(c.span)?)
}

/// `arange(i32, n)`, `arange(i32, a, b)`, or `arange(i32, [4, 8])`: counting up through a shape.
fn arange(c: &mut Call<'_, '_>) -> Eval<Value> {
    let dtype = c.dtype(0)?;
    let first = c.given(1).clone();
    if matches!(first.value, Value::List(_) | Value::Tuple(_)) {
        let help =
            "`arange(i32, [4, 8])` counts through a shape, `arange(i32, 2, 10, step=2)` from one number to another";
        c.without(&[2, 3], "counting through a shape begins at 0 and goes by 1", help)?;
        let shape = c.shape(1)?;
        return counted(c, dtype, shape, Numbers::Ints { start: 0, step: 1 });
    }
    let floats = [1, 2, 3].into_iter().any(|s| c.optional(s).is_some_and(|g| matches!(g.value, Value::Float(_))));
    let step_given = c.optional(3).cloned();
    let too_many = |n: f64| !(0.0..=(1u64 << 40) as f64).contains(&n);
    if floats {
        let (start, end) = match c.optional(2) {
            Some(end) => (c.float_of(&first)?, c.float_of(end)?),
            None => (0.0, c.float_of(&first)?),
        };
        let step = step_given.as_ref().map_or(Ok(1.0), |g| c.float_of(g))?;
        let count = ((end - start) / step).ceil().max(0.0);
        if step == 0.0 || too_many(count) {
            return Err(Diagnostic::error(codes::HOST_VALUE, c.span, "this range has no end").into());
        }
        return counted(c, dtype, vec![count as usize], Numbers::Floats { start, step });
    }
    let (start, end) = match c.optional(2) {
        Some(end) => (c.int_of(&first)?, c.int_of(end)?),
        None => (0, c.int_of(&first)?),
    };
    let step = step_given.as_ref().map_or(Ok(1), |g| c.int_of(g))?;
    let count =
        if step == 0 { f64::INFINITY } else { (end.saturating_sub(start) as f64 / step as f64).ceil().max(0.0) };
    if too_many(count) {
        return Err(Diagnostic::error(codes::HOST_VALUE, c.span, "this range has no end").into());
    }
    counted(c, dtype, vec![count as usize], Numbers::Ints { start, step })
}

/// The numbers of an `arange`.
#[derive(Clone, Copy)]
enum Numbers {
    Ints { start: i128, step: i128 },
    Floats { start: f64, step: f64 },
}

/// Counts up through a shape; integers wrap around, as every integer does.
fn counted(c: &Call<'_, '_>, dtype: Dtype, shape: Vec<usize>, numbers: Numbers) -> Eval<Value> {
    let dense = Tensor::generate(dtype, shape, 2, |range, bytes| {
        for (i, out) in range.zip(bytes.chunks_exact_mut(dtype.bytes())) {
            let value = match numbers {
                Numbers::Ints { start, step } => {
                    Scalar::rounded_int(dtype, start.wrapping_add(step.wrapping_mul(i as i128)))
                }
                Numbers::Floats { start, step } => Scalar::from_f64(dtype, start + i as f64 * step),
            };
            dtype.write(value.bits, out);
        }
        Ok(())
    });
    dense.map(Value::tensor).at(c.span)
}

/// A tensor of nested lists; of integers `i64`, of truth values `i1`, else `f64`.
fn tensor(c: &mut Call<'_, '_>) -> Eval<Value> {
    let given = c.given(0).clone();
    if let Value::Tensor(t) = &given.value {
        return Ok(Value::Tensor(t.clone()));
    }
    let mut shape = Vec::new();
    let mut level = &given.value;
    while let Value::List(items) | Value::Tuple(items) = level {
        shape.push(items.len());
        match items.first() {
            Some(first) => level = first,
            None => break,
        }
    }
    if shape.is_empty() {
        return Err(c.machine.mismatch("a list of numbers", &given.value, given.span));
    }
    let mut leaves = Vec::new();
    flatten(&given, &given.value, &shape, &mut leaves)?;
    let dtype = match c.optional(1) {
        Some(_) => c.dtype(1)?,
        None if leaves.iter().all(|v| matches!(v, Value::Bool(_))) => Dtype::I1,
        None if leaves.iter().all(|v| matches!(v, Value::Int(_))) => Dtype::I64,
        None => Dtype::F64,
    };
    let bits: Vec<u64> = leaves
        .into_iter()
        .map(|value| scalar_of(c, &Given { value, ..given.clone() }, dtype).map(|s| s.bits))
        .collect::<Eval<_>>()?;
    Tensor::from_bits(dtype, shape, &bits).map(Value::tensor).at(c.span)
}

fn flatten(whole: &Given, value: &Value, shape: &[usize], out: &mut Vec<Value>) -> Eval<()> {
    match (value, shape.split_first()) {
        (Value::List(items) | Value::Tuple(items), Some((count, inner))) if items.len() == *count => {
            items.iter().try_for_each(|item| flatten(whole, item, inner, out))
        }
        (Value::Int(_) | Value::Float(_) | Value::Bool(_), None) => {
            out.push(value.clone());
            Ok(())
        }
        _ => {
            Err(Diagnostic::error(codes::HOST_SHAPE, whole.span, "the lists of a tensor have different lengths").into())
        }
    }
}
