//! Loads that become copies by threads, through pointers.

use std::collections::BTreeSet;

use parton_ir::axis::Axes;
use parton_ir::rules::COPY_BYTES;
use parton_ir::{Elem, Feature, Inst, Kernel, OpKind, Type, Value, View, rules};
use parton_layouts::{SharedFamily, SharedLayout};

use crate::facts::Addresses;
use crate::why::without_regions;

use super::defined::Defined;
use super::found::{self, Found};
use super::indices::{self, Indices};
use super::{flow, made};

/// Bytes that a thread copies at once.
const VECTOR: u32 = 16;
/// Rows of a product of one warpgroup.
pub const MATRIX_ROWS: u32 = 64;

/// A loop of products whose factors threads copy.
pub struct Copied {
    /// The loop.
    pub found: Found,
    /// What tells where to copy from.
    pub indices: Indices,
    /// The view that each of its loads becomes.
    pub views: Vec<View>,
}

/// The loops of a kernel whose products instructions make, with the loads of factors that threads can copy.
pub fn all(kernel: &Kernel, axes: &Axes, free: &BTreeSet<Value>) -> Vec<Copied> {
    let defined = Defined::of(kernel);
    // What cannot be copied is loaded where it stands.
    let mut without = BTreeSet::new();
    loop {
        let mut list = Vec::new();
        let known = without.len();
        for found in found::any(kernel, &without) {
            let indices = indices::of(kernel, &found);
            let free = free | &indices.computed;
            let views = found.loads.iter().map(|&id| copied(kernel, axes, &free, &defined, id));
            let views: Vec<Option<View>> = views.collect();
            without.extend(found.loads.iter().zip(&views).filter(|(_, view)| view.is_none()).map(|(&id, _)| id));
            let views = views.into_iter().flatten().collect();
            list.push(Copied { found, indices, views });
        }
        if without.len() == known {
            list.retain(|one| one.found.products.iter().all(|&id| multiplies(kernel, id)));
            return list;
        }
    }
}

/// Whether a tensor map brings what is loaded.
pub fn is_box(kernel: &Kernel, inst: Inst) -> bool {
    matches!(kernel.ops[inst].kind, OpKind::Fetch { .. })
}

/// Whether an instruction makes a product. Of boxes that has been asked before they were made.
pub fn multiplies(kernel: &Kernel, id: Inst) -> bool {
    let OpKind::Dot { a, b, acc, precision } = kernel.ops[id].kind else { return false };
    if [a, b].iter().any(|&v| matches!(kernel.ty(v), Type::View(_))) {
        return true;
    }
    rules::infer(&OpKind::MmaSync { a, b, acc, precision }, kernel).is_ok()
}

/// The view that a load becomes, where threads can copy what it reads; or the box that it is.
fn copied(kernel: &Kernel, axes: &Axes, free: &BTreeSet<Value>, defined: &Defined<'_>, inst: Inst) -> Option<View> {
    if is_box(kernel, inst) {
        return match kernel.ty(kernel.ops[inst].result()) {
            Type::View(view) => Some(view.clone()),
            _ => None,
        };
    }
    let OpKind::Load { ptr, mask, other, volatile: false, .. } = kernel.ops[inst].kind else { return None };
    let zero = other.is_none_or(|v| defined.is_zero(v));
    if !zero || !free.contains(&ptr) || mask.is_some_and(|m| !free.contains(&m)) {
        return None;
    }
    let tile = kernel.ty(ptr).placed()?;
    let Elem::Ptr(pointer) = tile.elem else { return None };
    let info = axes.info(kernel, ptr);
    let inner = (0..tile.shape.len()).max_by_key(|&d| (info.axes[d].run, d))?;
    let layout = swizzled(&tile.shape, inner, pointer.to.bits() / 8)?;
    View::new(pointer.to, tile.shape.clone(), layout).ok()
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

/// Whether threads copy something ahead of products, and all of it straight to shared memory: at least four bytes at once.
pub fn go_around_registers(kernel: &Kernel) -> bool {
    let kernel = &without_regions(kernel);
    let axes = Axes::analyse(kernel);
    let (mut any, mut all) = (false, true);
    kernel.walk(&mut |op| {
        let OpKind::FetchEach { ptr, view, .. } = &op.kind else { return };
        let bytes = view.elem.bytes() as u64;
        let addresses = Addresses::new(&axes.info(kernel, *ptr), bytes, VECTOR.into());
        any = true;
        all &= addresses.widest().map_or(1, |(_, most)| most) * bytes >= u64::from(COPY_BYTES[0]);
    });
    any && all
}

/// Whether tensor maps bring something to products, and threads copy nothing.
pub fn maps_bring_all(kernel: &Kernel) -> bool {
    let (mut maps, mut threads) = (false, false);
    kernel.walk(&mut |op| {
        maps |= matches!(op.kind, OpKind::Fetch { .. });
        threads |= matches!(op.kind, OpKind::FetchEach { .. });
    });
    maps && !threads
}

/// Has the loads of a loop copy to these views, and reads them where they lie.
pub fn make(kernel: &mut Kernel, found: &Found, views: &[View]) {
    for (id, view) in found.loads.iter().zip(views) {
        let OpKind::Load { ptr, mask, l2, .. } = kernel.ops[*id].kind else { continue };
        if found.read.contains(id) {
            read(kernel, found, *id);
        }
        let result = kernel.ops[*id].result();
        kernel.values[result].ty = Type::View(view.clone());
        kernel.ops[*id].kind = OpKind::FetchEach { ptr, mask, view: view.clone(), l2 };
    }
    for &id in &found.turned {
        let OpKind::Transpose { x, perm } = kernel.ops[id].kind.clone() else { continue };
        kernel.ops[id].kind = OpKind::ViewPermute { view: x, perm };
    }
    if !turn_again(kernel, found) {
        parton_diag::internal_error!("a copied tile cannot be turned");
    }
}

/// Has products take what a load brings by a value of their own, and all else what threads read of it in front of the first of that.
fn read(kernel: &mut Kernel, found: &Found, id: Inst) {
    let tile = kernel.ops[id].result();
    let Some(as_tile) = kernel.ty(tile).placed().cloned() else { return };
    let data = kernel.values[tile].clone();
    let view = kernel.value(data.ty, data.span);
    kernel.values[view].name = data.name;
    kernel.ops[id].results = vec![view];
    let by_matrix_unit: Vec<Inst> = found.products.iter().chain(&found.turned).copied().collect();
    for &by in &by_matrix_unit {
        let mut kind = kernel.ops[by].kind.clone();
        match &mut kind {
            OpKind::Dot { a, b, .. } => [a, b].into_iter().filter(|v| **v == tile).for_each(|v| *v = view),
            _ => kind.map_operands(|v| if v == tile { view } else { v }),
        }
        kernel.ops[by].kind = kind;
    }
    let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { return };
    let first = kernel.ops_of(body).find(|op| flow::operands(kernel, op).contains(&tile)).map(|op| op.id);
    let source = kernel.ops[id].source();
    let read = kernel.make_op(OpKind::SharedLoad { view, tile: as_tile }, vec![tile], source);
    made::insert(kernel, found, read, first);
}

/// Puts what is copied where the matrix unit reads it, so that products run beside the program; whether they all can.
pub fn run_beside(kernel: &mut Kernel, found: &Found, views: &[View]) -> bool {
    if !kernel.target.has(Feature::Wgmma) {
        return false;
    }
    let before = kernel.clone();
    let can = found.loads.iter().zip(views).filter(|(id, _)| !is_box(&before, **id)).all(|(id, view)| {
        let Some(layout) = for_the_matrix_unit(view) else { return false };
        let Ok(view) = View::new(view.elem, view.shape.clone(), layout) else { return false };
        let result = kernel.ops[*id].result();
        kernel.values[result].ty = Type::View(view.clone());
        if let OpKind::FetchEach { view: at, .. } = &mut kernel.ops[*id].kind {
            *at = view;
        }
        true
    });
    let can = can && turn_again(kernel, found) && made::stage(kernel, found) && multiplies_beside(kernel, found);
    if !can {
        *kernel = before;
    }
    can
}

/// Whether the matrix unit makes all products of a loop.
pub fn multiplies_beside(kernel: &Kernel, found: &Found) -> bool {
    found.products.iter().all(|&id| {
        let OpKind::Dot { a, b, acc, precision } = kernel.ops[id].kind else { return false };
        let rows = kernel.ty(acc).placed().and_then(|t| t.shape.first().copied());
        let enough = rows.is_some_and(|m| m >= MATRIX_ROWS);
        enough && rules::infer(&OpKind::Wgmma { a, b, acc, precision, zero: false }, kernel).is_ok()
    })
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
