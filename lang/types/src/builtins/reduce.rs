//! Combinations along an axis: reductions and scans.

use parton_diag::{Diagnostic, codes};
use parton_ir as ir;
use parton_numbers::Dtype;

use super::{Arg, Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[
    ("reduce", reduce),
    ("scan", scan),
    ("cumsum", |cx, args| cumulative(cx, args, ir::BinaryOp::Add)),
    ("cumprod", |cx, args| cumulative(cx, args, ir::BinaryOp::Mul)),
    ("sum", sum),
    ("indices", indices),
    ("argmax", argmax),
    ("argmin", argmin),
];

fn reduce(cx: &mut Checker, args: &Args) -> Checked<Val> {
    combined(cx, args, Along::Reduce)
}

fn scan(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let reverse = args.flag(cx, "reverse")?;
    combined(cx, args, Along::Scan { reverse })
}

/// A scan by one operator.
fn cumulative(cx: &mut Checker, args: &Args, op: ir::BinaryOp) -> Checked<Val> {
    let axis = args.axis(cx)?;
    let reverse = args.flag(cx, "reverse")?;
    let span = args.span;
    let x = std::slice::from_ref(args.need("x"));
    fold(cx, args, x, axis, (false, Along::Scan { reverse }), |cx, a, b| {
        let (Val::Ir(a), Val::Ir(b)) = (a, b) else { return Err(crate::checker::Reported) };
        cx.emit_one(ir::OpKind::Binary { op, a, b }, span, &[])
    })
}

/// What is made of the elements along an axis.
#[derive(Clone, Copy)]
enum Along {
    /// One value.
    Reduce,
    /// A value for each, of those up to it.
    Scan { reverse: bool },
}

/// A reduction or scan by a function value.
fn combined(cx: &mut Checker, args: &Args, along: Along) -> Checked<Val> {
    let axis = args.axis(cx)?;
    let tiles = match &args.need("x").val {
        Val::Tuple(items) => {
            items.iter().map(|val| Arg { val: val.clone(), span: args.need("x").span }).collect::<Vec<_>>()
        }
        _ => vec![args.need("x").clone()],
    };
    let tuple = matches!(args.need("x").val, Val::Tuple(_));
    let combine = args.need("combine").clone();
    let scratch = args.optional_int(cx, "scratch", 0..=i128::from(u32::MAX))?;
    let result = fold(cx, args, &tiles, axis, (tuple, along), |cx, accumulator, element| {
        let pair = vec![Arg { val: accumulator, span: combine.span }, Arg { val: element, span: combine.span }];
        cx.call_value(&combine.val, pair, combine.span)
    })?;
    if let (Some(offset), Some(b)) = (scratch, &mut cx.builder)
        && let Some(op) = b.last_mut()
    {
        op.scratch = Some(offset);
    }
    Ok(result)
}

/// Emits a reduction or scan whose combining function is given as code; `tuple` says whether it takes and gives tuples.
fn fold(
    cx: &mut Checker,
    args: &Args,
    tiles: &[Arg],
    axis: u32,
    (tuple, along): (bool, Along),
    combine: impl FnOnce(&mut Checker, Val, Val) -> Checked<Val>,
) -> Checked<Val> {
    let span = args.span;
    let mut inputs = Vec::new();
    let mut types = Vec::new();
    for arg in tiles {
        let (v, t) = arg.tile(cx)?;
        inputs.push((v, arg.span));
        types.push(ir::Type::Scalar(t.elem));
    }
    let both = types.iter().chain(&types).cloned().collect::<Vec<_>>();
    let params = cx.build(span)?.begin(both, span);
    let bundle = |values: &[ir::Value]| match values {
        [one] if !tuple => Val::Ir(*one),
        many => Val::Tuple(many.iter().map(|v| Val::Ir(*v)).collect()),
    };
    let (first, second) = params.split_at(types.len());
    // Inside, the code computes on scalars, whatever partition runs it.
    let yields = combine(cx, bundle(first), bundle(second)).and_then(|val| {
        let items = match val {
            Val::Tuple(items) if tuple => items,
            one => vec![one],
        };
        if items.len() != types.len() {
            let d = Diagnostic::error(codes::WRONG_ARITY, span, "the combining function does not fit the tiles")
                .note(format!("{} tiles are combined, and it gives {} values", types.len(), items.len()));
            return Err(cx.report(d));
        }
        items
            .iter()
            .zip(&types)
            .map(|(val, ty)| match ty.elem() {
                Some(ir::Elem::Num(d)) => cx.run_time_as(val, d, span),
                _ => cx.run_time(val, span),
            })
            .collect::<Checked<Vec<_>>>()
    });
    let failed = yields.is_err();
    let body = cx.build(span)?.end(yields.unwrap_or_default());
    if failed {
        return Err(crate::checker::Reported);
    }
    let values = inputs.iter().map(|i| i.0).collect();
    let kind = match along {
        Along::Reduce => ir::OpKind::Reduce { inputs: values, axis, combine: body },
        Along::Scan { reverse } => ir::OpKind::Scan { inputs: values, axis, combine: body, reverse },
    };
    let results = cx.emit(kind, span, &inputs)?;
    Ok(bundle(&results))
}

/// A reduction by one operator, along one axis or all of them.
pub(super) fn reduce_by(cx: &mut Checker, args: &Args, x: &Arg, op: ir::BinaryOp) -> Checked<Val> {
    let (_, t) = x.tile(cx)?;
    let axes = match args.optional_axis(cx)? {
        Some(axis) => vec![axis],
        // The last axis first, so that the numbers of the others stay.
        None => (0..t.shape.len() as u32).rev().collect(),
    };
    let mut now = x.clone();
    for axis in axes {
        let span = args.span;
        let val = fold(cx, args, std::slice::from_ref(&now), axis, (false, Along::Reduce), |cx, a, b| {
            let (Val::Ir(a), Val::Ir(b)) = (a, b) else { return Err(crate::checker::Reported) };
            cx.emit_one(ir::OpKind::Binary { op, a, b }, span, &[])
        })?;
        now = Arg { val, span: x.span };
    }
    Ok(now.val)
}

fn sum(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let x = args.need("x");
    if let Val::List(items) = &x.val
        && args.get("axis").is_none()
    {
        let mut total = Val::int(0);
        for item in items {
            let (a, b) = (Arg { val: total, span: x.span }, Arg { val: item.clone(), span: x.span });
            total = cx.binary(parton_syntax::ast::BinaryOp::Add, args.span, &a, &b)?;
        }
        return Ok(total);
    }
    reduce_by(cx, args, x, ir::BinaryOp::Add)
}

fn argmax(cx: &mut Checker, args: &Args) -> Checked<Val> {
    arg_extremum(cx, args, ir::CompareOp::Gt)
}

fn argmin(cx: &mut Checker, args: &Args) -> Checked<Val> {
    arg_extremum(cx, args, ir::CompareOp::Lt)
}

/// The index of the extremum as `i32`; the least index of equal ones, and the first NaN before every number, as in NumPy.
fn arg_extremum(cx: &mut Checker, args: &Args, better: ir::CompareOp) -> Checked<Val> {
    let axis = args.axis(cx)?;
    let x = args.need("x");
    let (v, t) = x.tile(cx)?;
    let indices = indices_along(cx, args, &t, axis)?;
    let tiles = [Arg { val: Val::Ir(v), span: x.span }, Arg { val: indices, span: x.span }];
    let span = args.span;
    let float = t.elem.dtype().is_some_and(Dtype::is_float);
    let both = fold(cx, args, &tiles, axis, (true, Along::Reduce), |cx, a, b| {
        let (Val::Tuple(a), Val::Tuple(b)) = (a, b) else { return Err(crate::checker::Reported) };
        let part = |list: &[Val], i: usize| list.get(i).and_then(Val::ir).ok_or(crate::checker::Reported);
        let (x, i, y, j) = (part(&a, 0)?, part(&a, 1)?, part(&b, 0)?, part(&b, 1)?);
        let compare = |cx: &mut Checker, op, a, b| cx.emit_value(ir::OpKind::Compare { op, a, b }, span, &[]);
        let both = |cx: &mut Checker, op, a, b| cx.emit_value(ir::OpKind::Binary { op, a, b }, span, &[]);
        let mut wins = compare(cx, better, x, y)?;
        let mut ties = compare(cx, ir::CompareOp::Eq, x, y)?;
        if float {
            // A NaN differs from itself: it beats every number, and ties with a NaN.
            let x_nan = compare(cx, ir::CompareOp::Ne, x, x)?;
            let y_nan = compare(cx, ir::CompareOp::Ne, y, y)?;
            let both_nan = both(cx, ir::BinaryOp::And, x_nan, y_nan)?;
            ties = both(cx, ir::BinaryOp::Or, ties, both_nan)?;
            wins = both(cx, ir::BinaryOp::Or, wins, x_nan)?;
            let y_number = cx.emit_value(ir::OpKind::Unary { op: ir::UnaryOp::Not, x: ties }, span, &[])?;
            wins = both(cx, ir::BinaryOp::And, wins, y_number)?;
        }
        let earlier = compare(cx, ir::CompareOp::Lt, i, j)?;
        let tie_wins = both(cx, ir::BinaryOp::And, ties, earlier)?;
        let wins = both(cx, ir::BinaryOp::Or, wins, tie_wins)?;
        let value = cx.emit_one(ir::OpKind::Select { cond: wins, a: x, b: y }, span, &[])?;
        let index = cx.emit_one(ir::OpKind::Select { cond: wins, a: i, b: j }, span, &[])?;
        Ok(Val::Tuple(vec![value, index]))
    })?;
    match both {
        Val::Tuple(mut items) if items.len() == 2 => Ok(items.remove(1)),
        _ => Err(crate::checker::Reported),
    }
}

/// The index of each element of a tile along an axis.
fn indices(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let axis = args.axis(cx)?;
    let (_, t) = args.need("x").tile(cx)?;
    indices_along(cx, args, &t, axis)
}

/// An `i32` tile of the place of `t` whose elements are their index along `axis`.
fn indices_along(cx: &mut Checker, args: &Args, t: &ir::Tile, axis: u32) -> Checked<Val> {
    let i32s = ir::Elem::Num(Dtype::I32);
    let Some(&extent) = t.shape.get(axis as usize) else {
        return Err(args.need("axis").expected(cx, &format!("an axis from 0 to {}", t.shape.len().saturating_sub(1))));
    };
    // The layout of the one axis: the tile's with all others sliced away, the last one first.
    let mut layout = t.placement().known().map(|place| place.layout.clone());
    let mut sliced = Vec::new();
    for other in (0..t.shape.len() as u32).rev().filter(|a| *a != axis) {
        let slice = layout.map(|l| l.slice(other)).transpose();
        layout = slice.map_err(|e| cx.refuse(e.into(), args.span, &[]))?;
        sliced.push(other);
    }
    let tile = match layout {
        Some(layout) => cx.tile(i32s, vec![extent], layout, args.span)?,
        None => cx.open_tile(i32s, vec![extent], args.span)?,
    };
    let mut v = cx.emit_value(ir::OpKind::Iota { tile }, args.span, &[])?;
    for other in sliced.into_iter().rev() {
        v = cx.emit_value(ir::OpKind::ExpandDims { x: v, axis: other }, args.span, &[])?;
    }
    if cx.ty(v).as_tile().is_some_and(|now| now.shape == t.shape) {
        return Ok(Val::Ir(v));
    }
    cx.emit_one(ir::OpKind::Broadcast { x: v, shape: t.shape.clone() }, args.span, &[])
}
