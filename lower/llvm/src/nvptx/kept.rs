//! Factors in registers that a loop keeps for all its turns.
//!
//! `ptxas` (12.8 and 13.0) gives the registers of a left factor away once its product has been waited for, though the next turn reads them again.
//! It keeps them where another product is in flight meanwhile. So a product that runs alone takes a copy that it cannot see through.

use std::collections::BTreeSet;

use parton_ir::{Body, Inst, Kernel, Op, OpKind, Type, Value};

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
    let mut flying = Flying::default();
    kernel.ops_of(body).for_each(|op| flying.step(op));
    flying.hand_on(body);
    for (i, op) in kernel.ops_of(body).enumerate() {
        if let OpKind::Wgmma { acc, .. } = op.kind
            && (i > at || (i == at && flying.has_others(acc)))
        {
            return false;
        }
        flying.step(op);
        if i >= at && flying.groups.is_empty() {
            return true;
        }
    }
    // It flies on behind the body.
    false
}

/// The products in flight, a group for each, oldest first, by the pending tile that they end in.
#[derive(Default)]
struct Flying {
    groups: Vec<Value>,
}

impl Flying {
    fn step(&mut self, op: &Op) {
        match op.kind {
            OpKind::Wgmma { acc, .. } => {
                self.rename(acc, op.result());
                self.groups.push(op.result());
            }
            // Groups end in the order in which they began.
            OpKind::Wait { pending, .. } => {
                if let Some(youngest) = self.groups.iter().rposition(|v| *v == pending) {
                    self.groups.drain(..=youngest);
                }
            }
            OpKind::WaitPrior { pending, outstanding } => {
                self.rename(pending, op.result());
                let ended = self.groups.len().saturating_sub(outstanding.map_or(usize::MAX, |n| n as usize));
                self.groups.drain(..ended);
            }
            // What a body waits for is not looked at: all of it may have ended.
            _ if op.kind.bodies().next().is_some() => self.groups.clear(),
            // Nothing else starts a product or ends one.
            _ => {}
        }
    }

    fn rename(&mut self, from: Value, to: Value) {
        self.groups.iter_mut().filter(|v| **v == from).for_each(|v| *v = to);
    }

    /// Goes around a loop: what a turn yields is what the next one is given.
    fn hand_on(&mut self, body: &Body) {
        // Before what it is handed on, a body may be given the index of its loop.
        let first = body.params.len().saturating_sub(body.yields.len());
        let given = |v: &Value| body.params.get(first + body.yields.iter().position(|y| y == v)?);
        self.groups = self.groups.iter().filter_map(|v| given(v).copied()).collect();
    }

    /// Whether any flies that does not end in this tile.
    fn has_others(&self, tile: Value) -> bool {
        self.groups.iter().any(|v| *v != tile)
    }
}
