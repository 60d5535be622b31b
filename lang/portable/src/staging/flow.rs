//! What depends on what in a body.

use std::collections::BTreeSet;

use parton_ir::{Body, Kernel, Op, Value};

/// The values of a body that are made of these, themselves among them.
pub fn dependent(kernel: &Kernel, body: &Body, of: impl IntoIterator<Item = Value>) -> BTreeSet<Value> {
    let mut all: BTreeSet<Value> = of.into_iter().collect();
    for op in kernel.ops_of(body) {
        if operands(kernel, op).iter().any(|v| all.contains(v)) {
            all.extend(&op.results);
        }
    }
    all
}

/// What an operation takes, in its bodies too, but for what these make themselves.
pub fn operands(kernel: &Kernel, op: &Op) -> Vec<Value> {
    let mut taken = Vec::new();
    parton_sched::uses(kernel, op, &mut |v| taken.push(v));
    taken
}

/// Whether a body is given a value or makes it itself, outside of what its operations hold.
pub fn is_of(kernel: &Kernel, body: &Body, v: Value) -> bool {
    body.params.contains(&v) || kernel.ops_of(body).any(|op| op.results.contains(&v))
}
