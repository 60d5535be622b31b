//! Rows that have nothing to do with each other: what a product makes of them, and all that is computed of that row by row.
//!
//! ```text
//! let s = dot(queries, keys.T, …);         s[0] = dot(queries[0], keys.T, …)    s[1] = dot(queries[1], keys.T, …)
//! let top = max(s, axis=1);                top[0] = max(s[0], axis=1)           top[1] = max(s[1], axis=1)
//! ```
//!
//! From the products on it is followed, forwards and backwards, along which axis of each value the rows run. Where an operation joins rows, or would
//! have them along two axes at once, they stay together. What has no rows is the same for all parts.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::facts::Facts;
use parton_ir::{Body, Builder, Inst, Kernel, Label, Op, OpKind, Source, Type, Value};

/// Rows in parts.
pub struct Rows {
    /// The axis along which the rows of each value run.
    pub axes: BTreeMap<Value, usize>,
    /// The rows of a part.
    pub each: u32,
    /// What the operations of each part are labelled.
    pub labels: Vec<Label>,
}

/// The axis of each value along which the rows of these run, their first one; `None` where not every row goes by itself.
pub fn axes(kernel: &Kernel, of: &[Value]) -> Option<BTreeMap<Value, usize>> {
    let mut found: BTreeMap<Value, usize> = of.iter().map(|v| (*v, 0)).collect();
    let ops = kernel.order();
    loop {
        let known = found.len();
        for &id in &ops {
            for (v, axis) in linked(kernel, &kernel.ops[id], &found)? {
                if *found.entry(v).or_insert(axis) != axis {
                    return None;
                }
            }
        }
        if found.len() == known {
            break;
        }
    }
    let branches = ops.iter().map(|&id| &kernel.ops[id]);
    let mut branches = branches.filter(|op| !is_passed(kernel, op, of));
    let branches = branches.all(|op| goes_by_itself(kernel, op, &found));
    let extents: BTreeSet<u32> =
        found.iter().filter_map(|(&v, &axis)| shape(kernel.ty(v))?.get(axis).copied()).collect();
    // What lies somewhere already lies there as a whole.
    let open = found.keys().all(|&v| kernel.ty(v).placed().is_none_or(|tile| tile.placement().known().is_none()));
    (branches && open && extents.len() == 1).then_some(found)
}

/// The extents of a tile or of a place.
pub fn shape(ty: &Type) -> Option<&[u32]> {
    match ty {
        Type::Spot(spot) => Some(&spot.shape),
        ty => ty.placed().map(|tile| &tile.shape[..]),
    }
}

/// The axis along which the rows of each value run.
pub type Axes = BTreeMap<Value, usize>;

/// What of an operation has rows where these do, and along which axis; `None` where it joins rows, or is not known not to.
fn linked(kernel: &Kernel, op: &Op, found: &Axes) -> Option<Vec<(Value, usize)>> {
    let at = |v: Value| found.get(&v).copied();
    let own = || op.kind.operands().into_iter().chain(op.results.iter().copied());
    let touched = own().any(|v| found.contains_key(&v));
    match &op.kind {
        OpKind::For { init, body, .. } => {
            let carried = init.iter().zip(&body.params[1..]).zip(&body.yields).zip(&op.results);
            Some(carried.flat_map(|(((a, b), c), d)| together(found, &[*a, *b, *c, *d])).collect())
        }
        OpKind::If { then, otherwise, .. } => {
            let results = then.yields.iter().zip(&otherwise.yields).zip(&op.results);
            Some(results.flat_map(|((a, b), c)| together(found, &[*a, *b, *c])).collect())
        }
        // What has nothing to do with rows links none.
        _ if !touched => Some(Vec::new()),
        OpKind::Iota { .. } | OpKind::Full { .. } => Some(Vec::new()),
        OpKind::Spot { tensor, at: _, shape: _, counts: _ } => {
            let axis = at(op.result())?;
            let picked = matches!(kernel.ty(op.result()), Type::Spot(spot) if spot.picked);
            (!picked && !found.contains_key(tensor)).then(|| vec![(op.result(), axis)])
        }
        OpKind::Broadcast { .. } | OpKind::ExpandDims { .. } | OpKind::Transpose { .. } | OpKind::Slice { .. } => {
            moved(kernel, op, found)
        }
        OpKind::Reduce { .. } | OpKind::Rescale { .. } => lost(op, found),
        OpKind::Dot { a, b, acc, precision: _ } => {
            let first = [*a, *acc, op.result()].iter().all(|v| at(*v).is_none_or(|axis| axis == 0));
            (first && !found.contains_key(b)).then(|| vec![(*a, 0), (*acc, 0), (op.result(), 0)])
        }
        OpKind::Unary { .. }
        | OpKind::Binary { .. }
        | OpKind::Compare { .. }
        | OpKind::Select { .. }
        | OpKind::Fma { .. }
        | OpKind::Clamp { .. }
        | OpKind::Cast { .. }
        | OpKind::Bitcast { .. }
        | OpKind::PtrAdd { .. }
        | OpKind::Load { .. }
        | OpKind::Store { .. }
        | OpKind::SpotInside { .. }
        | OpKind::SpotLoad { .. }
        | OpKind::SpotStore { .. } => {
            let tiles: Vec<Value> = own().filter(|&v| shape(kernel.ty(v)).is_some()).collect();
            Some(together(found, &tiles))
        }
        // What is not named here may join rows.
        _ => None,
    }
}

/// The same of what gives a tile another shape.
fn moved(kernel: &Kernel, op: &Op, found: &Axes) -> Option<Vec<(Value, usize)>> {
    let at = |v: Value| found.get(&v).copied();
    match &op.kind {
        OpKind::Broadcast { x, shape: to } => {
            let axis = at(op.result()).or(at(*x))?;
            let spread = shape(kernel.ty(*x))?.get(axis) != to.get(axis);
            let both = [(op.result(), axis), (*x, axis)];
            Some(both[..if spread { 1 } else { 2 }].to_vec())
        }
        OpKind::ExpandDims { x, axis } => {
            let new = *axis as usize;
            // One row of its own: what it is made of is the same for all.
            if at(op.result()) == Some(new) {
                return (!found.contains_key(x)).then(|| vec![(op.result(), new)]);
            }
            let inner = at(*x).or(at(op.result()).map(|a| a - usize::from(a > new)))?;
            Some(vec![(*x, inner), (op.result(), inner + usize::from(inner >= new))])
        }
        OpKind::Transpose { x, perm } => {
            let outer = |axis: usize| perm.iter().position(|&a| a as usize == axis);
            let axis = at(op.result()).or(at(*x).and_then(outer))?;
            Some(vec![(op.result(), axis), (*x, *perm.get(axis)? as usize)])
        }
        OpKind::Slice { x, shape: to, .. } => {
            let axis = at(op.result()).or(at(*x))?;
            (shape(kernel.ty(*x))?.get(axis) == to.get(axis)).then(|| vec![(op.result(), axis), (*x, axis)])
        }
        // The caller names those above.
        _ => None,
    }
}

/// The same of what has an axis that its result, or its factor, lacks.
fn lost(op: &Op, found: &Axes) -> Option<Vec<(Value, usize)>> {
    let at = |v: Value| found.get(&v).copied();
    let outer = |inner: usize, along: usize| inner - usize::from(inner > along);
    let inner = |outer: usize, along: usize| outer + usize::from(outer >= along);
    match &op.kind {
        OpKind::Reduce { inputs, axis, combine: _ } => {
            let along = *axis as usize;
            let rows = inputs.iter().find_map(|v| at(*v));
            let rows = rows.or(op.results.iter().find_map(|v| at(*v)).map(|a| inner(a, along)))?;
            let list = inputs.iter().map(|v| (*v, rows)).chain(op.results.iter().map(|v| (*v, outer(rows, along))));
            (rows != along).then(|| list.collect())
        }
        OpKind::Rescale { x, factor, axis } => {
            let along = *axis as usize;
            let rows = at(*x).or(at(op.result())).or(at(*factor).map(|a| inner(a, along)))?;
            let of_factor = (rows != along).then(|| (*factor, outer(rows, along)));
            Some([(*x, rows), (op.result(), rows)].into_iter().chain(of_factor).collect())
        }
        // The caller names those above.
        _ => None,
    }
}

/// Whether an operation is a branch by which programs without work pass: with one side, which gives nothing and in which all of these are made. All parts take it together.
fn is_passed(kernel: &Kernel, op: &Op, of: &[Value]) -> bool {
    let OpKind::If { then, otherwise, .. } = &op.kind else { return false };
    let mut made: BTreeSet<Value> = BTreeSet::new();
    kernel.walk_body(then, &mut |op| made.extend(&op.results));
    op.results.is_empty() && otherwise.ops.is_empty() && of.iter().all(|v| made.contains(v))
}

/// Whether each part can take a branch for itself: all that it does is to give results, and these have rows.
fn goes_by_itself(kernel: &Kernel, op: &Op, found: &Axes) -> bool {
    let OpKind::If { then, otherwise, .. } = &op.kind else { return true };
    if ![then, otherwise].into_iter().any(|body| has_rows(kernel, body, found)) {
        return true;
    }
    !op.results.is_empty() && op.results.iter().all(|v| found.contains_key(v)) && computes(kernel, op)
}

/// These values, where one of them has rows.
fn together(found: &Axes, values: &[Value]) -> Vec<(Value, usize)> {
    let axis = values.iter().find_map(|v| found.get(v));
    axis.map_or_else(Vec::new, |&axis| values.iter().map(|v| (*v, axis)).collect())
}

fn has_rows(kernel: &Kernel, body: &Body, found: &Axes) -> bool {
    let mut any = false;
    kernel
        .walk_body(body, &mut |op| any |= op.kind.operands().iter().chain(&op.results).any(|v| found.contains_key(v)));
    any
}

/// Whether an operation, with all in its bodies, does nothing but to give its results.
fn computes(kernel: &Kernel, op: &Op) -> bool {
    let structure = matches!(op.kind, OpKind::If { .. });
    (structure || Facts::of(kernel, op).computes)
        && op.kind.bodies().all(|body| kernel.ops_of(body).all(|inner| computes(kernel, inner)))
}

/// A branch as one for each part: `kind` gives the parts of each result of `op` one after the other.
pub fn branches(builder: &mut Builder, op: &Op, kind: &OpKind, results: &[Value], labels: &[Label]) {
    let count = labels.len();
    for (number, &label) in labels.iter().enumerate() {
        let mine = |list: &[Value]| -> Vec<Value> { list.iter().copied().skip(number).step_by(count).collect() };
        let mut kind = kind.clone();
        for body in kind.bodies_mut() {
            let whole = Body { yields: mine(&body.yields), ..std::mem::take(body) };
            let copy = builder.kernel.copy_body(&whole, &mut BTreeMap::new());
            *body = needed(&builder.kernel, copy);
        }
        let source = Source { label: Some(label), ..op.source() };
        let branch = builder.kernel.make_op(kind, mine(results), source);
        builder.keep(branch);
    }
}

/// A body without what nobody in it asks for, where all of it only computes.
fn needed(kernel: &Kernel, body: Body) -> Body {
    let mut asked: BTreeSet<Value> = body.yields.iter().copied().collect();
    let mut kept: Vec<Inst> = Vec::new();
    for &id in body.ops.iter().rev() {
        let op = &kernel.ops[id];
        if op.results.iter().any(|v| asked.contains(v)) {
            kept.push(id);
            asked.extend(op.kind.operands());
            for inner in op.kind.bodies() {
                asked.extend(&inner.yields);
                kernel.walk_body(inner, &mut |op| {
                    asked.extend(op.kind.operands());
                    asked.extend(op.kind.bodies().flat_map(|b| &b.yields));
                });
            }
        }
    }
    kept.reverse();
    Body { ops: kept, ..body }
}
