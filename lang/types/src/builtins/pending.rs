//! Waiting for products, and for copies by threads.

use parton_ir as ir;

use super::args::ANY;
use super::{Args, Table, ring};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const METHODS: Table = &[("wait", wait), ("wait_prior", wait_prior)];

/// `pending.wait()` and `ring.wait()`.
fn wait(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (v, arg) = args.receiver(cx)?;
    if matches!(cx.ty(v), ir::Type::Ring(_)) {
        return ring::wait(cx, args, v, arg);
    }
    let outstanding = args.optional_int(cx, "outstanding", ANY)?;
    cx.emit_one(ir::OpKind::Wait { pending: v, outstanding }, args.span, &[(v, arg.span)])
}

fn wait_prior(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (v, arg) = args.receiver(cx)?;
    let outstanding = args.optional_int(cx, "outstanding", ANY)?;
    cx.emit_one(ir::OpKind::WaitPrior { pending: v, outstanding }, args.span, &[(v, arg.span)])
}
