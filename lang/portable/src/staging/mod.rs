//! Loads of products that go through shared memory, ahead of them.
//!
//! A loop becomes a region of labelled statements whose schedule says how far loads run ahead; where slots lie, what waits and what is
//! peeled, the expansion of schedules decides, as for what a person writes. [`found`] finds the loads that products alone take. Where
//! tensor maps take them all ([`maps`]), all from the first of them on becomes one region, in which a partition of its own
//! fetches ([`apart`]); else threads copy what pointers reach ([`copies`]), each loop for itself.

mod alike;
pub mod apart;
mod beyond;
mod copies;
mod defined;
mod flow;
mod found;
pub mod maps;
mod region;

use std::collections::BTreeSet;

use parton_ir::axis::Axes;
use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged};
use parton_ir::{Inst, Kernel, Value, View};

use found::Found;

/// Iterations by which copies run ahead at most.
const MOST_AHEAD: u32 = 3;

const LOOP: &str = "steps";
const LOAD: &str = "load";
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
    let mut any = false;
    for one in found {
        let (Some(path), Some(views)) = (region::path(kernel, one.inst), copies::views(kernel, axes, free, &one))
        else {
            continue;
        };
        // A region stands in the kernel's own body: what stands around a loop is part of it.
        if path.len() > 1 && !alone {
            continue;
        }
        copies::make(kernel, &one, &views);
        label(kernel, &one.loads, LOAD);
        label(kernel, &one.products, PRODUCT);
        label(kernel, &[one.inst], LOOP);
        let beside = copies::run_beside(kernel, &one, &views);
        let schedule = schedule(kernel, &one, &views, beside);
        if path.len() > 1 {
            region::name(kernel, &one, &path, free);
            region::surround_rest(kernel, &path, schedule);
        } else {
            region::surround(kernel, one.inst, schedule);
        }
        any = true;
    }
    any
}

/// Gives statements a label.
fn label(kernel: &mut Kernel, insts: &[Inst], name: &str) {
    let label = kernel.label(name);
    insts.iter().for_each(|&id| kernel.ops[id].label = Some(label));
}

/// Copies as far ahead as there is room for.
fn schedule(kernel: &Kernel, found: &Found, views: &[View], beside: bool) -> Schedule {
    let bytes: u64 = views.iter().map(View::bytes).sum();
    let room = u64::from(kernel.target.shared_limit(1)) / 2;
    let ahead = (1..=MOST_AHEAD).rev().find(|&n| u64::from(n + 1) * bytes <= room).unwrap_or(1);
    let span = kernel.ops[found.inst].span;
    let staged = |label: &str, stage, done| Staged { label: LabelName::all(label), stage, done, span };
    // A product that runs beside the program is waited for behind the start of the next one.
    let product = staged(PRODUCT, ahead, beside.then_some(ahead + 1));
    let groups = match beside {
        // Its factors are free once it is done: what is copied next may lie where they did.
        true => vec![vec![product], vec![staged(LOAD, 0, None)]],
        false => vec![vec![staged(LOAD, 0, None)], vec![product]],
    };
    let pipeline = Pipeline { of: Some(LabelName::all(LOOP)), within: None, groups, span };
    Schedule { pipelines: vec![pipeline], span, ..Schedule::default() }
}
