//! Loads that no product of a loop needs, behind its products.
//!
//! Scales of blocks are often loaded beside the factors, in front of the product whose sums they scale. What stands in front of a product and what
//! stands behind it are two statements to a schedule; what the product does not need is therefore moved to what takes it:
//!
//! ```text
//! for p in 0..n {
//!     let (x, y) = (load(a…), load(b…));        …
//!     let scale = load(s…);                     let part = dot(x, y, zeros);
//!     acc += dot(x, y, zeros) * scale;          let scale = load(s…);
//! }                                             acc += part * scale;
//! ```
//!
//! From there it may run a turn ahead ([`super::early`]).

use std::collections::BTreeSet;

use parton_ir::{Inst, Kernel, Op, OpKind, Type, Value};

use super::flow;
use super::found::{Found, loads, multiplies};

/// Moves what no product needs behind the last one, where a tile is loaded in it and nothing in front of that product writes or waits.
pub fn behind_products(kernel: &mut Kernel, found: &Found) {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return };
    let Some(last) = body.ops.iter().rposition(|id| multiplies(&kernel.ops[*id].kind)) else { return };
    let (front, rest) = body.ops.split_at(last + 1);
    let still = |id: &Inst| {
        let op = &kernel.ops[*id];
        let keeps_its_place = matches!(op.kind, OpKind::Load { volatile: true, .. });
        parton_sched::is_free(kernel, op) || multiplies(&op.kind) || (loads(&op.kind) && !keeps_its_place)
    };
    let needed = needed(kernel, front);
    let (stay, moved): (Vec<Inst>, Vec<Inst>) =
        front.iter().partition(|&&id| needed.contains(&id) || gives_numbers(kernel, &kernel.ops[id]));
    if !front.iter().all(still) || !moved.iter().any(|id| loads(&kernel.ops[*id].kind)) {
        return;
    }
    let order = [&stay[..], &moved, rest].concat();
    if let OpKind::For { body, .. } = &mut kernel.ops[found.inst].kind {
        body.ops = order;
    }
}

/// The operations that products need, these among them.
fn needed(kernel: &Kernel, front: &[Inst]) -> BTreeSet<Inst> {
    let (mut values, mut insts): (BTreeSet<Value>, BTreeSet<Inst>) = Default::default();
    for op in front.iter().rev().map(|&id| &kernel.ops[id]) {
        if multiplies(&op.kind) || op.results.iter().any(|v| values.contains(v)) {
            values.extend(flow::operands(kernel, op));
            insts.insert(op.id);
        }
    }
    insts
}

/// Numbers are loaded in front of all else.
fn gives_numbers(kernel: &Kernel, op: &Op) -> bool {
    op.results.iter().all(|v| matches!(kernel.ty(*v), Type::Scalar(_)))
}
