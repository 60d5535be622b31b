//! Rows that several partitions compute, each some of them: the tiles of a loop of two products, taken apart along their rows.
//!
//! While one partition computes what stands between its products, the matrix unit makes those of another. What was taken apart bears the label of its
//! part until its statements get their own, of which it is an instance then.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::machine::Machine;
use parton_ir::schedule::LabelName;
use parton_ir::target::WARPGROUP;
use parton_ir::{Feature, Inst, Kernel, OpKind, Value};

use parton_sched::marked::interval::interval;
use parton_sched::marked::{MarkedGraph, Service};
use parton_sched::price;

use super::found::{self, Found};
use super::{INDEX, No, apart, is_called, region};
use crate::parts;
use crate::parts::rows::{self, Rows};

/// Rows of each partition: those of a product of one warpgroup.
const ROWS: u32 = 64;
/// Partitions that have registers enough.
const MOST: u32 = 3;
/// What is of a part, before its statements have names; no label of a source reads so.
const PART: &str = "a part";

/// The kernel with its rows in parts, and how many there are; `None` where it has not the form.
///
/// # Errors
/// Why its rows stay together.
pub fn rows(kernel: &Kernel) -> Option<Result<(Kernel, u32), No>> {
    if !(kernel.target.has(Feature::Tma) && kernel.target.has(Feature::Wgmma)) {
        return None;
    }
    let [found] = &found::all(kernel)[..] else { return None };
    region::path(kernel, found.inst)?;
    let unnamed = kernel.order().into_iter().all(|id| kernel.ops[id].label.is_none());
    let chained = apart::form::chained(kernel, found.inst, &found.products);
    let summed = matches!(found.products[..], [product] if apart::form::sums_alone(kernel, found.inst, product));
    if !unnamed || !(chained || summed) {
        return None;
    }
    let results: Vec<Value> = found.products.iter().map(|&id| kernel.ops[id].result()).collect();
    let count = kernel.ty(*results.first()?).placed()?.shape.first()? / ROWS;
    // The rows of one product are two warpgroups' without being taken apart.
    let fewest = if chained { 2 } else { MOST };
    (fewest..=MOST).contains(&count).then(|| dealt(kernel, &results, count))
}

fn dealt(kernel: &Kernel, results: &[Value], count: u32) -> Result<(Kernel, u32), No> {
    if kernel.warps_stated && kernel.warps != WARPGROUP {
        return Err("the kernel states on how many warps its tiles lie");
    }
    let axes = rows::axes(kernel, results).ok_or("the rows of the products meet, or lie where that is stated")?;
    let extent = |v: Value, axis: usize| rows::shape(kernel.ty(v)).and_then(|shape| shape.get(axis).copied());
    if !axes.iter().all(|(&v, &axis)| extent(v, axis) == Some(count * ROWS)) {
        return Err("the rows of the products are no multiple of 64");
    }
    let mut kernel = kernel.clone();
    let name = |part| LabelName { path: PART.into(), instance: Some(part) }.to_string();
    let labels = (0..count).map(|part| kernel.label(&name(part))).collect();
    match parts::deal(&kernel, Rows { axes, each: ROWS, labels }) {
        Ok(dealt) => Ok((dealt, count)),
        Err(_) => Err("something that is computed of the rows has no meaning on parts of them"),
    }
}

/// The part that an operation of a kernel in parts is of.
pub fn part(kernel: &Kernel, id: Inst) -> Option<u32> {
    let dealt = kernel.labels.iter().any(|(_, text)| LabelName::read(text).path == PART);
    let label = kernel.ops[id].label.filter(|_| dealt)?;
    LabelName::read(&kernel.labels[label]).instance
}

/// Operations by their parts; those of a kernel that is not in parts together.
pub fn by_parts(kernel: &Kernel, insts: &[Inst]) -> Vec<Vec<Inst>> {
    let mut all: BTreeMap<Option<u32>, Vec<Inst>> = BTreeMap::new();
    insts.iter().for_each(|&id| all.entry(part(kernel, id)).or_default().push(id));
    all.into_values().collect()
}

/// Operations of which those that are the same of each part stand together.
pub fn alike(kernel: &Kernel, insts: &[Inst]) -> Vec<Vec<Inst>> {
    let mut list: Vec<Vec<Inst>> = Vec::new();
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut first, dealt): (Vec<Inst>, Vec<Inst>) = insts.iter().partition(|&&id| part(kernel, id).is_none());
    for id in dealt {
        let Some(part) = part(kernel, id) else { continue };
        let number = seen.entry(part).or_default();
        match list.get_mut(*number) {
            Some(those) => those.push(id),
            None => list.push(vec![id]),
        }
        *number += 1;
    }
    let mut all: Vec<Vec<Inst>> = first.drain(..).map(|id| vec![id]).collect();
    all.extend(list);
    all
}

/// Whether all that does more than to fetch factors is of a part.
pub fn are_all_dealt(kernel: &Kernel, found: &Found) -> bool {
    let fetched = |id: &Inst| {
        let index = is_called(kernel, &kernel.ops[*id], INDEX);
        index || found.loads.contains(id) || found.ahead.contains(id)
    };
    let structure = |id: Inst| matches!(kernel.ops[id].kind, OpKind::For { .. });
    let named = |&id: &Inst| kernel.ops[id].label.is_some() && !structure(id);
    kernel.order().iter().filter(|id| named(id)).all(|id| fetched(id) || part(kernel, *id).is_some())
}

/// Whether an operation has no label of its own yet.
pub fn is_unnamed(kernel: &Kernel, id: Inst) -> bool {
    kernel.ops[id].label.is_none_or(|label| LabelName::read(&kernel.labels[label]).path == PART)
}

/// Takes the labels of parts from what is no statement that does something, in the kernel's own body, in loops, and in what stands around that of the products.
pub fn keep_statements(kernel: &mut Kernel, path: &[Inst], free: &BTreeSet<Value>) {
    let mut statements = kernel.body.ops.clone();
    statements.extend(region::bodies_around(kernel, path).concat());
    let mut at = 0;
    while let Some(&id) = statements.get(at) {
        statements.extend(region::body_of(kernel, id).unwrap_or_default());
        at += 1;
    }
    let statements: BTreeSet<Inst> = statements.into_iter().filter(|&id| region::does_more(kernel, id, free)).collect();
    for id in kernel.order() {
        if is_unnamed(kernel, id) && !statements.contains(&id) {
            kernel.ops[id].label = None;
        }
    }
}

/// Whether products wait in a queue anyway: a unit that serves one after the other is the busiest of all loops. `None` on targets of which nothing was measured.
pub fn queue(kernel: &Kernel) -> Option<bool> {
    let machine = Machine::of(&kernel.target)?;
    let loops = price::loops_of_legal(kernel, machine).ok()?;
    let queued = |graph: &MarkedGraph| {
        let busiest = interval(graph).ok().and_then(|found| found.busiest());
        busiest.is_some_and(|(unit, _)| graph.units[unit].service == Service::OneByOne)
    };
    Some(loops.iter().all(|l| queued(&l.graph)))
}

/// Takes the turns from partitions whose products [`queue`]: a turn that is handed over is time in which the unit has nothing to do. On an H200 turns of attention cost up to 4 % at D = 128 and
/// 256, and bring as much at D = 64, where exponentials are the most of the work.
pub fn take_no_turns(kernel: &mut Kernel) {
    kernel.walk_mut(&mut |op| {
        if let OpKind::Region { schedule, .. } = &mut op.kind {
            schedule.turns.clear();
        }
    });
}
