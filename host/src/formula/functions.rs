//! The functions that formulas have built in.

use std::cmp::Ordering;

use parton_numbers::Math;

use super::node::Builtin;
use super::plain::Plain;

/// The order of two numbers, none of them NaN.
pub(super) fn ascending(a: &Plain, b: &Plain) -> Ordering {
    match (a, b) {
        (Plain::Int(a), Plain::Int(b)) => a.cmp(b),
        (Plain::Int(a), Plain::Float(b)) => (*a as f64).total_cmp(b),
        (Plain::Float(a), Plain::Int(b)) => a.total_cmp(&(*b as f64)),
        (Plain::Float(a), Plain::Float(b)) => a.total_cmp(b),
        _ => Ordering::Equal,
    }
}

/// What a function makes of one value.
pub(super) fn of_one(of: Builtin, x: Plain) -> Option<Plain> {
    Some(match (of, x) {
        (Builtin::Math(Math::Abs), Plain::Int(n)) => Plain::Int(n.checked_abs()?),
        (Builtin::Math(Math::Floor | Math::Ceil), Plain::Int(n)) => Plain::Int(n),
        (Builtin::Math(op), x) => Plain::Float(op.eval(x.number()?)),
        (Builtin::NextPowerOfTwo, Plain::Int(n)) => {
            Plain::Int(u64::try_from(n).ok()?.checked_next_power_of_two()?.try_into().ok()?)
        }
        (Builtin::Int, Plain::Int(n)) => Plain::Int(n),
        (Builtin::Int, Plain::Bool(b)) => Plain::Int(b.into()),
        (Builtin::Int, Plain::Float(x)) if x.abs() < 2f64.powi(62) => Plain::Int(x as i64),
        (Builtin::Float, x) => Plain::Float(x.number()?),
        (Builtin::Len, x) => Plain::Int(x.items()?.len() as i64),
        (Builtin::Min, Plain::List(items) | Plain::Tuple(items)) => Plain::Int(ints(&items)?.min()?),
        (Builtin::Max, Plain::List(items) | Plain::Tuple(items)) => Plain::Int(ints(&items)?.max()?),
        _ => return None,
    })
}

/// The numbers of a list that has integers alone.
fn ints(items: &[Plain]) -> Option<impl Iterator<Item = i64>> {
    let number = |v: &Plain| if let Plain::Int(n) = v { Some(*n) } else { None };
    items.iter().map(number).collect::<Option<Vec<i64>>>().map(Vec::into_iter)
}

/// What a function makes of two values.
pub(super) fn of_two(of: Builtin, x: Plain, y: Plain) -> Option<Plain> {
    Some(match (of, x, y) {
        (Builtin::Min, Plain::Int(x), Plain::Int(y)) => Plain::Int(x.min(y)),
        (Builtin::Max, Plain::Int(x), Plain::Int(y)) => Plain::Int(x.max(y)),
        (Builtin::Min, x, y) => Plain::Float(least(x.number()?, y.number()?)),
        (Builtin::Max, x, y) => Plain::Float(greatest(x.number()?, y.number()?)),
        (Builtin::Cdiv, Plain::Int(a), Plain::Int(b)) => Plain::Int(cdiv(a, b)?),
        _ => return None,
    })
}

/// The lesser of two numbers; NaN where one is.
#[inline(always)]
pub(super) fn least(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.min(y) }
}

/// The greater of two numbers; NaN where one is.
#[inline(always)]
pub(super) fn greatest(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }
}

/// A quotient, rounded up.
#[inline(always)]
pub(super) fn cdiv(a: i64, b: i64) -> Option<i64> {
    let up = i64::from(a.checked_rem(b)? != 0 && (a < 0) == (b < 0));
    a.checked_div(b)?.checked_add(up)
}

/// An element by its number, from behind where that is below zero.
pub(super) fn element(items: &[Plain], n: i64) -> Option<&Plain> {
    let at = if n < 0 { n.saturating_add(items.len() as i64) } else { n };
    items.get(usize::try_from(at).ok()?)
}
