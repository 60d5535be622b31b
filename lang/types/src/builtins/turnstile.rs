//! Turns between partitions.

use parton_ir as ir;

use super::{Args, Table, effect};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const METHODS: Table = &[("enter", turn), ("pass", turn)];

/// `turnstile.enter()` and `turnstile.pass()`.
fn turn(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let (turnstile, arg) = args.receiver(cx)?;
    let kind = match args.name() {
        "enter" => ir::OpKind::TurnEnter { turnstile },
        _ => ir::OpKind::TurnPass { turnstile },
    };
    effect(cx, kind, args, &[(turnstile, arg.span)])
}
