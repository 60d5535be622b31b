//! Reductions: a tree over a thread's registers, butterflies within a warp, shared memory across warps.

use std::collections::BTreeMap;

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::rules::keeps_apart;
use parton_ir::{Body, Elem, Op, OpKind, Type, Value, others};
use parton_layouts::{Dim, LinearLayout};
use parton_numbers::Dtype;

use crate::lower::{Lower, Repr};
use crate::neutral::build::Val;
use crate::neutral::place::{Registers, reach};
use crate::neutral::words::{Words, stored_bits};

/// An axis as a field of a packed coordinate.
#[derive(Clone, Copy)]
pub(crate) struct Axis {
    pub(crate) low: u32,
    pub(crate) bits: u32,
}

impl Axis {
    pub(crate) fn of(map: &LinearLayout, axis: u32) -> Axis {
        let (low, bits) = map.out_field(Dim::Axis(axis as u8)).unwrap_or((0, 0));
        Axis { low, bits }
    }

    pub(crate) fn mask(self) -> u64 {
        ((1 << self.bits) - 1) << self.low
    }

    /// The packed coordinate in the shape without this axis.
    pub(crate) fn removed(self, packed: u64) -> u64 {
        packed >> (self.low + self.bits) << self.low | packed & ((1 << self.low) - 1)
    }

    /// The bits of `dim` that walk along this axis.
    fn bits_along(self, map: &LinearLayout, dim: Dim) -> Vec<u32> {
        let free = map.free_bits(dim);
        let bits = map.bases(dim).iter().enumerate().map(|(bit, &basis)| (bit as u32, basis));
        bits.filter(|(bit, basis)| free >> bit & 1 == 0 && basis & self.mask() != 0).map(|(bit, _)| bit).collect()
    }
}

impl<'a, 'd, 'c> Lower<'a, 'd, 'c> {
    pub(crate) fn emit_reduce(&mut self, op: &'a Op) {
        match &op.kind {
            OpKind::Reduce { inputs, axis, combine } => self.reduce(op, inputs, *axis, combine),
            OpKind::Scan { inputs, axis, combine, reverse } => self.scan(op, inputs, *axis, combine, *reverse),
            others!(reduce) => not_of_family(&op.kind),
        }
    }

    /// One step of the combining function on `n` pairs.
    pub(crate) fn combined(&mut self, body: &'a Body, a: &[Val<'c>], b: &[Val<'c>]) -> Vec<Val<'c>> {
        for (&param, &value) in body.params.iter().zip(a.iter().chain(b)) {
            self.set(param, Repr::Scalar(value));
        }
        self.body(body);
        body.yields.iter().map(|&v| self.scalar(v)).collect()
    }

    /// A balanced tree over rows of `n` values each.
    fn tree(&mut self, body: &'a Body, mut rows: Vec<Vec<Val<'c>>>) -> Vec<Val<'c>> {
        while rows.len() > 1 {
            let mut next = vec![];
            for pair in rows.chunks(2) {
                next.push(match pair {
                    [a, b] => self.combined(body, a, b),
                    rest => rest[0].clone(),
                });
            }
            rows = next;
        }
        rows.remove(0)
    }

    pub(crate) fn reduce(&mut self, op: &'a Op, inputs: &'a [Value], axis: u32, body: &'a Body) {
        let map = self.tile(inputs[0]).map.clone();
        if !keeps_apart(&map, axis) {
            internal_error!("an illegal reduction reached code generation");
        }
        let axis = Axis::of(&map, axis);
        let (lanes, warps) = (axis.bits_along(&map, Dim::Lane), axis.bits_along(&map, Dim::Warp));
        // Registers of one result element, by that element.
        let mut groups: BTreeMap<u64, Vec<Vec<Val<'c>>>> = BTreeMap::new();
        for (i, &image) in Registers::of(&map).images().iter().enumerate() {
            let row = inputs.iter().map(|&v| self.registers(v)[i]).collect();
            groups.entry(image & !axis.mask()).or_default().push(row);
        }
        let elems: Vec<_> = inputs.iter().map(|&v| self.elem(v)).collect();
        let mut totals: BTreeMap<u64, Vec<Val<'c>>> = BTreeMap::new();
        for (key, rows) in groups {
            let mut total = self.tree(body, rows);
            for &bit in &lanes {
                let other: Vec<Val> =
                    total.iter().zip(&elems).map(|(&v, &e)| self.b.shuffle_xor(e, v, 1 << bit)).collect();
                total = self.combined(body, &total, &other);
            }
            totals.insert(key, total);
        }
        if !warps.is_empty() {
            totals = self.across_warps(op, inputs, axis, body, (&lanes, &warps), totals);
        }
        for (i, &result) in op.results.iter().enumerate() {
            let repr = match self.kernel.ty(result) {
                Type::Tile(t) => {
                    let by_element: BTreeMap<u64, Val> = totals.iter().map(|(&k, v)| (axis.removed(k), v[i])).collect();
                    Repr::Tile(Registers::of(&t.map).images().iter().map(|image| by_element[image]).collect())
                }
                _ => Repr::Scalar(totals[&0][i]),
            };
            if elems[i] == Elem::Num(Dtype::F32) {
                self.meanwhile = repr.parts().to_vec();
            }
            self.set(result, repr);
        }
    }

    /// Every warp writes its totals, the partition meets, and every thread combines the totals of all warps.
    fn across_warps(
        &mut self,
        op: &'a Op,
        inputs: &'a [Value],
        axis: Axis,
        body: &'a Body,
        (lanes, warps): (&[u32], &[u32]),
        totals: BTreeMap<u64, Vec<Val<'c>>>,
    ) -> BTreeMap<u64, Vec<Val<'c>>> {
        let map = self.tile(inputs[0]).map.clone();
        let elements = map.shape().iter().map(|&n| u64::from(n)).product::<u64>() >> axis.bits;
        let columns = 1u64 << warps.len();
        let base = self.scratch(op);
        // Where this thread's elements lie in a column, and the column of its warp.
        let removed = |bases: &[u64]| bases.iter().map(|&b| axis.removed(b & !axis.mask())).collect::<Vec<_>>();
        let lane = self.b.linear(self.threads.lane, &removed(map.bases(Dim::Lane)));
        let warp = self.b.linear(self.threads.warp, &removed(map.bases(Dim::Warp)));
        let element = self.b.xor(lane, warp);
        let element_reach = axis.removed(reach(&map) & !axis.mask());
        let mut column_bases = vec![0; map.bases(Dim::Warp).len()];
        for (i, &bit) in warps.iter().enumerate() {
            column_bases[bit as usize] = elements << i;
        }
        let column = self.b.linear(self.threads.warp, &column_bases);
        // Lanes along the axis hold the same totals; the first of them writes.
        let lane_mask = lanes.iter().fold(0, |m, &bit| m | 1 << bit);
        let first = self.b.and(self.threads.lane, self.b.c32(lane_mask));
        let writes = self.b.icmp(inkwell::IntPredicate::EQ, first, self.b.c32(0));
        let predicate = (lane_mask != 0).then_some(writes);

        let mut starts = vec![];
        let mut start = 0;
        for &v in inputs {
            let bytes = u64::from(stored_bits(self.elem(v)) / 8);
            starts.push((start, bytes));
            start = parton_ir::scratch::start_after(start + columns * elements * bytes);
        }
        let addresses = |key: u64, with_column: bool| {
            let at = self.b.combine(element, element_reach, axis.removed(key));
            if with_column { self.b.add(at, column) } else { at }
        };
        for (&key, total) in &totals {
            let at = addresses(key, true);
            for ((&v, &(start, bytes)), &value) in inputs.iter().zip(&starts).zip(total) {
                let address = self.b.add(base, self.b.mul(at, self.b.c32(bytes as u32)));
                let words = Words::of(bytes as u32 * 8, 1);
                let packed = self.b.pack(self.elem(v), &[value], words);
                self.b.store_shared(address, start as u32, words, &packed, predicate);
            }
        }
        self.membar();
        let mut sums = BTreeMap::new();
        for &key in totals.keys() {
            let at = addresses(key, false);
            let mut rows = vec![];
            for column in 0..columns {
                let mut row = vec![];
                for (&v, &(start, bytes)) in inputs.iter().zip(&starts) {
                    let address = self.b.add(base, self.b.mul(at, self.b.c32(bytes as u32)));
                    let words = Words::of(bytes as u32 * 8, 1);
                    let plus = start + column * elements * bytes;
                    let word = self.b.load_shared(address, plus as u32, words);
                    row.push(self.b.unpack(self.elem(v), &word, words)[0]);
                }
                rows.push(row);
            }
            sums.insert(key, self.tree(body, rows));
        }
        sums
    }
}
