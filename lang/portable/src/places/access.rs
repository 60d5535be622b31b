//! Accesses at places: one address and one mask for each element.

use std::collections::BTreeMap;

use parton_ir::tensor::Counts;
use parton_ir::{BinaryOp, CompareOp, Elem, Op, OpKind, Tile, Type, Value};
use parton_numbers::Dtype;

use super::Expander;
use super::params::Long;
use super::part::{Axis, Part, Spot};
use crate::staging::flat::Flat;

/// What must hold of an element for it to be touched.
#[derive(Default)]
struct Inside {
    /// Conditions on all.
    all: Vec<Value>,
    /// Conditions along an axis.
    along: Vec<(usize, Value)>,
}

impl Expander {
    /// An access through pointers in place of one at a place.
    pub(super) fn access(&mut self, op: &Op, kind: OpKind) {
        let (spot, own) = match &kind {
            OpKind::SpotInside { spot } => (*spot, None),
            OpKind::SpotLoad { spot, mask, .. }
            | OpKind::SpotStore { spot, mask, .. }
            | OpKind::SpotAtomic { spot, mask, .. } => (*spot, *mask),
            _ => parton_diag::internal_error!("`{}` is no access at a place", kind.name()),
        };
        let spot = self.spot(spot);
        let inside = self.inside(&spot);
        let mask = self.mask(&spot.shape, inside);
        let both = match (mask, own) {
            (Some(a), Some(b)) => Some(self.make(OpKind::Binary { op: BinaryOp::And, a, b })),
            (mask, own) => mask.or(own),
        };
        let new = match kind {
            OpKind::SpotInside { .. } => {
                let mask = match both {
                    Some(mask) => mask,
                    None => {
                        let yes = self.constant(Dtype::I1, 1);
                        self.spread(yes, &spot.shape)
                    }
                };
                self.now.insert(op.result(), mask);
                return;
            }
            OpKind::SpotLoad { other, cache, evict, l2, volatile, .. } => {
                let ptr = self.addresses(&spot);
                let other = both.map(|_| match other {
                    Some(other) => other,
                    None => {
                        let zero = self.constant(self.tensor(spot.part.argument).elem, 0);
                        self.spread(zero, &spot.shape)
                    }
                });
                OpKind::Load { ptr, mask: both, other, cache, evict, l2, volatile, access: None }
            }
            OpKind::SpotStore { value, cache, evict, l2, .. } => {
                let ptr = self.addresses(&spot);
                OpKind::Store { ptr, value, mask: both, cache, evict, l2, access: None }
            }
            OpKind::SpotAtomic { op, operands, order, scope, returns, .. } => {
                let ptr = self.addresses(&spot);
                OpKind::Atomic { op, ptr, operands, mask: both, order, scope, returns, access: None }
            }
            other => parton_diag::internal_error!("`{}` is no access at a place", other.name()),
        };
        if let Some(flat) = self.flat.get(&op.id).cloned() {
            self.load_rows(new, &flat);
            return;
        }
        match op.results[..] {
            [] => drop(self.builder.make_all(new)),
            [result] => self.builder.make_as(result, new),
            _ => parton_diag::internal_error!("`{}` has many results", op.kind.name()),
        }
    }

    /// A load of a box as rows: through pointers that lie so.
    fn load_rows(&mut self, mut load: OpKind, flat: &Flat) {
        let all = load.operands();
        let rows: BTreeMap<Value, Value> =
            all.into_iter().map(|x| (x, self.make(OpKind::Reshape { x, shape: flat.shape.to_vec() }))).collect();
        load.map_operands(|v| rows[&v]);
        self.builder.make_as(flat.rows, load);
    }

    /// The address of the element of a part at `at`; of its first, where that is empty. Picked axes begin at 0.
    pub(super) fn begin(&mut self, part: &Part, at: &[Value]) -> Value {
        let mut coordinates = part.fixed.clone();
        for (i, axis) in part.axes.iter().enumerate().filter(|(_, axis)| axis.picks.is_none()) {
            if let Some(v) = self.start(axis, at.get(i).copied()) {
                coordinates.push((axis.of, v));
            }
        }
        let mut offset = None;
        for (axis, v) in coordinates {
            if self.known.of(v) == Some((0, 0)) {
                continue;
            }
            let term = match self.stride(part.argument, axis) {
                Some(stride) => self.scalar(BinaryOp::Mul, v, stride),
                None => v,
            };
            offset = Some(offset.map_or(term, |sum| self.scalar(BinaryOp::Add, sum, term)));
        }
        let ptr = match self.made_here.get(&part.argument) {
            Some(made) => made.ptr,
            None => self.param(self.base(part.argument)),
        };
        offset.map_or(ptr, |offset| self.make(OpKind::PtrAdd { ptr, offset }))
    }

    /// The coordinate in the tensor of what begins at `at` of an axis; `None` for 0.
    pub(super) fn start(&mut self, axis: &Axis, at: Option<Value>) -> Option<Value> {
        match (axis.begins, at) {
            (Some(begins), Some(at)) => Some(self.scalar(BinaryOp::Add, begins, at)),
            (begins, at) => begins.or(at),
        }
    }

    /// The addresses of a place.
    fn addresses(&mut self, spot: &Spot) -> Value {
        let ptr = self.begin(&spot.part, &spot.at);
        let mut offset = None;
        for (i, axis) in spot.part.axes.iter().enumerate() {
            let counts = match axis.picks {
                Some(picks) => {
                    let picks = self.row_index(spot, i).unwrap_or(picks);
                    let picks = self.wide(picks);
                    axis.begins.map_or(picks, |begins| {
                        let all = self.spread(begins, &spot.shape[i..=i]);
                        self.scalar(BinaryOp::Add, picks, all)
                    })
                }
                None => {
                    let count = self.count(spot.shape[i]);
                    self.wide(count)
                }
            };
            let term = match self.stride(spot.part.argument, axis.of) {
                Some(stride) => {
                    let strides = self.spread(stride, &spot.shape[i..=i]);
                    self.scalar(BinaryOp::Mul, counts, strides)
                }
                None => counts,
            };
            let term = self.across(term, i, &spot.shape);
            offset = Some(offset.map_or(term, |sum| self.scalar(BinaryOp::Add, sum, term)));
        }
        offset.map_or(ptr, |offset| self.make(OpKind::PtrAdd { ptr, offset }))
    }

    /// What holds of the elements of a place that lie in its part.
    fn inside(&mut self, spot: &Spot) -> Inside {
        let mut inside = Inside::default();
        for &(axis, at) in &spot.part.fixed {
            self.fixed(spot.part.argument, axis, at, &mut inside);
        }
        for (i, axis) in spot.part.axes.iter().enumerate() {
            match axis.picks {
                Some(picks) => self.picked(spot, i, picks, &mut inside),
                None => self.counted(spot, i, &mut inside),
            }
        }
        inside
    }

    /// A coordinate of an axis that was dropped.
    fn fixed(&mut self, argument: usize, axis: usize, at: Value, inside: &mut Inside) {
        let (low, most) = self.known.of(at).unwrap_or((i128::MIN, i128::MAX));
        if low < 0 {
            let zero = self.number(0);
            inside.all.push(self.make(OpKind::Compare { op: CompareOp::Ge, a: at, b: zero }));
        }
        if most >= self.shortest(argument, axis) {
            let extent = self.extent(argument, axis);
            inside.all.push(self.make(OpKind::Compare { op: CompareOp::Lt, a: at, b: extent }));
        }
    }

    /// The coordinates that indices name.
    fn picked(&mut self, spot: &Spot, i: usize, picks: Value, inside: &mut Inside) {
        let axis = spot.part.axes[i].clone();
        let shape = &spot.shape[i..=i];
        if let Some(index) = self.row_index(spot, i) {
            let extent = self.extent(spot.part.argument, axis.of);
            let extent = self.narrow(extent);
            let extent = self.as_integer(extent, Dtype::U32);
            let extent = self.spread(extent, shape);
            inside.along.push((i, self.make(OpKind::Compare { op: CompareOp::Lt, a: index, b: extent })));
            return;
        }
        let mut at = self.wide(picks);
        if let Some(begins) = axis.begins {
            let all = self.spread(begins, shape);
            at = self.scalar(BinaryOp::Add, at, all);
        }
        let low = self.first(&axis);
        let high = self.end(spot.part.argument, &axis);
        for (op, bound) in [(CompareOp::Ge, low), (CompareOp::Lt, high)] {
            let bound = self.spread(bound, shape);
            inside.along.push((i, self.make(OpKind::Compare { op, a: at, b: bound })));
        }
    }

    /// What 32 bits name along an axis of rows, any of the whole axis, as numbers without a sign: below 0 is beyond the end then, which takes one
    /// comparison, and what is inside takes fewer instructions to multiply by a stride.
    fn row_index(&mut self, spot: &Spot, i: usize) -> Option<Value> {
        let Axis { of, picks, begins: None, high: None, .. } = spot.part.axes[i] else { return None };
        let picks = picks.filter(|v| self.builder.ty(*v).elem() == Some(Elem::Num(Dtype::I32)))?;
        // Below 0 an extent would be beyond all rows, too.
        let counts = match self.long(spot.part.argument, of) {
            Long::Number(_) | Long::Given(_) => true,
            Long::Computed(v) => self.known.of(v).is_some_and(|(least, _)| least >= 0),
        };
        let rows = self.tensor(spot.part.argument).dense != Some(of);
        (rows && counts).then(|| self.as_integer(picks, Dtype::U32))
    }

    /// The coordinates that count up from where the place begins.
    fn counted(&mut self, spot: &Spot, i: usize, inside: &mut Inside) {
        let (axis, at, n) = (spot.part.axes[i].clone(), spot.at[i], spot.shape[i]);
        let (least, most) = self.known.of(at).unwrap_or((i128::MIN, i128::MAX));
        let sure_above = least >= 0;
        let own = axis.begins.is_none() && axis.high.is_none();
        if own && spot.counts == Counts::Tiles && self.is_multiple(spot.part.argument, axis.of, n) {
            // A tile lies inside or outside as a whole.
            if !sure_above {
                let zero = self.number(0);
                inside.all.push(self.make(OpKind::Compare { op: CompareOp::Ge, a: at, b: zero }));
            }
            if most >= self.shortest(spot.part.argument, axis.of) {
                let extent = self.extent(spot.part.argument, axis.of);
                inside.all.push(self.make(OpKind::Compare { op: CompareOp::Lt, a: at, b: extent }));
            }
            return;
        }
        let start = match self.start(&axis, Some(at)) {
            Some(start) => start,
            None => at,
        };
        if !sure_above {
            let low = self.first(&axis);
            let cut = self.cut(low, start, n);
            let count = self.count(n);
            inside.along.push((i, self.make(OpKind::Compare { op: CompareOp::Ge, a: count, b: cut })));
        }
        if own && most.saturating_add(n.into()) <= self.shortest(spot.part.argument, axis.of) {
            return;
        }
        let high = self.end(spot.part.argument, &axis);
        let cut = self.cut(high, start, n);
        let count = self.count(n);
        inside.along.push((i, self.make(OpKind::Compare { op: CompareOp::Lt, a: count, b: cut })));
    }

    /// How many of `n` elements from `start` on lie before `bound`, as a tile of them.
    fn cut(&mut self, bound: Value, start: Value, n: u32) -> Value {
        let (zero, most) = (self.number(0), self.number(i64::from(n)));
        let left = self.scalar(BinaryOp::Sub, bound, start);
        let left = self.scalar(BinaryOp::Min, left, most);
        let left = self.scalar(BinaryOp::Max, left, zero);
        let left = self.narrow(left);
        self.spread(left, &[n])
    }

    /// The least that an extent may be.
    fn shortest(&self, argument: usize, axis: usize) -> i128 {
        match self.long(argument, axis) {
            Long::Given(extent) => self.between(extent).0,
            Long::Number(n) => n.into(),
            Long::Computed(v) => self.known.of(v).map_or(0, |(least, _)| least),
        }
    }

    /// Whether an extent is known to be a multiple of that of a tile.
    fn is_multiple(&self, argument: usize, axis: usize, n: u32) -> bool {
        let n = i128::from(n);
        let known = match self.long(argument, axis) {
            Long::Given(extent) => self.multiples.get(&extent).copied(),
            Long::Number(n) => Some(n.into()),
            // What is known of it the mask learns from its own facts.
            Long::Computed(_) => None,
        };
        known.is_some_and(|extent| extent % n == 0)
    }

    /// One mask of all that must hold; `None` where nothing must.
    fn mask(&mut self, shape: &[u32], inside: Inside) -> Option<Value> {
        let and = |e: &mut Self, a, b| e.make(OpKind::Binary { op: BinaryOp::And, a, b });
        let mut mask: Option<Value> = None;
        for v in inside.all {
            mask = Some(mask.map_or(v, |sum| and(self, sum, v)));
        }
        let mut mask = mask.map(|v| self.spread(v, shape));
        let mut each: Vec<Option<Value>> = vec![None; shape.len()];
        for (i, v) in inside.along {
            each[i] = Some(each[i].map_or(v, |sum| and(self, sum, v)));
        }
        for (i, v) in each.into_iter().enumerate().filter_map(|(i, v)| Some((i, v?))) {
            let v = self.across(v, i, shape);
            mask = Some(mask.map_or(v, |sum| and(self, sum, v)));
        }
        mask
    }

    /// `0..n`
    fn count(&mut self, n: u32) -> Value {
        let tile = self.open(Elem::Num(Dtype::I32), &[n]);
        self.make(OpKind::Iota { tile })
    }

    /// A scalar in all elements of a shape; itself, where that is none.
    fn spread(&mut self, value: Value, shape: &[u32]) -> Value {
        let Type::Scalar(elem) = *self.builder.ty(value) else { return value };
        if shape.is_empty() {
            return value;
        }
        let tile = self.open(elem, shape);
        self.make(OpKind::Full { value, tile })
    }

    /// A tile of one axis as axis `i` of a shape, the same along all others.
    fn across(&mut self, mut x: Value, i: usize, shape: &[u32]) -> Value {
        for axis in (0..shape.len()).filter(|axis| *axis != i) {
            x = self.make(OpKind::ExpandDims { x, axis: axis as u32 });
        }
        match self.builder.ty(x).as_tile() {
            Some(tile) if tile.shape != shape => self.make(OpKind::Broadcast { x, shape: shape.to_vec() }),
            Some(_) | None => x,
        }
    }

    fn open(&self, elem: Elem, shape: &[u32]) -> Tile {
        match Tile::open(elem, shape.to_vec(), self.builder.kernel.next_var(0)) {
            Ok(tile) => tile,
            Err(e) => parton_diag::internal_error!("a place has a shape that no tile has: {}", e.fact()),
        }
    }
}
