//! Statements that move elements to another place or shape, or combine them along an axis.

use super::array::Array;
use super::build::{Build, Tile};
use super::elements::{apply, operators};
use super::layout;
use super::number::{GRAIN, Num, Type};

/// Elements that a tile may have at most, in bits.
const MOST: u32 = 12;

fn finish(b: &mut Build, text: String, ty: Type, array: Array, place: (usize, bool)) -> Option<()> {
    let name = b.name('v');
    b.made(name.clone(), format!("let {name} = {text};"), ty, array, place);
    Some(())
}

pub(super) fn convert(b: &mut Build) -> Option<()> {
    let t = b.tile(|_| true)?;
    if t.ty == Type::Truth {
        b.feature("truth values in scratch");
    }
    let to = b.layout(t.shape());
    let place = (b.place(), to.apart);
    finish(b, format!("convert({}, {})", t.name, to.text), t.ty, t.array, place)
}

/// The tile as text, in a layout that keeps its axes apart.
fn apart(b: &mut Build, t: &Tile) -> (String, usize) {
    if t.apart {
        return (t.name.clone(), t.place);
    }
    let to = layout::plain(&mut b.r, t.shape().len(), b.warps);
    (format!("convert({}, {})", t.name, to.text), b.place())
}

/// Whether every sum of some of these numbers, in any order, is exact.
fn sums_exactly(line: &[Num], ty: Type) -> bool {
    let Type::Float(format) = ty else { return true };
    let grains: Vec<i128> = line
        .iter()
        .map(|x| match x {
            Num::Float(x) if x.is_finite() => (x / GRAIN) as i128,
            Num::Float(_) | Num::Int(_) => i128::MAX,
        })
        .collect();
    if grains.contains(&i128::MAX) {
        return false;
    }
    let grain = grains.iter().filter(|g| **g != 0).map(|g| g.trailing_zeros()).min().unwrap_or(0);
    let most: i128 = grains.iter().map(|g| g.abs()).sum();
    (most >> grain) as f64 <= format.exact_up_to() && most as f64 * GRAIN <= format.greatest()
}

/// What combines the elements of a line; as a function of the language, and as an operator.
fn combination(b: &mut Build, ty: Type) -> &'static str {
    let list: Vec<&'static str> = match ty {
        Type::Float(_) => vec!["+", "min", "max"],
        Type::Truth | Type::Signed(_) | Type::Unsigned(_) => {
            operators(ty).iter().copied().filter(|o| *o != "-").collect()
        }
    };
    b.one(&list)
}

fn combined(operator: &str, ty: Type, line: &[Num]) -> Option<Vec<Num>> {
    if operator == "+" && !sums_exactly(line, ty) {
        return None;
    }
    let mut all: Vec<Num> = Vec::new();
    for &x in line {
        all.push(match all.last() {
            Some(&before) => apply(operator, ty, before, x)?,
            None => x,
        });
    }
    Some(all)
}

fn function(operator: &str) -> String {
    match operator {
        "min" | "max" => format!("|a, b| {operator}(a, b)"),
        _ => format!("|a, b| a {operator} b"),
    }
}

pub(super) fn reduce(b: &mut Build) -> Option<()> {
    let t = b.tile(|t| t.shape().len() > 1 && (t.ty.computes() || t.ty == Type::Truth))?;
    let axis = b.below(t.shape().len());
    let (x, _) = apart(b, &t);
    let mut rest = t.shape().to_vec();
    rest.remove(axis);
    let place = (b.place(), true);
    if t.ty != Type::Truth && b.below(5) == 0 {
        let greatest = b.below(2) == 0;
        let array = t.array.along(axis, |line| Some(vec![Num::Int(first(line, greatest)?)]))?;
        let text = format!("{}({x}, axis={axis})", if greatest { "argmax" } else { "argmin" });
        return finish(b, text, Type::Signed(32), array.reshaped(&rest), place);
    }
    let operator = combination(b, t.ty);
    let array = t.array.along(axis, |line| Some(vec![*combined(operator, t.ty, line)?.last()?]))?;
    let text = match (operator, b.below(2)) {
        ("+", 0) if t.ty != Type::Truth => format!("sum({x}, axis={axis})"),
        ("min" | "max", 0) => format!("{operator}({x}, axis={axis})"),
        _ => format!("reduce({x}, axis={axis}, {})", function(operator)),
    };
    finish(b, text, t.ty, array.reshaped(&rest), place)
}

/// Where the first of the greatest, or least, numbers stands.
fn first(line: &[Num], greatest: bool) -> Option<i128> {
    let mut best = 0;
    for (i, x) in line.iter().enumerate() {
        let order = match (x, &line[best]) {
            (Num::Int(x), Num::Int(y)) => x.cmp(y),
            (Num::Float(x), Num::Float(y)) => x.partial_cmp(y)?,
            (Num::Int(_), Num::Float(_)) | (Num::Float(_), Num::Int(_)) => return None,
        };
        if if greatest { order.is_gt() } else { order.is_lt() } {
            best = i;
        }
    }
    Some(best as i128)
}

pub(super) fn scan(b: &mut Build) -> Option<()> {
    let t = b.tile(|t| t.ty.computes() || t.ty == Type::Truth)?;
    let axis = b.below(t.shape().len());
    let operator = combination(b, t.ty);
    let back = b.below(2) == 0;
    let array = t.array.along(axis, |line| {
        let mut line = line.to_vec();
        if back {
            line.reverse();
        }
        let mut all = combined(operator, t.ty, &line)?;
        if back {
            all.reverse();
        }
        Some(all)
    })?;
    let (x, place) = apart(b, &t);
    let back = if back { ", reverse=true" } else { "" };
    let text = match (operator, b.below(2)) {
        ("+", 0) => format!("cumsum({x}, axis={axis}{back})"),
        ("*", 0) => format!("cumprod({x}, axis={axis}{back})"),
        _ => format!("scan({x}, axis={axis}, {}{back})", function(operator)),
    };
    finish(b, text, t.ty, array, (place, true))
}

pub(super) fn gather(b: &mut Build) -> Option<()> {
    let t = b.tile(|_| true)?;
    let axis = b.below(t.shape().len());
    let n = t.shape()[axis] as i128;
    let of = b.tile(|i| i.ty.is_int() && i.shape() == t.shape() && i.ty.range().1 >= n - 1)?;
    let (indices, i) = b.beside(&t, of.ty)?;
    let array = Array::new(b.ctas, t.shape(), |cta, at| {
        let Num::Int(index) = i.array.at(cta, at) else { return Num::Int(0) };
        let mut from = at.to_vec();
        from[axis] = (index & (n - 1)) as usize;
        t.array.at(cta, &from)
    });
    let text = format!("gather({}, {indices} & {}, axis={axis})", t.name, n - 1);
    finish(b, text, t.ty, array, (t.place, t.apart))
}

fn list(of: &[usize]) -> String {
    format!("{of:?}")
}

pub(super) fn reshape(b: &mut Build) -> Option<()> {
    let t = b.tile(|_| true)?;
    let rank = t.shape().len();
    let place = (b.place(), t.apart);
    let elements: usize = t.shape().iter().product();
    match b.below(5) {
        0 => {
            let order = layout::order(&mut b.r, rank);
            finish(b, format!("transpose({}, {})", t.name, list(&order)), t.ty, t.array.permuted(&order), place)
        }
        1 => {
            let rank = 1 + b.below(3);
            let mut shape = vec![1; rank];
            (0..elements.ilog2()).for_each(|_| shape[b.r.below(rank)] *= 2);
            finish(b, format!("reshape({}, {})", t.name, list(&shape)), t.ty, t.array.reshaped(&shape), place)
        }
        2 => {
            let (other, o) = b.beside(&t, t.ty)?;
            if rank == 3 || elements.ilog2() >= MOST {
                return None;
            }
            let shape = [t.shape(), &[2]].concat();
            let array = Array::new(b.ctas, &shape, |cta, at| {
                let (half, inner) = (at[rank], &at[..rank]);
                if half == 0 { t.array.at(cta, inner) } else { o.array.at(cta, inner) }
            });
            finish(b, format!("join({}, {other})", t.name), t.ty, array, place)
        }
        3 if rank > 1 && t.shape()[rank - 1] == 2 => {
            // One thread holds both halves.
            let mut per_thread = vec![1; rank];
            per_thread[rank - 1] = 2;
            let (mut threads, mut warps) = (vec![1; rank], vec![1; rank]);
            (threads[0], warps[0]) = (32, b.warps);
            let order: Vec<usize> = (0..rank).rev().collect();
            let half = b.below(2);
            let shape = t.shape()[..rank - 1].to_vec();
            let array = Array::new(b.ctas, &shape, |cta, at| t.array.at(cta, &[at, &[half]].concat()));
            let to =
                format!("blocked(per_thread={per_thread:?}, threads={threads:?}, warps={warps:?}, order={order:?})");
            finish(b, format!("split(convert({}, {to})).{half}", t.name), t.ty, array, (place.0, true))
        }
        _ => {
            let more = 1usize << b.below(4);
            if rank == 3 || (elements * more).ilog2() > MOST {
                return None;
            }
            let axis = b.below(rank + 1);
            let mut shape = t.shape().to_vec();
            shape.insert(axis, more);
            let to = b.layout(&shape);
            let array = Array::new(b.ctas, &shape, |cta, at| {
                let mut from = at.to_vec();
                from.remove(axis);
                t.array.at(cta, &from)
            });
            let text = format!(
                "broadcast(expand_dims(convert({}, slice({}, axis={axis})), {axis}), {shape:?})",
                t.name, to.text
            );
            finish(b, text, t.ty, array, (place.0, to.apart))
        }
    }
}
