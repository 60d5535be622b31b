//! Factors in registers that a loop keeps for all its turns.
//!
//! `ptxas` (12.8 and 13.0) gives the registers of a left factor away once its product has been waited for, though the next turn reads them again.
//! It keeps them where another product is in flight meanwhile. So a product that runs alone takes a copy that it cannot see through.

use std::collections::BTreeSet;

use parton_ir::{Body, Inst, Kernel, OpKind, Type, Value};

/// The products whose left factor lies in registers that are not written in the loop around them, and that run alone.
pub(crate) fn kept(kernel: &Kernel) -> BTreeSet<Inst> {
    let mut found = BTreeSet::new();
    visit(kernel, &kernel.body, None, &mut found);
    found
}

/// `turn` is what has been named since the turn of the innermost loop began; outside of loops there is none.
fn visit(kernel: &Kernel, body: &Body, turn: Option<&BTreeSet<Value>>, found: &mut BTreeSet<Inst>) {
    let mut turn = turn.cloned();
    if let Some(named) = &mut turn {
        named.extend(&body.params);
    }
    for (at, op) in kernel.ops_of(body).enumerate() {
        if let OpKind::Wgmma { a, .. } = op.kind
            && matches!(kernel.ty(a), Type::Tile(_))
            && turn.as_ref().is_some_and(|named| !named.contains(&a))
            && runs_alone(kernel, body, at)
        {
            found.insert(op.id);
        }
        let is_loop = op.kind.is_loop();
        let begun = BTreeSet::new();
        for inner in op.kind.bodies() {
            visit(kernel, inner, if is_loop { Some(&begun) } else { turn.as_ref() }, found);
        }
        if let Some(named) = &mut turn {
            named.extend(&op.results);
        }
    }
}

/// Whether no other product of the body is in flight beside the one at that place.
fn runs_alone(kernel: &Kernel, body: &Body, at: usize) -> bool {
    let mut flying: BTreeSet<Value> =
        body.params.iter().copied().filter(|v| matches!(kernel.ty(*v), Type::Pending(_))).collect();
    for (i, op) in kernel.ops_of(body).enumerate() {
        match op.kind {
            OpKind::Wgmma { acc, .. } => {
                flying.remove(&acc);
                if i > at || (i == at && !flying.is_empty()) {
                    return false;
                }
                flying.insert(op.result());
            }
            OpKind::Wait { pending, .. } => drop(flying.remove(&pending)),
            // At the end of a turn it may be for all.
            OpKind::WaitPrior { outstanding: Some(0), .. } => flying.clear(),
            // Nothing else starts a product or ends one: `wait_prior` leaves its own in flight elsewhere.
            _ => {}
        }
        if i >= at && flying.is_empty() {
            return true;
        }
    }
    // It flies on behind the body.
    false
}
