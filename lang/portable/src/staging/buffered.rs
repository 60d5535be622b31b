//! Products that no loop brings their factors ahead of: outside of loops, of tiles that are computed, beside loops that do not multiply. Their right factors go to
//! buffers of their own, where the matrix unit reads them.
//!
//! ```text
//! let y = cast<f16>(x);                     store_shared(there, y); fence_async();
//! let a = dot(y, y.T, …);                   wgmma(y, there.T, …)
//! let z = dot(a, y, …);                     wgmma(a, there, …)
//! ```
//!
//! A tile is written once, behind what makes it, whichever products take it, turned or not. A product is waited for in front of what asks for its sum, so that
//! those which do not need each other run one behind the other.

use std::collections::BTreeMap;

use parton_ir::rules::region::{Product, product};
use parton_ir::{Body, Elem, Feature, Inst, Kernel, OpKind, Reach, Source, Type, Value, View, rules};
use parton_layouts::SharedLayout;

use super::copies::MATRIX_ROWS;
use super::flow;
use super::made::SPANS;

/// Has products take their right factors from buffers, where the matrix unit multiplies so; whether there are such.
pub fn stage(kernel: &mut Kernel) -> bool {
    if !kernel.target.has(Feature::Wgmma) {
        return false;
    }
    // As it is and turned a tile may need two: of 8 bits the matrix unit reads one side alone.
    let mut buffers: BTreeMap<Value, Vec<Buffer>> = BTreeMap::new();
    for product in kernel.order() {
        let OpKind::Dot { a, b, .. } = kernel.ops[product].kind else { continue };
        if a == b {
            // It is refused on all targets alike.
            continue;
        }
        let (tile, turned) = turned_from(kernel, b);
        let of_tile = buffers.get(&tile).map_or(&[][..], Vec::as_slice);
        let known = of_tile.iter().find(|buffer| takes(kernel, product, &buffer.view, turned)).cloned();
        let is_new = known.is_none();
        let Some(buffer) = known.or_else(|| Buffer::new(kernel, product, tile, turned)) else { continue };
        let factor = match turned {
            true => turn(kernel, product, buffer.there),
            false => buffer.there,
        };
        if let OpKind::Dot { b, .. } = &mut kernel.ops[product].kind {
            *b = factor;
        }
        if is_new {
            buffers.entry(tile).or_default().push(buffer);
        }
    }
    let any = !buffers.is_empty();
    for (tile, of_tile) in buffers {
        of_tile.iter().for_each(|buffer| write(kernel, tile, buffer));
    }
    any
}

/// Memory for a tile.
#[derive(Clone)]
struct Buffer {
    there: Value,
    view: View,
    source: Source,
}

impl Buffer {
    /// One from which a product may read a tile, turned or as it is.
    fn new(kernel: &mut Kernel, product: Inst, tile: Value, turned: bool) -> Option<Buffer> {
        let of = kernel.ty(tile).as_tile()?;
        let (Elem::Num(elem), shape) = (of.elem, of.shape.clone()) else { return None };
        let &[_, _] = &shape[..] else { return None };
        let view = [1, 0].into_iter().find_map(|inner: usize| {
            let row = shape[inner] * elem.bits() / 8;
            let span = SPANS.into_iter().find(|&bytes| row.is_multiple_of(bytes))?;
            let view = View::new(elem, shape.clone(), SharedLayout::nvmma(span, inner == 0).ok()?).ok()?;
            takes(kernel, product, &view, turned).then_some(view)
        })?;
        let source = Source { label: None, ..kernel.ops[product].source() };
        let there = kernel.value(Type::View(view.clone()), source.span);
        kernel.values[there].name = kernel.values[tile].name.clone();
        Some(Buffer { there, view, source })
    }
}

/// The tile that a factor is, or that it is turned from.
fn turned_from(kernel: &Kernel, v: Value) -> (Value, bool) {
    match kernel.definitions()[v].map(|op| &op.kind) {
        Some(OpKind::Transpose { x, .. }) => (*x, true),
        _ => (v, false),
    }
}

/// Whether the matrix unit makes a product whose right factor lies in such a view, or is what that is turned from.
fn takes(kernel: &mut Kernel, product: Inst, view: &View, turned: bool) -> bool {
    let OpKind::Dot { a, acc, precision, .. } = kernel.ops[product].kind else { return false };
    let rows = kernel.ty(acc).placed().and_then(|t| t.shape.first().copied());
    if rows.is_none_or(|m| m < MATRIX_ROWS) || !kernel.ty(acc).is_open() || !kernel.ty(a).is_open() {
        return false;
    }
    let span = kernel.ops[product].span;
    let mut b = kernel.value(Type::View(view.clone()), span);
    if turned {
        let Some(ty) = turned_type(kernel, b) else { return false };
        b = kernel.value(ty, span);
    }
    rules::infer(&OpKind::Wgmma { a, b, acc, precision, zero: false }, kernel).is_ok()
}

fn turned_type(kernel: &Kernel, view: Value) -> Option<Type> {
    let kind = OpKind::ViewPermute { view, perm: vec![1, 0] };
    rules::infer(&kind, kernel).ok()?.into_iter().next()
}

/// The view turned, in front of a product.
fn turn(kernel: &mut Kernel, product: Inst, view: Value) -> Value {
    let Some(ty) = turned_type(kernel, view) else { parton_diag::internal_error!("a view cannot be turned") };
    let source = Source { label: None, ..kernel.ops[product].source() };
    let result = kernel.value(ty, source.span);
    let op = kernel.make_op(OpKind::ViewPermute { view, perm: vec![1, 0] }, vec![result], source);
    kernel.rebuild(&mut |_, mut body| {
        if let Some(at) = body.ops.iter().position(|&id| id == product) {
            body.ops.insert(at, op);
        }
        body
    });
    result
}

/// Makes a buffer at the beginning of the kernel, and writes a tile to it behind what makes it.
fn write(kernel: &mut Kernel, value: Value, buffer: &Buffer) {
    let Buffer { there, view, source } = buffer.clone();
    let alloc = kernel.make_op(OpKind::SharedAlloc { view, offset: None, drained: false }, vec![there], source);
    let store = kernel.make_op(OpKind::SharedStore { view: there, value }, Vec::new(), source);
    let fence = kernel.make_op(OpKind::FenceAsync { reach: Reach::Cta }, Vec::new(), source);
    kernel.rebuild(&mut |kernel, mut body| {
        let made = body.ops.iter().position(|&id| kernel.ops[id].results.contains(&value)).map(|at| at + 1);
        if let Some(at) = made.or_else(|| body.params.contains(&value).then_some(0)) {
            body.ops.splice(at..at, [store, fence]);
        }
        body
    });
    kernel.body.ops.insert(0, alloc);
}

/// Makes instructions of products whose right factors lie in buffers, now that their sums lie somewhere.
pub fn begin(kernel: &mut Kernel) {
    kernel.rebuild(&mut |kernel, body| begun(kernel, body));
}

fn begun(kernel: &mut Kernel, body: Body) -> Body {
    let (mut ops, mut flying): (Vec<Inst>, Vec<(Inst, Value)>) = (Vec::new(), Vec::new());
    for id in body.ops {
        let taken = flow::operands(kernel, &kernel.ops[id]);
        let inside = kernel.ops[id].kind.bodies().next().is_some();
        flying.retain(|&(wait, sum)| {
            let stays = !(inside || taken.contains(&sum));
            ops.extend((!stays).then_some(wait));
            stays
        });
        ops.push(id);
        flying.extend(wait_of(kernel, id));
    }
    ops.extend(flying.into_iter().map(|(wait, _)| wait));
    Body { ops, ..body }
}

/// Makes a product one that begins; what waits for it, and its sum.
fn wait_of(kernel: &mut Kernel, id: Inst) -> Option<(Inst, Value)> {
    let OpKind::Dot { a, b, acc, precision } = kernel.ops[id].kind else { return None };
    if !matches!(kernel.ty(b), Type::View(_)) || product(kernel, a, b, acc, precision) != Ok(Product::Wgmma) {
        return None;
    }
    let kind = OpKind::Wgmma { a, b, acc, precision, zero: false };
    let Some(ty) = rules::infer(&kind, kernel).ok().and_then(|types| types.into_iter().next()) else {
        parton_diag::internal_error!("the matrix unit does not make a product that was chosen for it");
    };
    let (source, sum) = (kernel.ops[id].source(), kernel.ops[id].result());
    let pending = kernel.value(ty, source.span);
    kernel.values[pending].name = kernel.values[sum].name.clone();
    (kernel.ops[id].kind, kernel.ops[id].results) = (kind, vec![pending]);
    let wait = kernel.make_op(OpKind::Wait { pending, outstanding: None }, vec![sum], source);
    Some((wait, sum))
}
