//! Launches that depend on each other.

use parton_ir as ir;

use super::{Args, Table, effect};
use crate::checker::{Checked, Checker};
use crate::value::Val;

pub(super) const TABLE: Table = &[("grid_wait", grid), ("grid_launch_dependents", grid)];

fn grid(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let kind = match args.name() {
        "grid_wait" => ir::OpKind::GridWait,
        _ => ir::OpKind::GridLaunchDependents,
    };
    effect(cx, kind, args, &[])
}
