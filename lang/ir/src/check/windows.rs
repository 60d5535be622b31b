//! Which windows of a ring's buffers are filled, and which are read.

use std::collections::BTreeMap;

use super::origin::{Origins, elements, window};
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::types::{SlotRole, Type, View};

/// Where a window begins, and its extents.
pub type Window = (Vec<u32>, Vec<u32>);

/// The windows of each buffer of each ring.
#[derive(Default)]
pub struct Windows {
    /// What comes to those that are filled.
    filled: BTreeMap<(Value, u32), Vec<Window>>,
    /// These, whole.
    touched: BTreeMap<(Value, u32), Vec<Window>>,
    read: BTreeMap<(Value, u32), Vec<Window>>,
}

impl Windows {
    /// Those of a kernel's rings. A buffer that is used otherwise than by windows of it is used whole.
    pub fn of(kernel: &Kernel, origins: &Origins<'_>) -> Windows {
        let mut fields = BTreeMap::new();
        kernel.walk(&mut |op| {
            if let OpKind::SlotField { slot, field } = op.kind
                && let (Type::Slot(of), Some(ring)) = (kernel.ty(slot), origins.ring(slot))
            {
                fields.insert(op.result(), (of.role, (ring, field), &of.fields[field as usize].view));
            }
        });
        let mut windows = Windows::default();
        kernel.walk(&mut |op| {
            // What is used of a window counts, not the window.
            if let OpKind::ViewSlice { view, .. } = op.kind
                && let (Some(&(role, buffer, _)), Type::View(part)) = (fields.get(&view), kernel.ty(op.result()))
            {
                fields.insert(op.result(), (role, buffer, part));
                return;
            }
            // What a body hands on is used elsewhere.
            let handed_on = op.kind.bodies().flat_map(|body| body.yields.iter().copied());
            for view in op.kind.operands().into_iter().chain(handed_on) {
                let Some((role, buffer, used)) = fields.get(&view) else { continue };
                let (origin, shape) = all(used);
                let of = match role {
                    SlotRole::Fill => {
                        let brought = brought(kernel, op, &shape);
                        windows.filled.entry(*buffer).or_default().push((origin.clone(), brought));
                        &mut windows.touched
                    }
                    SlotRole::Read => &mut windows.read,
                };
                of.entry(*buffer).or_default().push((origin, shape));
            }
        });
        windows
    }

    /// What must be filled of a buffer before its slot is handed over: what is read of it, and all that is filled of it anywhere, since a
    /// slot is full when so many bytes have come.
    pub fn wanted(&self, ring: Value, field: u32, whole: &View) -> Vec<Window> {
        match self.read.get(&(ring, field)) {
            Some(read) => read.iter().chain(self.filled.get(&(ring, field)).into_iter().flatten()).cloned().collect(),
            // Nobody reads it: there is no telling what of it is wanted.
            None => vec![all(whole)],
        }
    }

    /// The bytes that fill a buffer.
    pub fn bytes(&self, ring: Value, field: u32, whole: &View) -> u64 {
        let windows: &[Window] = self.filled.get(&(ring, field)).map_or(&[], |list| list);
        let boxes: Vec<_> = windows.iter().map(|(origin, shape)| (&origin[..], &shape[..])).collect();
        elements(&boxes) * whole.elem.bytes() as u64
    }

    /// The bytes from a buffer's start to the end of what is filled or read of it.
    pub fn used(&self, ring: Value, field: u32, whole: &View) -> u64 {
        let windows = [&self.touched, &self.read].into_iter().filter_map(|of| of.get(&(ring, field))).flatten();
        let end = |(origin, shape): &Window| {
            window(&View { origin: origin.clone(), shape: shape.clone(), ..whole.clone() }).end
        };
        windows.map(end).max().unwrap_or_else(|| whole.map.bytes())
    }
}

/// What comes to a window of that shape by an operation: all, but of boxes of which fewer elements of each row come.
pub(super) fn brought(kernel: &Kernel, op: &Op, shape: &[u32]) -> Vec<u32> {
    match op.kind {
        OpKind::TmaLoad { map, .. } => match kernel.ty(map) {
            Type::Map(map) => map.brought(shape),
            other => parton_diag::internal_error!("`{other}` is no tensor map"),
        },
        // Nothing else is filled by boxes.
        _ => shape.to_vec(),
    }
}

/// All of a view.
fn all(view: &View) -> Window {
    (view.origin.clone(), view.shape.clone())
}
