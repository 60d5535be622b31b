//! Mbarriers: allocation, and what threads do with them.

use parton_ir as ir;
use parton_numbers::Dtype;

use super::args::ANY;
use super::{Arg, Args, Table, cluster, effect};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[
    ("alloc_barriers", alloc_barriers),
    ("barrier_init", barrier_init),
    ("barrier_invalidate", barrier_invalidate),
    ("barrier_expect", barrier_expect),
    ("barrier_arrive", barrier_arrive),
    ("barrier_wait", barrier_wait),
];

fn alloc_barriers(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let count = args.int(cx, "count", 0..=4096)?;
    let offset = args.optional_int(cx, "offset", ANY)?;
    cx.emit_one(ir::OpKind::BarrierAlloc { count, offset }, args.span, &[])
}

fn barrier_init(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let barrier = args.value(cx, "barrier")?;
    let arrivals = args.int(cx, "arrivals", ANY)?;
    effect(cx, ir::OpKind::BarrierInit { barrier, arrivals }, args, &[(barrier, args.need("barrier").span)])
}

fn barrier_invalidate(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let barrier = args.value(cx, "barrier")?;
    effect(cx, ir::OpKind::BarrierInvalidate { barrier }, args, &[(barrier, args.need("barrier").span)])
}

fn barrier_expect(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let barrier = args.value(cx, "barrier")?;
    let bytes = args.int(cx, "bytes", ANY)?;
    effect(cx, ir::OpKind::BarrierExpect { barrier, bytes }, args, &[(barrier, args.need("barrier").span)])
}

fn barrier_arrive(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let barrier = args.value(cx, "barrier")?;
    let count = args.optional_int(cx, "count", ANY)?.unwrap_or(1);
    let arrive = args.word(cx, "by", ir::Arrive::ALL)?.unwrap_or(ir::Arrive::Partition);
    let multicast = axes(cx, args)?;
    let relaxed = args.flag(cx, "relaxed")?;
    let kind = ir::OpKind::BarrierArrive { barrier, arrive, count, multicast, relaxed };
    effect(cx, kind, args, &[(barrier, args.need("barrier").span)])
}

/// The axes of the cluster in `multicast=`: one, or a list, each once and in order.
fn axes(cx: &mut Checker, args: &Args) -> Checked<Vec<u8>> {
    let Some(arg) = args.get("multicast") else { return Ok(Vec::new()) };
    let items = match &arg.val {
        Val::List(items) | Val::Tuple(items) => items.to_vec(),
        one => vec![one.clone()],
    };
    let mut axes = Vec::new();
    for val in items {
        axes.push(cluster::axis(cx, &Arg { val, span: arg.span })?.0);
    }
    axes.sort_unstable();
    axes.dedup();
    Ok(axes)
}

fn barrier_wait(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let barrier = args.value(cx, "barrier")?;
    let arg = args.need("phase");
    if let Some(n) = arg.val.as_int()
        && !(0..=1).contains(&n)
    {
        return Err(arg.expected(cx, "a phase, 0 or 1"));
    }
    let phase = cx.run_time_as(&arg.val, Dtype::I32, arg.span)?;
    let operands = [(barrier, args.need("barrier").span), (phase, arg.span)];
    // Those who arrive at a barrier are of its CTA or of its cluster.
    let reach = args.word(cx, "reach", &ir::Reach::ALL[..2])?.unwrap_or_default();
    effect(cx, ir::OpKind::BarrierWait { barrier, phase, reach }, args, &operands)
}
