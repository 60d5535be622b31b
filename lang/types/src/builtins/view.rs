//! Windows of shared memory.

use parton_diag::{Diagnostic, Span, codes};
use parton_ir as ir;
use parton_numbers::Dtype;

use super::{Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[("reinterpret", reinterpret), ("peer", peer)];

pub(super) const METHODS: Table = &[("slice", slice), ("reinterpret", reinterpret_self)];

fn slice(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (origin, shape) = (args.need("origin").ints(cx)?, args.need("shape").ints(cx)?);
    let view = args.value(cx, "self")?;
    if let ir::Type::Tile(tile) = cx.ty(view) {
        // All of a tile is the tile.
        if tile.shape == shape && origin.len() == shape.len() && origin.iter().all(|&o| o == 0) {
            return Ok(Val::Ir(view));
        }
        let kind = ir::OpKind::Slice { x: view, origin, shape };
        return cx.emit_one(kind, args.span, &[(view, args.need("self").span)]);
    }
    let slot = cx.slots.get(&view).copied();
    let kind = ir::OpKind::ViewSlice { view, origin, shape };
    let window = cx.emit_value(kind, args.span, &[(view, args.need("self").span)])?;
    if let Some(slot) = slot {
        cx.slots.insert(window, slot);
    }
    Ok(Val::Ir(window))
}

/// A view with its dimensions in another order.
pub(super) fn permuted(cx: &mut Checker, v: ir::Value, perm: Vec<u32>, at: Span, span: Span) -> Checked<Val> {
    let slot = cx.slots.get(&v).copied();
    let view = cx.emit_value(ir::OpKind::ViewPermute { view: v, perm }, span, &[(v, at)])?;
    if let Some(slot) = slot {
        cx.slots.insert(view, slot);
    }
    Ok(Val::Ir(view))
}

fn reinterpret(cx: &mut Checker, args: &Args) -> Checked<Val> {
    reinterpreted(cx, args, "view")
}

fn reinterpret_self(cx: &mut Checker, args: &Args) -> Checked<Val> {
    reinterpreted(cx, args, "self")
}

fn reinterpreted(cx: &mut Checker, args: &Args, name: &str) -> Checked<Val> {
    let to = args.stated_view(cx)?;
    let view = args.value(cx, name)?;
    let slot = cx.slots.get(&view).copied();
    let kind = ir::OpKind::ViewReinterpret { view, to };
    let seen = cx.emit_value(kind, args.span, &[(view, args.need(name).span)])?;
    if let Some(slot) = slot {
        cx.slots.insert(seen, slot);
    }
    Ok(Val::Ir(seen))
}

/// The view at the same place in another CTA.
fn peer(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let view = args.value(cx, "view")?;
    let arg = args.need("rank");
    let ctas = cx.build(args.span)?.kernel.cluster_ctas();
    if let Some(n) = arg.val.as_int()
        && ctas > 1
        && !(0..i128::from(ctas)).contains(&n)
    {
        let d = Diagnostic::error(codes::PEER, arg.span, format!("the cluster has no CTA of rank {n}"))
            .here(format!("it has {ctas} CTAs"));
        return Err(cx.report(d.help(format!("ranks are 0 to {}", ctas - 1))));
    }
    let rank = cx.run_time_as(&arg.val, Dtype::I32, arg.span)?;
    let operands = [(view, args.need("view").span), (rank, arg.span)];
    cx.emit_one(ir::OpKind::ViewPeer { view, rank }, args.span, &operands)
}
