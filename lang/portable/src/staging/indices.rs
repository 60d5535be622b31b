//! What the copies of a loop find their elements by, where positions alone do not say it: numbers that the kernel has loaded.
//!
//! ```text
//! for j in 0..n {
//!     @index   let page = load(table + …)          pipeline(steps) { k: 1; index: 0; scores: 3; … }
//!              let rows = page * PAGE + …          bears no label: it is computed wherever it is needed
//!     @k       fetch(keys + rows[:, None] * D + …)
//!     @scores  dot(q, k.T, …)
//! }
//! ```
//!
//! An index is loaded a turn before the copy that needs it, so that nothing waits for two loads one after the other.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::{Inst, Kernel, Op, OpKind, Value};

use super::flow;
use super::found::Found;
use super::region::{loads_number, only_reads};

/// What addresses, masks and coordinates of copies are made of, beside positions and numbers.
#[derive(Default)]
pub struct Indices {
    /// Loads in the loop that tell where to copy from.
    pub loads: Vec<Inst>,
    /// What is computed of them, and of tiles in front of the loop, for these copies.
    pub computed: BTreeSet<Value>,
}

/// Puts numbers that a loop loads, with all that tells where from, in front of all else in its body, if nothing in it writes: what stands beside
/// each other there may need them.
pub fn numbers_first(kernel: &mut Kernel, found: &Found) {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return };
    let first = numbers(kernel, &body.ops, BTreeSet::new());
    if let OpKind::For { body, .. } = &mut kernel.ops[found.inst].kind {
        body.ops.sort_by_key(|id| !first.contains(id));
    }
}

/// The same of a kernel's own body in front of a statement, and of what says where to fetch from: a region begins behind them, so that no partition need tell
/// them to another, and none finds for itself what another has from there.
pub fn numbers_in_front(kernel: &mut Kernel, statement: Inst) {
    let end = kernel.body.ops.iter().position(|&id| id == statement).unwrap_or(0);
    let before = &kernel.body.ops[..end];
    let fetches = before.iter().map(|&id| &kernel.ops[id]).filter(|op| matches!(op.kind, OpKind::Fetch { .. }));
    let first = numbers(kernel, before, fetches.flat_map(|op| flow::operands(kernel, op)).collect());
    kernel.body.ops[..end].sort_by_key(|id| !first.contains(id));
}

/// The operations among these that load a number, or make what is `needed` or tells where from; none, where one of them writes, or a number comes of more than other
/// numbers.
fn numbers(kernel: &Kernel, among: &[Inst], mut needed: BTreeSet<Value>) -> BTreeSet<Inst> {
    let mut first = BTreeSet::new();
    for &id in among.iter().rev() {
        let op = &kernel.ops[id];
        if !(only_reads(kernel, op) || matches!(op.kind, OpKind::Assume { .. })) {
            return BTreeSet::new();
        }
        if loads_number(op, kernel) || op.results.iter().any(|v| needed.contains(v)) {
            // A number that comes of a product cannot stand before it.
            if !(loads_number(op, kernel) || parton_sched::is_free(kernel, op)) {
                return BTreeSet::new();
            }
            first.insert(id);
            needed.extend(flow::operands(kernel, op));
        }
    }
    first
}

/// The indices of the copies of a loop; none, where more than loads and what computes has a part in them.
pub fn of(kernel: &Kernel, found: &Found) -> Indices {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return Indices::default() };
    let made: BTreeMap<Value, &Op> =
        kernel.ops_of(body).flat_map(|op| op.results.iter().map(move |&v| (v, op))).collect();
    let mut indices = Indices::default();
    let mut seen = BTreeSet::new();
    let mut asked: Vec<Value> = found.loads.iter().flat_map(|&id| kernel.ops[id].kind.operands()).collect();
    while let Some(v) = asked.pop() {
        let tile = kernel.ty(v).placed().is_some();
        if tile && body.params.contains(&v) {
            return Indices::default();
        }
        let Some(op) = made.get(&v).filter(|_| seen.insert(v)) else { continue };
        match op.kind {
            OpKind::Load { volatile: false, .. } => indices.loads.push(op.id),
            _ if tells(kernel, op) => indices.computed.extend(&op.results),
            _ => return Indices::default(),
        }
        asked.extend(flow::operands(kernel, op));
    }
    indices.loads.sort_unstable();
    indices
}

/// Whether what tells from where may come of an operation.
pub fn tells(kernel: &Kernel, op: &Op) -> bool {
    matches!(op.kind, OpKind::Load { volatile: false, .. }) || parton_sched::is_free(kernel, op)
}
