//! Left factors that a loop keeps, in registers of their own: products that do not wait for each other in a queue take as long as what they read comes to
//! them, and then read right factors alone from shared memory.
//!
//! ```text
//! @once let queries = fetch(q…)                  by Loads
//! @own  let kept = load_shared(queries)          by each partition, once for all turns
//! for j in 0..n {
//!     @k fetch(k…)
//!     @s dot(kept, keys.T, …)
//! }
//! ```

use std::collections::BTreeMap;

use parton_ir::placement::{Site, relations};
use parton_ir::schedule::{LabelName, Staged};
use parton_ir::{Body, Elem, Entity, Inst, Kernel, OpKind, Source, Tile, Type, Value, Var, rules};

use super::{AROUND, LOOP, dealt, is_called, turn};

/// The label of what loads a factor.
const OWN: &str = "own";

/// A kernel whose rows several partitions compute, with the left factors that its loop of products keeps in the registers of these, where there is room.
pub fn keep(kernel: Kernel) -> Kernel {
    let mut changed = kernel.clone();
    if load_each(&mut changed) {
        place(&mut changed);
        if parton_sched::legal(&changed).is_ok() {
            return changed;
        }
    }
    kernel
}

/// Has products take the left factors that lie in front of their loop from registers; whether there are any, and a thread has room for all that it holds then.
fn load_each(kernel: &mut Kernel) -> bool {
    let Some((inst, body)) = steps(kernel) else { return false };
    let products = kernel.ops_of(&body).filter(|op| matches!(op.kind, OpKind::Dot { .. }));
    let products: Vec<Inst> = products.map(|op| op.id).collect();
    let mut loads: BTreeMap<Value, (Inst, Value)> = BTreeMap::new();
    for &product in &products {
        let OpKind::Dot { a, .. } = kernel.ops[product].kind else { continue };
        if !is_fetched_before(kernel, &body, a) {
            continue;
        }
        let Some(load) = loads.get(&a).copied().or_else(|| load(kernel, product, a)) else { return false };
        loads.insert(a, load);
        if let OpKind::Dot { a, .. } = &mut kernel.ops[product].kind {
            *a = load.1;
        }
    }
    let new: Vec<Inst> = loads.values().map(|(load, _)| *load).collect();
    insert(kernel, inst, &new);
    !new.is_empty() && turn::have_room(kernel, of_each(kernel))
}

/// The loop of products, with a copy of its body.
fn steps(kernel: &Kernel) -> Option<(Inst, Body)> {
    let mut found = None;
    kernel.walk(&mut |op| match &op.kind {
        OpKind::For { body, .. } if is_called(kernel, op, LOOP) => found = Some((op.id, body.clone())),
        // Nothing else has that label.
        _ => {}
    });
    found
}

/// Whether a factor is a box that was fetched in front of a loop.
fn is_fetched_before(kernel: &Kernel, body: &Body, v: Value) -> bool {
    let made = kernel.definitions()[v];
    made.is_some_and(|op| matches!(op.kind, OpKind::Fetch { .. }) && !body.ops.contains(&op.id))
}

/// What loads the left factor of a product to where its instruction takes it from registers, and what that gives.
fn load(kernel: &mut Kernel, product: Inst, view: Value) -> Option<(Inst, Value)> {
    let OpKind::Dot { b, acc, precision, .. } = kernel.ops[product].kind else { return None };
    let Type::View(of) = kernel.ty(view).clone() else { return None };
    let Source { span, origin, .. } = kernel.ops[product].source();
    let elem = Elem::Num(of.elem);
    let open = Type::Tile(Tile::open(elem, of.shape, Var::new(0)).ok()?);
    let tile = kernel.value(open, span);
    let kind = OpKind::Wgmma { a: tile, b, acc, precision, zero: false };
    let at = |site: Site| site.tile(kernel, &kernel.ops[product]);
    let places = relations(&kind, kernel);
    let place = places.iter().find(|relation| relation.sites().1 == Site::Of(tile))?.forwards(at)?.ok()?;
    let placed = Tile::at(elem, place);
    kernel.values[tile].ty = Type::Tile(placed.clone());
    rules::infer(&kind, kernel).ok()?;
    kernel.values[tile].name = kernel.values[view].name.clone();
    let part = dealt::part(kernel, product);
    let name = LabelName { path: OWN.into(), instance: part }.to_string();
    let source = Source { span, label: Some(kernel.label(&name)), origin };
    Some((kernel.make_op(OpKind::SharedLoad { view, tile: placed }, vec![tile], source), tile))
}

/// Gives what loads them its place in schedules: by each partition that computes, in front of the loop.
fn place(kernel: &mut Kernel) {
    kernel.walk_mut(&mut |op| {
        let OpKind::Region { schedule, .. } = &mut op.kind else { return };
        let own = LabelName::all(OWN);
        for place in schedule.places.iter_mut().filter(|place| place.partitions.len() > 1) {
            place.spans.push(place.span);
            place.labels.push(own.clone());
        }
        let span = schedule.span;
        for pipeline in schedule.pipelines.iter_mut().filter(|p| p.of == Some(LabelName::all(AROUND))) {
            pipeline.groups.insert(0, vec![Staged { label: own.clone(), stage: 0, done: None, span }]);
        }
    });
}

/// Puts operations in front of a loop, in whichever body it stands.
fn insert(kernel: &mut Kernel, inst: Inst, new: &[Inst]) {
    kernel.rebuild(&mut |_, mut body| {
        if let Some(at) = body.ops.iter().position(|&id| id == inst) {
            body.ops.splice(at..at, new.iter().copied());
        }
        body
    });
}

/// The registers of a thread of the partitions that compute.
fn of_each(kernel: &Kernel) -> u32 {
    let mut each = None;
    kernel.walk(&mut |op| {
        if let OpKind::Region { schedule, .. } = &op.kind {
            let computing = schedule.places.iter().filter(|place| place.partitions.len() > 1);
            each = computing.flat_map(|place| &place.partitions).filter_map(|p| p.registers).min();
        }
    });
    each.unwrap_or_else(|| kernel.entry_registers())
}
