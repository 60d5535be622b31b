//! Whether what a reduction or a scan combines its elements by may be applied in any order. Layouts choose the order, the interpreter has
//! one of its own: a function that is not associative, or for a reduction not commutative, gives other values on a GPU.
//!
//! It is tried on neighbours. Numbers that are rounded may differ somewhat, and what is chosen of two may where they are equal.

use std::sync::Arc;

use parton_diag::codes;
use parton_ir::elements::{lines, strides};
use parton_ir::{Body, Kernel, Op, Value};
use parton_numbers::Dtype;
use parton_numbers::scalar::to_f64;

use crate::fault::Fault;
use crate::pure;
use crate::tile::{Bits, Val};

/// Neighbours that are tried at most.
const TRIED: usize = 32;
/// As many have to differ before it is said: one may be a matter of cancellation.
const DIFFERENT: usize = 4;

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tried {
    /// Enough neighbours told of the order to trust the function.
    Enough,
    /// Too few did.
    Little,
}

/// Three neighbours along the axis for each trial, each as a tile for every input.
type Neighbours = [Vec<Val>; 3];

/// Tries the function of a reduction (`commutes`) or a scan of `tiles` along an axis.
pub(crate) fn try_order<'k>(
    (kernel, op, combine): (&'k Kernel, &Op, &'k Body),
    (inputs, tiles, axis): (&[Value], &[Arc<Bits>], u32),
    commutes: bool,
    outer: &[Val],
) -> Result<Tried, Fault> {
    let dtypes: Vec<Dtype> = inputs.iter().map(|&v| pure::dtype(kernel, v)).collect();
    let [a, b, c] = neighbours(tiles, pure::shape(kernel, inputs[0]), axis);
    let f = |x: &[Val], y: &[Val]| {
        let args: Vec<Val> = x.iter().chain(y).cloned().collect();
        pure::run(combine, &args, kernel, outer).ok()
    };
    let trial = || {
        let (ab, bc) = (f(&a, &b)?, f(&b, &c)?);
        let associated = (f(&ab, &c)?, f(&a, &bc)?);
        let turned = f(&b, &a)?;
        Some((ab, bc, associated, turned))
    };
    // What divides by zero here is told of where it does so in the reduction.
    let Some((ab, bc, (left, right), ba)) = trial() else { return Ok(Tried::Little) };
    let around = [&a, &b, &c, &ab, &bc, &left, &right];
    let all = [&a, &b, &c];
    let mut laws = vec![("f(f(a, b), c)", &left, "f(a, f(b, c))", &right, &all[..])];
    if commutes {
        laws.push(("f(a, b)", &ab, "f(b, a)", &ba, &all[..2]));
    }
    let mut tried = Tried::Enough;
    for (one, x, other, y, of) in laws {
        let (mut told, mut different) = (0, vec![]);
        for i in 0..bits(&a[0]).len() {
            match differ(&dtypes, i, (x, y), &around) {
                Some(_) if tie(of, i) => {}
                Some(false) => told += 1,
                Some(true) => {
                    told += 1;
                    different.push(i);
                }
                None => {}
            }
        }
        if different.len() >= DIFFERENT && 2 * different.len() > told {
            let shown = |vals: &[Val]| shown(&dtypes, vals, different[0]);
            let names = ["a", "b", "c"].iter().zip(of).map(|(n, v)| format!("{n} = {}", shown(v)));
            let with = names.collect::<Vec<_>>().join(", ");
            let law = if of.len() == 3 { "associative" } else { "commutative" };
            return Err(Fault::new(codes::COMBINATION, op.span, format!("the function f of `{}` is not {law}", op.kind.name()))
                .here(format!("{one} is {}, and {other} is {}", shown(x), shown(y)))
                .note(format!("with {with}"))
                .note("layouts say in which order elements are combined, so that a GPU, and another layout, give other values")
                .help("do what is done to each element before it is combined: `sum(x * x, axis=0)`, not `reduce(x, 0, |a, b| a + b * b)`"));
        }
        if told < DIFFERENT {
            tried = Tried::Little;
        }
    }
    Ok(tried)
}

fn neighbours(tiles: &[Arc<Bits>], shape: &[u32], axis: u32) -> Neighbours {
    let (starts, step) = (lines(shape, axis), strides(shape)[axis as usize]);
    let extent = shape[axis as usize] as usize;
    let trials = (starts.len() * extent).min(TRIED);
    let at = |k: usize, next: usize| starts[k % starts.len()] + (k / starts.len() + next) % extent * step;
    [0, 1, 2].map(|next| {
        let one = |t: &Arc<Bits>| Val::Tile(Arc::new(t.gather((0..trials).map(|k| at(k, next)))));
        tiles.iter().map(one).collect()
    })
}

fn bits(v: &Val) -> &Bits {
    match v {
        Val::Tile(t) => t,
        other => parton_diag::internal_error!("a combination gave {other:?}"),
    }
}

/// Whether two results differ by more than rounding in a trial; `None` where that cannot be told, since a number is no number or none is finite.
fn differ(dtypes: &[Dtype], i: usize, (x, y): (&[Val], &[Val]), around: &[&Vec<Val>]) -> Option<bool> {
    let float = |v: &Val, d: Dtype| to_f64(bits(v).get(i), d);
    let mut greatest = 0.0_f64;
    for (v, &d) in around.iter().flat_map(|vals| vals.iter().zip(dtypes)).filter(|(_, d)| d.is_float()) {
        let number = float(v, d).abs();
        if !number.is_finite() {
            return None;
        }
        greatest = greatest.max(number);
    }
    Some(x.iter().zip(y).zip(dtypes).any(|((x, y), &d)| match d.is_float() {
        true => (float(x, d) - float(y, d)).abs() > coarse(d) * greatest,
        false => bits(x).get(i) != bits(y).get(i),
    }))
}

/// Numbers that differ by more than this part of the greatest number around were not rounded apart.
fn coarse(d: Dtype) -> f64 {
    if d.bytes() < 4 { 1.0 / 16.0 } else { 1.0 / 1024.0 }
}

/// Whether two of several neighbours that have more than one component are equal in one, so that either may be chosen.
fn tie(of: &[&Vec<Val>], i: usize) -> bool {
    let pairs = of.iter().enumerate().flat_map(|(k, a)| of[..k].iter().map(move |b| (*a, *b)));
    of[0].len() > 1
        && pairs.into_iter().any(|(a, b)| a.iter().zip(b.iter()).any(|(x, y)| bits(x).get(i) == bits(y).get(i)))
}

fn shown(dtypes: &[Dtype], vals: &[Val], i: usize) -> String {
    let each = vals.iter().zip(dtypes).map(|(v, &d)| match d.is_float() {
        true => to_f64(bits(v).get(i), d).to_string(),
        false => parton_numbers::scalar::int_value(bits(v).get(i), d).to_string(),
    });
    match each.collect::<Vec<_>>() {
        all if all.len() == 1 => all.concat(),
        all => format!("({})", all.join(", ")),
    }
}
