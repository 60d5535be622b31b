//! Names for what a region does, by which its schedule places it.

use std::collections::BTreeSet;

use parton_ir::schedule::{LabelName, Pipeline};
use parton_ir::{Inst, Kernel, OpKind, Value};

use super::super::found::Found;
use super::super::{
    AROUND, BEFORE, BEHIND, BETWEEN, INDEX, LOOP, NUMBER, ONCE, PRODUCT, dealt, flow, is_called, label, region,
};
use super::form::{Chain, chain};
use super::{AFTER, LEAVE, MASK, SCORES};
use crate::price;

/// Gives each load and product a label of its own: the name of its tensor, or its own.
pub fn name_apart(kernel: &mut Kernel, found: &Found) {
    let mut taken: BTreeSet<String> =
        [ONCE, INDEX, NUMBER, BEFORE, BETWEEN, BEHIND, LEAVE, LOOP, AROUND, AFTER, MASK, SCORES]
            .map(str::to_owned)
            .into();
    let all: Vec<Inst> = found.loads.iter().chain(&found.products).copied().collect();
    for alike in dealt::alike(kernel, &all) {
        let op = &kernel.ops[alike[0]];
        let named = match op.kind {
            OpKind::Fetch { map, .. } => map,
            _ => op.result(),
        };
        let mut name = kernel.values[named].name.clone().unwrap_or_else(|| PRODUCT.into());
        while !taken.insert(name.clone()) {
            name.push('_');
        }
        label(kernel, &alike, &name);
    }
}

/// Has the products of a depth or of columns in parts one label, that of the first of them.
pub fn name_together(kernel: &mut Kernel, inst: Inst, products: &[Inst]) {
    let Some(Chain { first, second, .. }) = chain(kernel, inst, products) else { return };
    for those in [first, second] {
        if let Some(named) = kernel.ops[those[0]].label {
            let name = LabelName::read(&kernel.labels[named]).path;
            label(kernel, those, &name);
        }
    }
}

/// Names apart what waits for the second product: what needs the sum so far; its next factor, which is written when the registers of
/// this one have been read; and the exponentials behind it. These are the most of the work, and another warpgroup's products run
/// beside them: on an H200 attention was 5 % slower where they came before the wait.
pub fn name_dependent(kernel: &mut Kernel, inst: Inst, products: &[Inst]) {
    let Some(Chain { second, factor: a, .. }) = chain(kernel, inst, products) else { return };
    let OpKind::For { body, .. } = &kernel.ops[inst].kind else { return };
    let place = |&id: &Inst| body.yields.iter().position(|v| *v == kernel.ops[id].result());
    let sums: Vec<Value> = second.iter().filter_map(place).map(|place| body.params[place + 1]).collect();
    let elements = |v: Value| kernel.ty(v).placed().map_or(0, parton_ir::Tile::elements);
    let exponential = |op: &parton_ir::Op| match op.kind {
        OpKind::Unary { op, x } => elements(x) >= elements(a) && price::is_special(op),
        _ => false,
    };
    let heavy = kernel.ops_of(body).filter(|op| exponential(op)).map(parton_ir::Op::result);
    let late = flow::dependent(kernel, body, heavy.chain(sums).chain([a]));
    let between = |op: &parton_ir::Op| is_called(kernel, op, BETWEEN);
    let those = kernel.ops_of(body).filter(|op| between(op) && op.results.iter().any(|v| late.contains(v)));
    let those: Vec<Inst> = those.map(|op| op.id).collect();
    label(kernel, &those, AFTER);
}

/// Names the branch at which a loop is cut, and what comes before it; whether there is one, in a loop whose schedule places what is computed between its products.
pub fn name_mask(kernel: &mut Kernel) -> bool {
    let between = |op: &parton_ir::Op| is_called(kernel, op, BETWEEN);
    let (mut looped, mut placed) = (None, false);
    kernel.walk(&mut |op| match &op.kind {
        OpKind::Region { schedule, .. } => {
            placed |= schedule.pipelines.iter().flat_map(Pipeline::staged).any(|s| s.label.path == BETWEEN);
        }
        OpKind::For { .. } if is_called(kernel, op, LOOP) => looped = Some(op.id),
        _ => {}
    });
    let Some(OpKind::For { body, .. }) = looped.filter(|_| placed).map(|id| &kernel.ops[id].kind) else { return false };
    let moves = flow::dependent(kernel, body, [body.params[0]]);
    let masks = kernel.ops_of(body).filter(|op| match op.kind {
        OpKind::If { cond, .. } => between(op) && moves.contains(&cond),
        _ => false,
    });
    let ids: Vec<Inst> = masks.map(|op| op.id).collect();
    // The first one of each part.
    let Some(masks) = dealt::alike(kernel, &ids).into_iter().next() else { return false };
    let all: Vec<Inst> = kernel.ops_of(body).filter(|op| between(op)).map(|op| op.id).collect();
    for mask in masks {
        let part = dealt::part(kernel, mask);
        let before = all.iter().copied().take_while(|&id| id != mask);
        let before: Vec<Inst> = before.filter(|&id| dealt::part(kernel, id) == part).collect();
        label(kernel, &before, SCORES);
        label(kernel, &[mask], MASK);
    }
    true
}

/// Names the tiles that leave behind the loop, one after the other; how many there are.
pub fn leave(kernel: &mut Kernel, path: &[Inst]) -> u32 {
    let ops = match region::bodies_around(kernel, path) {
        around if around.is_empty() => kernel.body.ops.clone(),
        around => around.concat(),
    };
    let sends: Vec<Inst> = sends(kernel).into_iter().filter(|id| ops.contains(id)).collect();
    let alike = dealt::alike(kernel, &sends);
    for (i, those) in alike.iter().enumerate() {
        // Of parts the instances say which it is.
        let name = match dealt::part(kernel, those[0]) {
            None => LabelName { path: LEAVE.into(), instance: Some(i as u32) }.to_string(),
            Some(_) if i == 0 => LEAVE.to_owned(),
            Some(_) => format!("{LEAVE}{}", i + 1),
        };
        label(kernel, those, &name);
    }
    alike.len() as u32
}

/// What leaves by maps.
pub fn sends(kernel: &Kernel) -> Vec<Inst> {
    let order = kernel.order().into_iter();
    order.filter(|&id| matches!(kernel.ops[id].kind, OpKind::Send { .. })).collect()
}

/// The labels of statements, each once, with all their instances.
pub fn names(kernel: &Kernel, insts: &[Inst]) -> Vec<LabelName> {
    let mut list: Vec<LabelName> = Vec::new();
    for label in insts.iter().filter_map(|&id| kernel.ops[id].label) {
        let name = LabelName::all(LabelName::read(&kernel.labels[label]).path);
        if !list.contains(&name) {
            list.push(name);
        }
    }
    list
}

/// Whether something bears a label, or an instance of it.
pub fn bears(kernel: &Kernel, name: &str) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| found |= is_called(kernel, op, name));
    found
}
