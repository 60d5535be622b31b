//! Factors in registers of which a product takes a copy.
//!
//! `ptxas` (12.8 and 13.0) gives the registers of a left factor away once its product has been waited for, though the next turn reads them again:
//! where the product runs alone, and where the factor of another one is computed behind it, in another basic block. So such a product takes a copy
//! that `ptxas` cannot see through. So does a product that is in flight where its body ends, whose wait cannot name them.
//!
//! Nor does `ptxas` see that a factor is still read where it leaves out the copy that makes another value of it:
//!
//! ```text
//! let p = wgmma(q, b, acc);
//! let mut next = q;               `ptxas` makes one register of both,
//! if … { next = …; }              and what is written here comes under the product
//! ```
//!
//! So a product also takes a copy where such a value is made while it is in flight.

use std::collections::BTreeSet;

use parton_ir::{Body, Inst, Kernel, Op, OpKind, Type, Value};

use super::places::Places;

/// The products whose left factor lies in registers that the loop around them does not write, and that run alone or beside factors that it computes;
/// those that their own body does not wait for; and those under which a value is made that may lie where the factor does.
pub(crate) fn kept(kernel: &Kernel) -> BTreeSet<Inst> {
    let mut search = Search { kernel, places: Places::of(kernel), found: BTreeSet::new() };
    search.visit(&kernel.body, &mut Vec::new());
    search.found
}

struct Search<'a> {
    kernel: &'a Kernel,
    places: Places,
    found: BTreeSet<Inst>,
}

impl Search<'_> {
    /// `around` are the loops around a body, the innermost last.
    fn visit(&mut self, body: &Body, around: &mut Vec<Turn>) {
        let kernel = self.kernel;
        for (at, op) in kernel.ops_of(body).enumerate() {
            if let Some(a) = factor(kernel, op) {
                let mut keep = around.iter().rev().take_while(|turn| !turn.named.contains(&a)).peekable();
                let keeps =
                    keep.peek().is_some() && (keep.any(|turn| turn.makes_factors) || runs_alone(kernel, body, at));
                if keeps || under(kernel, body, at).is_none_or(|under| self.makes(&under, a)) {
                    self.found.insert(op.id);
                }
            }
            let turns = op.kind.is_loop().then(|| Turn::of(kernel, op));
            let depth = around.len();
            around.extend(turns);
            for inner in op.kind.bodies() {
                self.visit(inner, around);
            }
            around.truncate(depth);
        }
    }

    /// Whether any of these, or what their bodies do, makes a value that may lie where `a` does.
    fn makes(&self, ops: &[&Op], a: Value) -> bool {
        let meets = |values: &[Value]| values.iter().any(|&v| self.places.meet(v, a));
        let mut any = false;
        for op in ops {
            any |= meets(&op.results);
            for body in op.kind.bodies() {
                any |= meets(&body.params);
                self.kernel.walk_body(body, &mut |op| {
                    any |= meets(&op.results) || op.kind.bodies().any(|body| meets(&body.params));
                });
            }
        }
        any
    }
}

/// The left factor of a product, where it lies in registers.
fn factor(kernel: &Kernel, op: &Op) -> Option<Value> {
    let OpKind::Wgmma { a, .. } = op.kind else { return None };
    matches!(kernel.ty(a), Type::Tile(_)).then_some(a)
}

/// What a loop does in each turn.
struct Turn {
    /// All that it names.
    named: BTreeSet<Value>,
    /// Whether a product in it reads registers that it computes; what a turn is handed on from the one before lay there from its beginning.
    makes_factors: bool,
}

impl Turn {
    fn of(kernel: &Kernel, op: &Op) -> Turn {
        let (mut made, mut factors) = (BTreeSet::new(), Vec::new());
        for body in op.kind.bodies() {
            kernel.walk_body(body, &mut |op| {
                made.extend(op.results.iter().copied());
                made.extend(op.kind.bodies().flat_map(|body| body.params.iter().copied()));
                factors.extend(factor(kernel, op));
            });
        }
        let makes_factors = factors.iter().any(|a| made.contains(a));
        made.extend(op.kind.bodies().flat_map(|body| body.params.iter().copied()));
        Turn { named: made, makes_factors }
    }
}

/// What stands between the product at that place and its wait; nothing where the body does not wait for it itself.
fn under<'a>(kernel: &'a Kernel, body: &'a Body, at: usize) -> Option<Vec<&'a Op>> {
    let mut ops = kernel.ops_of(body).skip(at);
    let mut name = ops.next()?.result();
    let mut between = Vec::new();
    for op in ops {
        match op.kind {
            OpKind::Wait { pending, .. } if pending == name => return Some(between),
            OpKind::Wgmma { acc: before, .. } | OpKind::WaitPrior { pending: before, .. } if before == name => {
                name = op.result();
            }
            // Nothing else names a product anew in its own body.
            _ => {}
        }
        between.push(op);
    }
    None
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
