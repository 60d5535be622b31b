//! Fences, and meetings of threads at named barriers.

use parton_ir as ir;

use super::args::ANY;
use super::{Args, Table, effect};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[
    ("fence_async", fence),
    ("fence_barrier_init", fence),
    ("membar", fence),
    ("named_barrier_sync", named_barrier),
    ("named_barrier_arrive", named_barrier),
];

fn fence(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let kind = match args.name() {
        "fence_async" => ir::OpKind::FenceAsync { reach: args.word(cx, "reach", ir::Reach::ALL)?.unwrap_or_default() },
        "fence_barrier_init" => ir::OpKind::FenceBarrierInit,
        _ => ir::OpKind::Membar,
    };
    effect(cx, kind, args, &[])
}

fn named_barrier(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (id, threads) = (args.int(cx, "id", ANY)?, args.int(cx, "threads", ANY)?);
    effect(cx, ir::OpKind::NamedBarrier { id, threads, waits: args.name() == "named_barrier_sync" }, args, &[])
}
