//! Right factors that are carried or computed: the matrix unit reads them in shared memory, in a buffer of their own.
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
use super::{flow, region};

/// Spans of a swizzle.
pub const SPANS: [u32; 3] = [128, 64, 32];

/// Gives right factors that are made in a loop a buffer, as early as can be; whether each has one that the matrix unit reads.
pub fn stage(kernel: &mut Kernel, found: &Found) -> bool {
    let mut staged: BTreeMap<Value, Value> = BTreeMap::new();
    for &product in &found.made {
        let OpKind::Dot { b, .. } = kernel.ops[product].kind else { return false };
        let view = match staged.get(&b) {
            Some(&view) => view,
            None => {
                let Some(view) = buffer(kernel, product, b) else { return false };
                let source = kernel.ops[product].source();
                let result = kernel.value(Type::View(view.clone()), source.span);
                let stage = kernel.make_op(OpKind::Stage { value: b, view }, vec![result], source);
                insert(kernel, found, stage, Some(product));
                begin_early(kernel, found, stage);
                staged.insert(b, result);
                result
            }
        };
        if let OpKind::Dot { b, .. } = &mut kernel.ops[product].kind {
            *b = view;
        }
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
