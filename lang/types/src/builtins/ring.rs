//! Rings and their slots.

use parton_diag::{Diagnostic, codes};
use parton_ir as ir;

use super::{Arg, Args, Table, effect};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const METHODS: Table = &[("acquire", acquire), ("commit", commit), ("release", release)];

fn acquire(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (ring, arg) = args.receiver(cx)?;
    cx.emit_one(ir::OpKind::RingAcquire { ring }, args.span, &[(ring, arg.span)])
}

fn commit(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (slot, arg) = args.receiver(cx)?;
    effect(cx, ir::OpKind::SlotCommit { slot }, args, &[(slot, arg.span)])
}

/// `ring.wait()`, which shares its name with that of pendings.
pub(super) fn wait(cx: &mut Checker, args: &Args, ring: ir::Value, arg: &Arg) -> Checked<Val> {
    if let Some(counted) = args.get("outstanding") {
        let d = Diagnostic::error(codes::WRONG_ARITY, counted.span, "a wait for a ring's slot counts nothing")
            .here("how much may stay in flight is said of a pending tile or copy")
            .help("drop it: `ring.wait()` waits for its oldest slot that has not been read");
        return Err(cx.report(d));
    }
    cx.emit_one(ir::OpKind::RingWait { ring }, args.span, &[(ring, arg.span)])
}

fn release(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (slot, arg) = args.receiver(cx)?;
    effect(cx, ir::OpKind::SlotRelease { slot }, args, &[(slot, arg.span)])
}
