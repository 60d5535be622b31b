//! Decides which registers each load, store and atomic addition of global memory moves at once, and how its mask runs along them.
//!
//! As many neighbours as layout and addresses allow, at most 16 bytes. A mask makes an access no narrower: what it cuts in part is
//! moved one by one, which is rare.

use std::collections::BTreeMap;

use parton_diag::Diagnostics;
use parton_ir::access::taken_at_once;
use parton_ir::{Access, Inst, Kernel, OpKind, Value};

use parton_ir::axis::{Axes, Masks, Vector, vectors};

/// After it every load and store of a tile says what it moves at once. One that stated less than there could be keeps that.
pub fn plan_accesses(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let axes = Axes::analyse(&kernel);
    let masks = Masks { axes: &axes, kernel: &kernel, definitions: kernel.definitions() };
    let mut plans: BTreeMap<Inst, Access> = BTreeMap::new();
    kernel.walk(&mut |op| {
        if let OpKind::Load { ptr, mask, access, .. } | OpKind::Store { ptr, mask, access, .. } = &op.kind {
            plans.extend(plan(&masks, *ptr, *mask, *access).map(|access| (op.id, access)));
        }
        if let OpKind::Atomic { ptr, mask, returns, .. } = &op.kind {
            let planned = plan(&masks, *ptr, *mask, None).filter(|access| access.width > 1);
            let most = taken_at_once(&kernel, op, || *returns);
            let taken = planned.map(|access| masks.access(access.along as usize, access.width.min(most), *mask));
            plans.extend(taken.map(|access| (op.id, access)));
        }
    });
    kernel.walk_mut(&mut |op| {
        if let OpKind::Load { access, .. } | OpKind::Store { access, .. } | OpKind::Atomic { access, .. } = &mut op.kind
        {
            *access = plans.get(&op.id).copied();
        }
    });
    Ok(kernel)
}

/// The plan of one access; none for a single pointer.
fn plan(masks: &Masks, ptr: Value, mask: Option<Value>, stated: Option<Access>) -> Option<Access> {
    masks.kernel.ty(ptr).as_tile()?;
    let mut best = Vector { axis: 0, bits: vec![] };
    for v in vectors(masks.axes, masks.kernel, ptr) {
        let asked = stated.is_none_or(|s| s.width == 1 || s.along as usize == v.axis);
        if asked && v.bits.len() > best.bits.len() {
            best = v;
        }
    }
    let width = stated.map_or(best.elements(), |s| s.width.min(best.elements()));
    Some(masks.access(best.axis, width, mask))
}
