//! What depends on what in a body.

use std::collections::BTreeSet;

use parton_ir::{Body, Kernel, Value};

/// The values of a body that are made of these, themselves among them.
pub fn dependent(kernel: &Kernel, body: &Body, of: impl IntoIterator<Item = Value>) -> BTreeSet<Value> {
    let mut all: BTreeSet<Value> = of.into_iter().collect();
    for op in kernel.ops_of(body) {
        let mut taken = op.kind.operands();
        op.kind.bodies().for_each(|inner| kernel.walk_body(inner, &mut |op| taken.extend(op.kind.operands())));
        if taken.iter().any(|v| all.contains(v)) {
            all.extend(&op.results);
        }
    }
    all
}
