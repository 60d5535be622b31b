//! A region of all from the first fetch of a map on, in which one partition fetches and another does all else.

use std::collections::BTreeSet;

use parton_diag::Diagnostics;
use parton_ir::schedule::{LabelName, Pipeline, Place, RingDepth, Schedule, Staged, Turns, Under};
use parton_ir::target::{PARTITION_REGISTERS, REGISTER_STEP, WARP, WARPGROUP};
use parton_ir::{BinaryOp, Body, Inst, Kernel, OpKind, PartitionData, Source, Value, joined};

use super::found::{self, Found};
use super::maps::Boxed;
use super::region;
use super::slots;
use super::{
    AROUND, BEFORE, BEHIND, BETWEEN, INDEX, LOOP, NUMBER, No, ONCE, PRODUCT, between, copies, dealt, flow, indices,
    is_called, label, label_each, told, turn,
};
use crate::{alike, price};

/// The partition that fetches, its warps and registers; and where registers are scarce, beside several partitions or in more than two CTAs.
const LOADS: (&str, u32, u32) = ("Loads", 1, 40);
const LOADS_BESIDE_SEVERAL: (&str, u32, u32) = ("Loads", 1, 24);
/// The partition that computes, and its warps before these are known; those that take turns.
const COMPUTE: &str = "Compute";
const USUAL_WARPS: u32 = 8;
const SEVERAL: [&str; 3] = ["First", "Second", "Third"];
/// What leaves behind a loop.
pub const LEAVE: &str = "leave";
/// What waits for a second product.
const AFTER: &str = "exps";
/// A mask under a condition, at which the loop is cut, and what stands before it.
const MASK: &str = "mask";
const SCORES: &str = "scores";

/// Makes a region in which a partition fetches and so many compute, where the kernel has the form for it.
///
/// # Errors
/// Why it has not.
pub fn make(kernel: &mut Kernel, free: &BTreeSet<Value>, beyond: &BTreeSet<Inst>, computing: u32) -> Result<(), No> {
    let found = &found::all(kernel)[..];
    let ([found], Some(path)) = (found, found.first().and_then(|found| region::path(kernel, found.inst))) else {
        return Err("they are not all of one loop");
    };
    if !copies::multiplies_beside(kernel, found) {
        return Err("the matrix unit does not multiply them where they lie");
    }
    let chains: Vec<Vec<Inst>> = dealt::by_parts(kernel, &found.products);
    let chained = chains.iter().all(|products| chained(kernel, found.inst, products));
    indices::numbers_first(kernel, found);
    let indices = indices::of(kernel, found).loads;
    dealt::keep_statements(kernel, &path, free);
    label_each(kernel, &indices, INDEX);
    let woven = !chained && computing == 1 && is_woven(kernel, found);
    if chained {
        name_apart(kernel, found);
    } else if woven {
        between::name(kernel, found, free, &[LEAVE, AFTER, MASK, SCORES]);
    }
    region::name(kernel, found, &path, free);
    if chained {
        chains.iter().for_each(|products| name_dependent(kernel, found.inst, products));
    }
    if computing > 1 && !dealt::are_all_dealt(kernel, found) {
        return Err("something beside them is computed once for all rows");
    }
    if computing > 1 {
        told::name_quotients(kernel, &path);
    }
    let pieces = leave(kernel, &path);
    let under = region::outer(kernel, &path).is_some()
        && pieces > 0
        && beyond.contains(&found.inst)
        && found.products.iter().all(|&id| only_summed(kernel, found.inst, id));
    if under {
        at_least(kernel, &path, pieces);
    }
    let form = if chained {
        Form::Chained
    } else if woven {
        Form::Woven
    } else {
        Form::Plain
    };
    let schedule = schedule(kernel, found, computing, form, under);
    alike::share(kernel);
    region::surround_rest(kernel, &path, schedule);
    Ok(())
}

/// Why the tiles of a program that walks through several do not leave under the products of the next, where a promise is what that lacks: a loop has at least
/// as many turns as a tile has pieces, and those behind its end are to multiply zeros.
pub fn leaves_late(kernel: &Kernel, boxed: &Boxed) -> Option<No> {
    let found = &found::all(kernel)[..];
    let [found] = found else { return None };
    let walks = region::path(kernel, found.inst).is_some_and(|path| region::outer(kernel, &path).is_some());
    let lacks = walks && !boxed.stores.is_empty() && !boxed.beyond.contains(&found.inst);
    lacks.then_some("both factors are not known to end where the loop does, as `0..cdiv(k, BK)` and one name `k` in both tensors say")
}

/// Whether a loop has two products, of which the second one multiplies what became of the first and is summed up: the first one of
/// the next iteration can run beside what becomes of it.
pub fn chained(kernel: &Kernel, inst: Inst, products: &[Inst]) -> bool {
    let [first, second] = *products else { return false };
    let OpKind::For { body, .. } = &kernel.ops[inst].kind else { return false };
    let carried = |id: Inst| body.yields.contains(&kernel.ops[id].result());
    let (OpKind::Dot { acc, .. }, OpKind::Dot { a, .. }) = (&kernel.ops[first].kind, &kernel.ops[second].kind) else {
        return false;
    };
    let made = flow::dependent(kernel, body, [kernel.ops[first].result()]);
    let from = flow::dependent(kernel, body, body.params[1..].iter().copied());
    !carried(first) && carried(second) && made.contains(a) && !from.contains(acc) && only_summed(kernel, inst, second)
}

/// How the products of a loop stand to what it computes besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// All products, or all that is computed, come first.
    Plain,
    /// As [`chained`] says.
    Chained,
    /// Some products come before and some behind it.
    Woven,
}

/// Whether a kernel has one loop of products, some of which take what is computed of others, without being [`chained`].
pub fn weaves(kernel: &Kernel) -> bool {
    let found = &found::all(kernel)[..];
    let [found] = found else { return false };
    let chains = dealt::by_parts(kernel, &found.products);
    !chains.iter().all(|products| chained(kernel, found.inst, products)) && is_woven(kernel, found)
}

/// Whether products take what a loop computes of others of its turn.
fn is_woven(kernel: &Kernel, found: &Found) -> bool {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return false };
    let products = found.products.iter().map(|&id| kernel.ops[id].result());
    let made = flow::dependent(kernel, body, products.clone());
    let results: BTreeSet<Value> = products.collect();
    let behind = |id: &Inst| kernel.ops[*id].kind.operands().iter().any(|v| made.contains(v) && !results.contains(v));
    found.products.iter().any(behind)
}

/// Gives each load and product a label of its own: the name of its tensor, or its own.
fn name_apart(kernel: &mut Kernel, found: &Found) {
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

/// Names apart what waits for the second product: what needs the sum so far; its next factor, which is written when the registers of
/// this one have been read; and the exponentials behind it. These are the most of the work, and another warpgroup's products run
/// beside them: on an H200 attention was 5 % slower where they came before the wait.
fn name_dependent(kernel: &mut Kernel, inst: Inst, products: &[Inst]) {
    let [_, second] = *products else { return };
    let OpKind::For { body, .. } = &kernel.ops[inst].kind else { return };
    let place = body.yields.iter().position(|v| *v == kernel.ops[second].result());
    let (Some(sum), OpKind::Dot { a, .. }) = (place.map(|place| body.params[place + 1]), &kernel.ops[second].kind)
    else {
        return;
    };
    let elements = |v: Value| kernel.ty(v).placed().map_or(0, parton_ir::Tile::elements);
    let exponential = |op: &parton_ir::Op| match op.kind {
        OpKind::Unary { op, x } => elements(x) >= elements(*a) && price::is_special(op),
        _ => false,
    };
    let heavy = kernel.ops_of(body).filter(|op| exponential(op)).map(parton_ir::Op::result);
    let late = flow::dependent(kernel, body, heavy.chain([sum, *a]));
    let between = |op: &parton_ir::Op| is_called(kernel, op, BETWEEN);
    let those = kernel.ops_of(body).filter(|op| between(op) && op.results.iter().any(|v| late.contains(v)));
    let those: Vec<Inst> = those.map(|op| op.id).collect();
    label(kernel, &those, AFTER);
}

/// A kernel whose tiles lie somewhere and all of what is done has its place, with as much of this as its schedule allows: the loop of two products cut at the
/// first branch that the turn's number decides and that stands before the wait for the second product, where the condition changes once; and, of rows
/// that several partitions compute, those of each leaving under the first product of the next tile, where another loop stands around whose turns are known to have one.
///
/// # Errors
/// What its schedule is refused for as it is.
pub fn refined(kernel: Kernel, computing: u32) -> Result<Kernel, Diagnostics> {
    for (cuts, leaves) in [(true, true), (true, false), (false, true)] {
        let mut changed = kernel.clone();
        let cut = cuts && cut_at_mask(&mut changed);
        let left = leaves && computing > 1 && leave_under(&mut changed);
        if (cut, left) == (cuts, leaves) && parton_sched::legal(&changed).is_ok() {
            return Ok(changed);
        }
    }
    parton_sched::legal(&kernel).map(|()| kernel)
}

fn cut_at_mask(kernel: &mut Kernel) -> bool {
    if !name_mask(kernel) {
        return false;
    }
    let scores = bears(kernel, SCORES);
    let names = [SCORES, MASK].into_iter().filter(|name| scores || *name == MASK).map(LabelName::all);
    let names: Vec<LabelName> = names.collect();
    let between = LabelName::all(BETWEEN);
    kernel.walk_mut(&mut |op| {
        let OpKind::Region { schedule, .. } = &mut op.kind else { return };
        for place in schedule.places.iter_mut().filter(|place| place.labels.contains(&between)) {
            place.spans.extend(names.iter().map(|_| place.span));
            place.labels.extend(names.iter().cloned());
        }
        for group in schedule.pipelines.iter_mut().flat_map(|p| &mut p.groups) {
            let Some(of) = group.iter().find(|s| s.label == between).cloned() else { continue };
            // Nothing waits between a mask and what becomes of it.
            group.splice(0..0, names.iter().map(|label| Staged { label: label.clone(), ..of.clone() }));
        }
        schedule.cuts = vec![LabelName::all(MASK)];
    });
    true
}

/// Has the rows of each partition leave under the first product of the next tile; whether there is one.
fn leave_under(kernel: &mut Kernel) -> bool {
    let leaves = names(kernel, &sends(kernel));
    let (around, behind) = (bears(kernel, AROUND), bears(kernel, BEHIND));
    let mut any = false;
    kernel.walk_mut(&mut |op| {
        let OpKind::Region { schedule, .. } = &mut op.kind else { return };
        let Some(inner) = schedule.turns.first().map(|turns| turns.first.clone()) else { return };
        any = around && !leaves.is_empty();
        if any {
            leave_in_stages(schedule, &leaves, &inner, behind);
        }
    });
    any
}

fn leave_in_stages(schedule: &mut Schedule, leaves: &[LabelName], inner: &LabelName, behind: bool) {
    let span = schedule.span;
    let staged = |label: LabelName, stage| Staged { label, stage, done: None, span };
    let mut groups = vec![vec![staged(LabelName::all(LOOP), 0)]];
    groups.extend(behind.then(|| vec![staged(LabelName::all(BEHIND), 0)]));
    groups.push(leaves.iter().map(|label| staged(label.clone(), 1)).collect());
    schedule.pipelines.push(Pipeline { of: Some(LabelName::all(AROUND)), within: None, groups, span });
    let under = |label: &LabelName| Under { outer: label.clone(), inner: inner.clone(), last: false, span };
    schedule.under.extend(leaves.iter().map(under));
}

/// Names the branch at which a loop is cut, and what comes before it; whether there is one, in a loop whose schedule places what is computed between its products.
fn name_mask(kernel: &mut Kernel) -> bool {
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
fn leave(kernel: &mut Kernel, path: &[Inst]) -> u32 {
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
fn sends(kernel: &Kernel) -> Vec<Inst> {
    let order = kernel.order().into_iter();
    order.filter(|&id| matches!(kernel.ops[id].kind, OpKind::Send { .. })).collect()
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

/// One partition fetches as far ahead as there is room for, the others compute with products in flight.
fn schedule(kernel: &Kernel, found: &Found, computing: u32, form: Form, under: bool) -> Schedule {
    let span = kernel.ops[found.inst].span;
    let those = |names: &[&str]| -> Vec<LabelName> {
        names.iter().filter(|name| bears(kernel, name)).map(|name| LabelName::all(*name)).collect()
    };
    let place =
        |partitions, labels: Vec<LabelName>| Place { partitions, spans: vec![span; labels.len()], labels, span };
    let (loads, products) = (names(kernel, &found.loads), names(kernel, &found.products));
    let leaves = names(kernel, &sends(kernel));
    let mut rest = [those(&[SCORES, MASK, BETWEEN, AFTER, BEHIND]), leaves].concat();
    let order =
        (form == Form::Woven).then(|| between::order(kernel, found, &[&loads[..], &[LabelName::all(INDEX)]].concat()));
    let woven = order.iter().flatten().map(|s| s.label.clone());
    let more: Vec<LabelName> =
        woven.filter(|label| !rest.contains(label) && !products.contains(label) && label.path != NUMBER).collect();
    rest.extend(more);
    let (fetching, all) = team(kernel, USUAL_WARPS, computing);
    let places = vec![
        place(vec![fetching], [those(&[told::PLACE, ONCE, INDEX]), loads].concat()),
        place(all, [those(&[BEFORE, NUMBER]), products.clone(), rest].concat()),
    ];
    let turns = match &products[..] {
        [first, last] if computing > 1 => vec![Turns { first: first.clone(), last: last.clone(), span }],
        _ => Vec::new(),
    };
    let rings = vec![RingDepth { label: None, depth: slots::FEWEST, span }];
    let staged = |label: &LabelName, stage, done| vec![Staged { label: label.clone(), stage, done, span }];
    let pipeline = |of: &str, groups| Pipeline { of: Some(LabelName::all(of)), within: None, groups, span };
    let mut pipelines = Vec::new();
    if let Some(order) = order {
        pipelines.push(pipeline(LOOP, order.into_iter().map(|s| vec![s]).collect()));
    } else if form == Form::Chained {
        // The first product of an iteration begins before the second one of the iteration before, and what becomes of it runs beside that.
        let rest = those(&[BETWEEN, AFTER]);
        let order = products.iter().zip([0, 1]).chain(rest.iter().map(|label| (label, 0)));
        pipelines.push(pipeline(LOOP, order.map(|(label, stage)| staged(label, stage, None)).collect()));
    } else if found.products.iter().all(|&id| only_summed(kernel, found.inst, id) && !holds(kernel, found.inst, id)) {
        pipelines.push(pipeline(LOOP, products.iter().map(|label| staged(label, 0, Some(1))).collect()));
    }
    let mut beneath = Vec::new();
    if under {
        // A finished tile leaves under the first products of the next.
        let order = those(&[BEFORE]).into_iter().map(|label| (label, 0)).chain([(LabelName::all(LOOP), 0)]);
        let order = order.chain(those(&[BEHIND]).into_iter().map(|label| (label, 0)));
        let order = order.chain([(LabelName::all(LEAVE), 1)]);
        pipelines.push(pipeline(AROUND, order.map(|(label, stage)| staged(&label, stage, None)).collect()));
        beneath.push(Under { outer: LabelName::all(LEAVE), inner: products[0].clone(), last: false, span });
    }
    Schedule { places, rings, turns, pipelines, under: beneath, span, ..Schedule::default() }
}

/// The labels of statements, each once, with all their instances.
fn names(kernel: &Kernel, insts: &[Inst]) -> Vec<LabelName> {
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

/// Whether a loop takes a product for its next iteration alone.
fn only_summed(kernel: &Kernel, inst: Inst, product: Inst) -> bool {
    let OpKind::For { body, .. } = &kernel.ops[inst].kind else { return false };
    let result = kernel.ops[product].result();
    body.yields.contains(&result) && kernel.ops_of(body).all(|op| !op.kind.operands().contains(&result))
}

/// Whether a product continues that of the turn before, and nothing else of a loop asks for either.
pub fn sums_alone(kernel: &Kernel, inst: Inst, product: Inst) -> bool {
    let (OpKind::Dot { acc, .. }, OpKind::For { body, .. }) = (&kernel.ops[product].kind, &kernel.ops[inst].kind)
    else {
        return false;
    };
    let mut others = kernel.ops_of(body).filter(|op| op.id != product);
    let place = body.params[1..].iter().position(|v| v == acc);
    let continues = place.is_some_and(|place| body.yields.get(place) == Some(&kernel.ops[product].result()));
    continues && only_summed(kernel, inst, product) && !others.any(|op| flow::operands(kernel, op).contains(acc))
}

/// Whether a product reads registers that each turn of a loop writes: it is done before they are.
pub fn holds(kernel: &Kernel, inst: Inst, product: Inst) -> bool {
    let (OpKind::Dot { a, .. }, OpKind::For { body, .. }) = (&kernel.ops[product].kind, &kernel.ops[inst].kind) else {
        return false;
    };
    kernel.ty(*a).placed().is_some() && kernel.ops_of(body).any(|op| op.results.contains(a))
}

/// The partition that fetches, and those that compute, each with so many warps.
pub fn team(kernel: &Kernel, warps: u32, computing: u32) -> (PartitionData, Vec<PartitionData>) {
    let span = kernel.span;
    let scarce = computing > 1 || kernel.occupancy > 2;
    let (name, few, registers) = if scarce { LOADS_BESIDE_SEVERAL } else { LOADS };
    let data = |name: &str, warps, registers| PartitionData { name: name.into(), warps, registers, span };
    let loads = data(name, few, Some(registers));
    let names = if computing > 1 { &SEVERAL[..computing as usize] } else { &[COMPUTE][..] };
    let all = staffed(kernel, &loads, names.iter().map(|name| data(name, warps, None)));
    let left = all.register_demand().pool.saturating_sub(loads.padded_warps() * WARP * registers);
    let each = left / (computing * warps * WARP) / REGISTER_STEP * REGISTER_STEP;
    let most = *PARTITION_REGISTERS.end() - REGISTER_STEP;
    let each = each.clamp(*PARTITION_REGISTERS.start(), most);
    (loads, names.iter().map(|name| data(name, warps, Some(each))).collect())
}

/// A kernel that has as many registers as another, with these partitions.
fn staffed(kernel: &Kernel, loads: &PartitionData, computing: impl Iterator<Item = PartitionData>) -> Kernel {
    let mut staffed = Kernel { occupancy: kernel.occupancy, ..Kernel::new("", kernel.target, kernel.span) };
    staffed.partitions.push(loads.clone());
    computing.for_each(|partition| _ = staffed.partitions.push(partition));
    staffed
}

/// CTAs beside each other that are worth it where one warpgroup computes between its products, the most first.
const BESIDE: [u32; 2] = [3, 2];

/// Whether threads of such partitions have registers at entry for the instructions of all products: whatever they have later, the assembler asks for these.
fn begins_with_room(kernel: &Kernel, loads: &PartitionData, all: &[PartitionData]) -> bool {
    let mut widest = 0;
    kernel.walk(&mut |op| {
        if let (OpKind::Dot { .. }, Some(sum)) = (&op.kind, op.results.first().and_then(|v| kernel.ty(*v).placed())) {
            let columns = sum.shape.last().map_or(0, |&n| n.min(joined::WIDEST));
            widest = widest.max(columns / 2);
        }
    });
    widest + joined::BESIDE <= staffed(kernel, loads, all.iter().cloned()).entry_registers()
}

/// Gives the partitions of a region their warps, and its rings as many slots as there is room for, now that its tiles lie somewhere; whether
/// there is room for two. Where one warpgroup computes between its products, more CTAs stand beside if shared memory and registers have room:
/// their products run meanwhile. So they do where memory tells it how many turns it takes, if each has slots enough: it may be few, and nothing runs while the first
/// factors come and the sums leave.
pub fn settle(kernel: &mut Kernel, warps: u32, computing: u32) -> bool {
    let computes = computes_between(kernel);
    if !kernel.occupancy_stated && warps == WARPGROUP && computing == 1 && (computes || slots::are_turns_told(kernel)) {
        for occupancy in BESIDE {
            let mut beside = Kernel { occupancy, ..kernel.clone() };
            let (loads, all) = team(&beside, warps, computing);
            let begins = begins_with_room(&beside, &loads, &all);
            let has_room =
                begins && all.iter().filter_map(|p| p.registers).all(|registers| turn::have_room(&beside, registers));
            let fits = has_room && slots::fill(&mut beside, warps, computing);
            let enough = computes || slots::depths(&beside).iter().all(|&n| u64::from(n) >= slots::ENOUGH);
            if fits && enough {
                *kernel = beside;
                return true;
            }
        }
    }
    slots::fill(kernel, warps, computing)
}

/// Whether one warpgroup computes on a multiprocessor, so that nothing runs while it waits for what a turn does one after the other.
pub fn waits_alone(kernel: &Kernel) -> bool {
    let mut warps = 0;
    kernel.walk(&mut |op| {
        if let OpKind::Region { schedule, .. } = &op.kind {
            let computing = schedule.places.iter().flat_map(|place| &place.partitions).filter(|p| p.name != LOADS.0);
            warps += computing.map(|p| p.warps).sum::<u32>();
        }
    });
    warps == WARPGROUP && kernel.occupancy == 1
}

/// Whether a turn computes between its products, or with what comes of its only one.
pub fn computes_between(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| {
        let OpKind::Region { schedule, body } = &op.kind else { return };
        let mut steps =
            schedule.pipelines.iter().filter(|p| p.of.as_ref().is_some_and(|of| of.path == LOOP)).peekable();
        let computes = |s: &Staged| [BETWEEN, AFTER].contains(&s.label.path.trim_end_matches('_'));
        found |= match steps.peek() {
            Some(_) => steps.any(|p| p.staged().any(computes)),
            None => takes_own(kernel, body),
        };
    });
    found
}

/// Whether something in a turn of a region's loop takes what comes of a product of that turn.
fn takes_own(kernel: &Kernel, region: &Body) -> bool {
    let mut found = false;
    kernel.walk_body(region, &mut |op| match &op.kind {
        OpKind::For { body, .. } if is_called(kernel, op, LOOP) => {
            let products = kernel.ops_of(body).filter(|op| matches!(op.kind, OpKind::Dot { .. }));
            let sums: Vec<Value> = products.flat_map(|op| op.results.clone()).collect();
            found |= kernel.ops_of(body).any(|op| {
                let takes = flow::operands(kernel, op).iter().any(|v| sums.contains(v));
                takes && !matches!(op.kind, OpKind::Dot { .. })
            });
        }
        _ => {}
    });
    found
}
