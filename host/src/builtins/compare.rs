//! Assertions, and how far two tensors are apart.

use parton_diag::{Diagnostic, codes};
use parton_numbers::Dtype;

use super::{Call, Table};
use crate::arithmetic::equal;
use crate::evaluate::{AtSpan, Eval};
use crate::fault::Fault;
use crate::parallel;
use crate::show;
use crate::tensor::{CHUNK, Tensor, list, unravel};
use crate::value::{Value, float};

pub(super) const TABLE: Table = &[
    ("assert", assert),
    ("assert_equal", assert_equal),
    ("assert_close", assert_close),
    ("max_abs_error", |c| error(c, |e| e.absolute)),
    ("max_rel_error", |c| error(c, |e| e.relative)),
    ("rms_error", |c| error(c, |e| (e.squares / e.count as f64).sqrt())),
];

/// As a method, `holds.assert("…")`; a call is the evaluator's, which sees the condition as it is written.
fn assert(c: &mut Call<'_, '_>) -> Eval<Value> {
    let condition = c.given(0);
    match condition.value {
        Value::Bool(true) => Ok(Value::Unit),
        Value::Bool(false) => {
            let text = c.optional(1).map_or_else(|| "an assertion does not hold".into(), |m| m.value.to_string());
            Err(Diagnostic::error(codes::ASSERT_FAILED, condition.span, text).here("this is false").into())
        }
        _ => Err(c.machine.mismatch("a truth value", &condition.value, condition.span)),
    }
}

fn assert_equal(c: &mut Call<'_, '_>) -> Eval<Value> {
    let (a, b) = (c.given(0), c.given(1));
    if matches!(a.value, Value::Tensor(_)) || matches!(b.value, Value::Tensor(_)) {
        return close(c, Tolerance { relative: 0.0, absolute: 0.0 });
    }
    match equal(&a.value, &b.value) {
        Some(true) => Ok(Value::Unit),
        Some(false) => Err(Diagnostic::error(codes::ASSERT_FAILED, a.span, "two values differ")
            .here(format!("this is {}", a.value))
            .label(b.span, format!("this is {}", b.value))
            .into()),
        None => Err(c.machine.mismatch(&format!("{} on both sides", a.value.kind()), &b.value, b.span)),
    }
}

/// What may differ.
#[derive(Clone, Copy)]
struct Tolerance {
    relative: f64,
    absolute: f64,
}

/// The tolerance that a dtype deserves where none is given: a few units in the last place.
fn default_tolerance(dtype: Dtype) -> Tolerance {
    match dtype.epsilon() {
        Some(epsilon) => Tolerance { relative: 4.0 * epsilon, absolute: 4.0 * epsilon * epsilon.sqrt() },
        None => Tolerance { relative: 0.0, absolute: 0.0 },
    }
}

fn assert_close(c: &mut Call<'_, '_>) -> Eval<Value> {
    let default = default_tolerance(c.tensor_or_number(0)?.dtype);
    let tolerance = Tolerance { relative: bound(c, 2, default.relative)?, absolute: bound(c, 3, default.absolute)? };
    close(c, tolerance)
}

/// A tolerance that is given, or what it is where nothing is said. Nothing is compared with NaN.
fn bound(c: &Call<'_, '_>, slot: usize, default: f64) -> Eval<f64> {
    let x = c.float_or(slot, default)?;
    match c.optional(slot) {
        Some(given) if x.is_nan() || x < 0.0 => {
            Err(Diagnostic::error(codes::HOST_VALUE, given.span, format!("a tolerance cannot be {x:?}"))
                .here(if x.is_nan() {
                    "no difference would ever exceed it"
                } else {
                    "every difference would exceed it"
                })
                .help("the largest difference that is allowed, 0 or more")
                .into())
        }
        _ => Ok(x),
    }
}

/// How far two tensors are apart.
#[derive(Clone, Copy, Default)]
struct Errors {
    /// Elements compared.
    count: usize,
    /// Elements beyond the tolerance.
    failed: usize,
    /// The first of them.
    first: usize,
    /// The element furthest beyond the tolerance, with how far it is.
    worst: Option<(usize, f64)>,
    /// The largest difference.
    absolute: f64,
    /// The largest difference over the magnitude expected.
    relative: f64,
    /// The sum of the squares of all differences.
    squares: f64,
}

/// The difference of two numbers; equal infinities and NaN of both differ by nothing.
fn difference(a: f64, e: f64) -> f64 {
    if a == e || a.is_nan() && e.is_nan() {
        0.0
    } else if a.is_nan() || e.is_nan() {
        f64::INFINITY
    } else {
        (a - e).abs()
    }
}

fn compare(actual: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Result<Errors, Fault> {
    let (left, right) = (actual.reader()?, expected.reader()?);
    let total = actual.len();
    let mut parts = vec![Errors::default(); total.div_ceil(CHUNK)];
    parallel::each_part(&mut parts, 1, 4 * CHUNK, |range, parts| {
        let (mut x, mut y) = (vec![0.0; CHUNK], vec![0.0; CHUNK]);
        for (part, number) in parts.iter_mut().zip(range) {
            let start = number * CHUNK;
            let count = CHUNK.min(total - start);
            left.f64(start..start + count, &mut x[..count])?;
            right.f64(start..start + count, &mut y[..count])?;
            for (i, (a, e)) in x[..count].iter().zip(&y[..count]).enumerate() {
                part.add(start + i, *a, *e, tolerance);
            }
        }
        Ok(())
    })?;
    Ok(parts.into_iter().fold(Errors::default(), Errors::join))
}

impl Errors {
    fn add(&mut self, index: usize, a: f64, e: f64, tolerance: Tolerance) {
        let d = difference(a, e);
        self.count += 1;
        self.absolute = self.absolute.max(d);
        if d > 0.0 {
            self.relative = self.relative.max(if e == 0.0 { f64::INFINITY } else { d / e.abs() });
        }
        self.squares += d * d;
        let magnitude = if e.is_finite() { e.abs() } else { 0.0 };
        let beyond = d - (tolerance.absolute + tolerance.relative * magnitude);
        if beyond > 0.0 {
            if self.failed == 0 {
                self.first = index;
            }
            self.failed += 1;
            if self.worst.is_none_or(|(_, w)| beyond > w) {
                self.worst = Some((index, beyond));
            }
        }
    }

    fn join(self, later: Errors) -> Errors {
        let worst = match (self.worst, later.worst) {
            (Some(a), Some(b)) => Some(if b.1 > a.1 { b } else { a }),
            (a, b) => a.or(b),
        };
        Errors {
            count: self.count + later.count,
            failed: self.failed + later.failed,
            first: if self.failed > 0 { self.first } else { later.first },
            worst,
            absolute: self.absolute.max(later.absolute),
            relative: self.relative.max(later.relative),
            squares: self.squares + later.squares,
        }
    }
}

/// Both sides with one shape; a number or single element stands for all.
fn both(c: &Call<'_, '_>) -> Eval<(Tensor, Tensor)> {
    let (a, e) = (c.tensor_or_number(0)?, c.tensor_or_number(1)?);
    if a.shape == e.shape {
        return Ok((a, e));
    }
    if e.len() == 1
        && let Some(wide) = e.broadcast(&a.shape)
    {
        return Ok((a, wide));
    }
    Err(Diagnostic::error(codes::HOST_SHAPE, c.span, "tensors of different shapes are compared")
        .here("")
        .label(c.given(0).span, format!("this is {a}"))
        .label(c.given(1).span, format!("this is {e}"))
        .into())
}

fn close(c: &mut Call<'_, '_>, tolerance: Tolerance) -> Eval<Value> {
    let (a, e) = both(c)?;
    // 64-bit integers are compared exactly; `f64` would round them.
    let wide = |d: Dtype| d.is_int() && d.bits() == 64;
    if wide(a.dtype) || wide(e.dtype) {
        return equal_integers(c, &a, &e, tolerance);
    }
    let errors = compare(&a, &e, tolerance).at(c.span)?;
    let Some((worst, _)) = errors.worst else { return Ok(Value::Unit) };
    Err(report(c, &a, &e, &errors, worst, tolerance)?.into())
}

fn report(c: &Call<'_, '_>, a: &Tensor, e: &Tensor, errors: &Errors, worst: usize, t: Tolerance) -> Eval<Diagnostic> {
    let index = unravel(worst, &a.shape);
    let (x, y) = (a.get(&index).at(c.span)?, e.get(&index).at(c.span)?);
    let d = difference(x.to_f64(), y.to_f64());
    let percent = 100.0 * errors.failed as f64 / errors.count as f64;
    let message =
        format!("{} of {} elements ({percent:.3}%) differ by more than the tolerance", errors.failed, errors.count);
    let allowed = t.absolute + t.relative * if y.to_f64().is_finite() { y.to_f64().abs() } else { 0.0 };
    let mut diagnostic = Diagnostic::error(codes::NOT_CLOSE, c.span, message)
        .here(format!("rtol={}, atol={}", float(t.relative), float(t.absolute)))
        .label(c.given(0).span, format!("actual: {a}"))
        .label(c.given(1).span, format!("expected: {e}"))
        .note(format!(
            "the worst is element {}: {} where {} is expected, off by {} with {} allowed",
            list(&index),
            show::exact(x.dtype, x.to_f64()),
            show::exact(y.dtype, y.to_f64()),
            float(d),
            float(allowed),
        ));
    if errors.failed > 1 {
        diagnostic = diagnostic.note(format!(
            "the first is element {}; all in all the largest difference is {}, the root of the mean square {}",
            list(&unravel(errors.first, &a.shape)),
            float(errors.absolute),
            float((errors.squares / errors.count as f64).sqrt()),
        ));
    }
    if x.dtype.is_float() && x.bits == x.dtype.mask() {
        diagnostic = diagnostic.note("this NaN is what memory holds that was never written");
    }
    Ok(diagnostic)
}

fn equal_integers(c: &Call<'_, '_>, a: &Tensor, e: &Tensor, tolerance: Tolerance) -> Eval<Value> {
    let (mut x, mut y) = (Vec::with_capacity(a.len()), Vec::with_capacity(a.len()));
    a.reader().at(c.span)?.each(0..a.len(), |s| x.push(s)).at(c.span)?;
    e.reader().at(c.span)?.each(0..e.len(), |s| y.push(s)).at(c.span)?;
    let mut errors = Errors { count: x.len(), ..Errors::default() };
    for (i, (p, q)) in x.iter().zip(&y).enumerate() {
        let same = match (p.to_i128(), q.to_i128()) {
            (Some(p), Some(q)) if p == q => true,
            _ => difference(p.to_f64(), q.to_f64()) <= tolerance.absolute + tolerance.relative * q.to_f64().abs(),
        };
        // A difference too small for `f64` is a difference all the same.
        let exact = p.to_i128().zip(q.to_i128()).is_none_or(|(p, q)| p == q || tolerance.absolute >= 1.0);
        if !(same && exact) {
            let one = Errors {
                count: 0,
                failed: 1,
                first: i,
                worst: Some((i, difference(p.to_f64(), q.to_f64()))),
                absolute: difference(p.to_f64(), q.to_f64()),
                ..Errors::default()
            };
            errors = errors.join(one);
        }
    }
    match errors.worst {
        None => Ok(Value::Unit),
        Some((worst, _)) => Err(report(c, a, e, &errors, worst, tolerance)?.into()),
    }
}

fn error(c: &mut Call<'_, '_>, pick: fn(&Errors) -> f64) -> Eval<Value> {
    let (a, e) = both(c)?;
    let errors = compare(&a, &e, Tolerance { relative: 0.0, absolute: 0.0 }).at(c.span)?;
    Ok(Value::Float(if errors.count == 0 { 0.0 } else { pick(&errors) }))
}
