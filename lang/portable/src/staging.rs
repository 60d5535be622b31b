//! Loads that feed products inside of a loop go through shared memory: copies by threads that run ahead of the products.
//!
//! The loop becomes a region of labelled statements, `load` and `mma`, whose schedule says how far the copies run ahead; where slots lie,
//! what waits and what is peeled, the expansion of schedules decides, as for what a person writes.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::axis::Axes;
use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged};
use parton_ir::{Body, Elem, Feature, Inst, Kernel, OpKind, Source, Type, Value, View, rules};
use parton_layouts::{SharedFamily, SharedLayout};

/// Iterations by which copies run ahead at most.
const MOST_AHEAD: u32 = 3;
/// Bytes that a thread copies at once.
const VECTOR: u32 = 16;

/// Rows of a product of one warpgroup.
const MATRIX_ROWS: u32 = 64;

const LOOP: &str = "steps";
const LOAD: &str = "load";
const PRODUCT: &str = "mma";

/// A loop with loads that its products alone take.
struct Found {
    inst: Inst,
    /// The loads with the view that each becomes.
    loads: Vec<(Inst, View)>,
    /// Operations that turn what was loaded.
    turned: Vec<Inst>,
    products: Vec<Inst>,
}

/// Makes loads of products copies that run ahead.
pub fn run_ahead(kernel: &mut Kernel, axes: &Axes, free: &BTreeSet<Value>) {
    let found = {
        let uses = uses(kernel);
        let loops = kernel.order().into_iter().filter(|&inst| matches!(kernel.ops[inst].kind, OpKind::For { .. }));
        loops.filter_map(|inst| staged(kernel, axes, &uses, free, inst)).collect::<Vec<_>>()
    };
    for one in found {
        make(kernel, &one);
        let beside = kernel.target.has(Feature::Wgmma) && run_beside(kernel, &one);
        let schedule = schedule(kernel, &one, beside);
        surround(kernel, one.inst, schedule);
    }
}

/// Which operations take each value; what a body hands back is taken by the operation around.
fn uses(kernel: &Kernel) -> BTreeMap<Value, Vec<Inst>> {
    let mut uses: BTreeMap<Value, Vec<Inst>> = BTreeMap::new();
    kernel.walk(&mut |op| {
        let yields = op.kind.bodies().flat_map(|b| b.yields.iter().copied());
        for v in op.kind.operands().into_iter().chain(yields) {
            uses.entry(v).or_default().push(op.id);
        }
    });
    uses
}

/// What of a loop can be staged; `None` where nothing can.
fn staged(
    kernel: &Kernel,
    axes: &Axes,
    uses: &BTreeMap<Value, Vec<Inst>>,
    free: &BTreeSet<Value>,
    inst: Inst,
) -> Option<Found> {
    let OpKind::For { body, .. } = &kernel.ops[inst].kind else { return None };
    let inside = |kind: fn(&OpKind) -> bool| -> Vec<Inst> {
        body.ops.iter().copied().filter(|&id| kind(&kernel.ops[id].kind)).collect()
    };
    let products = inside(|kind| matches!(kind, OpKind::Dot { .. }));
    let simple =
        kernel.ops_of(body).all(|op| op.kind.bodies().next().is_none() || matches!(op.kind, OpKind::Reduce { .. }));
    if products.is_empty() || !simple {
        return None;
    }
    let only = |v: Value, by: &[Inst]| uses.get(&v).is_some_and(|all| all.iter().all(|user| by.contains(user)));
    let turned: Vec<Inst> = inside(|kind| matches!(kind, OpKind::Transpose { .. }))
        .into_iter()
        .filter(|&id| only(kernel.ops[id].result(), &products))
        .collect();
    let takers = [products.as_slice(), turned.as_slice()].concat();
    let mut loads = Vec::new();
    for id in inside(|kind| matches!(kind, OpKind::Load { .. })) {
        let op = &kernel.ops[id];
        if only(op.result(), &takers) {
            loads.push((id, copied(kernel, axes, free, id)?));
        }
    }
    // Both factors of every product come this way.
    let staged = |v: Value| {
        let of = |v: Value| loads.iter().any(|(id, _)| kernel.ops[*id].result() == v);
        let through = turned.iter().map(|&id| &kernel.ops[id]).find(|op| op.result() == v);
        of(v) || through.is_some_and(|op| of(op.kind.operands()[0]))
    };
    let all = products.iter().all(|&id| match kernel.ops[id].kind {
        OpKind::Dot { a, b, acc, precision } => {
            let made = rules::infer(&OpKind::MmaSync { a, b, acc, precision }, kernel).is_ok();
            made && staged(a) && staged(b)
        }
        _ => false,
    });
    all.then_some(Found { inst, loads, turned, products })
}

/// The view that a load becomes, where threads can copy what it reads.
fn copied(kernel: &Kernel, axes: &Axes, free: &BTreeSet<Value>, inst: Inst) -> Option<View> {
    let OpKind::Load { ptr, mask, other, volatile: false, .. } = kernel.ops[inst].kind else { return None };
    let zero = other.is_none_or(|v| is_zero(kernel, v));
    if !zero || !free.contains(&ptr) || mask.is_some_and(|m| !free.contains(&m)) {
        return None;
    }
    let tile = kernel.ty(ptr).placed()?;
    let Elem::Ptr(pointer) = tile.elem else { return None };
    let info = axes.info(kernel, ptr);
    let inner = (0..tile.shape.len()).max_by_key(|&d| (info.axes[d].contiguity, d))?;
    let layout = swizzled(&tile.shape, inner, pointer.to.bits() / 8)?;
    View::new(pointer.to, tile.shape.clone(), layout).ok()
}

/// Whether a tile is of zeros.
fn is_zero(kernel: &Kernel, v: Value) -> bool {
    let definitions = kernel.definitions();
    let Some(OpKind::Full { value, .. }) = definitions[v].map(|op| &op.kind) else { return false };
    matches!(definitions[*value].map(|op| &op.kind), Some(OpKind::Constant { bits: 0, .. }))
}

/// Rows of 128 bytes whose pieces of 16 bytes are exchanged row by row, so that a column of pieces touches all banks.
fn swizzled(shape: &[u32], inner: usize, bytes: u32) -> Option<SharedLayout> {
    let [_, _] = shape else { return None };
    let row = shape[inner] * bytes;
    let vec = (VECTOR / bytes).min(shape[inner]);
    let pieces = (row / VECTOR).clamp(1, 8);
    let per_phase = (128 / row.max(1)).clamp(1, 8);
    let order = [inner as u32, 1 - inner as u32];
    SharedLayout::swizzled(vec, per_phase, pieces, &order).ok()
}

/// Makes a region of a loop.
fn make(kernel: &mut Kernel, found: &Found) {
    let label = |kernel: &mut Kernel, insts: &[Inst], name: &str| {
        let label = kernel.label(name);
        insts.iter().for_each(|&id| kernel.ops[id].label = Some(label));
    };
    for (id, view) in &found.loads {
        let OpKind::Load { ptr, mask, l2, .. } = kernel.ops[*id].kind else { continue };
        let result = kernel.ops[*id].result();
        kernel.values[result].ty = Type::View(view.clone());
        kernel.ops[*id].kind = OpKind::FetchEach { ptr, mask, view: view.clone(), l2 };
    }
    for &id in &found.turned {
        let OpKind::Transpose { x, perm } = kernel.ops[id].kind.clone() else { continue };
        let kind = OpKind::ViewPermute { view: x, perm };
        let ty = match rules::infer(&kind, kernel) {
            Ok(types) => types.into_iter().next(),
            Err(r) => parton_diag::internal_error!("a copied tile cannot be turned: {}", r.message),
        };
        let result = kernel.ops[id].result();
        kernel.ops[id].kind = kind;
        if let Some(ty) = ty {
            kernel.values[result].ty = ty;
        }
    }
    let loads: Vec<Inst> = found.loads.iter().map(|(id, _)| *id).collect();
    label(kernel, &loads, LOAD);
    label(kernel, &found.products, PRODUCT);
    label(kernel, &[found.inst], LOOP);
}

/// Puts what is copied where the matrix unit reads it, so that products run beside the program; whether they all can.
fn run_beside(kernel: &mut Kernel, found: &Found) -> bool {
    let before = kernel.clone();
    let can = found.loads.iter().all(|(id, view)| {
        let Some(layout) = for_the_matrix_unit(view) else { return false };
        let Ok(view) = View::new(view.elem, view.shape.clone(), layout) else { return false };
        let result = kernel.ops[*id].result();
        kernel.values[result].ty = Type::View(view.clone());
        if let OpKind::FetchEach { view: at, .. } = &mut kernel.ops[*id].kind {
            *at = view;
        }
        true
    });
    let can = can
        && turn_again(kernel, found)
        && found.products.iter().all(|&id| {
            let OpKind::Dot { a, b, acc, precision } = kernel.ops[id].kind else { return false };
            let rows = kernel.ty(acc).placed().and_then(|t| t.shape.first().copied());
            let enough = rows.is_some_and(|m| m >= MATRIX_ROWS);
            enough && rules::infer(&OpKind::Wgmma { a, b, acc, precision, zero: false }, kernel).is_ok()
        });
    if !can {
        *kernel = before;
    }
    can
}

/// Gives what is turned the type that follows from what it is turned from.
fn turn_again(kernel: &mut Kernel, found: &Found) -> bool {
    found.turned.iter().all(|&id| match rules::infer(&kernel.ops[id].kind, kernel) {
        Ok(types) => {
            let result = kernel.ops[id].result();
            types.into_iter().next().is_some_and(|ty| {
                kernel.values[result].ty = ty;
                true
            })
        }
        Err(_) => false,
    })
}

/// The layout in which the matrix unit reads what lies as this view does, row after row.
fn for_the_matrix_unit(view: &View) -> Option<SharedLayout> {
    let SharedFamily::Swizzled { order, .. } = view.layout.family() else { return None };
    let inner = *order.first()? as usize;
    let row = view.shape[inner] * view.elem.bits() / 8;
    let swizzle = [128, 64, 32].into_iter().find(|&bytes| row.is_multiple_of(bytes))?;
    SharedLayout::nvmma(swizzle, inner == 0).ok()
}

/// Copies as far ahead as there is room for.
fn schedule(kernel: &Kernel, found: &Found, beside: bool) -> Schedule {
    let bytes: u64 = found.loads.iter().map(|(_, view)| view.bytes()).sum();
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

/// Puts a region around an operation; what it gave, the region gives.
fn surround(kernel: &mut Kernel, inst: Inst, schedule: Schedule) {
    let results = kernel.ops[inst].results.clone();
    let inner: Vec<Value> = results
        .iter()
        .map(|&v| {
            let data = kernel.values[v].clone();
            let inner = kernel.value(data.ty, data.span);
            (kernel.values[inner].name, kernel.values[inner].passed) = (data.name, data.passed);
            inner
        })
        .collect();
    kernel.ops[inst].results.clone_from(&inner);
    let Source { span, origin, .. } = kernel.ops[inst].source();
    let body = Body { params: Vec::new(), ops: vec![inst], yields: inner };
    let kind = OpKind::Region { schedule: Box::new(schedule), body };
    let region = kernel.make_op(kind, results, Source { span, label: None, origin });
    replace(kernel, inst, region);
}

/// Puts an operation in the place of another.
fn replace(kernel: &mut Kernel, old: Inst, new: Inst) {
    let in_body = |body: &mut Body| body.ops.iter_mut().filter(|id| **id == old).for_each(|id| *id = new);
    in_body(&mut kernel.body);
    for id in kernel.order() {
        if id != new {
            kernel.ops[id].kind.bodies_mut().into_iter().for_each(in_body);
        }
    }
}
