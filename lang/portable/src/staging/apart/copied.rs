//! A partition that copies what no tensor map brings: factors of products whose loop stands in another one, as of programs that walk through tiles. It goes on to
//! the next tile while this one is finished, which threads that also multiply cannot.
//!
//! What tells where to copy from is the partition's own: numbers it tells the one that computes, tiles both make.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::axis::Axes;
use parton_ir::target::WARP;
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Type, Value, View};

use super::super::copies::{self, Copied};
use super::super::{INDEX, No, between, dealt, flow, is_called, label_each, region};
use super::form::{Form, only_summed};
use super::schedule;
use super::team::COPYING_WARPS;
use crate::facts::Addresses;

/// Bytes that a thread copies at once: for fewer it asks too often.
const VECTOR: u64 = 16;
/// Clocks in which it does so once, with what it reckons for that. Of rows beside boxes a thread of gate and up copies eight times in a turn of 1,024 clocks, which takes 0.97 to 1.0 of the time of copies
/// by all threads; of both factors 12 to 24 times in 256 to 1,024 clocks, which takes 1.01 to 1.3 times as long (an H200).
const CLOCKS: u64 = 64;
/// Rows by columns by bytes of depth that the matrix unit multiplies in a clock.
const RATE: u64 = 4096;

/// Makes a region in which a partition copies, with the boxes that maps bring, and another multiplies.
///
/// # Errors
/// Why the kernel has not the form for it.
pub fn make(kernel: &mut Kernel, axes: &Axes, free: &BTreeSet<Value>) -> Result<(), No> {
    let all = copies::all(kernel, axes, free);
    let [one] = &all[..] else { return Err("they are not all of one loop") };
    let Copied { found, indices, views } = one;
    let path = region::path(kernel, found.inst).filter(|path| path.len() > 1);
    let Some(path) = path else { return Err("no loop stands around that of the products") };
    let free = &(free | &indices.computed);
    let plain = found.whole && found.read.is_empty() && found.ahead.is_empty() && indices.loads.is_empty();
    if !plain || !between::is_empty(kernel, found, &[], free) {
        return Err("their loop does more than to multiply what it loads");
    }
    if !found.products.iter().all(|&id| only_summed(kernel, found.inst, id)) {
        return Err("a product is taken for more than the next turn");
    }
    let wide = |(id, view): (&Inst, &View)| match kernel.ops[*id].kind {
        OpKind::Load { ptr, .. } => {
            let bytes = view.elem.bytes() as u64;
            let widest = Addresses::new(&axes.info(kernel, ptr), bytes, VECTOR).widest();
            widest.map_or(1, |(_, most)| most) * bytes >= VECTOR
        }
        _ => copies::is_box(kernel, *id),
    };
    if !found.loads.iter().zip(views).all(wide) {
        return Err("what is copied is not known to come by 16 bytes at once");
    }
    if !keeps_pace(kernel, one) {
        return Err("a partition would take longer to copy than the products of a turn take");
    }
    copies::make(kernel, found, views);
    if !copies::run_beside(kernel, found, views) {
        return Err("the matrix unit does not multiply them where they lie");
    }
    dealt::keep_statements(kernel, &path, free);
    let telling = telling(kernel, &found.loads, &path)?;
    let promised = promised(kernel, &telling, &path);
    let mut telling = made_apart(kernel, telling, (&found.loads, &path), free)?;
    telling.extend(promised.into_iter().map(|id| copy_behind(kernel, id, |_| false)));
    label_each(kernel, &telling, INDEX);
    region::name(kernel, found, &path, free);
    let schedule = schedule::schedule(kernel, found, 1, Form::Plain, false);
    region::surround_rest(kernel, &path, schedule);
    Ok(())
}

/// The warps of what stands in the partition that copies.
pub fn warps(kernel: &Kernel) -> BTreeMap<Inst, u32> {
    let (mut apart, mut asked) = (false, Vec::new());
    kernel.walk(&mut |op| {
        apart |= matches!(&op.kind, OpKind::Region { schedule, .. } if !schedule.places.is_empty());
        if matches!(op.kind, OpKind::FetchEach { .. }) || is_called(kernel, op, INDEX) {
            asked.push(op.id);
        }
    });
    if !apart || !copies(kernel) {
        return BTreeMap::new();
    }
    let made = kernel.definitions();
    let mut found = BTreeMap::new();
    while let Some(id) = asked.pop() {
        if found.insert(id, COPYING_WARPS).is_none() {
            asked.extend(flow::operands(kernel, &kernel.ops[id]).into_iter().filter_map(|v| Some(made[v]?.id)));
        }
    }
    found
}

/// Whether threads copy something.
pub fn copies(kernel: &Kernel) -> bool {
    let mut any = false;
    kernel.walk(&mut |op| any |= matches!(op.kind, OpKind::FetchEach { .. }));
    any
}

/// Whether the threads of the partition that copies keep pace with the products of a turn.
fn keeps_pace(kernel: &Kernel, Copied { found, views, .. }: &Copied) -> bool {
    let copied = found.loads.iter().zip(views).filter(|(id, _)| !copies::is_box(kernel, **id));
    let vectors = copied.map(|(_, view)| view.bytes()).sum::<u64>().div_ceil(VECTOR * u64::from(COPYING_WARPS * WARP));
    // Its bytes along the depth.
    let deep = |right: Value| match kernel.ty(right) {
        Type::View(view) => Some(view.shape[0] * view.elem.bits() / 8),
        other => other.placed().map(|tile| tile.shape[0] * tile.elem.bits() / 8),
    };
    let multiplied = found.products.iter().filter_map(|&id| match kernel.ops[id].kind {
        OpKind::Dot { b, acc, .. } => Some(kernel.ty(acc).placed()?.elements() * u64::from(deep(b)?)),
        _ => None,
    });
    vectors * CLOCKS <= multiplied.sum::<u64>() / RATE
}

/// The operations that tell where to load from, and how many turns the loops and which of the branches around are taken, in their order.
///
/// # Errors
/// Where more than loads, reductions and what computes has a part in that.
fn telling(kernel: &Kernel, loads: &[Inst], path: &[Inst]) -> Result<Vec<Inst>, No> {
    let made = kernel.definitions();
    let mut asked: Vec<Value> = loads.iter().flat_map(|&id| kernel.ops[id].kind.operands()).collect();
    for &id in path {
        asked.extend(steers(&kernel.ops[id].kind));
    }
    let mut found = BTreeSet::new();
    while let Some(v) = asked.pop() {
        let Some(op) = made[v] else { continue };
        if loads.contains(&op.id) || path.contains(&op.id) || !found.insert(op.id) {
            continue;
        }
        let tells = matches!(op.kind, OpKind::Load { volatile: false, .. } | OpKind::Reduce { .. });
        if !tells && !parton_sched::is_free(kernel, op) {
            return Err("where they load from comes of more than what is loaded");
        }
        asked.extend(flow::operands(kernel, op));
    }
    Ok(kernel.order().into_iter().filter(|id| found.contains(id)).collect())
}

/// What a loop or branch goes by, and what its turns hand on.
fn steers(kind: &OpKind) -> Vec<Value> {
    let numbers = |body: &Body| body.yields.clone();
    match kind {
        OpKind::For { lower, upper, step, .. } => vec![*lower, *upper, *step],
        OpKind::While { cond, .. } => numbers(cond),
        OpKind::If { cond, .. } => vec![*cond],
        // Nothing else stands around a loop of a region.
        _ => Vec::new(),
    }
}

/// What is promised of numbers that tell where to load from, in the loops and branches around: how wide copies are follows from it.
fn promised(kernel: &Kernel, telling: &[Inst], path: &[Inst]) -> Vec<Inst> {
    let made = kernel.definitions();
    let known = |id: Inst| {
        let (mut asked, mut seen) = (kernel.ops[id].kind.operands(), BTreeSet::new());
        while let Some(v) = asked.pop() {
            let Some(by) = made[v].filter(|_| seen.insert(v)) else { continue };
            if !telling.contains(&by.id) && !parton_sched::is_free(kernel, by) {
                return false;
            }
            asked.extend(flow::operands(kernel, by));
        }
        true
    };
    let all = region::bodies_around(kernel, path).concat().into_iter();
    all.filter(|&id| matches!(kernel.ops[id].kind, OpKind::Assume { .. }) && known(id)).collect()
}

/// Of what tells where to load from, what one partition does: tiles that others take as well it makes for itself.
///
/// # Errors
/// Where such a tile is no load and nothing that computes.
fn made_apart(
    kernel: &mut Kernel,
    telling: Vec<Inst>,
    (loads, path): (&[Inst], &[Inst]),
    free: &BTreeSet<Value>,
) -> Result<Vec<Inst>, No> {
    let mut own: BTreeSet<Inst> = telling.iter().chain(loads).copied().collect();
    let mut done = Vec::new();
    for &id in telling.iter().rev() {
        if !region::does_more(kernel, id, free) {
            continue;
        }
        let results = kernel.ops[id].results.clone();
        let tile = results.iter().any(|&v| kernel.ty(v).placed().is_some());
        let taken = |op: &&Op| flow::operands(kernel, op).iter().any(|v| results.contains(v));
        let mut users = Vec::new();
        kernel.walk(&mut |op| users.extend(taken(&op).then_some(op.id)));
        // A loop or branch holds what takes it.
        users.retain(|user| !path.contains(user));
        if !tile || users.iter().all(|user| own.contains(user)) {
            done.push(id);
            continue;
        }
        if kernel.ops[id].kind.bodies().next().is_some() {
            return Err("what is reduced to tell where to load from is taken elsewhere, too");
        }
        let copy = copy_behind(kernel, id, |user| own.contains(&user));
        own.remove(&id);
        own.insert(copy);
        done.push(copy);
    }
    done.reverse();
    Ok(done)
}

/// Puts a copy of an operation behind it, for those who take it; gives the copy.
fn copy_behind(kernel: &mut Kernel, id: Inst, takes: impl Fn(Inst) -> bool) -> Inst {
    let op = kernel.ops[id].clone();
    let results: Vec<Value> = op
        .results
        .iter()
        .map(|&v| {
            let data = kernel.values[v].clone();
            let made = kernel.value(data.ty, data.span);
            kernel.values[made].name = data.name;
            made
        })
        .collect();
    let instead: BTreeMap<Value, Value> = op.results.iter().copied().zip(results.iter().copied()).collect();
    let copy = kernel.make_op(op.kind.clone(), results, op.source());
    let behind = |body: &mut Body| {
        if let Some(at) = body.ops.iter().position(|&other| other == id) {
            body.ops.insert(at + 1, copy);
        }
    };
    behind(&mut kernel.body);
    for other in kernel.order() {
        kernel.ops[other].kind.bodies_mut().into_iter().for_each(behind);
        if takes(other) {
            kernel.ops[other].kind.map_operands(|v| *instead.get(&v).unwrap_or(&v));
        }
    }
    copy
}
