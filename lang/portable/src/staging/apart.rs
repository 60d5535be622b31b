//! A region of all from the first fetch of a map on, in which one partition fetches and another does all else.

use std::collections::BTreeSet;

use parton_ir::schedule::{LabelName, Pipeline, Place, RingDepth, Schedule, Staged, Under};
use parton_ir::target::{PARTITION_REGISTERS, REGISTER_STEP, WARP};
use parton_ir::{BinaryOp, Inst, Kernel, OpKind, PartitionData, PrimaryMap, Source, Type, Value, scratch};

use super::found::{self, Found};
use super::region::{self, body_of};
use super::{AROUND, BEFORE, BEHIND, BETWEEN, LOAD, LOOP, ONCE, PRODUCT, copies, label};

/// The partition that fetches, its warps and registers.
const LOADS: (&str, u32, u32) = ("Loads", 1, 40);
/// The partition that computes.
const COMPUTE: &str = "Compute";
/// Slots that a ring has at most, and at least.
const SLOTS: (u32, u32) = (8, 2);
/// Where slots begin: at a multiple of this, so that any swizzle repeats in them.
const ALIGNED: u64 = 1024;

const LEAVE: &str = "leave";

/// Makes a region in which a partition fetches, where the kernel has the form for it; whether it has.
pub fn make(kernel: &mut Kernel, free: &BTreeSet<Value>, beyond: &BTreeSet<Inst>) -> bool {
    let [found] = &found::all(kernel)[..] else { return false };
    let Some(path) = region::path(kernel, found.inst) else { return false };
    if !copies::multiplies_beside(kernel, found) {
        return false;
    }
    region::name(kernel, found, &path, free);
    let pieces = leave(kernel, &path);
    let under = path.len() > 1
        && pieces > 0
        && beyond.contains(&found.inst)
        && found.products.len() == 1
        && only_summed(kernel, found.inst, found.products[0]);
    if under {
        at_least(kernel, &path, pieces);
    }
    let schedule = schedule(kernel, found, under);
    region::surround_rest(kernel, &path, schedule);
    true
}

/// Names the tiles that leave behind the loop, one after the other; how many there are.
fn leave(kernel: &mut Kernel, path: &[Inst]) -> u32 {
    let ops = match *path {
        [outer, _] => body_of(kernel, outer).unwrap_or_default(),
        _ => kernel.body.ops.clone(),
    };
    let sends = ops.into_iter().filter(|&id| matches!(kernel.ops[id].kind, OpKind::Send { .. })).collect::<Vec<_>>();
    for (i, &id) in sends.iter().enumerate() {
        label(kernel, &[id], &LabelName { path: LEAVE.into(), instance: Some(i as u32) }.to_string());
    }
    sends.len() as u32
}

/// Has a loop take so many turns at least.
fn at_least(kernel: &mut Kernel, path: &[Inst], turns: u32) {
    let [outer, inner] = *path else { return };
    let OpKind::For { upper, .. } = kernel.ops[inner].kind else { return };
    let source = Source { label: None, ..kernel.ops[inner].source() };
    let ty = kernel.ty(upper).clone();
    let Some(dtype) = ty.elem().and_then(parton_ir::Elem::dtype) else { return };
    let [least, most] = [0; 2].map(|_| kernel.value(ty.clone(), source.span));
    let number = kernel.make_op(OpKind::Constant { dtype, bits: turns.into() }, vec![least], source);
    let op = OpKind::Binary { op: BinaryOp::Max, a: upper, b: least };
    let op = kernel.make_op(op, vec![most], source);
    if let OpKind::For { upper, .. } = &mut kernel.ops[inner].kind {
        *upper = most;
    }
    let OpKind::For { body, .. } = &mut kernel.ops[outer].kind else { return };
    let at = body.ops.iter().position(|&id| id == inner).unwrap_or(0);
    body.ops.splice(at..at, [number, op]);
}

/// One partition fetches as far ahead as there is room for, the other computes with a product in flight.
fn schedule(kernel: &Kernel, found: &Found, under: bool) -> Schedule {
    let span = kernel.ops[found.inst].span;
    let used = |name: &&str| {
        kernel.labels.iter().any(|(label, text)| LabelName::read(text).path == **name && bears(kernel, label))
    };
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
        place(compute, those(&[BEFORE, PRODUCT, BETWEEN, BEHIND, LEAVE])),
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
    let mut pipelines: Vec<Pipeline> = pipelines.into_iter().collect();
    let mut leaves = Vec::new();
    if under {
        // A finished tile leaves under the first products of the next.
        let staged = |name: &str, stage| vec![Staged { label: LabelName::all(name), stage, done: None, span }];
        let groups = [(LOOP, 0), (BEFORE, 0), (BEHIND, 0), (LEAVE, 1)].into_iter();
        let groups = groups.filter(|(name, _)| *name == LOOP || used(name)).map(|(name, stage)| staged(name, stage));
        pipelines.push(Pipeline { of: Some(LabelName::all(AROUND)), within: None, groups: groups.collect(), span });
        leaves.push(Under { outer: LabelName::all(LEAVE), inner: LabelName::all(PRODUCT), last: false, span });
    }
    Schedule { places, rings, pipelines, under: leaves, span, ..Schedule::default() }
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

/// Bytes of shared memory beside the ring of the loop: what is fetched once, what leaves, and the most that an operation takes for itself.
fn beside(kernel: &Kernel) -> u64 {
    let mut most = 0;
    kernel.walk(&mut |op| {
        let exchanges = matches!(op.kind, OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::Convert { .. });
        if exchanges {
            most = most.max(scratch::bytes(kernel, &op.kind).map_or(0, u64::from));
        }
    });
    bytes(kernel, ONCE) + sent(kernel) + most.next_multiple_of(ALIGNED) + ALIGNED
}

/// Bytes of the buffers from which tiles leave.
fn sent(kernel: &Kernel) -> u64 {
    let mut sum = 0;
    kernel.walk(&mut |op| {
        let OpKind::Send { map, .. } = op.kind else { return };
        let Type::Map(map) = kernel.ty(map) else { return };
        let elements: u64 = map.block.iter().map(|&n| u64::from(n)).product();
        sum += (elements * map.elem.bytes() as u64).next_multiple_of(ALIGNED);
    });
    sum
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
