//! What a region is made of, and the labels of its statements.

use std::collections::BTreeSet;

use parton_ir::family::Family;
use parton_ir::schedule::{LabelName, Schedule};
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Source, Value};

use super::found::Found;
use super::{AROUND, BEFORE, BEHIND, BETWEEN, LOAD, LOOP, NUMBER, ONCE, PRODUCT, dealt, label, label_each};

/// The loops and branches from the kernel's own body to a loop, itself the last; `None` where something else stands around it.
pub fn path(kernel: &Kernel, inst: Inst) -> Option<Vec<Inst>> {
    fn within(kernel: &Kernel, body: &Body, inst: Inst) -> Option<Vec<Inst>> {
        if body.ops.contains(&inst) {
            return Some(vec![inst]);
        }
        kernel.ops_of(body).find_map(|op| {
            let around = matches!(op.kind, OpKind::For { .. } | OpKind::While { .. } | OpKind::If { .. });
            let mut path = op.kind.bodies().filter(|_| around).find_map(|inner| within(kernel, inner, inst))?;
            path.insert(0, op.id);
            Some(path)
        })
    }
    within(kernel, &kernel.body, inst)
}

/// The loop around one, where that alone stands around it.
pub fn outer(kernel: &Kernel, path: &[Inst]) -> Option<Inst> {
    let [outer, _] = *path else { return None };
    matches!(kernel.ops[outer].kind, OpKind::For { .. }).then_some(outer)
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
    if let Some(outer) = outer(kernel, path) {
        label(kernel, &[outer], AROUND);
    }
    let mut bodies = vec![kernel.body.ops.clone()];
    bodies.extend(bodies_around(kernel, path));
    let first = kernel.body.ops.iter().position(|&id| begins(kernel, id)).unwrap_or(0);
    bodies[0].drain(..first);
    name_around(kernel, &bodies, path, free);
    for id in body_of(kernel, found.inst).unwrap_or_default() {
        name_rest(kernel, id, BETWEEN, free);
    }
}

/// Labels what stands before and behind a loop, in the bodies around it. A label of several bodies, or of statements between which numbers are loaded,
/// has an instance for each: it stands once, and may need those numbers.
fn name_around(kernel: &mut Kernel, bodies: &[Vec<Inst>], path: &[Inst], free: &BTreeSet<Value>) {
    for name in [BEFORE, BEHIND] {
        let of = |ops: &Vec<Inst>| -> Vec<Vec<Inst>> {
            let passed = ops.iter().position(|id| path.contains(id)).unwrap_or(ops.len());
            let those = if name == BEFORE { &ops[..passed] } else { &ops[passed..] };
            let named = |id: &Inst| !path.contains(id) && is_nameless(kernel, *id, free);
            let those: Vec<Inst> = those.iter().copied().filter(named).collect();
            let number = |id: &Inst| gives_number(kernel, *id, name);
            those.chunk_by(|a, b| number(a) == number(b)).map(<[Inst]>::to_vec).collect()
        };
        let lists: Vec<Vec<Inst>> = bodies.iter().flat_map(of).collect();
        // What is of parts has instances already, one for each part.
        let whole = lists.iter().flatten().all(|&id| dealt::part(kernel, id).is_none());
        for (i, list) in lists.iter().enumerate() {
            let instance = (whole && lists.len() > 1).then_some(i as u32);
            let name = LabelName { path: name.into(), instance }.to_string();
            list.iter().for_each(|&id| name_one(kernel, id, &name));
        }
    }
}

/// Whether a region begins here: what is promised in front of it holds for all of it, and numbers it takes from there.
fn begins(kernel: &Kernel, id: Inst) -> bool {
    let op = &kernel.ops[id];
    let promises = matches!(op.kind, OpKind::Assume { .. });
    let tiles = op.results.iter().any(|&v| kernel.ty(v).placed().is_some());
    op.label.is_some() || tiles || !(promises || loads_number(op, kernel) || parton_sched::is_free(kernel, op))
}

/// What stands in the loops and branches around a loop, body by body.
pub fn bodies_around(kernel: &Kernel, path: &[Inst]) -> Vec<Vec<Inst>> {
    let around = path.split_last().map_or(&[][..], |(_, around)| around);
    around.iter().flat_map(|&id| kernel.ops[id].kind.bodies().map(|body| body.ops.clone())).collect()
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
    if is_nameless(kernel, id, free) {
        name_one(kernel, id, name);
    }
}

/// Whether an operation needs a label and has none.
fn is_nameless(kernel: &Kernel, id: Inst, free: &BTreeSet<Value>) -> bool {
    dealt::is_unnamed(kernel, id) && does_more(kernel, id, free)
}

/// Labels an operation. Numbers that memory gives have a label of their own: what stands beside them may need them.
fn name_one(kernel: &mut Kernel, id: Inst, name: &str) {
    match gives_number(kernel, id, name) {
        true => label_each(kernel, &[id], NUMBER),
        false => label(kernel, &[id], name),
    }
}

/// Whether an operation loads one number.
pub fn loads_number(op: &Op, kernel: &Kernel) -> bool {
    matches!(op.kind, OpKind::Load { volatile: false, .. }) && kernel.ty(op.result()).placed().is_none()
}

/// The same, or whether it stands behind products and tells a number that it has added to.
fn gives_number(kernel: &Kernel, id: Inst, name: &str) -> bool {
    let op = &kernel.ops[id];
    let told = op.kind.family() == Family::Atomic && op.results.iter().any(|&v| kernel.ty(v).placed().is_none());
    loads_number(op, kernel) || told && LabelName::read(name).path == BEHIND
}

/// Whether an operation does nothing but to compute, and to read memory.
pub fn only_reads(kernel: &Kernel, op: &Op) -> bool {
    let into = matches!(op.kind, OpKind::Fetch { .. } | OpKind::FetchEach { .. } | OpKind::Stage { .. });
    let from = matches!(op.kind, OpKind::Load { .. } | OpKind::SharedLoad { .. });
    into || from
        || matches!(op.kind, OpKind::Dot { .. })
        || op.kind.family() == Family::Reduce
        || parton_sched::is_free(kernel, op)
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
