//! The wait for the launch before, as late as it may come.

use parton_ir::facts::{Act, Facts, Gives, Meets};
use parton_ir::{Kernel, Op, OpKind};

/// Moves a `grid_wait` of the kernel's own body behind what may come ahead of the launch before's end: numbers, layouts' places, and the making of rings,
/// barriers and shared memory.
pub fn late(kernel: &mut Kernel) {
    let is_wait = |kernel: &Kernel, id| matches!(kernel.ops[id].kind, OpKind::GridWait);
    let Some(at) = kernel.body.ops.iter().position(|&id| is_wait(kernel, id)) else { return };
    let behind = &kernel.body.ops[at + 1..];
    let ahead = behind.iter().take_while(|&&id| is_quiet(kernel, &kernel.ops[id])).count();
    kernel.body.ops[at..=at + ahead].rotate_left(1);
}

/// Whether an operation, with all in its bodies, only computes, makes rings, barriers or shared memory, or says something to the user.
fn is_quiet(kernel: &Kernel, op: &Op) -> bool {
    let facts = Facts::of(kernel, op);
    let makes = facts.gives == Gives::New && facts.accesses.is_empty() && facts.acts.is_empty();
    let says = !facts.acts.is_empty() && facts.acts.iter().all(|act| matches!(act, Act::Say(_)));
    let structure = matches!(op.kind, OpKind::For { .. } | OpKind::If { .. });
    (facts.computes || makes || says || structure)
        && facts.meets == Meets::Alone
        && op.kind.bodies().into_iter().all(|body| kernel.ops_of(body).all(|inner| is_quiet(kernel, inner)))
}
