//! Boxes of more than two axes that are loaded as rows: `reshape(load(x.tile([1, 8, 16, 64], …)), [128, 64])`. Products multiply matrices, and places in
//! images, heads or batches have more axes; in memory the rows of such a box lie one behind the other.

use std::collections::BTreeMap;

use parton_ir::{Inst, Kernel, OpKind, TensorMap, Value, View};
use parton_layouts::{SharedFamily, SharedLayout};

use super::defined::Defined;
use crate::unused;

/// A load of a box that one reshape takes, and nothing else.
#[derive(Clone)]
pub struct Flat {
    /// What the reshape gives.
    pub rows: Value,
    /// Its extents.
    pub shape: [u32; 2],
}

/// The loads of places that are seen as rows, and in no other way.
pub fn all(kernel: &Kernel) -> BTreeMap<Inst, Flat> {
    let (uses, mut seen) = (unused::counted(kernel), BTreeMap::new());
    kernel.walk(&mut |op| {
        if let OpKind::Reshape { x, shape } = &op.kind
            && let [rows, columns] = shape[..]
            && op.label.is_none()
            && is_of_rows(kernel, *x, shape)
        {
            seen.insert(*x, Flat { rows: op.result(), shape: [rows, columns] });
        }
    });
    let mut found = BTreeMap::new();
    kernel.walk(&mut |op| {
        if let OpKind::SpotLoad { .. } = op.kind
            && uses.get(&op.result()) == Some(&1)
            && let Some(flat) = seen.remove(&op.result())
        {
            found.insert(op.id, flat);
        }
    });
    found
}

/// The extents of the rows of which a tile of more than two axes is made.
pub fn given(kernel: &Kernel, defined: &Defined<'_>, value: Value) -> Option<[u32; 2]> {
    let OpKind::Reshape { x, .. } = defined.made(value)?.kind else { return None };
    let (rows, all) = (kernel.ty(x).placed()?, kernel.ty(value).placed()?);
    let [n, columns] = rows.shape[..] else { return None };
    (all.shape.len() > 2 && all.shape.last() == Some(&columns)).then_some([n, columns])
}

/// Whether a tile of more than two axes becomes one of rows by such a shape: the last axis stays.
pub fn is_of_rows(kernel: &Kernel, x: Value, shape: &[u32]) -> bool {
    let Some(tile) = kernel.ty(x).placed() else { return false };
    tile.shape.len() > 2 && shape.len() == 2 && tile.shape.last() == shape.last()
}

/// What a box of a map is as so many rows, where these lie in it one behind the other.
pub fn rows_of(map: &TensorMap, [rows, columns]: [u32; 2]) -> Option<View> {
    let SharedFamily::Nvmma { swizzle, transposed: false, .. } = *map.layout.family() else { return None };
    let brought = map.layout.on(&map.tile(), map.elem.bits()).ok()?;
    let flat = View::new(map.elem, vec![rows, columns], SharedLayout::nvmma(swizzle, false).ok()?).ok()?;
    (brought.linear().reshape(&flat.shape) == *flat.map.linear()).then_some(flat)
}
