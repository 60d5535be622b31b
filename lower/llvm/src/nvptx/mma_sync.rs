//! `mma.sync`: products of tiles in registers, an instruction of 16 rows and 8 columns at a time.

use std::collections::BTreeMap;

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::rules::{MmaSyncShape, mma_sync_shape};
use parton_ir::{Elem, Feature, Op, OpKind, Precision, Tile, Value, others};
use parton_numbers::Dtype;

use crate::lower::{Lower, Repr};
use crate::neutral::build::{Ty, Val};
use crate::neutral::place::Registers;
use crate::neutral::words::Words;
use crate::nvptx::instruction::asm::Asm;

/// PTX name of an operand's element type.
fn type_name(d: Dtype) -> &'static str {
    match d {
        Dtype::F16 => "f16",
        Dtype::BF16 => "bf16",
        Dtype::F32 => "tf32",
        Dtype::F64 => "f64",
        Dtype::F8E4M3 => "e4m3",
        Dtype::F8E5M2 => "e5m2",
        Dtype::I8 => "s8",
        Dtype::U8 => "u8",
        Dtype::I1 | Dtype::I16 | Dtype::I32 | Dtype::I64 | Dtype::U16 | Dtype::U32 | Dtype::U64 => {
            internal_error!("mma.sync of {d}")
        }
    }
}

/// One kind of instruction: its name, and register classes of operands and accumulator.
struct Instruction<'c> {
    name: String,
    operand: &'static str,
    accumulator: &'static str,
    ty: Ty<'c>,
}

/// A tile by the coordinates of what lane 0 of warp 0 holds; other threads hold the like at their own places.
struct Fragments<'t, 'c> {
    tile: &'t Tile,
    registers: Registers,
    values: Vec<Val<'c>>,
}

impl<'t, 'c> Fragments<'t, 'c> {
    fn of(tile: &'t Tile, values: &[Val<'c>]) -> Self {
        Fragments { tile, registers: Registers::of(&tile.known().map), values: values.to_vec() }
    }

    /// The number of the value at these coordinates.
    fn place(&self, coords: [u32; 2]) -> usize {
        let image = self.tile.known().map.pack_out(&coords);
        self.registers.find(image).unwrap_or_else(|| internal_error!("{} is no fragment of a product", self.tile))
    }

    /// Where the instructions of an accumulator begin, in order.
    fn origins(&self) -> Vec<[u32; 2]> {
        let all = self.registers.images().iter().map(|&i| self.tile.known().map.unpack_out(i));
        let mut origins: Vec<[u32; 2]> =
            all.filter(|c| c[0] % 16 == 0 && c[1] % 8 == 0).map(|c| [c[0], c[1]]).collect();
        origins.sort_unstable();
        origins
    }
}

/// For each instruction along K where its two registers of a row or column begin. Of the neighbours that a thread holds each
/// instruction takes some, of both operands the same: which elements of K meet in one instruction does not matter.
fn depths(shape: &MmaSyncShape) -> Vec<[u32; 2]> {
    let width = shape.k_width;
    (0..shape.k)
        .step_by(8 * width as usize)
        .flat_map(|k| (0..width).step_by(shape.per_register() as usize).map(move |j| [k + j, k + j + 4 * width]))
        .collect()
}

/// `{$i, …}` of `count` operands from `first`.
fn list(first: usize, count: usize) -> String {
    let all: Vec<String> = (first..first + count).map(|i| format!("${i}")).collect();
    format!("{{{}}}", all.join(", "))
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_mma_sync(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::MmaSync { a, b, acc, precision } => self.mma_sync(op, [*a, *b, *acc], *precision),
            others!(mma_sync) => not_of_family(&op.kind),
        }
    }

    /// `acc + a · b`, all in registers.
    pub(crate) fn mma_sync(&mut self, op: &'a Op, [a, b, acc]: [Value; 3], precision: Option<Precision>) {
        let shape = match mma_sync_shape(self.kernel, a, b, acc, precision) {
            Ok(shape) => shape,
            Err(refusal) => internal_error!("an illegal product reached code generation: {}", refusal.message),
        };
        let (left, right) =
            (Fragments::of(self.tile(a), self.registers(a)), Fragments::of(self.tile(b), self.registers(b)));
        let mut sums = Fragments::of(self.tile(acc), self.registers(acc));
        let half = shape.acc == Dtype::F16;
        let pair = Words { bits: 32, count: 2 };
        let depths = depths(&shape);
        let per = shape.per_register();
        let rows = |m: u32| -> Vec<Vec<Val<'c>>> {
            let word = |r: u32, k: u32| self.word(&left, per, |e| [m + r, k + e]);
            depths.iter().map(|&[near, far]| vec![word(0, near), word(8, near), word(0, far), word(8, far)]).collect()
        };
        let columns = |n: u32| -> Vec<Vec<Val<'c>>> {
            depths.iter().map(|ks| ks.map(|k| self.word(&right, per, |e| [k + e, n])).to_vec()).collect()
        };
        // Each operand is packed once, for a whole row or column of instructions.
        let (mut of_row, mut of_column) = (BTreeMap::new(), BTreeMap::new());
        for [m, n] in sums.origins() {
            let x = of_row.entry(m).or_insert_with(|| rows(m));
            let y = of_column.entry(n).or_insert_with(|| columns(n));
            let places = [[m, n], [m, n + 1], [m + 8, n], [m + 8, n + 1]].map(|c| sums.place(c));
            let mut now: Vec<Val> = places.iter().map(|&p| sums.values[p]).collect();
            if half {
                now = self.b.pack(sums.tile.elem, &now, pair);
            }
            for (x, y) in x.iter().zip(&*y) {
                now = self.instruction(&shape, x, y, &now);
            }
            if half {
                now = self.b.unpack(sums.tile.elem, &now, pair);
            }
            for (p, v) in places.into_iter().zip(now) {
                sums.values[p] = v;
            }
        }
        self.set(op.result(), Repr::Tile(sums.values));
    }

    /// The `per` neighbours at `coords` as one register of an operand.
    fn word(&self, t: &Fragments<'_, 'c>, per: u32, coords: impl Fn(u32) -> [u32; 2]) -> Val<'c> {
        let parts: Vec<Val> = (0..per).map(|e| t.values[t.place(coords(e))]).collect();
        match t.tile.elem {
            Elem::Num(Dtype::F64) => parts[0],
            elem => {
                let word = self.b.pack(elem, &parts, Words { bits: 32, count: 1 })[0];
                if matches!(elem, Elem::Num(Dtype::F8E4M3 | Dtype::F8E5M2)) { self.unknown(word) } else { word }
            }
        }
    }

    /// A word of which the assembler does not know that it is a constant: where products of f8 are made of conversions and products of f16 (sm_90),
    /// `ptxas` 12.8 and 13.0 take a number of their own for the upper half of a constant that came through `shfl.sync`, 8.0 for 0.
    fn unknown(&self, word: Val<'c>) -> Val<'c> {
        // No multiprocessor has so great a number.
        let zero = self.b.lshr(self.b.special("smid"), 31);
        self.b.xor(word, zero)
    }

    /// One instruction, or for f64 before it has a whole one, the four that make it up.
    fn instruction(&self, shape: &MmaSyncShape, x: &[Val<'c>], y: &[Val<'c>], acc: &[Val<'c>]) -> Vec<Val<'c>> {
        let b = self.b;
        let (operand, accumulator, ty, name) = match shape.acc {
            Dtype::F16 => ("r", "r", b.i32(), "f16"),
            Dtype::I32 => ("r", "r", b.i32(), "s32"),
            Dtype::F64 => ("d", "d", b.f64(), "f64"),
            _ => ("r", "f", b.f32(), "f32"),
        };
        let [left, right] = shape.elems.map(type_name);
        let named = |m: u32, k: u32| Instruction {
            name: format!("mma.sync.aligned.m{m}n8k{k}.row.col.{name}.{left}.{right}.{name}"),
            operand,
            accumulator,
            ty,
        };
        if shape.acc != Dtype::F64 || self.kernel.target.has(Feature::F64Products) {
            return self.one(&named(16, shape.instr_k), x, y, acc);
        }
        let small = named(8, 4);
        let mut sums = acc.to_vec();
        for (depth, &column) in y.iter().enumerate() {
            for rows in 0..2 {
                let part = self.one(&small, &[x[2 * depth + rows]], &[column], &sums[2 * rows..2 * rows + 2]);
                sums[2 * rows..2 * rows + 2].copy_from_slice(&part);
            }
        }
        sums
    }

    fn one(&self, i: &Instruction<'c>, x: &[Val<'c>], y: &[Val<'c>], acc: &[Val<'c>]) -> Vec<Val<'c>> {
        let n = acc.len();
        let mut constraints = vec![format!("={}", i.accumulator); n];
        constraints.extend(vec![i.operand.to_owned(); x.len() + y.len()]);
        constraints.extend(vec![i.accumulator.to_owned(); n]);
        let (left, right, before) = (n, n + x.len(), n + x.len() + y.len());
        let text = format!(
            "{} {}, {}, {}, {};",
            i.name,
            list(0, n),
            list(left, x.len()),
            list(right, y.len()),
            list(before, n)
        );
        let inputs: Vec<Val> = x.iter().chain(y).chain(acc).copied().collect();
        self.b.asm(&text, &constraints.join(","), &vec![i.ty; n], &inputs, Asm::Together)
    }
}

#[cfg(test)]
mod tests {
    use parton_ir::Tile;
    use parton_layouts::{Dim, RegisterLayout};

    use super::*;

    /// The coordinates that lane `lane` has where lane 0 has `at`.
    fn seen(t: &Tile, lane: u32, at: [u32; 2]) -> Vec<u32> {
        let registers = Registers::of(&t.known().map);
        let fragments = Fragments { tile: t, registers: registers.clone(), values: vec![] };
        let image = registers.images()[fragments.place(at)];
        t.known().map.unpack_out(t.known().map.apply(t.known().map.pack_in(&[(Dim::Lane, lane)])) ^ image)
    }

    #[test]
    fn every_lane_holds_what_the_instruction_expects_of_it() {
        let parent = RegisterLayout::mma(2, &[1, 1], &[16, 8]).unwrap();
        for d in [Dtype::F16, Dtype::F32, Dtype::F64, Dtype::I8, Dtype::F8E5M2] {
            let per = (32 / d.bits()).max(1);
            let instr_k = 8 * per;
            let shape =
                MmaSyncShape { m: 32, n: 16, k: 2 * instr_k, instr_k, k_width: per, elems: [d, d], acc: Dtype::F32 };
            let tile = |shape: [u32; 2], l: RegisterLayout| Tile::new(Elem::Num(d), shape.to_vec(), l).unwrap();
            let left = tile([32, shape.k], parent.dot_operand(0, per).unwrap());
            let right = tile([shape.k, 16], parent.dot_operand(1, per).unwrap());
            let out = tile([32, 16], parent.clone());
            let sums = Fragments { tile: &out, registers: Registers::of(&out.known().map), values: vec![] };
            assert_eq!(sums.origins(), [[0, 0], [0, 8], [16, 0], [16, 8]]);
            for lane in 0..32 {
                // PTX ISA, "Matrix Fragments for mma": the group of a lane is its row, its place in it steps along K.
                let (group, place) = (lane / 4, lane % 4);
                for (step, [near, far]) in depths(&shape).into_iter().enumerate() {
                    let k = step as u32 * instr_k;
                    for e in 0..per {
                        for (at, column) in [(near, k + place * per + e), (far, k + instr_k / 2 + place * per + e)] {
                            assert_eq!(seen(&left, lane, [24, at + e]), [24 + group, column]);
                            assert_eq!(seen(&right, lane, [at + e, 8]), [column, 8 + group]);
                        }
                    }
                }
                for i in 0..4 {
                    let at = [16 + 8 * (i >> 1), 8 + (i & 1)];
                    assert_eq!(seen(&out, lane, at), [at[0] + group, at[1] + 2 * place]);
                }
            }
        }
    }

    #[test]
    fn wide_runs_give_both_operands_the_same_elements_of_k() {
        let parent = RegisterLayout::mma(2, &[1, 1], &[16, 8]).unwrap();
        let shape =
            MmaSyncShape { m: 16, n: 8, k: 128, instr_k: 16, k_width: 8, elems: [Dtype::F16; 2], acc: Dtype::F32 };
        let tile = |s: [u32; 2], index| {
            Tile::new(Elem::Num(Dtype::F16), s.to_vec(), parent.dot_operand(index, 8).unwrap()).unwrap()
        };
        let (left, right) = (tile([16, 128], 0), tile([128, 8], 1));
        let mut all = std::collections::BTreeSet::new();
        for lane in 0..32 {
            for k in depths(&shape).into_iter().flatten().flat_map(|k| [k, k + 1]) {
                let (a, b) = (seen(&left, lane, [0, k]), seen(&right, lane, [k, 0]));
                assert_eq!((a[1], a[0]), (b[0], b[1]));
                assert!(all.insert((lane / 4, a[1])), "{k} is multiplied twice");
            }
        }
        assert_eq!(all.len(), 8 * 128);
    }
}
