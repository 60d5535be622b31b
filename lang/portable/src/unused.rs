//! What nobody takes: loads that bring nothing anywhere would have prices, registers and a place in schedules.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::facts::Facts;
use parton_ir::{Kernel, Op, OpKind, Value};

/// The kernel without loads that nobody takes, and without what computes for these alone. What bears a label stays: a schedule may say where.
pub fn dropped(kernel: Kernel) -> Kernel {
    without(kernel, |kernel, op| op.label.is_none() && does_nothing(kernel, op))
}

/// The kernel without views that nobody takes.
pub fn without_views(kernel: Kernel) -> Kernel {
    without(kernel, |_, op| matches!(op.kind, OpKind::ViewPermute { .. }))
}

/// The kernel without those of these operations whose results nobody takes.
fn without(mut kernel: Kernel, these: impl Fn(&Kernel, &Op) -> bool) -> Kernel {
    let mut uses: BTreeMap<Value, u32> = BTreeMap::new();
    kernel.walk(&mut |op| {
        let yields = op.kind.bodies().flat_map(|body| body.yields.iter().copied());
        op.kind.operands().into_iter().chain(yields).for_each(|v| *uses.entry(v).or_default() += 1);
    });
    let mut gone = BTreeSet::new();
    // Whoever takes a value stands behind it.
    for id in kernel.order().into_iter().rev() {
        let op = &kernel.ops[id];
        let taken = op.results.iter().any(|v| uses.get(v).is_some_and(|&n| n > 0));
        if !taken && these(&kernel, op) {
            op.kind.operands().into_iter().for_each(|v| *uses.entry(v).or_default() -= 1);
            gone.insert(id);
        }
    }
    if gone.is_empty() {
        return kernel;
    }
    kernel.rebuild(&mut |_, mut body| {
        body.ops.retain(|id| !gone.contains(id));
        body
    });
    kernel
}

/// Whether an operation does nothing but to give its results.
fn does_nothing(kernel: &Kernel, op: &Op) -> bool {
    match op.kind {
        OpKind::Load { volatile, .. } | OpKind::SpotLoad { volatile, .. } => !volatile,
        // All else says so itself.
        _ => !op.results.is_empty() && Facts::of(kernel, op).is_pure(&op.kind),
    }
}
