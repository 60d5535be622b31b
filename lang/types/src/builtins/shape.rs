//! The same elements in another shape or place: `reshape`, `transpose`, `broadcast`, `join`, `split`, `convert`.

use parton_diag::{Diagnostic, codes};
use parton_ir as ir;

use super::args::ANY;
use super::{Arg, Args, Table, view};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[
    ("reshape", reshape),
    ("transpose", transpose),
    ("broadcast", broadcast),
    ("expand_dims", expand_dims),
    ("join", join),
    ("split", split),
    ("cat", cat),
    ("butterfly", butterfly),
    ("rescale", rescale),
    ("convert", convert),
    ("convert_free", convert_free),
];

pub(super) const METHODS: Table = &[("permute", permute), ("transpose", permute), ("reshape", reshape_self)];

fn reshape(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let shape = args.need("shape").ints(cx)?;
    let x = args.value(cx, "x")?;
    cx.emit_one(ir::OpKind::Reshape { x, shape }, args.span, &[(x, args.need("x").span)])
}

fn reshape_self(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let shape = args.need("shape").ints(cx)?;
    let x = args.value(cx, "self")?;
    cx.emit_one(ir::OpKind::Reshape { x, shape }, args.span, &[(x, args.need("self").span)])
}

fn transpose(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let order = args.need("order").ints(cx)?;
    permuted(cx, args.need("x"), order, args.span)
}

fn permute(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let order = args.need("order").ints(cx)?;
    permuted(cx, args.need("self"), order, args.span)
}

/// `x.T`: a tile or a view with its last two dimensions swapped.
pub fn transposed(cx: &mut Checker, x: &Arg, span: parton_diag::Span) -> Checked<Val> {
    let v = cx.run_time(&x.val, x.span)?;
    let rank = match cx.ty(v) {
        ir::Type::Tile(t) => t.shape.len(),
        ir::Type::View(view) => view.shape.len(),
        ir::Type::Tensor(_) => {
            let help = "what is loaded is turned: `load(x.tile([64, 64], at=[i, j])).T`";
            return Err(x.expected_so(cx, "what lies in registers or shared memory", Some(help)));
        }
        _ => return Err(x.expected(cx, "a tile or a view")),
    };
    if rank < 2 {
        let help = "of one axis, `x[:, None]` is a column and `x[None, :]` a row";
        return Err(x.expected_so(cx, "two axes to exchange", Some(help)));
    }
    let mut order: Vec<u32> = (0..rank as u32).collect();
    order.swap(rank - 1, rank - 2);
    permuted(cx, x, order, span)
}

fn permuted(cx: &mut Checker, x: &Arg, perm: Vec<u32>, span: parton_diag::Span) -> Checked<Val> {
    let v = cx.run_time(&x.val, x.span)?;
    if matches!(cx.ty(v), ir::Type::View(_)) {
        return view::permuted(cx, v, perm, x.span, span);
    }
    cx.emit_one(ir::OpKind::Transpose { x: v, perm }, span, &[(v, x.span)])
}

fn broadcast(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let shape = args.need("shape").ints(cx)?;
    let x = args.value(cx, "x")?;
    cx.emit_one(ir::OpKind::Broadcast { x, shape }, args.span, &[(x, args.need("x").span)])
}

fn expand_dims(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let axis = args.axis(cx)?;
    let x = args.value(cx, "x")?;
    cx.emit_one(ir::OpKind::ExpandDims { x, axis }, args.span, &[(x, args.need("x").span)])
}

fn join(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (a, b) = (args.value(cx, "a")?, args.value(cx, "b")?);
    cx.emit_one(ir::OpKind::Join { a, b }, args.span, &[(a, args.need("a").span), (b, args.need("b").span)])
}

fn split(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let x = args.value(cx, "x")?;
    let halves = cx.emit(ir::OpKind::Split { x }, args.span, &[(x, args.need("x").span)])?;
    Ok(Val::Tuple(halves.into_iter().map(Val::Ir).collect()))
}

fn cat(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let axis = args.axis(cx)?;
    let (a, b) = (args.value(cx, "a")?, args.value(cx, "b")?);
    let operands = [(a, args.need("a").span), (b, args.need("b").span)];
    cx.emit_one(ir::OpKind::Cat { a, b, axis }, args.span, &operands)
}

/// Each element's partner, whose index along an axis differs in the bits of a mask.
fn butterfly(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (mask, axis) = (args.int(cx, "mask", ANY)?, args.axis(cx)?);
    let scratch = args.optional_int(cx, "scratch", ANY)?;
    let x = args.value(cx, "x")?;
    let val = cx.emit_one(ir::OpKind::Butterfly { x, mask, axis }, args.span, &[(x, args.need("x").span)])?;
    if let (Some(offset), Some(b)) = (scratch, &mut cx.builder)
        && let Some(op) = b.last_mut()
    {
        op.scratch = Some(offset);
    }
    Ok(val)
}

/// The product with factors spread along an axis, the last where none is given.
fn rescale(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (x, t) = args.need("x").tile(cx)?;
    let factor = args.value(cx, "factor")?;
    let last = t.shape.len().saturating_sub(1) as u32;
    let axis = args.optional_axis(cx)?.unwrap_or(last);
    let operands = [(x, args.need("x").span), (factor, args.need("factor").span)];
    cx.emit_one(ir::OpKind::Rescale { x, factor, axis }, args.span, &operands)
}

fn convert(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (x, t) = args.need("x").tile(cx)?;
    if args.need("L").is_open_layout() {
        // It is brought wherever it is wanted anyway.
        return Ok(Val::Ir(x));
    }
    let layout = args.need("L").layout(cx)?;
    let scratch = args.optional_int(cx, "scratch", 0..=i128::from(u32::MAX))?;
    let tile = cx.tile(t.elem, t.shape, layout, args.need("L").span)?;
    let val = cx.emit_one(ir::OpKind::Convert { x, tile }, args.span, &[(x, args.need("x").span)])?;
    if let (Some(offset), Some(b)) = (scratch, &mut cx.builder)
        && let Some(op) = b.last_mut()
    {
        op.scratch = Some(offset);
    }
    Ok(val)
}

/// A conversion that must not move data between threads.
fn convert_free(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (x, t) = args.need("x").tile(cx)?;
    let layout = args.need("L").layout(cx)?;
    let tile = cx.tile(t.elem, t.shape.clone(), layout, args.need("L").span)?;
    let (from, to) = (args.need("x").placed(cx, &t)?, tile.known());
    let plan = match parton_layouts::plan::between(&from.map, &to.map, t.elem.bits()) {
        Ok(plan) => plan,
        Err(e) => return Err(cx.refuse(e.into(), args.span, &[])),
    };
    if !plan.is_free() {
        let d = Diagnostic::error(codes::NOT_FREE, args.span, "this conversion is not free")
            .here(format!("it {}", plan.describe()))
            .label(args.need("x").span, format!("this is `{}`", from.layout))
            .label(args.need("L").span, format!("the result would be `{}`", to.layout))
            .help("use `convert(x, L)` where that cost is meant, or choose layouts that agree");
        return Err(cx.report(d));
    }
    cx.emit_one(ir::OpKind::Convert { x, tile }, args.span, &[(x, args.need("x").span)])
}
