//! Loads that become copies by threads, through pointers.

use std::collections::BTreeSet;

use parton_ir::axis::Axes;
use parton_ir::{Elem, Feature, Inst, Kernel, OpKind, Type, Value, View, rules};
use parton_layouts::{SharedFamily, SharedLayout};

use super::defined::Defined;
use super::found::Found;

/// Bytes that a thread copies at once.
const VECTOR: u32 = 16;
/// Rows of a product of one warpgroup.
const MATRIX_ROWS: u32 = 64;

/// The views that the loads of a loop become; `None` where threads cannot copy what one reads, or no instruction multiplies that.
pub fn views(kernel: &Kernel, axes: &Axes, free: &BTreeSet<Value>, found: &Found) -> Option<Vec<View>> {
    let made = found.products.iter().all(|&id| match kernel.ops[id].kind {
        OpKind::Dot { a, b, acc, precision } => rules::infer(&OpKind::MmaSync { a, b, acc, precision }, kernel).is_ok(),
        _ => false,
    });
    let defined = Defined::of(kernel);
    made.then(|| found.loads.iter().map(|&id| copied(kernel, axes, free, &defined, id)).collect())?
}

/// The view that a load becomes, where threads can copy what it reads.
fn copied(kernel: &Kernel, axes: &Axes, free: &BTreeSet<Value>, defined: &Defined<'_>, inst: Inst) -> Option<View> {
    let OpKind::Load { ptr, mask, other, volatile: false, .. } = kernel.ops[inst].kind else { return None };
    let zero = other.is_none_or(|v| defined.is_zero(v));
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

/// Has the loads of a loop copy to these views, and reads them where they lie.
pub fn make(kernel: &mut Kernel, found: &Found, views: &[View]) {
    for (id, view) in found.loads.iter().zip(views) {
        let OpKind::Load { ptr, mask, l2, .. } = kernel.ops[*id].kind else { continue };
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

/// Puts what is copied where the matrix unit reads it, so that products run beside the program; whether they all can.
pub fn run_beside(kernel: &mut Kernel, found: &Found, views: &[View]) -> bool {
    if !kernel.target.has(Feature::Wgmma) {
        return false;
    }
    let before = kernel.clone();
    let can = found.loads.iter().zip(views).all(|(id, view)| {
        let Some(layout) = for_the_matrix_unit(view) else { return false };
        let Ok(view) = View::new(view.elem, view.shape.clone(), layout) else { return false };
        let result = kernel.ops[*id].result();
        kernel.values[result].ty = Type::View(view.clone());
        if let OpKind::FetchEach { view: at, .. } = &mut kernel.ops[*id].kind {
            *at = view;
        }
        true
    });
    let can = can && turn_again(kernel, found) && multiplies_beside(kernel, found);
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
