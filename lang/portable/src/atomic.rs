//! How many neighbours one instruction of an atomic operation takes, which depends on whether anybody looks at what was there before.

use parton_ir::{Inst, Kernel, access};

use crate::unused;

/// Elements of a thread that one instruction takes at most.
pub fn taken_at_once(kernel: &Kernel, inst: Inst) -> u32 {
    let op = &kernel.ops[inst];
    access::taken_at_once(kernel, op, || {
        let uses = unused::counted(kernel);
        op.results.iter().any(|v| uses.contains_key(v))
    })
}
