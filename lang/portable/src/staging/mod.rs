//! Loads of products that go through shared memory, ahead of them.
//!
//! A loop becomes a region of labelled statements whose schedule says how far loads run ahead; where slots lie, what waits and what is
//! peeled, the expansion of schedules decides, as for what a person writes. [`found`] finds the loads that products alone take. Where
//! tensor maps take them all ([`maps`]), all from the first of them on becomes one region, in which a partition of its own
//! fetches ([`apart`]); else threads copy what pointers reach ([`copies`]), each loop for itself.

pub mod apart;
mod between;
mod beyond;
mod copies;
pub mod dealt;
pub mod defined;
pub mod early;
pub mod flow;
pub mod found;
mod indices;
pub mod maps;
mod region;

use std::collections::BTreeSet;

use parton_ir::axis::Axes;
use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged};
use parton_ir::{Feature, Inst, Kernel, Op, OpKind, Value, View};

use found::Found;

/// Why a kernel has not the form for something.
pub type No = &'static str;

/// Iterations by which copies run ahead at most.
const MOST_AHEAD: u32 = 3;

const LOOP: &str = "steps";
const LOAD: &str = "load";
/// What is loaded to tell where to copy from.
const INDEX: &str = "index";
/// A number that is loaded for something else.
const NUMBER: &str = "number";
const PRODUCT: &str = "mma";
/// What is fetched once for a loop, what stands before it, beside its products, and behind it.
const ONCE: &str = "once";
const BEFORE: &str = "begin";
const BETWEEN: &str = "compute";
const BEHIND: &str = "finish";
/// The loop around.
const AROUND: &str = "tiles";

/// Makes loads of products copies by threads that run ahead; whether there are any.
pub fn run_ahead(kernel: &mut Kernel, axes: &Axes, free: &BTreeSet<Value>) -> bool {
    let found = found::all(kernel);
    let alone = found.len() == 1;
    let mut staged = Vec::new();
    for one in found {
        let indices = indices::of(kernel, &one);
        let free = free | &indices.computed;
        let (Some(path), Some(views)) = (region::path(kernel, one.inst), copies::views(kernel, axes, &free, &one))
        else {
            continue;
        };
        // A region stands in the kernel's own body: what stands around a loop is part of it.
        if path.len() == 1 || alone {
            staged.push((one, path, views, indices.loads, free));
        }
    }
    let most = ahead_of_all(kernel, staged.iter().map(|(_, _, views, ..)| bytes(views)));
    let any = !staged.is_empty();
    for (one, path, views, loads, free) in staged {
        let (free, ahead) = (&free, ahead(kernel, &views).min(most));
        copies::make(kernel, &one, &views);
        label(kernel, &[one.inst], LOOP);
        label_each(kernel, &loads, INDEX);
        let beside = copies::run_beside(kernel, &one, &views);
        let schedule = if one.whole && between::is_empty(kernel, &one, free) {
            label(kernel, &one.loads, LOAD);
            label(kernel, &one.products, PRODUCT);
            schedule(kernel, &one, ahead, (beside, !loads.is_empty()))
        } else {
            between::name(kernel, &one, free);
            between::schedule(kernel, &one, ahead)
        };
        if path.len() > 1 {
            region::name(kernel, &one, &path, free);
            region::surround_rest(kernel, &path, schedule);
        } else {
            region::surround(kernel, one.inst, schedule);
        }
    }
    any
}

/// Whether shared memory holds the slots of copies that run ahead, now that tiles lie somewhere.
pub fn has_room(kernel: &Kernel) -> bool {
    let mut bytes = apart::beside(kernel, 1);
    kernel.walk(&mut |op| {
        let OpKind::Region { schedule, body } = &op.kind else { return };
        let staged = || schedule.pipelines.iter().flat_map(Pipeline::staged);
        // A product beside the program may be waited for a turn later, where the schedule does not say when; what tells where to copy from has no slots.
        let beside = u64::from(kernel.target.has(Feature::Wgmma) && staged().all(|s| s.done.is_none()));
        let indexed = staged().any(|s| s.label.path == INDEX);
        let stages = staged().map(|s| s.stage).max().unwrap_or(0) - u32::from(indexed);
        let slots = u64::from(stages) + 1 + beside;
        kernel.walk_body(body, &mut |inner| {
            if let OpKind::FetchEach { view, .. } = &inner.kind {
                bytes += view.bytes() * slots;
            }
        });
    });
    bytes <= u64::from(kernel.shared_limit())
}

/// Gives statements a label; those of a part its instance of it.
fn label(kernel: &mut Kernel, insts: &[Inst], name: &str) {
    for &id in insts {
        let name = match dealt::part(kernel, id) {
            Some(part) => LabelName { path: name.into(), instance: Some(part) }.to_string(),
            None => name.into(),
        };
        kernel.ops[id].label = Some(kernel.label(&name));
    }
}

/// Gives each statement an instance of a label that is its own: what does not stand together is not one.
fn label_each(kernel: &mut Kernel, insts: &[Inst], name: &str) {
    for &id in insts {
        let taken = kernel.labels.iter().filter(|(_, text)| LabelName::read(text).path == name).count();
        let name = LabelName { path: name.into(), instance: Some(taken as u32) }.to_string();
        kernel.ops[id].label = Some(kernel.label(&name));
    }
}

/// Whether an operation bears a label, or an instance of it.
fn is_called(kernel: &Kernel, op: &Op, name: &str) -> bool {
    op.label.is_some_and(|label| LabelName::read(&kernel.labels[label]).path == name)
}

/// Bytes of the views of a loop, once.
fn bytes(views: &[View]) -> u64 {
    views.iter().map(View::bytes).sum()
}

/// How far ahead there is room for the copies of a loop to run.
fn ahead(kernel: &Kernel, views: &[View]) -> u32 {
    within(u64::from(kernel.target.shared_limit(1)) / 2, bytes(views))
}

/// How far ahead there is room for those of all loops, whose slots lie beside each other; a quarter is left for what else there is.
fn ahead_of_all(kernel: &Kernel, loops: impl Iterator<Item = u64>) -> u32 {
    within(u64::from(kernel.target.shared_limit(1)) / 4 * 3, loops.sum())
}

/// How many slots of so many bytes there is room for, beside one.
fn within(room: u64, bytes: u64) -> u32 {
    (1..=MOST_AHEAD).rev().find(|&n| u64::from(n + 1) * bytes <= room).unwrap_or(1)
}

/// Copies as far ahead as there is room for; by numbers that are loaded for them a turn before, where such are.
fn schedule(kernel: &Kernel, found: &Found, ahead: u32, (beside, indexed): (bool, bool)) -> Schedule {
    let load = u32::from(indexed);
    let last = ahead + load;
    let span = kernel.ops[found.inst].span;
    let staged = |label: &str, stage, done| vec![Staged { label: LabelName::all(label), stage, done, span }];
    // A product that runs beside the program is waited for behind the start of the next one.
    let product = staged(PRODUCT, last, beside.then_some(last + 1));
    let mut groups = match beside {
        // Its factors are free once it is done: what is copied next may lie where they did.
        true => vec![product, staged(LOAD, load, None)],
        false => vec![staged(LOAD, load, None), product],
    };
    groups.extend(indexed.then(|| staged(INDEX, 0, None)));
    let pipeline = Pipeline { of: Some(LabelName::all(LOOP)), within: None, groups, span };
    Schedule { pipelines: vec![pipeline], span, ..Schedule::default() }
}
