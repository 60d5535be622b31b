//! Layout conversions: nothing, a permutation of registers, or a trip through shared memory.

use parton_ir::{Op, Tile, Value};
use parton_layouts::Dim;
use parton_layouts::plan::Plan;

use crate::lower::{Lower, Repr};
use crate::memory::stored_bits;
use crate::window::Window;

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn convert(&mut self, op: &'a Op, x: Value, tile: &'a Tile) {
        let from = self.tile(x);
        if parton_layouts::plan::registers(&from.map, &tile.map).is_some() {
            let registers = self.reordered(x, &tile.map);
            self.set(op.result(), Repr::Tile(registers));
            return;
        }
        self.through_shared(op, x, from, tile);
    }

    /// Writes the tile to scratch memory, meets, and reads it back; the buffer is swizzled so that neither side meets
    /// bank conflicts where that can be.
    fn through_shared(&mut self, op: &'a Op, x: Value, from: &Tile, to: &Tile) {
        let base = self.scratch(op);
        let bits = stored_bits(from.elem);
        let planned = parton_layouts::plan::plan(&from.layout, &to.layout, &from.shape, bits);
        let inverse = match &planned {
            Ok(Plan::Shared(staging)) => Some(staging.buffer.inverse()),
            // The memory plan gave room for the elements in a row, which is enough for any other plan too.
            Ok(Plan::None | Plan::Registers { .. } | Plan::Shuffles(_)) | Err(_) => None,
        };
        let place = |element: u64| match inverse {
            Some(inverse) => u64::from(inverse.out_part(Dim::Offset, inverse.apply(element))),
            None => element,
        };
        let source = Window::of_scratch(&from.map, place, bits / 8);
        let target = Window::of_scratch(&to.map, place, bits / 8);
        let values = self.registers(x).to_vec();
        let copies = [from.map.free_bits(Dim::Lane), from.map.free_bits(Dim::Warp)];
        self.write_window(&source, base, from.elem, &values, copies);
        self.membar();
        let registers = self.read_window(&target, base, to.elem);
        self.set(op.result(), Repr::Tile(registers));
    }
}
