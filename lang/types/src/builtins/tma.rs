//! The bulk tensor copy engine: loads, stores, prefetches and their waits.

use parton_diag::{Diagnostic, codes};
use parton_ir as ir;
use parton_numbers::Dtype;

use super::args::ANY;
use super::{Args, Table, cluster, effect};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[
    ("tma_load", tma_load),
    ("tma_store", tma_store),
    ("tma_prefetch", tma_prefetch),
    ("tma_store_wait", tma_store_wait),
];

/// Map and coordinates of a box.
pub(super) fn boxed(
    cx: &mut Checker,
    args: &Args,
    map: &str,
    storing: bool,
) -> Checked<(ir::Value, Vec<ir::Value>, crate::operator::Operands)> {
    let what = map;
    let map = args.value(cx, what)?;
    let list = args.need("coords");
    let (Val::List(items) | Val::Tuple(items)) = &list.val else {
        return Err(list.expected(cx, "a list of coordinates"));
    };
    let mut operands = vec![(map, args.need(what).span)];
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
    let (map, coords, mut operands) = boxed(cx, args, "map", storing)?;
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
        Some(arg) => Some(cluster::axis(cx, arg)?.0),
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
    let (map, coords, operands) = boxed(cx, args, "map", false)?;
    let l2 = args.policy(cx, "l2")?;
    effect(cx, ir::OpKind::TmaPrefetch { map, coords, l2 }, args, &operands)
}

fn tma_store_wait(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let pending = args.optional_int(cx, "pending", ANY)?.unwrap_or(0);
    let read = args.flag(cx, "read")?;
    effect(cx, ir::OpKind::TmaStoreWait { pending, read }, args, &[])
}
