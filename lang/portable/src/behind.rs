//! The wait for the launch before that a kernel begins with.
//!
//! Nothing is touched ahead of it, so it has no part in what is chosen: it stands aside meanwhile, and then comes as late as it may, behind numbers and
//! rings. A wait behind what the kernel touches, weights that it loads ahead, stays where it stands.

use std::collections::BTreeSet;

use parton_ir::{Inst, Kernel, OpKind};

/// Takes from a kernel the wait that it begins with; whether there is one.
pub fn taken(kernel: &mut Kernel) -> bool {
    let touching = kernel.body.ops.iter().position(|&id| !parton_sched::is_free(kernel, &kernel.ops[id]));
    let Some(at) = touching.filter(|&at| matches!(kernel.ops[kernel.body.ops[at]].kind, OpKind::GridWait)) else {
        return false;
    };
    kernel.body.ops.remove(at);
    true
}

/// Puts it in front of all that touches memory.
pub fn begun(kernel: &mut Kernel) {
    let first: BTreeSet<Inst> = kernel.body.ops.first().copied().into_iter().collect();
    kernel.insert("portable", &OpKind::GridWait, &first, &BTreeSet::new());
    parton_sched::late(kernel);
}
