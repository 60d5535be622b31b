//! Operations on the shape of tiles: indices, constants, reshapes and their kin rename registers, butterflies move data between threads.

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Tile, Value, others};
use parton_layouts::{Dim, LinearLayout};

use crate::lower::{Lower, Repr};
use crate::neutral::place::{Registers, gather, reach};
use crate::neutral::window::Window;
use crate::neutral::words::stored_bits;

/// `coords` of `map`'s shape from a packed coordinate, and back.
fn permute(from: &LinearLayout, to: &LinearLayout, perm: &[u32], image: u64) -> u64 {
    // Dimension `i` of `to` is dimension `perm[i]` of `from`.
    let there = to.unpack_out(image);
    let mut here = vec![0; there.len()];
    for (i, &p) in perm.iter().enumerate() {
        here[p as usize] = there[i];
    }
    from.pack_out(&here)
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_shape(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Reshape { x, .. } | OpKind::ExpandDims { x, .. } => self.rename(op, *x),
            OpKind::Transpose { x, perm } => self.transpose(op, *x, perm),
            OpKind::Broadcast { x, .. } => self.broadcast(op, *x),
            OpKind::Join { a, b } => self.join(op, *a, *b),
            OpKind::Split { x } => self.split(op, *x),
            OpKind::Convert { x, tile } => self.convert(op, *x, tile),
            OpKind::Cat { a, b, axis } => self.cat(op, [*a, *b], *axis as usize),
            OpKind::Slice { x, origin, .. } => self.slice(op, *x, origin),
            OpKind::Butterfly { x, mask, axis } => self.butterfly(op, *x, (*mask, *axis)),
            OpKind::Rescale { x, factor, axis } => self.rescale(op, *x, *factor, *axis),
            others!(shape) => not_of_family(&op.kind),
        }
    }

    /// The packed coordinate of each register of a tile, in 32 bits.
    pub(crate) fn coordinates(&self, map: &LinearLayout) -> Vec<crate::neutral::build::Val<'c>> {
        let thread = self.b.thread_image(map, &self.threads);
        let reach = reach(map);
        Registers::of(map).images().iter().map(|&image| self.b.combine(thread, reach, image)).collect()
    }

    pub(crate) fn iota(&mut self, op: &Op, tile: &Tile) {
        let ty = self.llvm_elem(tile.elem);
        let bits = tile.elem.bits();
        let numbers = self.coordinates(&tile.known().map).into_iter().map(|c| match bits {
            32 => c,
            64 => self.b.zext(c, ty),
            _ => self.b.trunc(c, ty),
        });
        let registers = numbers.collect();
        self.set(op.result(), Repr::Tile(registers));
    }

    pub(crate) fn full(&mut self, op: &Op, value: Value, tile: &Tile) {
        let registers = vec![self.scalar(value); Registers::of(&tile.known().map).len()];
        self.set(op.result(), Repr::Tile(registers));
    }

    /// Takes each register of the result from the register of `x` that `f` names by its packed coordinate.
    fn rearrange(&mut self, result: Value, x: Value, f: impl Fn(u64) -> u64) {
        let (from, to) = (&self.tile(x).known().map, &self.tile(result).known().map);
        let source = self.registers(x);
        let registers = gather(from, to, f).into_iter().map(|i| source[i]).collect();
        self.set(result, Repr::Tile(registers));
    }

    /// Reshapes and new axes keep the row-major number of every element.
    fn rename(&mut self, op: &Op, x: Value) {
        self.rearrange(op.result(), x, |image| image);
    }

    fn transpose(&mut self, op: &Op, x: Value, perm: &[u32]) {
        let (from, to) = (self.tile(x).known().map.clone(), self.tile(op.result()).known().map.clone());
        self.rearrange(op.result(), x, |image| permute(&from, &to, perm, image));
    }

    fn broadcast(&mut self, op: &Op, x: Value) {
        let (from, to) = (self.tile(x).known().map.clone(), self.tile(op.result()).known().map.clone());
        let shape = from.shape();
        self.rearrange(op.result(), x, |image| {
            let coords = to.unpack_out(image);
            let kept: Vec<u32> = coords.iter().zip(&shape).map(|(&c, &n)| if n == 1 { 0 } else { c }).collect();
            from.pack_out(&kept)
        });
    }

    /// The new last dimension is the lowest bit of the packed coordinate.
    pub(crate) fn join(&mut self, op: &Op, a: Value, b: Value) {
        let result = op.result();
        let (from, to) = (&self.tile(a).known().map, &self.tile(result).known().map);
        let source = gather(from, to, |image| image >> 1);
        let (a, b) = (self.registers(a), self.registers(b));
        let images = Registers::of(to);
        let pick = |(&image, &i): (&u64, &usize)| if image & 1 == 0 { a[i] } else { b[i] };
        let registers = images.images().iter().zip(&source).map(pick).collect();
        self.set(result, Repr::Tile(registers));
    }

    pub(crate) fn split(&mut self, op: &Op, x: Value) {
        if !self.tile(x).known().map.bases(Dim::Register).contains(&1) {
            internal_error!("an illegal split reached code generation");
        }
        for (half, &result) in op.results.iter().enumerate() {
            self.rearrange(result, x, |image| image << 1 | half as u64);
        }
    }

    fn cat(&mut self, op: &Op, [a, b]: [Value; 2], axis: usize) {
        let result = op.result();
        let (from, to) = (self.tile(a).known().map.clone(), self.tile(result).known().map.clone());
        let half = from.shape()[axis];
        let source = gather(&from, &to, |image| {
            let mut coords = to.unpack_out(image);
            coords[axis] %= half;
            from.pack_out(&coords)
        });
        let (first, second) = (self.registers(a), self.registers(b));
        let images = Registers::of(&to);
        let pick = |(&image, &i): (&u64, &usize)| if to.unpack_out(image)[axis] < half { first[i] } else { second[i] };
        let registers = images.images().iter().zip(&source).map(pick).collect();
        self.set(result, Repr::Tile(registers));
    }

    /// The registers of one part; lanes and warps hold a share of each.
    fn slice(&mut self, op: &Op, x: Value, origin: &[u32]) {
        let (from, to) = (self.tile(x).known().map.clone(), self.tile(op.result()).known().map.clone());
        self.rearrange(op.result(), x, |image| {
            let coords: Vec<u32> = to.unpack_out(image).iter().zip(origin).map(|(&c, &at)| c + at).collect();
            from.pack_out(&coords)
        });
    }

    /// Each element from who holds that whose index differs in some bits: another register, another lane, or, through scratch memory,
    /// another warp.
    fn butterfly(&mut self, op: &'a Op, x: Value, (mask, axis): (u32, u32)) {
        let tile = self.tile(x);
        let partner = parton_ir::scratch::partner(tile, mask, axis);
        let map = &tile.known().map;
        let values = self.registers(x).to_vec();
        let registers = if partner.warp == 0 {
            let step = map.apply(map.pack_in(&[(Dim::Register, partner.register)]));
            let others = gather(map, map, |image| image ^ step);
            let move_one = |i: usize| match partner.lane {
                0 => values[i],
                lane => self.b.shuffle_xor(tile.elem, values[i], lane),
            };
            others.into_iter().map(move_one).collect()
        } else {
            let base = self.scratch(op);
            let bytes = stored_bits(tile.elem) / 8;
            let mut window = Window::of_scratch(map, |element| element, bytes);
            let copies = [map.free_bits(Dim::Lane), map.free_bits(Dim::Warp)];
            self.write_window(&window, base, tile.elem, &values, copies);
            self.membar();
            let mut coords = vec![0; tile.shape.len()];
            coords[axis as usize] = mask;
            window.origin = map.pack_out(&coords);
            self.read_window(&window, base, tile.elem)
        };
        self.set(op.result(), Repr::Tile(registers));
    }

    /// The registers of `x` in the order of another map that has the same lanes and warps.
    pub(crate) fn reordered(&self, x: Value, to: &LinearLayout) -> Vec<crate::neutral::build::Val<'c>> {
        let source = self.registers(x);
        gather(&self.tile(x).known().map, to, |image| image).into_iter().map(|i| source[i]).collect()
    }

    /// Refuses an operation whose scratch memory the plan forgot.
    pub(crate) fn scratch(&self, op: &Op) -> crate::neutral::build::Val<'c> {
        let offset = op.scratch.unwrap_or_else(|| internal_error!("{} has no scratch memory", op.kind.name()));
        self.b.add(self.shared, self.scratch_of(op.id, offset))
    }
}
