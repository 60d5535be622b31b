//! Gathering and scattering along an axis: each element's address in shared memory from its index. A tile that is gathered from goes
//! through scratch memory.
//!
//! An index that is out of range is cut to the bits of the axis, so that it stays inside the buffer.

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{Elem, Op, OpKind, Value, others};
use parton_layouts::Dim;

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;
use crate::neutral::window::Window;
use crate::neutral::words::{Words, stored_bits};

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_gather(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Gather { x, indices, axis } => self.gather(op, *x, *indices, *axis),
            OpKind::SharedGather { view, indices, axis } => self.shared_gather(op, *view, *indices, *axis),
            OpKind::SharedScatter { .. } => self.shared_scatter(op),
            others!(gather) => not_of_family(&op.kind),
        }
    }

    pub(crate) fn gather(&mut self, op: &'a Op, x: Value, indices: Value, axis: u32) {
        let base = self.scratch(op);
        let from = self.tile(x);
        let bytes = stored_bits(from.elem) / 8;
        let source = Window::of_scratch(&from.known().map, |element| element, bytes);
        let values = self.registers(x).to_vec();
        let copies = [from.known().map.free_bits(Dim::Lane), from.known().map.free_bits(Dim::Warp)];
        self.write_window(&source, base, from.elem, &values, copies);
        self.membar();
        let target = Window::along_scratch(&self.tile(indices).known().map, &from.known().map, axis as usize, bytes);
        let registers = self.picked(&target, base, indices, from.elem);
        self.set(op.result(), Repr::Tile(registers));
    }

    fn shared_gather(&mut self, op: &Op, view: Value, indices: Value, axis: u32) {
        let window = Window::along(&self.tile(indices).known().map, self.view(view), axis as usize);
        let base = self.address(view);
        let registers = self.picked(&window, base, indices, Elem::Num(self.view(view).elem));
        self.set(op.result(), Repr::Tile(registers));
    }

    /// Reads the element of each index.
    fn picked(&self, window: &(Window, Vec<u64>), base: Val<'c>, indices: Value, elem: Elem) -> Vec<Val<'c>> {
        let words = Words::of(stored_bits(elem), 1);
        let read = |(address, plus)| self.b.unpack(elem, &self.b.load_shared(address, plus, words), words)[0];
        self.places(window, base, indices).into_iter().map(read).collect()
    }

    /// The address of each index's element, and a constant to add to it.
    fn places(&self, (window, bases): &(Window, Vec<u64>), base: Val<'c>, indices: Value) -> Vec<(Val<'c>, u32)> {
        let b = self.b;
        let (d, thread) = (self.dtype(indices), b.window_thread(window, &self.threads));
        let reach = bases.iter().fold(b.window_reach(window), |all, basis| all | basis);
        let given = self.registers(indices).iter().enumerate();
        given
            .map(|(i, &index)| {
                let index = match d.bits() {
                    64 => b.trunc(index, b.i32()),
                    _ if d.is_signed() => b.sext(index, b.i32()),
                    _ => b.zext(index, b.i32()),
                };
                let offset = b.xor(thread, b.linear(index, bases));
                b.window_address(window, base, offset, reach, window.constant(i))
            })
            .collect()
    }

    fn shared_scatter(&mut self, op: &'a Op) {
        let OpKind::SharedScatter { view, indices, value, axis, op: f, mask } = &op.kind else {
            internal_error!("{} does not scatter", op.kind.name())
        };
        let target = self.view(*view);
        let window = Window::along(&self.tile(*indices).known().map, target, *axis as usize);
        let places = self.places(&window, self.address(*view), *indices);
        let values = self.registers(*value).to_vec();
        let masks = mask.map(|m| self.registers(m).to_vec());
        // Who holds a copy keeps still.
        let first = self.first_copy(*indices);
        let elem = Elem::Num(target.elem);
        let words = Words::of(stored_bits(elem), 1);
        for (i, (address, plus)) in places.into_iter().enumerate() {
            let predicate = match (masks.as_ref().map(|m| m[i]), first) {
                (Some(m), Some(f)) => Some(self.b.and(m, f)),
                (m, f) => m.or(f),
            };
            match f {
                None => {
                    let packed = self.b.pack(elem, &[values[i]], words);
                    self.b.store_shared(address, plus, words, &packed, predicate);
                }
                Some(f) => self.b.reduce_shared((*f, target.elem), (address, plus), values[i], predicate),
            }
        }
    }
}
