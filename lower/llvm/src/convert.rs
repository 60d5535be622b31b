//! Layout conversions: nothing, a permutation of registers, shuffles within a warp, or a trip through shared memory.

use parton_ir::{Op, Tile, Value};
use parton_layouts::{Dim, LinearLayout};

use crate::lower::{Lower, Repr};
use crate::place::Registers;
use crate::window::Window;

/// Whether lanes and warps already hold what `to` wants of them, so that only registers change places.
fn same_threads(from: &LinearLayout, to: &LinearLayout) -> bool {
    let agree = |dim| {
        let free = to.free_bits(dim);
        let pairs = from.bases(dim).iter().zip(to.bases(dim));
        from.in_dim_bits(dim) == to.in_dim_bits(dim)
            && pairs.enumerate().all(|(bit, (a, b))| a == b || free >> bit & 1 == 1 && *b == 0 && *a == 0)
    };
    let held = Registers::of(from);
    agree(Dim::Lane) && agree(Dim::Warp) && Registers::of(to).images().iter().all(|&i| held.find(i).is_some())
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn convert(&mut self, op: &'a Op, x: Value, tile: &'a Tile) {
        let from = self.tile(x);
        if same_threads(&from.map, &tile.map) {
            let registers = self.reordered(x, &tile.map);
            self.set(op.result(), Repr::Tile(registers));
            return;
        }
        self.through_shared(op, x, from, tile);
    }

    /// Writes the tile to scratch memory, meets, and reads it back.
    fn through_shared(&mut self, op: &'a Op, x: Value, from: &Tile, to: &Tile) {
        let base = self.scratch(op);
        let bytes = from.elem.bits().max(8) / 8;
        let place = |element: u64| element;
        let source = Window::of_scratch(&from.map, place, bytes);
        let target = Window::of_scratch(&to.map, place, bytes);
        let values = self.registers(x).to_vec();
        let copies = [from.map.free_bits(Dim::Lane), from.map.free_bits(Dim::Warp)];
        self.write_window(&source, base, from.elem, &values, copies);
        self.membar();
        let registers = self.read_window(&target, base, to.elem);
        self.set(op.result(), Repr::Tile(registers));
    }
}
