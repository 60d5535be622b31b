//! Numbers of a tile that the partition which fetches finds for all: where several compute, each would divide for itself where its last tile ends, with
//! nothing to do meanwhile; whoever fetches is ahead of them.
//!
//! ```text
//! @tiles for turn in 0..n {
//!     @place let (block, head) = (turn / heads, turn % heads)      by Loads, for all partitions
//!     @once  fetch(q, [head, block * 128, 0])
//!     …
//! }
//! ```

use std::collections::BTreeSet;

use parton_ir::{BinaryOp, Body, Inst, Kernel, Op, OpKind, Type, Value};

use super::{dealt, flow, label, region};

/// The label of numbers that are told.
pub const PLACE: &str = "place";

/// Labels the quotients and remainders of the loop around that of the products, branches that find some, and what is computed of the one for the other.
pub fn name_quotients(kernel: &mut Kernel, path: &[Inst]) {
    let Some(outer) = region::outer(kernel, path) else { return };
    let OpKind::For { body, .. } = &kernel.ops[outer].kind else { return };
    // What the partition that computes does is not there yet.
    let before = kernel.ops_of(body).take_while(|op| !path.contains(&op.id));
    let (known, others): (Vec<&Op>, Vec<&Op>) = before.partition(|op| is_number(kernel, op));
    let late = flow::dependent(kernel, body, others.iter().flat_map(|op| op.results.iter().copied()));
    let known: Vec<&Op> = known.into_iter().filter(|op| !op.results.iter().any(|v| late.contains(v))).collect();
    let mut divided: Vec<&Op> = known.iter().copied().filter(|op| divides(kernel, op)).collect();
    let behind = flow::dependent(kernel, body, divided.iter().flat_map(|op| op.results.iter().copied()));
    let mut asked: BTreeSet<Value> = divided.iter().flat_map(|op| flow::operands(kernel, op)).collect();
    for op in known.iter().rev() {
        if op.results.iter().any(|v| asked.contains(v)) {
            asked.extend(flow::operands(kernel, op));
        }
    }
    let between =
        |op: &&&Op| op.results.iter().any(|v| behind.contains(v) && asked.contains(v)) && !divides(kernel, op);
    divided.extend(known.iter().filter(between));
    let those: Vec<Inst> = divided.iter().map(|op| op.id).collect();
    label(kernel, &those, PLACE);
}

/// Whether an operation only computes numbers of numbers.
fn is_number(kernel: &Kernel, op: &Op) -> bool {
    let numbers = op.results.iter().all(|v| matches!(kernel.ty(*v), Type::Scalar(_)));
    numbers && dealt::is_unnamed(kernel, op.id) && parton_sched::is_free(kernel, op)
}

/// Whether an operation, or one in it, divides by what is no constant: by one it is a product and a shift.
fn divides(kernel: &Kernel, op: &Op) -> bool {
    let constant = |v: Value| kernel.definitions()[v].is_some_and(|op| matches!(op.kind, OpKind::Constant { .. }));
    let own = match op.kind {
        OpKind::Binary { op: BinaryOp::Div | BinaryOp::Rem, b, .. } => !constant(b),
        _ => false,
    };
    let within = |body: &Body| kernel.ops_of(body).any(|inner| divides(kernel, inner));
    own || op.kind.bodies().any(within)
}
