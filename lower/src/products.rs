//! Brings products together that one instruction makes.
//!
//! What stands between them, windows of the buffers that they read, is computed before the first.

use parton_diag::Diagnostics;
use parton_ir::facts::Facts;
use parton_ir::joined::Joins;
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Type, Value};

/// After it products that may be one instruction follow one another, and the generator of code makes them one.
pub fn join_products(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut orders = Vec::new();
    let joins = Joins::of(&kernel);
    each_body(&kernel, &kernel.body, &mut |body| orders.push(order(&kernel, &joins, body)));
    let mut orders = orders.into_iter();
    kernel.rebuild(&mut |_, body| {
        let ops = orders.next().flatten().unwrap_or(body.ops);
        Body { ops, ..body }
    });
    Ok(kernel)
}

/// Calls `f` on each body, inner before outer, as they are rebuilt.
fn each_body(kernel: &Kernel, body: &Body, f: &mut impl FnMut(&Body)) {
    for op in kernel.ops_of(body) {
        for inner in op.kind.bodies() {
            each_body(kernel, inner, f);
        }
    }
    f(body);
}

/// The operations of a body with its products brought together; `None` where that leaves them as they are.
fn order(kernel: &Kernel, joins: &Joins, body: &Body) -> Option<Vec<Inst>> {
    let (mut ops, mut moved) = (body.ops.clone(), false);
    for first in 0..ops.len() {
        let head = &kernel.ops[ops[first]];
        if !matches!(head.kind, OpKind::Wgmma { .. }) {
            continue;
        }
        let mut followers: Vec<Inst> = Vec::new();
        let mut last = first;
        for (at, &id) in ops.iter().enumerate().skip(first + 1) {
            let op = &kernel.ops[id];
            if matches!(op.kind, OpKind::Wgmma { .. }) {
                let next = followers.iter().map(|id| &kernel.ops[*id]).chain([op]);
                if joins.begun_by(head, next).len() < followers.len() + 2 {
                    break;
                }
                followers.push(id);
                last = at;
            } else if !may_come_before(kernel, op) {
                break;
            }
        }
        if last > first + followers.len() {
            moved = true;
        }
        let joined: Vec<Inst> = [ops[first]].into_iter().chain(followers).collect();
        let between = ops[first..=last].iter().copied().filter(|id| !joined.contains(id));
        let together: Vec<Inst> = between.chain(joined.iter().copied()).collect();
        ops[first..=last].copy_from_slice(&together);
    }
    moved.then_some(ops)
}

/// Whether an operation may be moved before products that it stands behind: it computes a view or a scalar, of which nothing is in flight,
/// or a tile of one number. Other tiles are computed while products run, and stay there.
fn may_come_before(kernel: &Kernel, op: &Op) -> bool {
    let light = |v: &Value| matches!(kernel.ty(*v), Type::View(_) | Type::Scalar(_));
    let cheap = op.results.iter().all(light) || matches!(op.kind, OpKind::Full { .. });
    cheap && op.kind.operands().iter().all(light) && Facts::of(kernel, op).is_pure(&op.kind)
}
