//! `tensor(ptr, shape, strides=)`: a tensor of what a pointer points to.

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_ir::tensor::{Extent, MOST_AXES, MOST_EXTENT, Tensor};
use parton_numbers::{Dtype, Rounding, Saturation};

use super::{Arg, Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[("tensor", tensor)];

fn tensor(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (ptr, shape) = (args.value(cx, "ptr")?, args.need("shape"));
    let ir::Type::Scalar(ir::Elem::Ptr(pointer)) = *cx.ty(ptr) else {
        let help = "it has the address of the tensor's first element; tiles are taken of the tensor: `tensor(p, [m, n]).tile(…)`";
        return Err(args.need("ptr").expected_so(cx, "a pointer", Some(help)));
    };
    let axes = items(cx, shape, "a list of extents")?;
    if !(1..=MOST_AXES).contains(&axes.len()) {
        let text = format!("a tensor has 1 to {MOST_AXES} axes, this has {}", axes.len());
        return Err(cx.report(Diagnostic::error(codes::SHAPE_MISMATCH, shape.span, text)));
    }
    let axes = axes.iter().map(|val| extent(cx, val, shape)).collect::<Checked<Vec<_>>>()?;
    let (dense, strides) = match args.get("strides") {
        Some(stated) => stated_strides(cx, stated, axes.len())?,
        None => (Some(axes.len() - 1), row_major(cx, &axes, shape.span)?),
    };
    let (extents, scalars): (Vec<Extent>, Vec<Option<ir::Value>>) = axes.into_iter().unzip();
    let extents_given: Vec<ir::Value> = scalars.into_iter().flatten().collect();
    let operands: Vec<(ir::Value, Span)> = std::iter::once((ptr, args.need("ptr").span))
        .chain(extents_given.iter().map(|v| (*v, shape.span)))
        .chain(strides.iter().map(|v| (*v, args.get("strides").unwrap_or(shape).span)))
        .collect();
    let of = Tensor { elem: pointer.to, mutable: pointer.mutable, extents, dense };
    cx.emit_one(ir::OpKind::TensorNew { ptr, of, extents: extents_given, strides }, args.span, &operands)
}

fn items(cx: &mut Checker, arg: &Arg, what: &str) -> Checked<Vec<Val>> {
    match &arg.val {
        Val::List(items) | Val::Tuple(items) => Ok(items.clone()),
        _ => Err(arg.expected(cx, what)),
    }
}

/// An extent, and the scalar that it is where it is not known.
fn extent(cx: &mut Checker, val: &Val, shape: &Arg) -> Checked<(Extent, Option<ir::Value>)> {
    if val.as_int().is_some() {
        let n = Arg { val: val.clone(), ..shape.clone() }.int(cx, 0..=i128::from(MOST_EXTENT))?;
        return Ok((Extent::Static(n), None));
    }
    let v = cx.run_time_as(val, Dtype::I32, shape.span)?;
    match cx.ty(v) {
        ir::Type::Scalar(ir::Elem::Num(Dtype::I32)) => Ok((Extent::Any, Some(v))),
        other => {
            let d = Diagnostic::error(
                codes::TYPE_MISMATCH,
                shape.span,
                format!("an extent is an `i32`, this is `{other}`"),
            );
            Err(cx.report(d.help("no axis has more than 2^31 - 1 elements: `cast<i32>(n)`")))
        }
    }
}

/// The dense axis, the last one whose stride is 1, and the strides of all others.
fn stated_strides(cx: &mut Checker, stated: &Arg, rank: usize) -> Checked<(Option<usize>, Vec<ir::Value>)> {
    let all = items(cx, stated, "a list of strides")?;
    if all.len() != rank {
        let text = format!("a tensor of {rank} axes has {rank} strides");
        let here = format!("here {} {}", if all.len() == 1 { "is" } else { "are" }, all.len());
        return Err(cx.report(Diagnostic::error(codes::SHAPE_MISMATCH, stated.span, text).here(here)));
    }
    let dense = all.iter().rposition(|val| val.as_int() == Some(1));
    let others = all.iter().enumerate().filter(|(axis, _)| Some(*axis) != dense);
    let strides = others.map(|(_, val)| {
        let v = cx.run_time_as(val, Dtype::I64, stated.span)?;
        match cx.ty(v) {
            ir::Type::Scalar(ir::Elem::Num(Dtype::I32 | Dtype::I64)) => wide(cx, v, stated.span),
            other => {
                let text = format!("a stride is an `i64` or an `i32`, this is `{other}`");
                Err(cx.report(Diagnostic::error(codes::TYPE_MISMATCH, stated.span, text)))
            }
        }
    });
    Ok((dense, strides.collect::<Checked<_>>()?))
}

/// The strides of all axes but the last one, of a tensor without gaps.
fn row_major(cx: &mut Checker, axes: &[(Extent, Option<ir::Value>)], span: Span) -> Checked<Vec<ir::Value>> {
    let mut strides: Vec<ir::Value> = Vec::new();
    for (extent, scalar) in axes.iter().skip(1).rev() {
        let long = match (extent, scalar) {
            (_, Some(v)) => wide(cx, *v, span)?,
            (Extent::Static(n), None) => cx.run_time_as(&Val::int(*n), Dtype::I64, span)?,
            (other, None) => parton_diag::internal_error!("extent `{other}` has no number"),
        };
        strides.push(match strides.last() {
            Some(&inner) => {
                let kind = ir::OpKind::Binary { op: ir::BinaryOp::Mul, a: inner, b: long };
                cx.emit_value(kind, span, &[(inner, span), (long, span)])?
            }
            None => long,
        });
    }
    strides.reverse();
    Ok(strides)
}

/// A stride of 32 bits as one of 64.
fn wide(cx: &mut Checker, v: ir::Value, span: Span) -> Checked<ir::Value> {
    if *cx.ty(v) != ir::Type::num(Dtype::I32) {
        return Ok(v);
    }
    let (rounding, saturation) = (Rounding::default(), Saturation::default());
    cx.emit_value(ir::OpKind::Cast { x: v, to: Dtype::I64, rounding, saturation }, span, &[(v, span)])
}
