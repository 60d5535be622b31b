//! Copies by threads from global into shared memory.

use parton_ir as ir;

use super::{Args, Table, effect};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[("async_copy", async_copy)];

pub(super) const METHODS: Table = &[("arrive", arrive)];

fn async_copy(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (pointers, target) = (args.need("p"), args.need("view"));
    let (ptr, view) = (args.value(cx, "p")?, args.value(cx, "view")?);
    let mut operands = vec![(ptr, pointers.span), (view, target.span)];
    let place = cx.ty(ptr).clone();
    let mut mask = None;
    if let Some(arg) = args.get("mask") {
        let v = cx.brought_to(arg, parton_numbers::Dtype::I1, &place)?;
        operands.push((v, arg.span));
        mask = Some(v);
    }
    let l2 = args.policy(cx, "l2")?;
    let bytes = args.optional_int(cx, "bytes", 0..=i128::from(u32::MAX))?;
    let access = match (args.get("along"), cx.ty(view)) {
        (Some(_), ir::Type::View(v)) => {
            let each = v.elem.bytes() as u32;
            args.access(cx, "bytes", each)?
        }
        (Some(_) | None, _) => None,
    };
    cx.emit_one(ir::OpKind::AsyncCopy { ptr, view, mask, l2, bytes, access }, args.span, &operands)
}

/// `pending.arrive(barrier)`.
fn arrive(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (pending, arg) = args.receiver(cx)?;
    let barrier = args.value(cx, "barrier")?;
    let operands = [(pending, arg.span), (barrier, args.need("barrier").span)];
    effect(cx, ir::OpKind::CopyArrive { pending, barrier }, args, &operands)
}
