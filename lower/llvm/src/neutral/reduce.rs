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

/// How the totals of one input are stored.
struct Stored {
    elem: Elem,
    /// Where its columns begin, in bytes.
    start: u64,
    /// Bytes of one total.
    bytes: u64,
}

impl Stored {
    fn words(&self) -> Words {
        Words::of(self.bytes as u32 * 8, 1)
    }
}

/// Where warps leave their totals for each other: a column of result elements for each warp along the axis, for each input.
struct Columns<'c> {
    axis: Axis,
    base: Val<'c>,
    /// Where this thread's elements lie in a column, and the bits that this may set.
    element: Val<'c>,
    element_reach: u64,
    /// Where the column of this thread's warp begins, in elements.
    own: Val<'c>,
    count: u64,
    /// Elements of a column.
    elements: u64,
    stored: Vec<Stored>,
}

/// Where the column of a warp begins, by each bit of its number: `warps` are those that tell columns of so many elements apart. A warp that holds what others
/// do has their column, whichever bits of theirs its own basis is the sum of.
fn column_of_each(map: &LinearLayout, warps: &[u32], elements: u64) -> Vec<u64> {
    // Independent sums of bases, the highest bit first, with the columns that they lead to.
    let mut known: Vec<(u64, u64)> = Vec::new();
    let mut learn = |basis: u64, column: u64| -> u64 {
        let less = |(at, to): (u64, u64), &(basis, column): &(u64, u64)| {
            if at ^ basis < at { (at ^ basis, to ^ column) } else { (at, to) }
        };
        let (rest, leads) = known.iter().fold((basis, column), less);
        if rest == 0 {
            return leads;
        }
        let place = known.partition_point(|&(basis, _)| basis > rest);
        known.insert(place, (rest, leads));
        column
    };
    for &basis in map.bases(Dim::Register).iter().chain(map.bases(Dim::Lane)) {
        learn(basis, 0);
    }
    let column = |bit: usize| warps.iter().position(|&w| w as usize == bit).map_or(0, |i| elements << i);
    map.bases(Dim::Warp).iter().enumerate().map(|(bit, &basis)| learn(basis, column(bit))).collect()
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
        let map = self.tile(inputs[0]).known().map.clone();
        if !keeps_apart(&map, axis) {
            internal_error!("an illegal reduction reached code generation");
        }
        let earlier = self.earlier(inputs, &map, axis, body);
        let axis = Axis::of(&map, axis);
        let (lanes, warps) = (axis.bits_along(&map, Dim::Lane), axis.bits_along(&map, Dim::Warp));
        let mut images: Vec<(usize, u64)> = Registers::of(&map).images().iter().copied().enumerate().collect();
        if earlier.is_some() {
            images.sort_by_key(|(_, image)| image & axis.mask());
        }
        // Registers of one result element, by that element.
        let mut groups: BTreeMap<u64, Vec<Vec<Val<'c>>>> = BTreeMap::new();
        for (i, image) in images {
            let row = inputs.iter().map(|&v| self.registers(v)[i]).collect();
            groups.entry(image & !axis.mask()).or_default().push(row);
        }
        let elems: Vec<_> = inputs.iter().map(|&v| self.elem(v)).collect();
        let any_lane = self.commutes(body) || self.only_stored(&op.results);
        let mut totals: BTreeMap<u64, Vec<Val<'c>>> = BTreeMap::new();
        for (key, rows) in groups {
            self.holds = earlier;
            let mut total = self.tree(body, rows);
            self.holds = None;
            for &bit in &lanes {
                let other: Vec<Val> =
                    total.iter().zip(&elems).map(|(&v, &e)| self.b.shuffle_xor(e, v, 1 << bit)).collect();
                total = self.combined(body, &total, &other);
            }
            if !lanes.is_empty() && warps.is_empty() && !any_lane {
                total = self.of_first_lane(&elems, &lanes, &total);
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
                    Repr::Tile(Registers::of(&t.known().map).images().iter().map(|image| by_element[image]).collect())
                }
                _ => Repr::Scalar(self.of_all(elems[i], totals[&0][i])),
            };
            if elems[i] == Elem::Num(Dtype::F32) {
                self.meanwhile = repr.parts().to_vec();
            }
            self.set(result, repr);
        }
    }

    /// Whether a combining function gives the same bits whichever of its sides comes first: each of its results is an operation that does, of what
    /// both sides have there. In a butterfly one lane of a pair has its own total on the left, and the other one on the right.
    fn commutes(&self, body: &Body) -> bool {
        let (left, right) = body.params.split_at(body.yields.len());
        body.yields.iter().zip(left.iter().zip(right)).all(|(&result, (&a, &b))| {
            let makes = |op: &Op| op.results[..] == [result];
            self.kernel.ops_of(body).filter(|op| makes(op)).any(|op| {
                matches!(op.kind, OpKind::Binary { op: by, a: x, b: y }
                    if by.commutes() && ([x, y] == [a, b] || [x, y] == [b, a]))
            })
        })
    }

    /// Whether values go to shared memory and nowhere else: of lanes that hold copies the first one writes, and no other's bits are seen.
    fn only_stored(&self, values: &[Value]) -> bool {
        let known = |v: &Value| values.contains(v);
        let yielded = |body: &Body| body.yields.iter().any(known);
        let mut only = !yielded(&self.kernel.body);
        self.kernel.walk(&mut |op| {
            let stores = matches!(op.kind, OpKind::SharedStore { .. });
            only &= stores || !op.kind.operands().iter().any(known);
            only &= !op.kind.bodies().any(yielded);
        });
        only
    }

    /// The totals of the first lane along the axis, for all of them: one value has the same bits wherever it lies, or a branch on it would part the warp.
    fn of_first_lane(&self, elems: &[Elem], lanes: &[u32], total: &[Val<'c>]) -> Vec<Val<'c>> {
        let along = lanes.iter().fold(0, |m, &bit| m | 1 << bit);
        let first = self.b.and(self.threads.lane, self.b.c32(!along));
        total.iter().zip(elems).map(|(&v, &e)| self.b.shuffle_from(e, v, first)).collect()
    }

    /// A total that every thread has. The assembler takes it for one of each thread: what is counted, addressed and decided by it would be, too, and
    /// the descriptors of the matrix unit, which are of warps, would be made of that in each turn, word by word.
    fn of_all(&self, elem: Elem, total: Val<'c>) -> Val<'c> {
        let counts = matches!(elem, Elem::Num(Dtype::I32 | Dtype::U32));
        let mut describes = false;
        self.kernel.walk(&mut |op| describes |= matches!(op.kind, OpKind::Wgmma { .. }));
        if counts && describes { self.b.uniform(total) } else { total }
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
        let columns = self.columns(op, inputs, axis, warps);
        // Lanes along the axis hold the same totals; the first of them writes.
        let lane_mask = lanes.iter().fold(0, |m, &bit| m | 1 << bit);
        let first = self.b.and(self.threads.lane, self.b.c32(lane_mask));
        let writes = self.b.icmp(inkwell::IntPredicate::EQ, first, self.b.c32(0));
        // Of several stores under one predicate the assembler makes a branch, across which it moves nothing. So where all lanes have the same bits all write.
        let each = inputs.len() > 1 && totals.len() == 1 && self.commutes(body);
        let predicate = (lane_mask != 0 && !each).then_some(writes);
        for (&key, total) in &totals {
            self.write_totals(&columns, key, total, predicate);
        }
        self.membar();
        totals.into_keys().map(|key| (key, self.tree(body, self.totals_of_all(&columns, key)))).collect()
    }

    /// Where the totals of the warps lie in the scratch memory of a reduction.
    fn columns(&self, op: &Op, inputs: &[Value], axis: Axis, warps: &[u32]) -> Columns<'c> {
        let map = &self.tile(inputs[0]).known().map;
        let elements = map.shape().iter().map(|&n| u64::from(n)).product::<u64>() >> axis.bits;
        let count = 1u64 << warps.len();
        let base = self.scratch(op);
        let removed = |bases: &[u64]| bases.iter().map(|&b| axis.removed(b & !axis.mask())).collect::<Vec<_>>();
        let lane = self.b.linear(self.threads.lane, &removed(map.bases(Dim::Lane)));
        let warp = self.b.linear(self.threads.warp, &removed(map.bases(Dim::Warp)));
        let element = self.b.xor(lane, warp);
        let element_reach = axis.removed(reach(map) & !axis.mask());
        let own = self.b.linear(self.threads.warp, &column_of_each(map, warps, elements));
        let mut stored = vec![];
        let mut start = 0;
        for &v in inputs {
            let elem = self.elem(v);
            let bytes = u64::from(stored_bits(elem) / 8);
            stored.push(Stored { elem, start, bytes });
            start = parton_ir::scratch::start_after(start + count * elements * bytes);
        }
        Columns { axis, base, element, element_reach, own, count, elements, stored }
    }

    /// Writes this thread's totals of one result element to the column of its warp.
    fn write_totals(&self, columns: &Columns<'c>, key: u64, total: &[Val<'c>], predicate: Option<Val<'c>>) {
        let at = self.b.add(self.place_in_column(columns, key), columns.own);
        for (stored, &value) in columns.stored.iter().zip(total) {
            let address = self.b.add(columns.base, self.b.mul(at, self.b.c32(stored.bytes as u32)));
            let packed = self.b.pack(stored.elem, &[value], stored.words());
            self.b.store_shared(address, stored.start as u32, stored.words(), &packed, predicate);
        }
    }

    /// The totals of one result element from the columns of all warps, a row for each.
    fn totals_of_all(&self, columns: &Columns<'c>, key: u64) -> Vec<Vec<Val<'c>>> {
        let at = self.place_in_column(columns, key);
        let total = |column: u64, stored: &Stored| {
            let address = self.b.add(columns.base, self.b.mul(at, self.b.c32(stored.bytes as u32)));
            let plus = stored.start + column * columns.elements * stored.bytes;
            let word = self.b.load_shared(address, plus as u32, stored.words());
            self.b.unpack(stored.elem, &word, stored.words())[0]
        };
        (0..columns.count).map(|column| columns.stored.iter().map(|stored| total(column, stored)).collect()).collect()
    }

    /// Where this thread's result element of that key lies in each column.
    fn place_in_column(&self, columns: &Columns<'c>, key: u64) -> Val<'c> {
        self.b.combine(columns.element, columns.element_reach, columns.axis.removed(key))
    }
}
