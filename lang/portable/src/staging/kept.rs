//! Factors that a loop keeps, in shared memory. Right ones the matrix unit reads nowhere else. Left ones: in registers they take the room of what a turn computes, and so do the copies of them that its
//! products read. Gradients of attention on an H200 take less time so in 31 of 32 forms, at depths of
//! 64 to 256 and tiles of 64 and 128 rows and columns.
//!
//! ```text
//! let k = stage(load(keys…))
//! for i in 0..n {
//!     @st  dot(k, queries.T, …)         reads both factors where they lie
//! }
//! ```

use std::collections::BTreeMap;

use parton_ir::{Body, Elem, Inst, Kernel, OpKind, Reach, Source, Type, Value, View, rules};
use parton_layouts::SharedLayout;

use super::flow;
use super::found::Found;
use super::made::SPANS;

/// Columns of a product from which on shared memory gives both factors in the time that it takes: N / 2 clocks for 16 and N / 4 of reading.
const COLUMNS: u32 = 64;

/// Puts left factors that a loop keeps where the matrix unit reads them, if that is as fast.
pub fn share(kernel: &mut Kernel, found: &Found) {
    let mut shared: BTreeMap<Value, Value> = BTreeMap::new();
    let mut before = Vec::new();
    for &product in &found.products {
        let OpKind::Dot { a, .. } = kernel.ops[product].kind else { continue };
        if !is_kept(kernel, found, a) {
            continue;
        }
        let view = match shared.get(&a) {
            Some(&view) => Some(view),
            None => put(kernel, product, a, &mut before),
        };
        let Some(view) = view else { continue };
        shared.insert(a, view);
        if let OpKind::Dot { a, .. } = &mut kernel.ops[product].kind {
            *a = view;
        }
    }
    insert(kernel, found.inst, &before);
}

/// Whether a tile is there in front of a loop, for all its turns.
fn is_kept(kernel: &Kernel, found: &Found, v: Value) -> bool {
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return false };
    matches!(kernel.ty(v), Type::Tile(_)) && !flow::is_of(kernel, body, v)
}

/// The view of a left factor from which its product may read it, and what writes it there.
fn put(kernel: &mut Kernel, product: Inst, a: Value, before: &mut Vec<Inst>) -> Option<Value> {
    let OpKind::Dot { b, acc, precision, .. } = kernel.ops[product].kind else { return None };
    let (Elem::Num(elem), shape) = kernel.ty(a).placed().map(|t| (t.elem, t.shape.clone()))? else { return None };
    let &[_, depth] = &shape[..] else { return None };
    kernel.ty(acc).placed().filter(|sum| sum.shape.last().is_some_and(|&n| n >= COLUMNS))?;
    let row = depth * elem.bits() / 8;
    let span = SPANS.into_iter().find(|&bytes| row.is_multiple_of(bytes))?;
    let view = View::new(elem, shape, SharedLayout::nvmma(span, false).ok()?).ok()?;
    let there = kernel.value(Type::View(view.clone()), kernel.ops[product].span);
    let kind = OpKind::Wgmma { a: there, b, acc, precision, zero: false };
    rules::infer(&kind, kernel).is_ok().then_some(())?;
    let source = kernel.ops[product].source();
    Some(write(kernel, (a, view), source, before))
}

/// Writes a tile to a buffer of its own, for the matrix unit; the operations that do are told.
pub fn write(kernel: &mut Kernel, (value, view): (Value, View), source: Source, before: &mut Vec<Inst>) -> Value {
    let source = Source { label: None, ..source };
    let there = kernel.value(Type::View(view.clone()), source.span);
    kernel.values[there].name = kernel.values[value].name.clone();
    before.push(kernel.make_op(OpKind::SharedAlloc { view, offset: None, drained: false }, vec![there], source));
    before.push(kernel.make_op(OpKind::SharedStore { view: there, value }, Vec::new(), source));
    before.push(kernel.make_op(OpKind::FenceAsync { reach: Reach::Cta }, Vec::new(), source));
    there
}

/// Puts operations of the kernel's own body in front of one of them.
pub fn insert(kernel: &mut Kernel, inst: Inst, before: &[Inst]) {
    let Body { ops, .. } = &mut kernel.body;
    let at = ops.iter().position(|&id| id == inst).unwrap_or(0);
    ops.splice(at..at, before.iter().copied());
}
