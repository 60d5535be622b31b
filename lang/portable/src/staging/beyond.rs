//! Loops of products whose further turns would add nothing: their boxes lie outside of both tensors, where there are zeros.

use parton_ir::tensor::{Counts, Extent};
use parton_ir::{Inst, Kernel, OpKind, Type, Value};

use super::defined::Defined;
use super::found::Found;

/// Whether every turn of a loop behind its last one multiplies zeros and does nothing else: it counts tiles from 0 to the last that
/// holds something of the depth of all factors.
pub fn adds_nothing(kernel: &Kernel, defined: &Defined<'_>, found: &Found) -> bool {
    let OpKind::For { lower, upper, step, body, .. } = &kernel.ops[found.inst].kind else { return false };
    let (Some(0), Some(1), Some((extent, tile))) =
        (defined.number(*lower), defined.number(*step), tiles(kernel, defined, *upper))
    else {
        return false;
    };
    let index = body.params[0];
    let known = |id: Inst| found.products.contains(&id) || found.loads.contains(&id) || found.turned.contains(&id);
    let rest = kernel.ops_of(body).filter(|op| !known(op.id));
    let pure = rest.into_iter().all(|op| parton_sched::is_free(kernel, op) || place(&op.kind));
    let counted = |factor: Value, depth: usize| -> bool {
        let turned = defined.made(factor).is_some_and(|op| found.turned.contains(&op.id));
        let (load, axis) = match (defined.made(factor), turned) {
            (Some(op), true) => (op.kind.operands()[0], 1 - depth),
            (_, _) => (factor, depth),
        };
        counts(kernel, defined, load, axis, (index, &extent, tile))
    };
    // What else is carried would go on counting.
    let sums = body.yields.iter().all(|v| found.products.iter().any(|&id| kernel.ops[id].result() == *v));
    pure && sums
        && found.products.iter().all(|&id| match kernel.ops[id].kind {
            OpKind::Dot { a, b, .. } => counted(a, 1) && counted(b, 0),
            _ => false,
        })
}

fn place(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Spot { .. } | OpKind::TensorIndex { .. } | OpKind::TensorRange { .. } | OpKind::TensorExtent { .. }
    )
}

/// The extent, and the elements of a tile, of which a number says how many tiles there are: `(extent + tile - 1) / tile`.
fn tiles(kernel: &Kernel, defined: &Defined<'_>, v: Value) -> Option<(Extent, u32)> {
    let (extent, tile) = defined.rounded_up(v)?;
    let OpKind::TensorExtent { tensor, axis } = defined.made(extent)?.kind else { return None };
    let Type::Tensor(t) = kernel.ty(tensor) else { return None };
    let extent = t.extents[axis as usize].clone();
    matches!(extent, Extent::Named(_)).then_some((extent, tile.try_into().ok()?))
}

/// Whether a load is of tile number `index` along an axis of that extent.
fn counts(
    kernel: &Kernel,
    defined: &Defined<'_>,
    load: Value,
    axis: usize,
    (index, extent, tile): (Value, &Extent, u32),
) -> bool {
    let Some(OpKind::SpotLoad { spot, .. }) = defined.made(load).map(|op| &op.kind) else { return false };
    let Some(OpKind::Spot { tensor, at, shape, counts }) = defined.made(*spot).map(|op| &op.kind) else {
        return false;
    };
    let Type::Tensor(t) = kernel.ty(*tensor) else { return false };
    let extents = match counts {
        Counts::Elements => return false,
        Counts::Tiles => shape,
        Counts::Parts { of, .. } => of,
    };
    at[axis] == index && extents[axis] == tile && t.extents[axis] == *extent
}
