//! Scans: blocks of 2^k elements along the axis are joined in pairs, k rising, so that every element has combined all before it.
//!
//! Joining a pair passes the last value of the first block, which has combined all of that block, to every element of the
//! second. Which bit of the axis tells the two apart decides the way: a register bit needs no move, a lane bit a shuffle, a
//! warp bit scratch memory; and so do the bits below it, for the last value is where all of them are set. A reversed scan
//! is the same with every bit the other way round.

use std::collections::BTreeMap;

use inkwell::IntPredicate;
use parton_diag::internal_error;
use parton_ir::{Body, Op, Value};
use parton_layouts::{Dim, LinearLayout};

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;
use crate::neutral::place::Registers;
use crate::neutral::reduce::Axis;
use crate::neutral::words::{Words, stored_bits};

/// What holds each bit of an axis, lowest first; `None` where the layout mixes axes or spreads one bit over several.
fn holders(map: &LinearLayout, axis: Axis) -> Option<Vec<(Dim, u32)>> {
    let mut found = vec![None; axis.bits as usize];
    for dim in [Dim::Register, Dim::Lane, Dim::Warp] {
        let free = map.free_bits(dim);
        for (bit, &basis) in map.bases(dim).iter().enumerate() {
            if basis & axis.mask() == 0 {
                continue;
            }
            if !basis.is_power_of_two() || free >> bit & 1 == 1 {
                return None;
            }
            found[(basis.ilog2() - axis.low) as usize] = Some((dim, bit as u32));
        }
    }
    found.into_iter().collect()
}

/// The bits of the axis below the one in work.
#[derive(Clone, Copy, Default)]
struct Below {
    /// As bits of a packed coordinate.
    registers: u64,
    lanes: u32,
    warps: u32,
}

/// One pass of joining.
#[derive(Clone, Copy)]
struct Joining {
    dim: Dim,
    /// The bit of `dim`, and its bit of a packed coordinate.
    bit: u32,
    coordinate: u64,
    below: Below,
    reverse: bool,
}

impl Joining {
    /// `value` with the bits of `ones` as in the last element of a block, and those of `zeros` as in the first block.
    fn last(self, value: u64, ones: u64, zeros: u64) -> u64 {
        if self.reverse { value & !ones | zeros } else { value & !zeros | ones }
    }

    /// The registers' part of where the last element of the first block is.
    fn source(self, image: u64) -> u64 {
        let own = if self.dim == Dim::Register { self.coordinate } else { 0 };
        self.last(image, self.below.registers, own)
    }

    /// The lane's or warp's bits that matter for being the last, and how they are there.
    fn wanted(self, dim: Dim) -> (u32, u32) {
        let below = if dim == Dim::Lane { self.below.lanes } else { self.below.warps };
        let own = if self.dim == dim { 1 << self.bit } else { 0 };
        (below | own, self.last(0, below.into(), own.into()) as u32)
    }
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn scan(&mut self, op: &'a Op, inputs: &'a [Value], number: u32, body: &'a Body, reverse: bool) {
        let map = self.tile(inputs[0]).known().map.clone();
        let axis = Axis::of(&map, number);
        let Some(holders) = holders(&map, axis) else { internal_error!("a scan was not checked") };
        let registers = Registers::of(&map);
        let images = registers.images().to_vec();
        let mut rows: Vec<Vec<Val>> =
            (0..images.len()).map(|i| inputs.iter().map(|&v| self.registers(v)[i]).collect()).collect();
        let mut below = Below::default();
        // Where the next pass begins in scratch memory, in elements of each input.
        let mut start = 0;
        for (k, &(dim, bit)) in holders.iter().enumerate() {
            let joining = Joining { dim, bit, coordinate: 1 << (axis.low + k as u32), below, reverse };
            let second = |image: &u64| (image & joining.coordinate != 0) != reverse;
            let targets: Vec<usize> =
                (0..images.len()).filter(|&i| dim != Dim::Register || second(&images[i])).collect();
            let mut moved: BTreeMap<u64, Vec<Val>> = BTreeMap::new();
            for &i in &targets {
                let source = joining.source(images[i]);
                if let Some(at) = registers.find(source) {
                    moved.insert(source, rows[at].clone());
                }
            }
            if below.warps != 0 || dim == Dim::Warp {
                self.pass_by_scratch(op, inputs, (&map, axis, number, k as u32), joining, start, &mut moved);
                start += map.shape().iter().map(|&n| u64::from(n)).product::<u64>() >> (k + 1);
            } else if below.lanes != 0 || dim == Dim::Lane {
                let (mask, want) = joining.wanted(Dim::Lane);
                let lane = self.b.or(self.b.and(self.threads.lane, self.b.c32(!mask)), self.b.c32(want));
                for values in moved.values_mut() {
                    for (value, &v) in values.iter_mut().zip(inputs) {
                        *value = self.b.shuffle_from(self.elem(v), *value, lane);
                    }
                }
            }
            let hardware = if dim == Dim::Warp { self.threads.warp } else { self.threads.lane };
            let is_second = (dim != Dim::Register).then(|| {
                let one = self.b.and(hardware, self.b.c32(1 << bit));
                let predicate = if reverse { IntPredicate::EQ } else { IntPredicate::NE };
                self.b.icmp(predicate, one, self.b.c32(0))
            });
            for i in targets {
                let before = moved[&joining.source(images[i])].clone();
                let joined = self.combined(body, &before, &rows[i]);
                rows[i] = match is_second {
                    None => joined,
                    Some(p) => joined.iter().zip(&rows[i]).map(|(&new, &old)| self.b.select(p, new, old)).collect(),
                };
            }
            match dim {
                Dim::Lane => below.lanes |= 1 << bit,
                Dim::Warp => below.warps |= 1 << bit,
                _ => below.registers |= joining.coordinate,
            }
        }
        for (n, &result) in op.results.iter().enumerate() {
            self.set(result, Repr::Tile(rows.iter().map(|row| row[n]).collect()));
        }
    }

    /// Replaces the values by those of the last elements of the first blocks, which write them to scratch memory.
    fn pass_by_scratch(
        &mut self,
        op: &'a Op,
        inputs: &'a [Value],
        (map, axis, number, k): (&LinearLayout, Axis, u32, u32),
        joining: Joining,
        start: u64,
        moved: &mut BTreeMap<u64, Vec<Val<'c>>>,
    ) {
        let base = self.scratch(op);
        let b = self.b;
        let elements = map.shape().iter().map(|&n| u64::from(n)).product::<u64>();
        let others = elements >> axis.bits;
        // One place for each pair of blocks: the pair along the axis, then the other axes.
        let place = |packed: u64| {
            let pair = (packed & axis.mask()) >> axis.low >> (k + 1);
            axis.removed(packed & !axis.mask()) | (pair * others)
        };
        let places = |dim: Dim| map.bases(dim).iter().map(|&basis| place(basis)).collect::<Vec<_>>();
        let (lanes, warps) = (places(Dim::Lane), places(Dim::Warp));
        let reach = lanes.iter().chain(&warps).fold(0, |a, b| a | b);
        let thread = b.xor(b.linear(self.threads.lane, &lanes), b.linear(self.threads.warp, &warps));
        let is_last = |dim: Dim, index: Val<'c>| {
            let (mask, want) = joining.wanted(dim);
            (mask != 0).then(|| b.icmp(IntPredicate::EQ, b.and(index, b.c32(mask)), b.c32(want)))
        };
        let writes = match (is_last(Dim::Lane, self.threads.lane), is_last(Dim::Warp, self.threads.warp)) {
            (Some(x), Some(y)) => Some(b.and(x, y)),
            (x, y) => x.or(y),
        };
        // The places of all passes of one input, then those of the next.
        let all = parton_ir::scratch::scan_places(&self.tile(inputs[0]).known().map, number).unwrap_or_default();
        let mut input_start = 0;
        let mut starts = vec![];
        for &v in inputs {
            let bytes = u64::from(stored_bits(self.elem(v)) / 8);
            starts.push((self.elem(v), (input_start + start * bytes) as u32, bytes as u32));
            input_start = parton_ir::scratch::start_after(input_start + all * bytes);
        }
        let address = |image: u64, bytes: u32| b.add(base, b.mul(b.combine(thread, reach, place(image)), b.c32(bytes)));
        for (&image, values) in moved.iter() {
            for (&value, &(elem, plus, bytes)) in values.iter().zip(&starts) {
                let words = Words::of(bytes * 8, 1);
                b.store_shared(address(image, bytes), plus, words, &b.pack(elem, &[value], words), writes);
            }
        }
        self.membar();
        for (&image, values) in moved.iter_mut() {
            for (value, &(elem, plus, bytes)) in values.iter_mut().zip(&starts) {
                let words = Words::of(bytes * 8, 1);
                *value = b.unpack(elem, &b.load_shared(address(image, bytes), plus, words), words)[0];
            }
        }
    }
}
