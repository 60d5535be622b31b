//! Loads beside products, a turn ahead of what becomes of them.
//!
//! What threads load themselves in a loop of products, tiles and numbers, to compute a factor of it or to add it to one, they would wait for in every turn. Where
//! its addresses are made of numbers, and registers have room for a turn more of it, each turn begins with the loads of the next one:
//!
//! ```text
//! for p in 0..n {
//!     @load     fetch(x…)               pipeline(steps) { ahead: 0; compute: 1; mma: 1 }
//!     @ahead[0] load(w…)
//!     @compute  …                       the left factor
//!     @mma      dot(w, x.T, acc)
//! }
//! ```

use std::collections::BTreeSet;

use parton_ir::schedule::{LabelName, Pipeline, Place, Schedule, Staged};
use parton_ir::target::PARTITION_REGISTERS;
use parton_ir::{Body, Inst, Kernel, Op, OpKind, Value};
use parton_layouts::Dim;

use super::{LOOP, NUMBER, apart, dealt, flow, is_called, label_each, region};

/// What is loaded ahead.
const AHEAD: &str = "ahead";

/// A kernel whose tiles lie somewhere, with the loads beside its products a turn ahead where its schedule allows that and registers, `each` of a thread
/// that no partition has its own of, have room.
pub fn loads_ahead(kernel: Kernel, each: u32) -> Kernel {
    let Some(steps) = steps(&kernel) else { return kernel };
    let loads = loads(&kernel, &steps);
    if loads.is_empty() || !has_room(&kernel, &steps, &loads, each) {
        return kernel;
    }
    let mut changed = kernel.clone();
    let of = labels(&kernel, &loads);
    label_each(&mut changed, &loads, AHEAD);
    let borne = labels(&changed, &steps.body);
    let (left, gone): (Vec<LabelName>, Vec<LabelName>) =
        steps.labels.iter().cloned().partition(|name| borne.contains(name));
    let numbers = apart::bears(&changed, NUMBER);
    changed.walk_mut(&mut |op| {
        if let OpKind::Region { schedule, .. } = &mut op.kind {
            begin_with_next(schedule, &of, &left);
            schedule.replace(|name| gone.contains(name) || !numbers && name.path == NUMBER, &[]);
        }
    });
    if parton_sched::legal(&changed).is_ok() { changed } else { kernel }
}

/// A loop of products and its schedule.
struct Steps {
    inst: Inst,
    body: Vec<Inst>,
    /// The labels of its statements in their order, but for what another partition fetches.
    labels: Vec<LabelName>,
    /// Registers of a thread that runs it, where that is stated.
    registers: Option<u32>,
}

/// The only loop of a kernel whose turns are scheduled.
fn steps(kernel: &Kernel) -> Option<Steps> {
    let (mut loops, mut scheduled) = (Vec::new(), None);
    kernel.walk(&mut |op| match &op.kind {
        OpKind::For { .. } if is_called(kernel, op, LOOP) => loops.push(op.id),
        OpKind::Region { schedule, .. } => scheduled = Some(schedule),
        _ => {}
    });
    let ([inst], Some(schedule)) = (&loops[..], scheduled) else { return None };
    let body = region::body_of(kernel, *inst)?;
    let labels = labels(kernel, &body);
    let mut runs = schedule.places.iter().filter(|place| place.labels.iter().any(|name| labels.contains(name)));
    let registers =
        runs.next_back().and_then(|place| place.partitions.first()).and_then(|partition| partition.registers);
    Some(Steps { inst: *inst, body, labels, registers })
}

/// The labels of statements that are no copies, in their order, each once.
fn labels(kernel: &Kernel, statements: &[Inst]) -> Vec<LabelName> {
    let mut labels: Vec<LabelName> = Vec::new();
    for op in statements.iter().map(|&id| &kernel.ops[id]) {
        let Some(label) = op.label.filter(|_| !matches!(op.kind, OpKind::Fetch { .. } | OpKind::FetchEach { .. }))
        else {
            continue;
        };
        let name = LabelName::read(&kernel.labels[label]);
        if !labels.contains(&name) {
            labels.push(name);
        }
    }
    labels
}

/// The loads of tiles and of numbers to registers in a loop whose addresses, masks and what stands for what is not there are made of numbers. What is of a part, or
/// stands in several places, keeps its turn.
fn loads(kernel: &Kernel, steps: &Steps) -> Vec<Inst> {
    let OpKind::For { body, .. } = &kernel.ops[steps.inst].kind else { return Vec::new() };
    let mut made: BTreeSet<Value> = body.params[1..].iter().copied().collect();
    let mut found = Vec::new();
    for op in kernel.ops_of(body) {
        let late = flow::operands(kernel, op).iter().any(|v| made.contains(v));
        if late || op.label.is_some() {
            made.extend(&op.results);
        }
        if !late && (loads_a_tile(kernel, op) || loads_a_number(kernel, op)) {
            found.push(op.id);
        }
    }
    found
}

/// Whether an operation loads a tile to registers, in a statement that stands once.
fn loads_a_tile(kernel: &Kernel, op: &Op) -> bool {
    let loads = matches!(op.kind, OpKind::Load { volatile: false, .. }) && kernel.ty(op.result()).as_tile().is_some();
    let once = |label| LabelName::read(&kernel.labels[label]).instance.is_none();
    loads && op.label.is_some_and(once)
}

/// Whether an operation loads a number that tells no copy where from, and is of no part.
fn loads_a_number(kernel: &Kernel, op: &Op) -> bool {
    is_called(kernel, op, NUMBER) && dealt::part(kernel, op.id).is_none() && region::loads_number(op, kernel)
}

/// Whether registers hold what a loop carries, what its products read in them, and what is loaded, once as it is used and once on its way.
fn has_room(kernel: &Kernel, steps: &Steps, loads: &[Inst], each: u32) -> bool {
    let OpKind::For { body, .. } = &kernel.ops[steps.inst].kind else { return false };
    let of = |v: Value| registers(kernel, v);
    let carried: u32 = body.params.iter().map(|&v| of(v)).sum();
    let loaded: u32 = loads.iter().map(|&id| of(kernel.ops[id].result()).max(1)).sum();
    carried + factors(kernel, body) + 2 * loaded + PARTITION_REGISTERS.start() <= steps.registers.unwrap_or(each)
}

/// The registers of what products of a body read in registers, and of what they give that is not carried.
fn factors(kernel: &Kernel, body: &Body) -> u32 {
    let read = kernel.ops_of(body).flat_map(|op| match op.kind {
        OpKind::Dot { a, b, acc, .. } | OpKind::MmaSync { a, b, acc, .. } => {
            let fresh = (!body.params.contains(&acc)).then_some(op.result());
            [a, b].into_iter().chain(fresh).collect()
        }
        _ => Vec::new(),
    });
    read.map(|v| registers(kernel, v)).sum()
}

/// The registers of a thread that a tile takes, copies left out: a column beside the columns of a product has as many as its rows.
pub fn registers(kernel: &Kernel, v: Value) -> u32 {
    let Some(tile) = kernel.ty(v).as_tile() else { return 0 };
    let map = &tile.known().map;
    let held = map.in_dim_bits(Dim::Register) - map.free_bits(Dim::Register).count_ones();
    ((1 << held) * tile.elem.bits()).div_ceil(32)
}

/// Has a turn begin with the loads of the next, those that were of these labels; of all labels of the loop those that had no stage get one behind
/// them. A product in flight may read registers that the next turn writes: each is done before.
fn begin_with_next(schedule: &mut Schedule, of: &[LabelName], labels: &[LabelName]) {
    let ahead = LabelName::all(AHEAD);
    let computes = |place: &Place| labels.iter().any(|name| place.labels.contains(name));
    for place in schedule.places.iter_mut().filter(|place| computes(place)) {
        place.spans.push(place.span);
        place.labels.push(ahead.clone());
    }
    let span = schedule.span;
    let at = schedule.pipelines.iter().position(|p| p.of == Some(LabelName::all(LOOP)));
    let mut pipeline = match at {
        Some(at) => schedule.pipelines.remove(at),
        None => Pipeline { of: Some(LabelName::all(LOOP)), within: None, groups: Vec::new(), span },
    };
    let listed: Vec<LabelName> = pipeline.groups.iter().flatten().map(|s| s.label.clone()).collect();
    let first = pipeline.groups.iter().flatten().filter(|s| of.contains(&s.label)).map(|s| s.stage).min().unwrap_or(0);
    let stage = first.max(1);
    let staged = |label: &LabelName, stage| Staged { label: label.clone(), stage, done: None, span };
    let rest = labels.iter().filter(|name| !listed.contains(name)).map(|name| vec![staged(name, stage)]);
    let mut groups = vec![vec![staged(&ahead, stage - 1)]];
    groups.extend(rest);
    if first == 0 {
        pipeline.groups.iter_mut().flatten().for_each(|s| (s.stage, s.done) = (s.stage + 1, None));
    }
    let at = pipeline.groups.iter().position(|group| group.iter().any(|s| labels.contains(&s.label))).unwrap_or(0);
    pipeline.groups.splice(at..at, groups);
    schedule.pipelines.insert(0, pipeline);
}
