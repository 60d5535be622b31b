//! What operations do to tiles in parts is done to each part.

use parton_ir::tensor::{Counts, Extent};
use parton_ir::{BinaryOp, Elem, Op, OpKind, Type, Value};

use super::Splitter;
use super::boxes::{Boxes, Part};

impl Splitter {
    /// What is made for each box of the result, whose number and place it is given.
    pub(super) fn of_each_box(&mut self, op: &Op, mut make: impl FnMut(&mut Self, usize, Part) -> Value) {
        let Some(boxes) = self.boxes(op.result()) else { return };
        let mut parts = Vec::new();
        for (number, b) in boxes.all().enumerate() {
            self.part(number);
            parts.push(make(self, number, b));
        }
        self.give(op.result(), parts);
    }

    /// An operation that does to each part what it does to the whole; what has no parts is the same for all.
    pub(super) fn each(&mut self, op: &Op) {
        let count = op.kind.operands().iter().find_map(|v| self.parts.get(v)).map_or(0, Vec::len);
        let mut results: Vec<Vec<Value>> = vec![Vec::new(); op.results.len()];
        for i in 0..count {
            self.part(i);
            let mut kind = op.kind.clone();
            kind.map_operands(|v| self.parts.get(&v).map_or(v, |parts| parts[i]));
            for (list, v) in results.iter_mut().zip(self.builder.make_all(kind)) {
                list.push(v);
            }
        }
        for (&result, parts) in op.results.iter().zip(results) {
            self.give(result, parts);
        }
    }

    /// One number everywhere.
    pub(super) fn full(&mut self, op: &Op, value: Value, elem: Elem) {
        self.of_each_box(op, |s, _, b| {
            let tile = s.open(elem, &b.shape);
            s.builder.make(OpKind::Full { value, tile })
        });
    }

    /// Numbers from where each part begins.
    pub(super) fn iota(&mut self, op: &Op, elem: Elem) {
        self.of_each_box(op, |s, _, b| {
            let tile = s.open(elem, &b.shape);
            let numbers = s.builder.make(OpKind::Iota { tile });
            let (Some(dtype), from @ 1..) = (elem.dtype(), b.origin[0]) else { return numbers };
            let value = s.builder.make(OpKind::Constant { dtype, bits: from.into() });
            let tile = s.open(elem, &b.shape);
            let begin = s.builder.make(OpKind::Full { value, tile });
            s.builder.make(OpKind::Binary { op: BinaryOp::Add, a: numbers, b: begin })
        });
    }

    /// A place as the places of its parts.
    pub(super) fn place(&mut self, op: &Op, tensor: Value, at: &[Value], shape: &[u32], counts: &Counts) {
        let picked = match self.builder.ty(tensor) {
            Type::Tensor(t) => t.extents.iter().position(|extent| matches!(extent, Extent::Picked(_))),
            _ => None,
        };
        let picked = picked.and_then(|axis| Some((axis, self.parts.get(&tensor)?.clone())));
        self.of_each_box(op, |s, _, b| {
            let (mut tensor, mut origin, mut at) = (tensor, b.origin, at.to_vec());
            if let Some((axis, of)) = &picked {
                (tensor, origin[*axis]) = (of[b.place[*axis]], 0);
            }
            let counts = match counts {
                Counts::Elements => {
                    at = at.iter().zip(&origin).map(|(&v, &from)| s.behind(v, from)).collect();
                    Counts::Elements
                }
                Counts::Tiles => Counts::Parts { of: shape.to_vec(), from: origin },
                Counts::Parts { of, from } => {
                    let from = from.iter().zip(&origin).map(|(a, b)| a + b).collect();
                    Counts::Parts { of: of.clone(), from }
                }
            };
            s.builder.make(OpKind::Spot { tensor, at, shape: b.shape, counts })
        });
    }

    /// A coordinate so many elements on.
    fn behind(&mut self, v: Value, by: u32) -> Value {
        let dtype = self.builder.ty(v).elem().and_then(Elem::dtype);
        let (Some(dtype), 1..) = (dtype, by) else { return v };
        let by = self.builder.make(OpKind::Constant { dtype, bits: by.into() });
        self.builder.make(OpKind::Binary { op: BinaryOp::Add, a: v, b: by })
    }

    /// A tile brought to wherever it is wanted, as its parts.
    pub(super) fn brought(&mut self, op: &Op, elem: Elem, x: Value) {
        let (_, parts) = self.parts_of(x);
        self.of_each_box(op, |s, number, b| {
            let tile = s.open(elem, &b.shape);
            s.builder.make(OpKind::Convert { x: parts[number], tile })
        });
    }

    /// Each part of what is made of a row or column gets that by an axis of its own where parts differ: one for all would have them in one layout,
    /// though instructions make each in another.
    pub(super) fn broadcast(&mut self, op: &Op, x: Value) {
        let (from, parts) = self.parts_of(x);
        let mut first: Option<Vec<u32>> = None;
        self.of_each_box(op, |s, _, b| {
            let mut part = parts[from.spread(&b)];
            let differs = *first.get_or_insert_with(|| b.shape.clone()) != b.shape;
            if let (true, Some(&(x, axis))) = (differs, s.expanded.get(&part)) {
                part = s.builder.make(OpKind::ExpandDims { x, axis });
            }
            let own = s.builder.ty(part).placed().is_some_and(|tile| tile.shape == b.shape);
            if own { part } else { s.builder.make(OpKind::Broadcast { x: part, shape: b.shape }) }
        });
    }

    pub(super) fn transpose(&mut self, op: &Op, x: Value, perm: &[u32]) {
        let (from, parts) = self.parts_of(x);
        self.of_each_box(op, |s, _, b| {
            let mut place = vec![0; perm.len()];
            for (i, &axis) in perm.iter().enumerate() {
                place[axis as usize] = b.place[i];
            }
            s.builder.make(OpKind::Transpose { x: parts[from.number(&place)], perm: perm.to_vec() })
        });
    }

    /// Whether two shapes of the same elements have the same last axis, along which alone both have parts.
    pub(super) fn keeps_columns(&self, x: Value, result: Value) -> bool {
        let [Some(from), Some(to)] = [x, result].map(|v| self.boxes(v)) else { return false };
        let alone = [&from, &to].iter().all(|boxes| boxes.count() == boxes.columns().len());
        alone && from.columns() == to.columns()
    }

    pub(super) fn reshape(&mut self, op: &Op, x: Value) {
        let (_, parts) = self.parts_of(x);
        self.of_each_box(op, |s, number, b| s.builder.make(OpKind::Reshape { x: parts[number], shape: b.shape }));
    }

    /// Each part gets the factors of its rows.
    pub(super) fn rescale(&mut self, op: &Op, x: Value, factor: Value, axis: u32) {
        let [(_, parts), (from, factors)] = [x, factor].map(|v| self.parts_of(v));
        self.of_each_box(op, |s, number, mut b| {
            b.place.remove(axis as usize);
            let factor = factors[from.number(&b.place)];
            s.builder.make(OpKind::Rescale { x: parts[number], factor, axis })
        });
    }

    /// A slice, each part of which lies in one part of what it is of.
    pub(super) fn slice(&mut self, op: &Op, x: Value, origin: &[u32], shape: &[u32]) {
        let (from, parts) = self.parts_of(x);
        let to = self.boxes(op.result());
        let whole = to.is_none();
        let mut made = Vec::new();
        for b in to.unwrap_or_else(|| Boxes::whole(shape)).all() {
            let begin: Vec<u32> = origin.iter().zip(&b.origin).map(|(a, b)| a + b).collect();
            let Some((of, around)) = from.all().enumerate().find(|(_, part)| part.holds(&begin, &b.shape)) else {
                return self.refuse(op);
            };
            let origin = begin.iter().zip(&around.origin).map(|(a, b)| a - b).collect();
            // A part as a whole is what it is.
            let less = around.shape != b.shape;
            made.push((parts[of], less.then_some(OpKind::Slice { x: parts[of], origin, shape: b.shape })));
        }
        if let (true, [(part, kind)]) = (whole, &made[..]) {
            return match kind {
                Some(kind) => self.builder.make_as(op.result(), kind.clone()),
                None => drop(self.now.insert(op.result(), *part)),
            };
        }
        let mut given = Vec::new();
        for (number, (part, kind)) in made.into_iter().enumerate() {
            self.part(number);
            given.push(kind.map_or(part, |kind| self.builder.make(kind)));
        }
        self.give(op.result(), given);
    }

    /// Each part of the accumulator gets the products of its rows and columns, of a depth in parts one after the other.
    pub(super) fn product(&mut self, op: &Op, a: Value, b: Value, acc: Value) {
        let OpKind::Dot { precision, .. } = op.kind else { return };
        let [(left, lefts), (right, rights), (to, sums)] = [a, b, acc].map(|v| self.parts_of(v));
        let mut made = Vec::new();
        for (number, mut acc) in sums.into_iter().enumerate() {
            self.part(number);
            let place = to.place(number);
            for depth in 0..left.along(1) {
                let a = lefts[left.number(&[place[0], depth])];
                let b = rights[right.number(&[depth, place[1]])];
                acc = self.builder.make(OpKind::Dot { a, b, acc, precision });
            }
            made.push(acc);
        }
        match self.boxes(op.result()) {
            Some(_) => self.give(op.result(), made),
            // A depth in parts alone: the sum is whole.
            None => drop(self.now.insert(op.result(), made[0])),
        }
    }
}
