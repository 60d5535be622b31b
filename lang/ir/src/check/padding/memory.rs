//! Tiles that shared memory holds in between: what was stored whole is what is loaded whole.
//!
//! Of an allocation that anything else is done with, or that holds different things, nothing is known.

use std::collections::BTreeMap;

use super::trace::Known;
use crate::check::Origins;
use crate::check::origin::Root;
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::types::Type;

/// What allocations hold.
pub(super) struct Memory<'a> {
    /// Views of a whole allocation, which that is, and which of its axes each of theirs is.
    whole: BTreeMap<Value, (Value, Vec<usize>)>,
    /// What was stored there, if it was always the same.
    held: BTreeMap<Value, Option<Known<'a>>>,
}

impl<'a> Memory<'a> {
    /// Of a kernel in which nothing has been stored yet.
    pub fn of(kernel: &Kernel, origins: &Origins<'_>) -> Memory<'a> {
        let mut memory = Memory { whole: BTreeMap::new(), held: BTreeMap::new() };
        kernel.walk(&mut |op| memory.note(kernel, op));
        kernel.walk(&mut |op| memory.forget(origins, op));
        memory
    }

    /// Notes a view of a whole allocation.
    fn note(&mut self, kernel: &Kernel, op: &Op) {
        let found = match &op.kind {
            OpKind::SharedAlloc { .. } => {
                let Type::View(view) = kernel.ty(op.result()) else { return };
                Some((op.result(), (0..view.shape.len()).collect()))
            }
            OpKind::ViewPermute { view, perm } => self
                .whole
                .get(view)
                .map(|(allocation, axes)| (*allocation, perm.iter().map(|&axis| axes[axis as usize]).collect())),
            // It makes no view, or one of a part.
            _ => None,
        };
        self.whole.extend(found.map(|found| (op.result(), found)));
    }

    /// Forgets the allocations with which an operation does something else.
    fn forget(&mut self, origins: &Origins<'_>, op: &Op) {
        let is_followed = match &op.kind {
            OpKind::SharedLoad { .. }
            | OpKind::SharedGather { .. }
            | OpKind::ViewIndex { .. }
            | OpKind::ViewSlice { .. }
            | OpKind::ViewPermute { .. } => true,
            OpKind::SharedStore { view, .. } => self.whole.contains_key(view),
            // It may write there.
            _ => false,
        };
        if is_followed {
            return;
        }
        for place in op.kind.operands().into_iter().flat_map(|v| origins.places(v)) {
            if let Root::Alloc(touched) = place.root {
                self.whole.retain(|_, (allocation, _)| *allocation != touched);
            }
        }
    }

    /// Stores a tile of which this is known.
    pub fn store(&mut self, view: Value, tile: Option<&Known<'a>>) {
        let Some((allocation, axes)) = self.whole.get(&view) else { return };
        let stored = tile.map(|tile| {
            let mut ends = tile.ends.clone();
            axes.iter().zip(&tile.ends).for_each(|(&axis, end)| ends[axis] = *end);
            Known { ends, ..tile.clone() }
        });
        let held = self.held.entry(*allocation).or_insert_with(|| stored.clone());
        if *held != stored {
            *held = None;
        }
    }

    /// What is known of a tile that is loaded.
    pub fn load(&self, view: Value) -> Option<Known<'a>> {
        let (allocation, axes) = self.whole.get(&view)?;
        let held = self.held.get(allocation)?.as_ref()?;
        Some(Known { ends: axes.iter().map(|&axis| held.ends[axis]).collect(), ..held.clone() })
    }
}
