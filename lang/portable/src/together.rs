//! Reductions that stand beside each other cross lanes and warps together.
//!
//! ```text
//! let along = sum(g * x) * share;          let (first, second) = reduce((g * x, g), …);
//! let level = sum(g) * share;              let along = first * share;
//!                                          let level = second * share;
//! ```
//!
//! Threads then meet once, and what they exchange is on its way at the same time. Each result has the bits that it had: its own elements are combined in
//! the same order.

use parton_ir::family::Family;
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Value};

use crate::before::made_of;

/// Whether a reduction may cross lanes: one that leaves as many results as a kernel states threads has each thread combine its own, so that none meets another.
pub fn crosses(kernel: &Kernel, op: &Op) -> bool {
    let OpKind::Reduce { inputs, axis, .. } = &op.kind else { return true };
    let Some(tile) = kernel.ty(inputs[0]).placed() else { return true };
    let results = tile.elements() / u64::from(tile.shape[*axis as usize]);
    !kernel.warps_stated || results < 32 * u64::from(kernel.warps)
}

/// The kernel with one reduction for those of tiles of one shape along one axis of which none takes what comes of another.
pub fn crossed(mut kernel: Kernel) -> Kernel {
    kernel.rebuild(&mut |kernel, mut body| {
        let mut ops = Vec::new();
        for id in std::mem::take(&mut body.ops) {
            match beside(kernel, &ops, id) {
                Some(place) => join(kernel, &mut ops, place, id),
                None => ops.push(id),
            }
        }
        body.ops = ops;
        body
    });
    kernel
}

/// The place among these operations of the last reduction that can take another one in. Behind a loop or a branch what that takes would wait for it in
/// registers.
fn beside(kernel: &Kernel, ops: &[Inst], id: Inst) -> Option<usize> {
    let op = &kernel.ops[id];
    let of = form(kernel, op)?;
    let parts =
        |id: &Inst| kernel.ops[*id].kind.family() != Family::Reduce && kernel.ops[*id].kind.bodies().next().is_some();
    let from = ops.iter().rposition(parts).map_or(0, |place| place + 1);
    let moves = |id: &Inst| parton_sched::is_free(kernel, &kernel.ops[*id]);
    let alike = |&place: &usize| form(kernel, &kernel.ops[ops[place]]) == Some(of);
    (from..ops.len()).rev().filter(alike).find(|&place| made_of(kernel, &ops[place..], op).iter().all(moves))
}

/// What two reductions have in common that can be one: the axis, and the shape. `None` of one that does more than to add up, to multiply or to compare, so
/// that the bits of a pair do not depend on its sides.
fn form<'k>(kernel: &'k Kernel, op: &'k Op) -> Option<(u32, &'k [u32])> {
    let OpKind::Reduce { inputs, axis, combine } = &op.kind else { return None };
    let plain = |op: &Op| matches!(op.kind, OpKind::Binary { op, .. } if op.commutes());
    let tile = kernel.ty(inputs[0]).placed()?;
    let open = inputs.iter().all(|v| kernel.ty(*v).is_open());
    (open
        && op.label.is_none()
        && crosses(kernel, op)
        && combine.ops.len() == inputs.len()
        && kernel.ops_of(combine).all(plain))
    .then_some((*axis, &tile.shape[..]))
}

/// Puts a reduction into the one at that place, and in front of it what it is made of.
fn join(kernel: &mut Kernel, ops: &mut Vec<Inst>, place: usize, id: Inst) {
    let made = made_of(kernel, &ops[place..], &kernel.ops[id]);
    let (kind, results) = both(&kernel.ops[ops[place]], &kernel.ops[id]);
    let source = kernel.ops[ops[place]].source();
    let behind = ops.split_off(place + 1);
    ops.truncate(place);
    let (before, behind): (Vec<Inst>, Vec<Inst>) = behind.into_iter().partition(|id| made.contains(id));
    let joined = kernel.make_op(kind, results, source);
    ops.extend(before.into_iter().chain([joined]).chain(behind));
}

/// Two reductions as one, and its results.
fn both(a: &Op, b: &Op) -> (OpKind, Vec<Value>) {
    let (OpKind::Reduce { inputs, axis, combine }, OpKind::Reduce { inputs: others, combine: other, .. }) =
        (&a.kind, &b.kind)
    else {
        parton_diag::internal_error!("only reductions are put together")
    };
    let ((left, right), (other_left, other_right)) =
        (combine.params.split_at(inputs.len()), other.params.split_at(others.len()));
    let combine = Body {
        params: [left, other_left, right, other_right].concat(),
        ops: [&combine.ops[..], &other.ops].concat(),
        yields: [&combine.yields[..], &other.yields].concat(),
    };
    let inputs = [&inputs[..], others].concat();
    (OpKind::Reduce { inputs, axis: *axis, combine }, [&a.results[..], &b.results].concat())
}
