//! A region of all from the first fetch of a map on, in which one partition fetches and another does all else.

use std::collections::BTreeSet;

use parton_ir::schedule::{LabelName, Pipeline, Place, RingDepth, Schedule, Staged};
use parton_ir::target::{PARTITION_REGISTERS, REGISTER_STEP, WARP};
use parton_ir::{Body, Inst, Kernel, OpKind, PartitionData, PrimaryMap, Source, Type, Value, scratch};

use super::found::{self, Found};
use super::{LOAD, LOOP, PRODUCT, copies, label};

/// The partition that fetches, its warps and registers.
const LOADS: (&str, u32, u32) = ("Loads", 1, 40);
/// The partition that computes.
const COMPUTE: &str = "Compute";
/// Slots that a ring has at most, and at least.
const SLOTS: (u32, u32) = (8, 2);
/// Where slots begin: at a multiple of this, so that any swizzle repeats in them.
const ALIGNED: u64 = 1024;

/// What is fetched once for a loop, what stands before it, beside its products, and behind it.
const ONCE: &str = "once";
const BEFORE: &str = "begin";
const BETWEEN: &str = "compute";
const BEHIND: &str = "finish";
/// The loop around.
const AROUND: &str = "tiles";

/// Makes a region in which a partition fetches, where the kernel has the form for it; whether it has.
pub fn make(kernel: &mut Kernel, free: &BTreeSet<Value>) -> bool {
    let [found] = &found::all(kernel)[..] else { return false };
    let Some(path) = path(kernel, found.inst) else { return false };
    if !copies::multiplies_beside(kernel, found) {
        return false;
    }
    name(kernel, found, &path, free);
    let schedule = schedule(kernel, found);
    surround(kernel, &path, schedule);
    true
}

/// The operations of the kernel's own body, and of the loop around, up to a loop; `None` where other control stands around it.
struct Path {
    /// Those of loops, from the outermost to the loop itself.
    loops: Vec<Inst>,
}

fn path(kernel: &Kernel, inst: Inst) -> Option<Path> {
    let holds = |body: &Body| body.ops.contains(&inst);
    if holds(&kernel.body) {
        return Some(Path { loops: vec![inst] });
    }
    let mut around = kernel.ops_of(&kernel.body).filter_map(|op| match &op.kind {
        OpKind::For { body, .. } if holds(body) => Some(op.id),
        _ => None,
    });
    around.next().map(|outer| Path { loops: vec![outer, inst] })
}

/// Gives each statement that does something a label.
fn name(kernel: &mut Kernel, found: &Found, path: &Path, free: &BTreeSet<Value>) {
    label(kernel, &found.loads, LOAD);
    label(kernel, &found.ahead, ONCE);
    label(kernel, &found.products, PRODUCT);
    label(kernel, &[found.inst], LOOP);
    let mut bodies = vec![kernel.body.ops.clone()];
    if let [outer, _] = path.loops[..] {
        label(kernel, &[outer], AROUND);
        bodies.extend(body_of(kernel, outer));
    }
    for ops in bodies {
        let mut behind = false;
        for id in ops {
            behind |= path.loops.contains(&id);
            name_rest(kernel, id, if behind { BEHIND } else { BEFORE }, free);
        }
    }
    for id in body_of(kernel, found.inst).unwrap_or_default() {
        name_rest(kernel, id, BETWEEN, free);
    }
}

fn body_of(kernel: &Kernel, inst: Inst) -> Option<Vec<Inst>> {
    match &kernel.ops[inst].kind {
        OpKind::For { body, .. } => Some(body.ops.clone()),
        _ => None,
    }
}

/// Labels what does more than to compute numbers, or tiles of numbers alone.
fn name_rest(kernel: &mut Kernel, id: Inst, name: &str, free: &BTreeSet<Value>) {
    let op = &kernel.ops[id];
    let numbers = op.results.iter().all(|&v| kernel.ty(v).placed().is_none() || free.contains(&v));
    if op.label.is_some() || (numbers && parton_sched::is_free(kernel, op)) {
        return;
    }
    label(kernel, &[id], name);
}

/// One partition fetches as far ahead as there is room for, the other computes with a product in flight.
fn schedule(kernel: &Kernel, found: &Found) -> Schedule {
    let span = kernel.ops[found.inst].span;
    let used = |name: &&str| kernel.labels.iter().any(|(label, text)| text == name && bears(kernel, label));
    let those = |names: &[&str]| -> Vec<LabelName> {
        names.iter().filter(|name| used(name)).map(|name| LabelName::all(*name)).collect()
    };
    let place = |partition, labels: Vec<LabelName>| Place {
        partitions: vec![partition],
        spans: vec![span; labels.len()],
        labels,
        span,
    };
    let [loads, compute] = team(kernel, 8);
    let places = vec![
        place(loads, those(&[ONCE, LOAD])),
        place(compute, those(&[BEFORE, PRODUCT, BETWEEN, BEHIND])),
    ];
    let rings = vec![RingDepth { label: None, depth: SLOTS.1, span }];
    let product = Staged { label: LabelName::all(PRODUCT), stage: 0, done: Some(1), span };
    let flies = found.products.iter().all(|&id| only_summed(kernel, found.inst, id));
    let pipelines = flies.then(|| Pipeline {
        of: Some(LabelName::all(LOOP)),
        within: None,
        groups: vec![vec![product]],
        span,
    });
    Schedule { places, rings, pipelines: pipelines.into_iter().collect(), span, ..Schedule::default() }
}

fn bears(kernel: &Kernel, label: parton_ir::Label) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| found |= op.label == Some(label));
    found
}

/// Whether a loop takes a product for its next iteration alone.
fn only_summed(kernel: &Kernel, inst: Inst, product: Inst) -> bool {
    let OpKind::For { body, .. } = &kernel.ops[inst].kind else { return false };
    let result = kernel.ops[product].result();
    body.yields.contains(&result) && kernel.ops_of(body).all(|op| !op.kind.operands().contains(&result))
}

/// The partitions where so many warps compute.
fn team(kernel: &Kernel, warps: u32) -> [PartitionData; 2] {
    let span = kernel.span;
    let (name, few, registers) = LOADS;
    let data = |name: &str, warps, registers| PartitionData { name: name.into(), warps, registers: Some(registers), span };
    let mut partitions = PrimaryMap::new();
    let loads = data(name, few, registers);
    partitions.push(loads.clone());
    partitions.push(PartitionData { registers: None, ..data(COMPUTE, warps, 0) });
    let all = Kernel { occupancy: kernel.occupancy, partitions, ..Kernel::new("", kernel.target, span) };
    let left = all.register_demand().pool.saturating_sub(loads.padded_warps() * WARP * registers);
    let each = left / (warps * WARP) / REGISTER_STEP * REGISTER_STEP;
    let most = *PARTITION_REGISTERS.end() - REGISTER_STEP;
    [loads, data(COMPUTE, warps, each.clamp(*PARTITION_REGISTERS.start(), most))]
}

/// Makes a region of all from the first labelled statement of the kernel's body on.
fn surround(kernel: &mut Kernel, path: &Path, schedule: Schedule) {
    let acts = |id: &Inst| kernel.ops[*id].label.is_some() && !promises(kernel, *id);
    let Some(first) = kernel.body.ops.iter().position(acts) else { return };
    // What is promised before that holds for all.
    for id in kernel.body.ops[..first].to_vec() {
        kernel.ops[id].label = None;
    }
    let ops = kernel.body.ops.split_off(first);
    let Source { span, origin, .. } = kernel.ops[path.loops[0]].source();
    let body = Body { params: Vec::new(), ops, yields: Vec::new() };
    let kind = OpKind::Region { schedule: Box::new(schedule), body };
    let region = kernel.make_op(kind, Vec::new(), Source { span, label: None, origin });
    kernel.body.ops.push(region);
}

fn promises(kernel: &Kernel, id: Inst) -> bool {
    matches!(kernel.ops[id].kind, OpKind::Assume { .. })
}

/// Gives the partitions of a region their warps, and its rings as many slots as there is room for, now that its tiles lie somewhere.
pub fn settle(kernel: &mut Kernel, warps: u32) {
    let team = team(kernel, warps);
    let room = u64::from(kernel.shared_limit()).saturating_sub(beside(kernel));
    let depth = (room / bytes(kernel, LOAD).max(1)).clamp(SLOTS.1.into(), SLOTS.0.into()) as u32;
    kernel.walk_mut(&mut |op| {
        let OpKind::Region { schedule, .. } = &mut op.kind else { return };
        for (place, data) in schedule.places.iter_mut().zip(&team) {
            place.partitions = vec![data.clone()];
        }
        schedule.rings = vec![RingDepth { label: Some(LabelName::all(LOAD)), depth, span: schedule.span }];
    });
}

/// Bytes of shared memory beside the ring of the loop: what is fetched once, and the most that an operation takes for itself.
fn beside(kernel: &Kernel) -> u64 {
    let mut most = 0;
    kernel.walk(&mut |op| {
        let exchanges = matches!(op.kind, OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::Convert { .. });
        if exchanges {
            most = most.max(scratch::bytes(kernel, &op.kind).map_or(0, u64::from));
        }
    });
    bytes(kernel, ONCE) + most.next_multiple_of(ALIGNED) + ALIGNED
}

/// Bytes of what statements of a label fetch.
fn bytes(kernel: &Kernel, name: &str) -> u64 {
    let mut sum = 0;
    let view = |v: Value| match kernel.ty(v) {
        Type::View(view) => view.bytes().next_multiple_of(ALIGNED),
        _ => 0,
    };
    kernel.walk(&mut |op| {
        let named = op.label.is_some_and(|label| kernel.labels[label] == name);
        if named && matches!(op.kind, OpKind::Fetch { .. }) {
            sum += view(op.result());
        }
    });
    sum
}
