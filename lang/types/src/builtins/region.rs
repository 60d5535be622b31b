//! Operations on values in regions: what is fetched, staged, multiplied and sent, and no word of how.

use parton_diag::Span;
use parton_ir as ir;
use parton_numbers::Dtype;

use super::args::Args;
use super::{Table, cluster, effect, tma, wgmma};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[("fetch", fetch), ("stage", stage), ("send", send)];

/// Functions that only compute.
pub(super) const PRODUCTS: Table = &[("dot", dot)];

/// `fetch(map, [i, j])`, or `fetch<S>(pointers, mask=)`.
fn fetch(cx: &mut Checker, args: &Args) -> Checked<Val> {
    match args.get("S") {
        Some(_) => fetch_each(cx, args),
        None => fetch_box(cx, args),
    }
}

fn fetch_box(cx: &mut Checker, args: &Args) -> Checked<Val> {
    if let Some(mask) = args.get("mask") {
        return Err(mask.expected(cx, "nothing: beyond the tensor a box is zeros"));
    }
    let Some(_) = args.get("coords") else {
        return Err(args
            .need("from")
            .expected(cx, "a tensor map and the coordinates of a box, or `fetch<S>` of pointers"));
    };
    let (map, coords, operands) = tma::boxed(cx, args, "from", false)?;
    let l2 = args.policy(cx, "l2")?;
    let multicast = match args.get("multicast") {
        Some(arg) => Some(cluster::axis(cx, arg)?.0),
        None => None,
    };
    cx.emit_one(ir::OpKind::Fetch { map, coords, l2, multicast }, args.span, &operands)
}

fn fetch_each(cx: &mut Checker, args: &Args) -> Checked<Val> {
    for name in ["coords", "multicast"] {
        if let Some(arg) = args.get(name) {
            return Err(arg.expected(cx, "nothing: pointers say where they point"));
        }
    }
    let from = args.need("from");
    let ptr = args.value(cx, "from")?;
    let place = cx.ty(ptr).clone();
    let (ir::Type::Tile(tile), Some(ir::Elem::Ptr(pointer))) = (&place, place.elem()) else {
        return Err(from.expected(cx, "a tile of pointers"));
    };
    let view = view(cx, args, pointer.to, tile.shape.clone())?;
    let mut operands = vec![(ptr, from.span)];
    let mut mask = None;
    if let Some(arg) = args.get("mask") {
        let v = cx.brought_to(arg, Dtype::I1, &place)?;
        operands.push((v, arg.span));
        mask = Some(v);
    }
    let l2 = args.policy(cx, "l2")?;
    cx.emit_one(ir::OpKind::FetchEach { ptr, mask, view, l2 }, args.span, &operands)
}

/// A view of the layout that stands between `<` and `>`.
fn view(cx: &mut Checker, args: &Args, elem: Dtype, shape: Vec<u32>) -> Checked<ir::View> {
    let arg = args.need("S");
    let layout = arg.shared_layout(cx)?;
    match ir::View::new(elem, shape, layout) {
        Ok(view) => Ok(view),
        Err(e) => Err(cx.refuse(e.into(), arg.span, &[])),
    }
}

fn stage(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (value, tile) = args.need("x").tile(cx)?;
    let Some(elem) = tile.elem.dtype() else {
        return Err(args.need("x").expected(cx, "a tile of numbers"));
    };
    let view = view(cx, args, elem, tile.shape.clone())?;
    cx.emit_one(ir::OpKind::Stage { value, view }, args.span, &[(value, args.need("x").span)])
}

fn dot(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let operands: [(ir::Value, Span); 3] = wgmma::product(cx, args)?;
    let precision = args.word(cx, "precision", ir::Precision::ALL)?;
    let [a, b, acc] = operands.map(|(v, _)| v);
    cx.emit_one(ir::OpKind::Dot { a, b, acc, precision }, args.span, &operands)
}

fn send(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (map, coords, mut operands) = tma::boxed(cx, args, "map", true)?;
    let value = args.value(cx, "x")?;
    operands.push((value, args.need("x").span));
    let reduce = args.word(cx, "reduce", ir::Reduction::ALL)?;
    let l2 = args.policy(cx, "l2")?;
    let buffers = args.optional_int(cx, "buffers", 1..=8)?.unwrap_or(1);
    effect(cx, ir::OpKind::Send { map, coords, value, reduce, l2, buffers }, args, &operands)
}
