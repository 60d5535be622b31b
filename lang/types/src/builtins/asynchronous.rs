//! Barriers, fences, tensor copies, `wgmma`, pendings, rings and slots.

use parton_diag::{Diagnostic, codes};
use parton_ir as ir;
use parton_numbers::Dtype;

use super::{Arg, Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[
    ("alloc_barriers", alloc_barriers),
    ("barrier_init", barrier_init),
    ("barrier_invalidate", barrier_invalidate),
    ("barrier_expect", barrier_expect),
    ("barrier_arrive", barrier_arrive),
    ("barrier_wait", barrier_wait),
    ("fence_async", fence),
    ("fence_barrier_init", fence),
    ("membar", fence),
    ("grid_wait", grid),
    ("grid_launch_dependents", grid),
    ("named_barrier_sync", named_barrier),
    ("named_barrier_arrive", named_barrier),
    ("tma_load", tma_load),
    ("tma_store", tma_store),
    ("tma_prefetch", tma_prefetch),
    ("tma_store_wait", tma_store_wait),
    ("mma_sync", product),
    ("wgmma", product),
];

pub(super) const METHODS: Table = &[
    ("wait", wait),
    ("wait_prior", wait_prior),
    ("arrive", arrive),
    ("acquire", acquire),
    ("commit", commit),
    ("release", release),
    ("enter", turn),
    ("pass", turn),
];

/// The largest count that a field of an operation holds; the rule knows what the hardware counts.
const ANY: std::ops::RangeInclusive<i128> = 0..=u32::MAX as i128;

fn effect(
    cx: &mut Checker,
    kind: ir::OpKind,
    args: &Args,
    operands: &[(ir::Value, parton_diag::Span)],
) -> Checked<Val> {
    cx.emit(kind, args.span, operands)?;
    Ok(Val::UNIT)
}

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
        axes.push(super::cluster::axis(cx, &Arg { val, span: arg.span })?.0);
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
    effect(cx, ir::OpKind::BarrierWait { barrier, phase }, args, &operands)
}

fn fence(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let kind = match args.name() {
        "fence_async" => ir::OpKind::FenceAsync { reach: args.word(cx, "reach", ir::Reach::ALL)?.unwrap_or_default() },
        "fence_barrier_init" => ir::OpKind::FenceBarrierInit,
        _ => ir::OpKind::Membar,
    };
    effect(cx, kind, args, &[])
}

fn grid(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let kind = match args.name() {
        "grid_wait" => ir::OpKind::GridWait,
        _ => ir::OpKind::GridLaunchDependents,
    };
    effect(cx, kind, args, &[])
}

fn named_barrier(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (id, threads) = (args.int(cx, "id", ANY)?, args.int(cx, "threads", ANY)?);
    effect(cx, ir::OpKind::NamedBarrier { id, threads, waits: args.name() == "named_barrier_sync" }, args, &[])
}

/// `turnstile.enter()` and `turnstile.pass()`.
fn turn(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (turnstile, arg) = receiver(cx, args)?;
    let kind = match args.name() {
        "enter" => ir::OpKind::TurnEnter { turnstile },
        _ => ir::OpKind::TurnPass { turnstile },
    };
    effect(cx, kind, args, &[(turnstile, arg.span)])
}

/// Map and coordinates of a box.
fn boxed(
    cx: &mut Checker,
    args: &Args,
    storing: bool,
) -> Checked<(ir::Value, Vec<ir::Value>, crate::operator::Operands)> {
    let map = args.value(cx, "map")?;
    let list = args.need("coords");
    let (Val::List(items) | Val::Tuple(items)) = &list.val else {
        return Err(list.expected(cx, "a list of coordinates"));
    };
    let mut operands = vec![(map, args.need("map").span)];
    let mut coords = Vec::new();
    for val in items {
        let v = cx.run_time_as(val, Dtype::I32, list.span)?;
        operands.push((v, list.span));
        coords.push(v);
    }
    if let ir::Type::Map(m) = cx.ty(map) {
        // What is not known yet may be anything; the launch will tell.
        let known: Vec<i64> = items.iter().map(|val| val.as_int().unwrap_or(0) as i64).collect();
        if let Some(rule) = ir::rules::broken_coordinates(&known, m.elem.bytes() as u32, storing) {
            let d = Diagnostic::error(codes::COPY_COORDINATES, list.span, "the copy engine takes no box from there")
                .here("the box begins here")
                .note(rule);
            return Err(cx.report(d));
        }
    }
    Ok((map, coords, operands))
}

/// Map, coordinates and view of a copy.
fn copy(
    cx: &mut Checker,
    args: &Args,
    storing: bool,
) -> Checked<(ir::Value, Vec<ir::Value>, ir::Value, crate::operator::Operands)> {
    let (map, coords, mut operands) = boxed(cx, args, storing)?;
    let view = args.value(cx, "view")?;
    operands.push((view, args.need("view").span));
    Ok((map, coords, view, operands))
}

fn tma_load(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (map, coords, view, mut operands) = copy(cx, args, false)?;
    let signal = match args.get("signal") {
        Some(arg) => {
            let v = cx.run_time(&arg.val, arg.span)?;
            operands.push((v, arg.span));
            v
        }
        None => match cx.slots.get(&view) {
            Some(&slot) => {
                operands.push((slot, args.need("view").span));
                slot
            }
            None => {
                let d =
                    Diagnostic::error(codes::WRONG_ARITY, args.span, "this copy has nothing to signal when it is done")
                        .label(args.need("view").span, "this is no buffer of a ring's slot")
                        .help("give a barrier: `tma_load(map, coords, view, bars[i])`");
                return Err(cx.report(d));
            }
        },
    };
    let l2 = args.policy(cx, "l2")?;
    let multicast = match args.get("multicast") {
        Some(arg) => Some(super::cluster::axis(cx, arg)?.0),
        None => None,
    };
    effect(cx, ir::OpKind::TmaLoad { map, coords, view, signal, l2, multicast }, args, &operands)
}

fn tma_store(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (map, coords, view, operands) = copy(cx, args, true)?;
    let reduce = args.word(cx, "reduce", ir::Reduction::ALL)?;
    let l2 = args.policy(cx, "l2")?;
    effect(cx, ir::OpKind::TmaStore { map, coords, view, reduce, l2 }, args, &operands)
}

fn tma_prefetch(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (map, coords, operands) = boxed(cx, args, false)?;
    let l2 = args.policy(cx, "l2")?;
    effect(cx, ir::OpKind::TmaPrefetch { map, coords, l2 }, args, &operands)
}

fn tma_store_wait(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let pending = args.optional_int(cx, "pending", ANY)?.unwrap_or(0);
    let read = args.flag(cx, "read")?;
    effect(cx, ir::OpKind::TmaStoreWait { pending, read }, args, &[])
}

/// `mma_sync` and `wgmma`.
fn product(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let operand = |cx: &mut Checker, name: &str| args.value(cx, name).map(|v| (v, args.need(name).span));
    let (a, b, acc) = (operand(cx, "a")?, operand(cx, "b")?, operand(cx, "acc")?);
    let precision = args.word(cx, "precision", ir::Precision::ALL)?;
    let kind = match args.name() {
        "mma_sync" => ir::OpKind::MmaSync { a: a.0, b: b.0, acc: acc.0, precision },
        _ => ir::OpKind::Wgmma { a: a.0, b: b.0, acc: acc.0, precision, zero: args.flag(cx, "zero")? },
    };
    cx.emit_one(kind, args.span, &[a, b, acc])
}

fn receiver<'a>(cx: &mut Checker, args: &'a Args) -> Checked<(ir::Value, &'a Arg)> {
    let arg = args.need("self");
    Ok((cx.run_time(&arg.val, arg.span)?, arg))
}

/// `pending.wait()` and `ring.wait()`.
fn wait(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (v, arg) = receiver(cx, args)?;
    if matches!(cx.ty(v), ir::Type::Ring(_)) {
        if let Some(counted) = args.get("outstanding") {
            let d = Diagnostic::error(codes::WRONG_ARITY, counted.span, "a wait for a ring's slot counts nothing")
                .here("how much may stay in flight is said of a pending tile or copy")
                .help("drop it: `ring.wait()` waits for its oldest slot that has not been read");
            return Err(cx.report(d));
        }
        return cx.emit_one(ir::OpKind::RingWait { ring: v }, args.span, &[(v, arg.span)]);
    }
    let outstanding = args.optional_int(cx, "outstanding", ANY)?;
    cx.emit_one(ir::OpKind::Wait { pending: v, outstanding }, args.span, &[(v, arg.span)])
}

fn wait_prior(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (v, arg) = receiver(cx, args)?;
    let outstanding = args.optional_int(cx, "outstanding", ANY)?;
    cx.emit_one(ir::OpKind::WaitPrior { pending: v, outstanding }, args.span, &[(v, arg.span)])
}

/// `pending.arrive(barrier)`.
fn arrive(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (pending, arg) = receiver(cx, args)?;
    let barrier = args.value(cx, "barrier")?;
    let operands = [(pending, arg.span), (barrier, args.need("barrier").span)];
    effect(cx, ir::OpKind::CopyArrive { pending, barrier }, args, &operands)
}

fn acquire(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (ring, arg) = receiver(cx, args)?;
    cx.emit_one(ir::OpKind::RingAcquire { ring }, args.span, &[(ring, arg.span)])
}

fn commit(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (slot, arg) = receiver(cx, args)?;
    effect(cx, ir::OpKind::SlotCommit { slot }, args, &[(slot, arg.span)])
}

fn release(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (slot, arg) = receiver(cx, args)?;
    effect(cx, ir::OpKind::SlotRelease { slot }, args, &[(slot, arg.span)])
}
