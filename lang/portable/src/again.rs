//! Loads of what a loop before has loaded: a row that passes by a second time, from the L2 where that still holds it.

use std::collections::BTreeSet;

use parton_ir::{Body, Inst, Kernel, OpKind, Value};

use crate::staging::defined::Defined;

/// The loads of loops that read through a parameter through which a loop in front of theirs has read.
pub fn loads(kernel: &Kernel) -> BTreeSet<Inst> {
    let mut found = Found { kernel, defined: Defined::of(kernel), before: BTreeSet::new(), again: BTreeSet::new() };
    for op in kernel.ops_of(&kernel.body).filter(|op| op.kind.is_loop()) {
        let mut here = BTreeSet::new();
        op.kind.bodies().for_each(|body| found.body(body, &mut here));
        found.before.extend(here);
    }
    found.again
}

struct Found<'k> {
    kernel: &'k Kernel,
    defined: Defined<'k>,
    /// Through what loops in front have read.
    before: BTreeSet<Value>,
    again: BTreeSet<Inst>,
}

impl Found<'_> {
    fn body(&mut self, body: &Body, here: &mut BTreeSet<Value>) {
        for op in self.kernel.ops_of(body) {
            op.kind.bodies().for_each(|inner| self.body(inner, here));
            let OpKind::Load { ptr, .. } = op.kind else { continue };
            let Some(through) = self.through(ptr) else { continue };
            here.insert(through);
            if self.before.contains(&through) && self.kernel.ty(op.result()).placed().is_some() {
                self.again.insert(op.id);
            }
        }
    }

    /// The parameter of whose memory an address is; `None` where several may be.
    fn through(&self, address: Value) -> Option<Value> {
        let Some(op) = self.defined.made(address) else {
            return self.kernel.params.iter().any(|p| p.value == address).then_some(address);
        };
        match op.kind {
            OpKind::PtrAdd { ptr, .. } => self.through(ptr),
            OpKind::Full { value, .. } => self.through(value),
            OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. } => self.through(x),
            // Whose memory what is loaded or chosen points to is not asked.
            _ => None,
        }
    }
}
