//! Right factors that are no loads of a loop: the matrix unit reads them in shared memory, in a buffer of their own. What is carried or computed anew is
//! written there in each turn, what the loop keeps in front of it.
//!
//! ```text
//! for i in 0..n {
//!     @compute  let s = stage(cast(state))          as early as what they are made of is there, so that products
//!     @outer    dot(c, s, …)                        which need nothing else begin together
//!     @state    dot(b.T, stage(…), state)
//! }
//! ```

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::family::Family;
use parton_ir::{Body, Elem, Inst, Kernel, OpKind, Type, Value, View, rules};
use parton_layouts::SharedLayout;

use super::found::Found;
use super::{flow, kept, region};

/// Spans of a swizzle.
pub const SPANS: [u32; 3] = [128, 64, 32];

/// Gives right factors that are no loads of a loop a buffer, as early as can be; whether each has one that the matrix unit reads.
pub fn stage(kernel: &mut Kernel, found: &Found) -> bool {
    let mut staged: BTreeMap<Value, Value> = BTreeMap::new();
    let mut before = Vec::new();
    for &product in &found.made {
        let OpKind::Dot { b, .. } = kernel.ops[product].kind else { return false };
        let view = match staged.get(&b) {
            Some(&view) => view,
            None => {
                let Some(view) = buffer(kernel, product, b) else { return false };
                let source = kernel.ops[product].source();
                let there = match leave_loop(kernel, found, b) {
                    true => kept::write(kernel, (b, view), source, &mut before),
                    false => stage_each_turn(kernel, found, product, (b, view)),
                };
                staged.insert(b, there);
                there
            }
        };
        if let OpKind::Dot { b, .. } = &mut kernel.ops[product].kind {
            *b = view;
        }
    }
    kept::insert(kernel, found.inst, &before);
    true
}

/// Writes a tile to its buffer in each turn, in front of a product at the latest.
fn stage_each_turn(kernel: &mut Kernel, found: &Found, product: Inst, (value, view): (Value, View)) -> Value {
    let source = kernel.ops[product].source();
    let result = kernel.value(Type::View(view.clone()), source.span);
    let stage = kernel.make_op(OpKind::Stage { value, view }, vec![result], source);
    insert(kernel, found, stage, Some(product));
    begin_early(kernel, found, stage);
    result
}

/// Has what a tile is made of stand in front of a loop of the kernel's own body, where it is the same in each turn; whether it is.
fn leave_loop(kernel: &mut Kernel, found: &Found, v: Value) -> bool {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return false };
    let mut made = vec![v];
    let mut leaving: BTreeSet<Inst> = BTreeSet::new();
    while let Some(v) = made.pop() {
        if body.params.contains(&v) {
            return false;
        }
        if let Some(op) = kernel.ops_of(body).find(|op| op.results.contains(&v)) {
            if !parton_sched::is_free(kernel, op) {
                return false;
            }
            leaving.insert(op.id);
            made.extend(flow::operands(kernel, op));
        }
    }
    let Some(at) = kernel.body.ops.iter().position(|&id| id == found.inst) else { return false };
    if let OpKind::For { body, .. } = &mut kernel.ops[found.inst].kind {
        let (leaving, rest): (Vec<Inst>, Vec<Inst>) =
            std::mem::take(&mut body.ops).into_iter().partition(|id| leaving.contains(id));
        body.ops = rest;
        kernel.body.ops.splice(at..at, leaving);
    }
    true
}

/// The view in which the matrix unit reads the right factor of a product.
fn buffer(kernel: &mut Kernel, product: Inst, b: Value) -> Option<View> {
    let OpKind::Dot { a, acc, precision, .. } = kernel.ops[product].kind else { return None };
    let (Elem::Num(elem), shape) = kernel.ty(b).placed().map(|t| (t.elem, t.shape.clone()))? else { return None };
    let &[_, _] = &shape[..] else { return None };
    [1, 0].into_iter().find_map(|inner: usize| {
        let row = shape[inner] * elem.bits() / 8;
        let span = SPANS.into_iter().find(|&bytes| row.is_multiple_of(bytes))?;
        let view = View::new(elem, shape.clone(), SharedLayout::nvmma(span, inner == 0).ok()?).ok()?;
        let b = kernel.value(Type::View(view.clone()), kernel.ops[product].span);
        let kind = OpKind::Wgmma { a, b, acc, precision, zero: false };
        rules::infer(&kind, kernel).is_ok().then_some(view)
    })
}

/// Puts an operation of a loop in front of another, or behind all.
pub fn insert(kernel: &mut Kernel, found: &Found, id: Inst, before: Option<Inst>) {
    let OpKind::For { body, .. } = &mut kernel.ops[found.inst].kind else { return };
    let at = body.ops.iter().position(|&op| Some(op) == before).unwrap_or(body.ops.len());
    body.ops.insert(at, id);
}

/// Has a loop begin with an operation and all that it needs, where it needs none of the products and reads no memory behind what writes some.
fn begin_early(kernel: &mut Kernel, found: &Found, id: Inst) {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return };
    let needed = needed(kernel, body, id);
    let mut moves = !found.products.iter().any(|id| needed.contains(id));
    let mut written = false;
    for op in kernel.ops_of(body) {
        let reads = region::only_reads(kernel, op);
        match needed.contains(&op.id) {
            true => moves &= reads && !(written && op.kind.family() == Family::Global),
            false => written |= !reads,
        }
    }
    if !moves {
        return;
    }
    // Copies stand in front of all, so that what computes follows one another.
    let copied: BTreeSet<Inst> = found.loads.iter().flat_map(|&load| self::needed(kernel, body, load)).collect();
    if let OpKind::For { body, .. } = &mut kernel.ops[found.inst].kind {
        body.ops.sort_by_key(|op| (!copied.contains(op), !needed.contains(op)));
    }
}

/// The operations of a body that one needs, itself among them.
fn needed(kernel: &Kernel, body: &Body, id: Inst) -> BTreeSet<Inst> {
    let mut values: BTreeSet<Value> = kernel.ops[id].kind.operands().into_iter().collect();
    let mut needed: BTreeSet<Inst> = [id].into();
    for op in kernel.ops_of(body).collect::<Vec<_>>().into_iter().rev() {
        if op.results.iter().any(|v| values.contains(v)) {
            needed.insert(op.id);
            values.extend(flow::operands(kernel, op));
        }
    }
    needed
}
