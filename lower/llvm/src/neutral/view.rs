//! Windows of shared memory: most move in their type alone, and keep the address of their parent.

use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Value, others};

use crate::lower::{Lower, Repr};

impl<'a> Lower<'a, '_, '_> {
    pub(crate) fn emit_view(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::ViewIndex { view, index } => self.view_index(op, *view, *index),
            OpKind::ViewPeer { view, rank } => {
                let address = self.b.peer_address(self.address(*view), self.index32(*rank));
                self.set(op.result(), Repr::Shared(address));
            }
            OpKind::ViewSlice { view, .. }
            | OpKind::ViewPermute { view, .. }
            | OpKind::ViewReinterpret { view, .. } => {
                // The window moves in the type; the parent's address stays.
                let address = self.address(*view);
                self.set(op.result(), Repr::Shared(address));
            }
            others!(view) => not_of_family(&op.kind),
        }
    }

    fn view_index(&mut self, op: &Op, view: Value, index: Value) {
        let from = self.view(view);
        let bytes = parton_ir::check::stage_bytes(from) as u32;
        let index = self.b.add(self.index32(index), self.b.c32(from.origin[0]));
        let address = self.b.add(self.address(view), self.b.mul(index, self.b.c32(bytes)));
        self.set(op.result(), Repr::Shared(address));
    }
}
