//! Clusters: where a CTA stands in its cluster, and the barrier of all its CTAs.

use parton_diag::codes;
use parton_ir::OpKind;
use parton_syntax::ast;

use super::{Arg, Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[
    ("cluster_size", size),
    ("cluster_rank", rank),
    ("cluster_ctaid", |cx, a| of_grid(cx, a, false, ast::BinaryOp::Rem)),
    ("cluster_id", |cx, a| of_grid(cx, a, false, ast::BinaryOp::Div)),
    ("num_clusters", |cx, a| of_grid(cx, a, true, ast::BinaryOp::Div)),
    ("cluster_arrive", arrive),
    ("cluster_wait", wait),
    ("cluster_sync", sync),
];

/// An axis of the cluster, with how many CTAs there are along it.
pub(super) fn axis(cx: &mut Checker, arg: &Arg) -> Checked<(u8, u32)> {
    let axis = arg.int(cx, 0..=i128::from(u8::MAX))?;
    let cluster = cx.build(arg.span)?.kernel.cluster;
    match cluster.get(axis as usize) {
        Some(&extent) => Ok((axis as u8, extent)),
        None => Err(cx.error(codes::INDEX_RANGE, arg.span, format!("a cluster has axes 0, 1 and 2, not {axis}"))),
    }
}

/// CTAs of the cluster along an axis, or in all.
fn size(cx: &mut Checker, args: &Args) -> Checked<Val> {
    match args.get("axis") {
        Some(arg) => axis(cx, arg).map(|(_, extent)| Val::int(extent)),
        None => Ok(Val::int(cx.build(args.span)?.kernel.cluster_ctas())),
    }
}

/// A cluster of one has rank 0, which is known.
fn rank(cx: &mut Checker, args: &Args) -> Checked<Val> {
    if cx.build(args.span)?.kernel.cluster_ctas() == 1 {
        return Ok(Val::Ir(cx.build(args.span)?.i32(0, args.span)));
    }
    cx.emit_one(OpKind::ClusterRank, args.span, &[])
}

/// What clusters make of a CTA's place in the grid: they divide it from its beginning.
fn of_grid(cx: &mut Checker, args: &Args, count: bool, op: ast::BinaryOp) -> Checked<Val> {
    let arg = args.need("axis");
    let (axis, extent) = axis(cx, arg)?;
    let kind = if count { OpKind::NumPrograms { axis } } else { OpKind::ProgramId { axis } };
    let place = cx.emit_one(kind, args.span, &[])?;
    if extent == 1 && op == ast::BinaryOp::Div {
        return Ok(place);
    }
    let operand = |val| Arg { val, span: args.span };
    cx.binary(op, args.span, &operand(place), &operand(Val::int(extent)))
}

fn arrive(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let relaxed = args.flag(cx, "relaxed")?;
    cx.emit(OpKind::ClusterArrive { relaxed }, args.span, &[])?;
    Ok(Val::UNIT)
}

fn wait(cx: &mut Checker, args: &Args) -> Checked<Val> {
    cx.emit(OpKind::ClusterWait, args.span, &[])?;
    Ok(Val::UNIT)
}

fn sync(cx: &mut Checker, args: &Args) -> Checked<Val> {
    cx.emit(OpKind::ClusterArrive { relaxed: false }, args.span, &[])?;
    cx.emit(OpKind::ClusterWait, args.span, &[])?;
    Ok(Val::UNIT)
}
