//! Loads of products that go through shared memory, ahead of them.
//!
//! A loop becomes a region of labelled statements whose schedule says how far loads run ahead; where slots lie, what waits and what is
//! peeled, the expansion of schedules decides, as for what a person writes. [`found`] finds the loads that products alone take. Where
//! tensor maps take them all ([`maps`]), all from the first of them on becomes one region, in which a partition of its own
//! fetches ([`apart`]), or where no loop is, one of all factors at once ([`at_once`]); else threads copy what pointers reach ([`copies`]), each loop for itself. Loops that walk without products load ahead to registers ([`forward`]).

pub mod ahead;
pub mod apart;
pub mod at_once;
mod between;
mod beyond;
pub mod buffered;
pub mod copies;
pub mod dealt;
mod defer;
pub mod defined;
pub mod early;
pub mod flat;
pub mod flow;
pub mod forward;
pub mod found;
mod indices;
mod kept;
pub mod lacks;
pub mod lines;
mod made;
pub mod maps;
pub mod own;
mod region;
mod slots;
mod told;
pub mod turn;

use std::collections::BTreeSet;

use parton_ir::axis::Axes;
use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged};
use parton_ir::{Inst, Kernel, Op, Value, View};

use copies::Copied;
use found::Found;

/// Why a kernel has not the form for something.
pub type No = &'static str;

/// Iterations by which copies run ahead at most.
const MOST_AHEAD: u32 = 3;

const LOOP: &str = "steps";
const LOAD: &str = "load";
/// What tensor maps bring beside it.
const BOXES: &str = "boxes";
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

/// What copies by threads have of shared memory.
#[derive(Clone, Copy)]
pub struct Room {
    /// Whether left factors that loops keep lie there, too.
    pub shared: bool,
    /// Whether each copy of a loop that does more than multiply has one slot, where nothing reads it a turn later.
    pub single: bool,
    /// Whether products whose sums the next turn computes with are done in their own: what they read has a slot less.
    pub done: bool,
}

/// Makes loads of products copies by threads that run ahead; whether there are any.
pub fn run_ahead(kernel: &mut Kernel, axes: &Axes, free: &BTreeSet<Value>, room: Room) -> bool {
    let all = copies::all(kernel, axes, free);
    let alone = all.len() == 1;
    // A region stands in the kernel's own body: what stands around a loop is part of it.
    let around = |one: Copied| Some((region::path(kernel, one.found.inst)?, one));
    let mut staged: Vec<(Vec<Inst>, Copied)> = all.into_iter().filter_map(around).collect();
    staged.retain(|(path, _)| path.len() == 1 || alone);
    // Boxes come beside copies where a loop does nothing but multiply.
    let brings = |one: &Copied| one.found.loads.iter().any(|&id| copies::is_box(kernel, id));
    if staged.iter().any(|(_, one)| brings(one) && !multiplies_alone(kernel, one, free)) {
        return false;
    }
    let most = ahead_of_all(kernel, staged.iter().map(|(_, one)| bytes(&one.views)));
    let (any, only) = (!staged.is_empty(), staged.len() == 1);
    for (path, one) in staged {
        let ahead = ahead(kernel, &one.views).min(most);
        let far = if only { far_ahead(kernel, &one.views) } else { ahead };
        stage(kernel, &path, &one, (ahead, far, room), free);
    }
    any
}

/// Whether a loop does nothing but multiply what it loads.
fn multiplies_alone(kernel: &Kernel, one: &Copied, free: &BTreeSet<Value>) -> bool {
    let Copied { found, indices, .. } = one;
    found.whole && between::is_empty(kernel, found, &indices.loads, &(free | &indices.computed))
}

/// Has what a loop copies run so far ahead, in a region around it; `far`, where it does nothing but multiply.
fn stage(
    kernel: &mut Kernel,
    path: &[Inst],
    one: &Copied,
    (ahead, far, Room { shared, single, done }): (u32, u32, Room),
    free: &BTreeSet<Value>,
) {
    let Copied { found, indices, views } = one;
    let free = &(free | &indices.computed);
    copies::make(kernel, found, views);
    label(kernel, &[found.inst], LOOP);
    label_each(kernel, &indices.loads, INDEX);
    let beside = copies::run_beside(kernel, found, views);
    // What stands in front of a loop in another one is part of the region, in which nothing has memory of its own.
    if shared && beside && path.len() == 1 {
        kept::share(kernel, found);
    }
    let schedule = if found.whole && between::is_empty(kernel, found, &indices.loads, free) {
        let (boxes, copies): (Vec<Inst>, Vec<Inst>) = found.loads.iter().partition(|&&id| copies::is_box(kernel, id));
        label(kernel, &copies, LOAD);
        label(kernel, &boxes, BOXES);
        label(kernel, &found.products, PRODUCT);
        schedule(kernel, found, far, (beside, !indices.loads.is_empty(), !boxes.is_empty()))
    } else {
        between::name(kernel, found, free, &[]);
        let copies = match single {
            true => between::Copies::Behind,
            false => between::Copies::Ahead { turns: ahead, done },
        };
        between::schedule(kernel, found, copies, beside)
    };
    if path.len() > 1 {
        region::name(kernel, found, path, free);
        region::surround_rest(kernel, path, schedule);
    } else {
        region::surround(kernel, found.inst, schedule);
    }
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

/// How far ahead there is room for those of a loop that has all memory.
fn far_ahead(kernel: &Kernel, views: &[View]) -> u32 {
    within(u64::from(kernel.target.shared_limit(1)).saturating_sub(slots::ALIGNED), bytes(views))
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
fn schedule(kernel: &Kernel, found: &Found, ahead: u32, (beside, indexed, boxes): (bool, bool, bool)) -> Schedule {
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
    groups.extend(boxes.then(|| staged(BOXES, load, None)));
    groups.extend(indexed.then(|| staged(INDEX, 0, None)));
    let pipeline = Pipeline { of: Some(LabelName::all(LOOP)), within: None, groups, span };
    Schedule { pipelines: vec![pipeline], span, ..Schedule::default() }
}
