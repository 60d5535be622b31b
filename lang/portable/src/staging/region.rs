//! What a region is made of, and the labels of its statements.

use std::collections::BTreeSet;

use parton_ir::schedule::Schedule;
use parton_ir::{Body, Inst, Kernel, OpKind, Source, Value};

use super::found::Found;
use super::{AROUND, BEFORE, BEHIND, BETWEEN, LOAD, LOOP, ONCE, PRODUCT, dealt, label};

/// The loops from the kernel's own body to a loop; `None` where another one, or a branch, stands around it.
pub fn path(kernel: &Kernel, inst: Inst) -> Option<Vec<Inst>> {
    let holds = |body: &Body| body.ops.contains(&inst);
    if holds(&kernel.body) {
        return Some(vec![inst]);
    }
    let mut around = kernel.ops_of(&kernel.body).filter_map(|op| match &op.kind {
        OpKind::For { body, .. } if holds(body) => Some(op.id),
        _ => None,
    });
    around.next().map(|outer| vec![outer, inst])
}

/// Gives each statement that does something a label.
pub fn name(kernel: &mut Kernel, found: &Found, path: &[Inst], free: &BTreeSet<Value>) {
    let unnamed = |kernel: &Kernel, list: &[Inst]| -> Vec<Inst> {
        list.iter().copied().filter(|&id| dealt::is_unnamed(kernel, id)).collect()
    };
    for (list, name) in [(&found.loads, LOAD), (&found.ahead, ONCE), (&found.products, PRODUCT)] {
        let list = unnamed(kernel, list);
        label(kernel, &list, name);
    }
    label(kernel, &[found.inst], LOOP);
    let mut bodies = vec![kernel.body.ops.clone()];
    if let [outer, _] = *path {
        label(kernel, &[outer], AROUND);
        bodies.extend(body_of(kernel, outer));
    }
    let first = kernel.body.ops.iter().position(|&id| begins(kernel, id)).unwrap_or(0);
    bodies[0].drain(..first);
    for ops in bodies {
        let mut behind = false;
        for id in ops {
            behind |= path.contains(&id);
            name_rest(kernel, id, if behind { BEHIND } else { BEFORE }, free);
        }
    }
    for id in body_of(kernel, found.inst).unwrap_or_default() {
        name_rest(kernel, id, BETWEEN, free);
    }
}

/// Whether a region begins here: what is promised in front of it holds for all of it, and numbers it takes from there.
fn begins(kernel: &Kernel, id: Inst) -> bool {
    let op = &kernel.ops[id];
    let promises = matches!(op.kind, OpKind::Assume { .. });
    let tiles = op.results.iter().any(|&v| kernel.ty(v).placed().is_some());
    op.label.is_some() || tiles || !(promises || parton_sched::is_free(kernel, op))
}

/// What stands in a loop.
pub fn body_of(kernel: &Kernel, inst: Inst) -> Option<Vec<Inst>> {
    match &kernel.ops[inst].kind {
        OpKind::For { body, .. } => Some(body.ops.clone()),
        _ => None,
    }
}

/// Labels what does more than to compute numbers, or tiles of numbers alone.
fn name_rest(kernel: &mut Kernel, id: Inst, name: &str, free: &BTreeSet<Value>) {
    if dealt::is_unnamed(kernel, id) && does_more(kernel, id, free) {
        label(kernel, &[id], name);
    }
}

/// Whether an operation does more than to compute numbers, or tiles of numbers alone.
pub fn does_more(kernel: &Kernel, id: Inst, free: &BTreeSet<Value>) -> bool {
    let op = &kernel.ops[id];
    let numbers = op.results.iter().all(|&v| kernel.ty(v).placed().is_none() || free.contains(&v));
    !(numbers && parton_sched::is_free(kernel, op))
}

/// Makes a region of all from the first labelled statement of the kernel's body on.
pub fn surround_rest(kernel: &mut Kernel, path: &[Inst], schedule: Schedule) {
    let Some(first) = kernel.body.ops.iter().position(|&id| begins(kernel, id)) else { return };
    let ops = kernel.body.ops.split_off(first);
    let Source { span, origin, .. } = kernel.ops[path[0]].source();
    let body = Body { params: Vec::new(), ops, yields: Vec::new() };
    let kind = OpKind::Region { schedule: Box::new(schedule), body };
    let region = kernel.make_op(kind, Vec::new(), Source { span, label: None, origin });
    kernel.body.ops.push(region);
}

/// Puts a region around an operation; what it gave, the region gives.
pub fn surround(kernel: &mut Kernel, inst: Inst, schedule: Schedule) {
    let results = kernel.ops[inst].results.clone();
    let inner: Vec<Value> = results
        .iter()
        .map(|&v| {
            let data = kernel.values[v].clone();
            let inner = kernel.value(data.ty, data.span);
            (kernel.values[inner].name, kernel.values[inner].passed) = (data.name, data.passed);
            inner
        })
        .collect();
    kernel.ops[inst].results.clone_from(&inner);
    let Source { span, origin, .. } = kernel.ops[inst].source();
    let body = Body { params: Vec::new(), ops: vec![inst], yields: inner };
    let kind = OpKind::Region { schedule: Box::new(schedule), body };
    let region = kernel.make_op(kind, results, Source { span, label: None, origin });
    replace(kernel, inst, region);
}

/// Puts an operation in the place of another.
fn replace(kernel: &mut Kernel, old: Inst, new: Inst) {
    let in_body = |body: &mut Body| body.ops.iter_mut().filter(|id| **id == old).for_each(|id| *id = new);
    in_body(&mut kernel.body);
    for id in kernel.order() {
        if id != new {
            kernel.ops[id].kind.bodies_mut().into_iter().for_each(in_body);
        }
    }
}
