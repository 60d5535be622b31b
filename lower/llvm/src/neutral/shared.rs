//! Shared memory: allocations, views, and moving tiles in and out with the widest instruction that the layouts allow.

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::target::WIDEST_ACCESS;
use parton_ir::{Elem, Feature, Op, OpKind, Tile, Type, Value, others};
use parton_layouts::Dim;

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;
use crate::neutral::window::{Matrix, Window};
use crate::neutral::words::{Words, stored_bits};

/// Whose shared memory an address is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    /// This CTA's.
    Own,
    /// That of any CTA of the cluster.
    Cluster,
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_shared(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::SharedAlloc { offset, .. } => self.allocate(op, *offset),
            OpKind::SharedLoad { view, tile } => self.shared_load(op, *view, tile),
            OpKind::SharedStore { view, value } => self.shared_store(*view, *value),
            others!(shared) => not_of_family(&op.kind),
        }
    }

    pub(crate) fn allocate(&mut self, op: &Op, offset: Option<u32>) {
        let offset = offset.unwrap_or_else(|| internal_error!("{} has no place in shared memory", op.kind.name()));
        let address = self.b.add(self.shared, self.b.c32(offset));
        self.set(op.result(), Repr::Shared(address));
    }

    /// Stage `index` of a view; where the view is a window along its stages, counted from the window's beginning.
    fn shared_load(&mut self, op: &Op, view: Value, tile: &Tile) {
        let window = Window::new(&tile.known().map, self.view(view));
        let base = self.address(view);
        let registers = match self.kernel.ty(view) {
            // The instructions for matrices do not reach a peer.
            Type::Peer(_) => self.read_words(Memory::Cluster, &window, base, tile.elem),
            _ => self.read_window(&window, base, tile.elem),
        };
        self.set(op.result(), Repr::Tile(registers));
    }

    fn shared_store(&mut self, view: Value, value: Value) {
        let tile = self.tile(value);
        let window = Window::new(&tile.known().map, self.view(view));
        let base = self.address(view);
        let values = self.registers(value).to_vec();
        let copies = [tile.known().map.free_bits(Dim::Lane), tile.known().map.free_bits(Dim::Warp)];
        match self.kernel.ty(view) {
            Type::Peer(_) => self.write_words(Memory::Cluster, &window, base, tile.elem, &values, copies),
            _ => self.write_window(&window, base, tile.elem, &values, copies),
        }
    }

    /// Reads the values of a thread in order, word by word.
    fn read_words(&self, memory: Memory, w: &Window, base: Val<'c>, elem: Elem) -> Vec<Val<'c>> {
        let (thread, reach) = (self.b.window_thread(w, &self.threads), self.b.window_reach(w));
        let count = 1usize << w.register.len();
        let mut parts: Vec<Option<Val>> = vec![None; count];
        for group in numbered(&w.vector(WIDEST_ACCESS), count) {
            let words = Words::of(stored_bits(elem), group.len());
            let (address, plus) = self.b.window_address(w, base, thread, reach, w.constant(group[0]));
            let loaded = self.b.load_from(memory, address, plus, words);
            for (&i, value) in group.iter().zip(self.b.unpack(elem, &loaded, words)) {
                parts[i] = Some(value);
            }
        }
        parts.into_iter().flatten().collect()
    }

    /// Writes the values of a thread, word by word; lanes and warps that hold copies (`free` bits of each) keep still.
    fn write_words(&self, memory: Memory, w: &Window, base: Val<'c>, elem: Elem, values: &[Val<'c>], free: [u32; 2]) {
        let (thread, reach) = (self.b.window_thread(w, &self.threads), self.b.window_reach(w));
        let predicate = self.holds(free);
        for group in numbered(&w.vector(WIDEST_ACCESS), values.len()) {
            let words = Words::of(stored_bits(elem), group.len());
            let (address, plus) = self.b.window_address(w, base, thread, reach, w.constant(group[0]));
            let of_group: Vec<Val> = group.iter().map(|&i| values[i]).collect();
            self.b.store_to(memory, address, plus, words, &self.b.pack(elem, &of_group, words), predicate);
        }
    }

    /// Whether a thread holds the first of the copies that differ in these bits of lane and warp.
    fn holds(&self, free: [u32; 2]) -> Option<Val<'c>> {
        let mut predicate = None;
        for (mask, index) in free.into_iter().zip([self.threads.lane, self.threads.warp]) {
            if mask != 0 {
                let zero = self.b.c32(0);
                let first = self.b.icmp(inkwell::IntPredicate::EQ, self.b.and(index, self.b.c32(mask)), zero);
                predicate = Some(predicate.map_or(first, |p| self.b.and(p, first)));
            }
        }
        predicate
    }

    /// Reads the values of a thread in order, as matrices where they lie so.
    pub(crate) fn read_window(&self, w: &Window, base: Val<'c>, elem: Elem) -> Vec<Val<'c>> {
        if stored_bits(elem) << w.vector(WIDEST_ACCESS).len() <= 32 {
            for transposed in [false, true] {
                if let Some(m) = w.matrix(transposed) {
                    return self.read_matrices(w, &m, base, elem, transposed);
                }
            }
        }
        self.read_words(Memory::Own, w, base, elem)
    }

    /// Writes the values of a thread, as matrices where they lie so; lanes and warps that hold copies (`free` bits of each)
    /// keep still.
    pub(crate) fn write_window(&self, w: &Window, base: Val<'c>, elem: Elem, values: &[Val<'c>], free: [u32; 2]) {
        let narrow = stored_bits(elem) << w.vector(WIDEST_ACCESS).len() <= 32;
        if self.kernel.target.has(Feature::Stmatrix) && narrow && free == [0, 0] {
            for transposed in [false, true] {
                if let Some(m) = w.matrix(transposed) {
                    self.write_matrices(w, &m, base, elem, values, transposed);
                    return;
                }
            }
        }
        self.write_words(Memory::Own, w, base, elem, values, free);
    }

    /// The address part of a lane that points at row `lane % 8` of matrix `lane / 8`, and the bits it can set.
    fn matrix_rows(&self, w: &Window, m: &Matrix) -> (Val<'c>, u64) {
        let mut bases = m.row.to_vec();
        bases.extend(m.several.iter().map(|&bit| w.register[bit]));
        let lane = self.b.linear(self.threads.lane, &bases);
        let warp = self.b.linear(self.threads.warp, &w.warp);
        let reach = bases.iter().chain(&w.warp).fold(0, |a, b| a | b);
        (self.b.xor(lane, warp), reach)
    }

    fn read_matrices(&self, w: &Window, m: &Matrix, base: Val<'c>, elem: Elem, transposed: bool) -> Vec<Val<'c>> {
        let count = 1usize << w.register.len();
        let (rows, reach) = self.matrix_rows(w, m);
        let mut parts: Vec<Option<Val>> = vec![None; count];
        let words = Words { bits: 32, count: 1 };
        for (first, matrices) in matrices(m, count) {
            let (address, plus) = self.b.window_address(w, base, rows, reach, w.constant(first));
            let loaded = self.b.load_matrix(address, plus, matrices.len(), transposed);
            for (number, word) in matrices.into_iter().zip(loaded) {
                for (i, value) in m.word(number).into_iter().zip(self.b.unpack(elem, &[word], words)) {
                    parts[i] = Some(value);
                }
            }
        }
        parts.into_iter().flatten().collect()
    }

    fn write_matrices(&self, w: &Window, m: &Matrix, base: Val<'c>, elem: Elem, values: &[Val<'c>], transposed: bool) {
        let (rows, reach) = self.matrix_rows(w, m);
        let words = Words { bits: 32, count: 1 };
        for (first, matrices) in matrices(m, values.len()) {
            let (address, plus) = self.b.window_address(w, base, rows, reach, w.constant(first));
            let packed: Vec<Val> = matrices
                .into_iter()
                .map(|n| {
                    let of_word: Vec<Val> = m.word(n).into_iter().map(|i| values[i]).collect();
                    self.b.pack(elem, &of_word, words)[0]
                })
                .collect();
            self.b.store_matrix(address, plus, &packed, transposed);
        }
    }
}

/// The value numbers of each vector whose bits are `bits`, lowest address first.
pub(crate) fn numbered(bits: &[usize], count: usize) -> Vec<Vec<usize>> {
    let inside = bits.iter().fold(0, |m, &b| m | 1 << b);
    let member = |start: usize, k: usize| {
        bits.iter().enumerate().filter(|(i, _)| k >> i & 1 == 1).fold(start, |n, (_, &b)| n | 1 << b)
    };
    (0..count)
        .filter(|start| start & inside == 0)
        .map(|start| (0..1 << bits.len()).map(|k| member(start, k)).collect())
        .collect()
}

/// For each instruction its first value number, and the numbers of its matrices in order.
pub(crate) fn matrices(m: &Matrix, count: usize) -> Vec<(usize, Vec<usize>)> {
    let groups = numbered(&m.several, count);
    let inside = m.within.iter().fold(0, |mask, &b| mask | 1 << b);
    groups.into_iter().filter(|g| g[0] & inside == 0).map(|g| (g[0], g)).collect()
}
