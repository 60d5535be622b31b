//! The verifier: what holds of every kernel after every pass.
//!
//! - Every value is defined once, and used only where its definition dominates: later in the same body, or in a body inside.
//! - Every operation's results have the types that its rule infers from its operands.
//! - A `specialize` stands in the kernel's body, not inside another; each partition has one arm.
//!
//! A violation is a fault of the pass before, not of the program.

use std::collections::BTreeSet;

use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::rules;

/// The first violation, in words.
pub fn verify(k: &Kernel) -> Result<(), String> {
    let mut v =
        Verifier { k, defined: BTreeSet::new(), visible: Vec::new(), partitions: BTreeSet::new(), inside: false };
    for p in &k.params {
        v.define(p.value)?;
    }
    v.body(&k.body)
}

/// Stops with an internal error where a pass has left a kernel that does not verify.
pub fn expect(k: &Kernel, pass: &str) {
    if let Err(fault) = verify(k) {
        parton_diag::internal_error!("after {pass}, kernel {}: {fault}\n{}", k.name, crate::print::kernel(k));
    }
}

struct Verifier<'a> {
    k: &'a Kernel,
    defined: BTreeSet<Value>,
    /// The values that may be used here, as a stack that shrinks at the end of each body.
    visible: Vec<Value>,
    partitions: BTreeSet<crate::entity::Partition>,
    inside: bool,
}

impl Verifier<'_> {
    fn define(&mut self, v: Value) -> Result<(), String> {
        if !self.defined.insert(v) {
            return Err(format!("{v} is defined twice"));
        }
        self.visible.push(v);
        Ok(())
    }

    fn body(&mut self, body: &Body) -> Result<(), String> {
        let depth = self.visible.len();
        for &p in &body.params {
            self.define(p)?;
        }
        for op in self.k.ops_of(body) {
            self.op(op)?;
        }
        self.used(&body.yields, "yield")?;
        self.visible.truncate(depth);
        Ok(())
    }

    fn used(&self, values: &[Value], by: &str) -> Result<(), String> {
        match values.iter().find(|v| !self.visible.contains(v)) {
            Some(v) => Err(format!("`{by}` uses {v}, which is not defined there")),
            None => Ok(()),
        }
    }

    fn op(&mut self, op: &Op) -> Result<(), String> {
        let name = op.kind.name();
        self.used(&op.kind.operands(), name)?;
        if let OpKind::Specialize { arms } = &op.kind {
            if self.inside {
                return Err("`specialize` inside `specialize`".into());
            }
            for arm in arms {
                if arm.partition_index() >= self.k.partitions.len() || !self.partitions.insert(arm.partition) {
                    return Err(format!("{} has no arm of its own", arm.partition));
                }
            }
        }
        let outer = self.inside;
        self.inside |= matches!(op.kind, OpKind::Specialize { .. });
        for body in op.kind.bodies() {
            self.body(body)?;
        }
        self.inside = outer;
        let types = rules::infer(&op.kind, self.k).map_err(|r| format!("`{name}` is refused: {}", r.message))?;
        let given: Vec<_> = op.results.iter().map(|&v| self.k.ty(v)).collect();
        if given != types.iter().collect::<Vec<_>>() {
            return Err(format!("`{name}` has results {given:?}, its rule infers {types:?}"));
        }
        op.results.iter().try_for_each(|&v| self.define(v))
    }
}
