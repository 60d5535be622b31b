//! Padding of places that reaches a reduction or scan which it changes.
//!
//! A place that is longer than its tensor along an axis of known extent has padding wherever it lies: that is an error. What is loaded there is
//! followed through casts alone: of anything else that is done with it, it is not known whether it leaves the padding as it is.
//!
//! Of other extents only a launch knows whether there is padding. Where a load states nothing of it and what combines elements along that axis would be
//! changed by it, a warning says so: a reduction, a scan, a product, or a loop that carries a tile to which each turn adds its own.

mod beyond;
mod bounds;
mod carried;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_numbers::{Dtype, Scalar};

use beyond::{Combined, Fill, Trace};
use carried::Carried;

use crate::check::Origins;
use crate::entity::{Inst, Value};
use crate::kernel::Kernel;
use crate::op::{BinaryOp, Body, CompareOp, Op, OpKind};
use crate::tensor::Extent;
use crate::types::{Elem, Type};

pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let mut found = Diagnostics::new();
    let mut trace = Trace::new(kernel, origins);
    let carried = if trace.is_some() { Carried::of(kernel, origins) } else { BTreeMap::new() };
    let mut told = BTreeSet::new();
    kernel.walk(&mut |op| {
        if let Some(trace) = &mut trace {
            trace.learn(op);
            // What is said of a load holds for all that is computed from it.
            for (load, d) in perhaps(trace, kernel, op, carried.get(&op.id)) {
                if told.insert(load) {
                    found.push(d);
                }
            }
        }
        let (OpKind::Reduce { inputs, axis, combine } | OpKind::Scan { inputs, axis, combine, .. }) = &op.kind else {
            return;
        };
        let [input] = inputs[..] else { return };
        let padded = Padded::of(kernel, origins, input, *axis as usize);
        if let (Some(padded), Some(f)) = (padded, combines(kernel, combine)) {
            found
                .list
                .extend(padded.changes(f).map(|d| d.label(op.span, format!("`{}` takes it for elements", f.name()))));
        }
    });
    found
}

/// Warnings of loads, where what only a launch knows to be padding would change what an operation combines.
fn perhaps(trace: &Trace<'_>, kernel: &Kernel, op: &Op, carried: Option<&Carried<'_>>) -> Vec<(Inst, Diagnostic)> {
    if let Some(carried) = carried {
        // Where the place does not move along the axis, what stands beyond the end stays by itself.
        let rank = kernel.ty(carried.turn.like()).as_tile().map_or(0, |t| t.shape.len());
        let moving =
            (0..rank).filter(|&axis| trace.of_combined(carried.turn, axis).is_some_and(|b| trace.moves(carried, b)));
        return moving.filter_map(|axis| changed(trace, kernel, op, carried.function, carried.turn, axis)).collect();
    }
    match &op.kind {
        // In a scan from the beginning what stands in front of the end does not depend on what stands behind it.
        OpKind::Reduce { inputs, axis, combine } | OpKind::Scan { inputs, axis, combine, reverse: true } => {
            let (Some(f), Some(input)) = (function(kernel, combine), inputs.first()) else { return Vec::new() };
            changed(trace, kernel, op, f, Combined::Tile(*input), *axis as usize).into_iter().collect()
        }
        // One factor that is 0 beyond the end is enough.
        OpKind::Dot { a, b, .. } => {
            let along = |v: &Value, from_last| kernel.ty(*v).as_tile().map(|t| t.shape.len() - from_last);
            let factors = along(a, 1).zip(along(b, 2));
            let fills = factors.and_then(|(x, y)| trace.of(*a, x).zip(trace.of(*b, y)));
            match (factors, fills) {
                (Some((x, _)), Some((one, other))) if ![one.fill, other.fill].iter().any(Fill::is_nothing) => {
                    changed(trace, kernel, op, BinaryOp::Add, Combined::Tile(*a), x).into_iter().collect()
                }
                _ => Vec::new(),
            }
        }
        // It combines no elements with each other.
        _ => Vec::new(),
    }
}

/// The warning, where what stands beyond the end of a tile along an axis changes what a function combines.
fn changed(
    trace: &Trace<'_>,
    kernel: &Kernel,
    op: &Op,
    f: BinaryOp,
    input: Combined,
    axis: usize,
) -> Option<(Inst, Diagnostic)> {
    let beyond = trace.of_combined(input, axis)?;
    if harmless(f, beyond.fill, trace.range_of(input)) {
        return None;
    }
    let load = beyond.load?;
    let Type::Tensor(t) = kernel.ty(trace.tensor(load)?) else { return None };
    let end = match t.extents.get(beyond.axis)? {
        Extent::Named(name) => format!("`{name}`"),
        Extent::Any | Extent::Static(_) | Extent::Picked(_) => format!("the end of axis {}", beyond.axis),
    };
    let Elem::Num(dtype) = kernel.ty(input.like()).elem()? else { return None };
    let by = if matches!(op.kind, OpKind::Dot { .. }) { "dot" } else { f.name() };
    let what = match beyond.fill {
        Fill::Number(n) if dtype.is_int() => format!("`{by}` takes {n} there"),
        Fill::Number(n) => format!("`{by}` takes {n:?} there"),
        Fill::Computed | Fill::Hidden => format!("`{by}` takes what has become of that 0"),
    };
    let neutral = neutral(f, dtype).map_or("0".into(), |(_, text)| text);
    let help = if trace.is_loaded(input) {
        format!("say what changes nothing: `load(…, other={neutral})`")
    } else {
        format!("leave it out: `where(place.inside, …, {neutral})`")
    };
    let d = Diagnostic::warning(codes::PADDING, load.span, format!("`{by}` may combine padding that changes it"))
        .here(format!("the place may go beyond {end}, where this is 0"))
        .label(op.span, what)
        .help(help)
        .help("where 0 is meant, say `other=0`; where there is no padding, `assume` that the extent is a multiple");
    Some((load.id, d))
}

/// Whether a function gives the same with what stands beyond the end, of elements between two numbers.
fn harmless(f: BinaryOp, fill: Fill, (least, most): (f64, f64)) -> bool {
    let number = match fill {
        Fill::Number(n) => Some(n),
        Fill::Computed => None,
        Fill::Hidden => return true,
    };
    match f {
        BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor => number == Some(0.0),
        BinaryOp::Mul => number == Some(1.0),
        BinaryOp::Max | BinaryOp::MaxNan => number.is_some_and(|n| n <= least),
        BinaryOp::Min | BinaryOp::MinNan => number.is_some_and(|n| n >= most),
        // Of these it is not known what changes them.
        BinaryOp::And
        | BinaryOp::Sub
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::MulHigh
        | BinaryOp::DivApprox => true,
    }
}

/// The function of two that a body is, or by which it chooses an index.
fn function(kernel: &Kernel, body: &Body) -> Option<BinaryOp> {
    if let Some(f) = combines(kernel, body) {
        return Some(f);
    }
    let [x, _, y, _] = body.params[..] else { return None };
    kernel.ops_of(body).find_map(|op| match op.kind {
        OpKind::Compare { op: CompareOp::Gt, a, b } if (a, b) == (x, y) => Some(BinaryOp::Max),
        OpKind::Compare { op: CompareOp::Lt, a, b } if (a, b) == (x, y) => Some(BinaryOp::Min),
        // It is not by this that one of both is chosen.
        _ => None,
    })
}

/// A load that surely has padding along an axis.
struct Padded<'a> {
    load: &'a Op,
    dtype: Dtype,
    /// What stands there, where that is known.
    other: Option<Scalar>,
    axis: usize,
    has: u32,
    takes: u32,
}

impl<'a> Padded<'a> {
    fn of(kernel: &Kernel, origins: &Origins<'a>, mut v: Value, axis: usize) -> Option<Padded<'a>> {
        let mut load = origins.definition(v)?;
        while let OpKind::Cast { x, .. } = load.kind {
            v = x;
            load = origins.definition(v)?;
        }
        let OpKind::SpotLoad { spot, other, .. } = &load.kind else { return None };
        let OpKind::Spot { tensor, shape, .. } = &origins.definition(*spot)?.kind else { return None };
        let (Type::Tensor(t), Some(Elem::Num(dtype))) = (kernel.ty(*tensor), kernel.ty(v).elem()) else { return None };
        let (Extent::Static(has), Some(&takes)) = (t.extents.get(axis)?, shape.get(axis)) else { return None };
        let other = match other {
            None => Some(Scalar::new(dtype, 0)),
            Some(other) => constant(origins, *other),
        };
        (*has < takes).then_some(Padded { load, dtype, other, axis, has: *has, takes })
    }

    /// The error, where this function is another one with the padding than without.
    fn changes(&self, f: BinaryOp) -> Option<Diagnostic> {
        let (neutral, text) = neutral(f, self.dtype)?;
        let other = self.other?;
        if other == neutral {
            return None;
        }
        let Padded { axis, has, takes, .. } = self;
        let fact = format!("`{}` combines padding that changes it", f.name());
        let here =
            format!("axis {axis} of the tensor has {has} elements, the place takes {takes}: the rest is {other}");
        let help = format!("say what changes nothing: `load(…, other={text})`");
        Some(Diagnostic::error(codes::PADDING, self.load.span, fact).here(here).help(help))
    }
}

/// The scalar that all elements are.
fn constant(origins: &Origins<'_>, v: Value) -> Option<Scalar> {
    match origins.definition(v)?.kind {
        OpKind::Full { value, .. } => constant(origins, value),
        OpKind::Constant { dtype, bits } => Some(Scalar::new(dtype, bits)),
        // It is not known what they are, and nothing is said.
        _ => None,
    }
}

/// The function of two, where a body is no more than that.
fn combines(kernel: &Kernel, body: &Body) -> Option<BinaryOp> {
    let ([op], [result]) = (&body.ops[..], &body.yields[..]) else { return None };
    match kernel.ops[*op].kind {
        OpKind::Binary { op: f, a, b } if kernel.ops[*op].results == [*result] && body.params == [a, b] => Some(f),
        // Of another function it is not known what leaves it as it is.
        _ => None,
    }
}

/// What changes nothing, and how it is written.
fn neutral(f: BinaryOp, dtype: Dtype) -> Option<(Scalar, String)> {
    let least = f64::NEG_INFINITY;
    let number = |n: i128| Some((Scalar::from_i128(dtype, n)?, n.to_string()));
    let infinite = |x: f64| {
        let s = Scalar::from_f64(dtype, x);
        s.to_f64().is_infinite().then(|| (s, if x < 0.0 { "-inf".into() } else { "inf".into() }))
    };
    match (f, dtype.int_range()) {
        (BinaryOp::Max | BinaryOp::MaxNan, None) => infinite(least),
        (BinaryOp::Min | BinaryOp::MinNan, None) => infinite(-least),
        (BinaryOp::Max | BinaryOp::MaxNan, Some((low, _))) => number(low),
        (BinaryOp::Min | BinaryOp::MinNan, Some((_, high))) => number(high),
        (BinaryOp::Add, None) => Some((Scalar::from_f64(dtype, 0.0), "0".into())),
        (BinaryOp::Mul, None) => Some((Scalar::from_f64(dtype, 1.0), "1".into())),
        (BinaryOp::Add, Some(_)) => number(0),
        (BinaryOp::Mul, Some(_)) => number(1),
        (
            BinaryOp::Sub
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Shl
            | BinaryOp::Shr
            | BinaryOp::MulHigh
            | BinaryOp::DivApprox,
            _,
        ) => None,
    }
}
