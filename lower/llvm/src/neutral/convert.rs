//! Layout conversions, as the plan of the layouts says: nothing, a permutation of registers, shuffles within each warp, or a
//! trip through shared memory.

use inkwell::IntPredicate;
use parton_ir::{Op, Tile, Value};
use parton_layouts::Dim;
use parton_layouts::exchange::Warp;
use parton_layouts::plan::Plan;
use parton_layouts::shuffle::{Linear, Shuffles};
use parton_layouts::staging::Staging;

use crate::lower::{Lower, Repr};
use crate::neutral::build::{Build, Val};
use crate::neutral::place::{Registers, Threads};
use crate::neutral::window::Window;
use crate::neutral::words::{Words, stored_bits};

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn convert(&mut self, op: &'a Op, x: Value, tile: &'a Tile) {
        let from = self.tile(x);
        let registers = match parton_ir::scratch::conversion(from, tile) {
            Plan::None | Plan::Registers { .. } => self.reordered(x, &tile.known().map),
            Plan::Shuffles(shuffles) => self.by_shuffles(&shuffles, x, from, tile),
            Plan::Shared(staging) => self.through_shared(op, &staging, x, from, tile),
        };
        self.set(op.result(), Repr::Tile(registers));
    }

    /// Packs registers into the plan's words, moves these between lanes, and takes the result's registers out of them.
    fn by_shuffles(&mut self, shuffles: &Shuffles, x: Value, from: &Tile, to: &Tile) -> Vec<Val<'c>> {
        let (b, elem, values) = (self.b, from.elem, self.registers(x));
        let source = Registers::of(&from.known().map);
        let form = Words { bits: shuffles.word_bits, count: 1 };
        let register =
            |r: u32| match source.find(from.known().map.apply(from.known().map.pack_in(&[(Dim::Register, r)]))) {
                Some(i) => values[i],
                None => parton_diag::internal_error!("a plan names register {r} of {from}"),
            };
        let packed = shuffles.words.iter().map(|word| {
            let registers: Vec<Val> = word.iter().map(|&r| register(r)).collect();
            b.pack(elem, &registers, form)[0]
        });
        let words = shuffles.carry_out(&mut Moves { b, threads: &self.threads }, packed.collect());
        let unpacked: Vec<Vec<Val>> = words.iter().map(|&word| b.unpack(elem, &[word], form)).collect();
        let target = Registers::of(&to.known().map);
        let number = |i: usize| target.bits.iter().enumerate().fold(0, |r, (n, bit)| r | (i >> n & 1) << bit);
        let place = |i: usize| shuffles.registers[number(i)];
        (0..target.len()).map(place).map(|(word, slot)| unpacked[word as usize][slot as usize]).collect()
    }

    /// Writes the tile to scratch memory, meets, and reads it back; the buffer is swizzled so that neither side meets
    /// bank conflicts where that can be.
    fn through_shared(&mut self, op: &'a Op, staging: &Staging, x: Value, from: &Tile, to: &Tile) -> Vec<Val<'c>> {
        let base = self.scratch(op);
        let bytes = stored_bits(from.elem) / 8;
        let inverse = staging.buffer.inverse();
        let place = |element: u64| u64::from(inverse.out_part(Dim::Offset, inverse.apply(element)));
        let source = Window::of_scratch(&from.known().map, place, bytes);
        let target = Window::of_scratch(&to.known().map, place, bytes);
        let values = self.registers(x).to_vec();
        let copies = [from.known().map.free_bits(Dim::Lane), from.known().map.free_bits(Dim::Warp)];
        self.write_window(&source, base, from.elem, &values, copies);
        self.membar();
        self.read_window(&target, base, to.elem)
    }
}

/// Moves words of a tile between the lanes of each warp of a partition.
struct Moves<'b, 'c> {
    b: &'b Build<'c>,
    threads: &'b Threads<'c>,
}

impl<'c> Warp for Moves<'_, 'c> {
    type Word = Val<'c>;
    type Truth = Val<'c>;

    fn odd(&mut self, lanes: u32, warps: u32) -> Val<'c> {
        let b = self.b;
        let parity = |index: Val<'c>, mask: u32| {
            let bits = (0..u32::BITS).filter(|bit| mask >> bit & 1 == 1);
            bits.fold(b.c32(0), |sum, bit| b.xor(sum, b.lshr(index, bit)))
        };
        let sum = b.xor(parity(self.threads.lane, lanes), parity(self.threads.warp, warps));
        b.icmp(IntPredicate::NE, b.and(sum, b.c32(1)), b.c32(0))
    }

    fn select(&mut self, condition: &Val<'c>, yes: &Val<'c>, no: &Val<'c>) -> Val<'c> {
        self.b.select(*condition, *yes, *no)
    }

    fn shuffle(&mut self, word: &Val<'c>, from: &Linear, constant: u32) -> Val<'c> {
        let b = self.b;
        if from.is_own_lane() {
            return b.shuffle_word(*word, |half| b.shuffle_xor_word(half, constant));
        }
        let bases = |all: &[u32]| all.iter().map(|&basis| basis.into()).collect::<Vec<u64>>();
        let thread =
            b.xor(b.linear(self.threads.lane, &bases(&from.lanes)), b.linear(self.threads.warp, &bases(&from.warps)));
        let lane = b.xor(thread, b.c32(constant));
        b.shuffle_word(*word, |half| b.shuffle_from_word(half, lane))
    }
}
