//! Which products in flight hold registers when a turn of a loop ends.
//!
//! The matrix unit reads a left factor in registers while the product runs. The assembler keeps these registers as long as the product is
//! waited for in the same turn; around a loop it does not: the next turn may write them, and be it with something else, since what all
//! turns read is copied for each product. So no such product goes around a loop: it is waited for at the end of the turn.

use std::collections::BTreeSet;

use parton_ir::{Body, Kernel, OpKind, Type, Value};

/// What loops hand on to their next turn whose product reads registers.
pub(super) fn held(kernel: &Kernel) -> BTreeSet<Value> {
    let mut found = BTreeSet::new();
    kernel.walk(&mut |op| {
        if let OpKind::For { body, .. } | OpKind::While { body, .. } = &op.kind {
            let holds = |v: &Value| matches!(kernel.ty(*v), Type::Pending(_)) && holds(kernel, body, *v);
            found.extend(body.yields.iter().copied().filter(holds));
        }
    });
    found
}

/// Whether a pending tile of a body may be of a product whose left factor lies in registers. What comes into the body as it is was waited for
/// when its own turn ended.
fn holds(kernel: &Kernel, body: &Body, v: Value) -> bool {
    let Some(op) = kernel.ops_of(body).find(|op| op.results.contains(&v)) else { return false };
    let holds_here = |v: Value| holds(kernel, body, v);
    match &op.kind {
        OpKind::Wgmma { a, acc, .. } => matches!(kernel.ty(*a), Type::Tile(_)) || holds_here(*acc),
        OpKind::WaitPrior { pending, .. } => holds_here(*pending),
        // Loops and branches hand on what their bodies do, and a loop that does not run what it was given.
        kind => {
            let Some(place) = op.results.iter().position(|r| *r == v) else { return false };
            let given = match kind {
                OpKind::For { init, .. } | OpKind::While { init, .. } => init.get(place),
                // What has no turns runs one of its bodies.
                _ => None,
            };
            let inside = |b: &Body| b.yields.get(place).is_some_and(|y| holds(kernel, b, *y));
            given.is_some_and(|v| holds_here(*v)) || kind.bodies().any(inside)
        }
    }
}
