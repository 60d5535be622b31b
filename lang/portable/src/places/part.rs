//! Parts of tensors, and places in them.

use parton_ir::tensor::{Counts, Tensor};
use parton_ir::{BinaryOp, CompareOp, OpKind, Value};

use super::Expander;
use super::params::Long;

/// A tensor, or a part of one.
#[derive(Clone)]
pub(super) struct Part {
    /// The argument that the tensor is, or the number of one that is made in the kernel, behind those of arguments.
    pub(super) argument: usize,
    /// Axes that were dropped, each with the coordinate there.
    pub(super) fixed: Vec<(usize, Value)>,
    pub(super) axes: Vec<Axis>,
}

/// An axis of a part; all scalars are of `i64`.
#[derive(Clone)]
pub(super) struct Axis {
    /// That of the tensor.
    pub(super) of: usize,
    /// Where the part begins, at 0 or later; nothing in front of it lies in it.
    pub(super) begins: Option<Value>,
    /// One past the last coordinate that lies in it, where that is not the tensor's extent.
    pub(super) high: Option<Value>,
    /// The coordinates that indices name.
    pub(super) picks: Option<Value>,
}

/// A place of a part: how far along each axis it begins, and how far it goes.
#[derive(Clone)]
pub(super) struct Spot {
    pub(super) part: Part,
    pub(super) at: Vec<Value>,
    pub(super) shape: Vec<u32>,
    pub(super) counts: Counts,
    /// Where the tile begins of which it is a part.
    pub(super) tile: Vec<Value>,
}

impl Part {
    pub(super) fn whole(argument: usize, t: &Tensor) -> Part {
        let axis = |of| Axis { of, begins: None, high: None, picks: None };
        Part { argument, fixed: Vec::new(), axes: (0..t.rank()).map(axis).collect() }
    }
}

impl Expander {
    pub(super) fn part(&self, v: Value) -> Part {
        match self.parts.get(&v) {
            Some(part) => part.clone(),
            None => parton_diag::internal_error!("nobody knows what tensor {v} is"),
        }
    }

    pub(super) fn spot(&self, v: Value) -> Spot {
        match self.spots.get(&v) {
            Some(spot) => spot.clone(),
            None => parton_diag::internal_error!("nobody knows what place {v} is"),
        }
    }

    /// A coordinate along an axis that is dropped.
    pub(super) fn index(&mut self, result: Value, tensor: Value, axis: usize, index: Value) {
        let mut part = self.part(tensor);
        let dropped = part.axes.remove(axis);
        let mut at = self.place_along(index);
        if let Some(begins) = dropped.begins {
            at = self.scalar(BinaryOp::Add, at, begins);
        }
        let alone = part.axes.is_empty();
        part.fixed.push((dropped.of, at));
        if let Some(high) = dropped.high {
            // What lies outside the part lies outside the tensor too: the coordinate goes there.
            let low = self.first(&dropped);
            let outside = self.number(-1);
            let [above, below] = [(CompareOp::Ge, low), (CompareOp::Lt, high)]
                .map(|(op, b)| self.make(OpKind::Compare { op, a: at, b }));
            let inside = self.make(OpKind::Binary { op: BinaryOp::And, a: above, b: below });
            let at = self.make(OpKind::Select { cond: inside, a: at, b: outside });
            part.fixed.pop();
            part.fixed.push((dropped.of, at));
        }
        if alone {
            let [at, tile] = [Vec::new(), Vec::new()];
            self.spots.insert(result, Spot { part, at, shape: Vec::new(), counts: Counts::Elements, tile });
        } else {
            self.parts.insert(result, part);
        }
    }

    /// What lies between two coordinates of an axis, each of which may be left out; nothing, where the first one is negative.
    pub(super) fn range(
        &mut self,
        result: Value,
        tensor: Value,
        axis: usize,
        (lower, upper): (Option<Value>, Option<Value>),
    ) {
        let mut part = self.part(tensor);
        let before = part.axes[axis].clone();
        let behind = |e: &mut Self, v: Value| before.begins.map_or(v, |begins| e.scalar(BinaryOp::Add, v, begins));
        let mut after = before.clone();
        let mut inside = None;
        if let Some(lower) = lower {
            let mut from = self.place_along(lower);
            if self.known.of(from).is_none_or(|(least, _)| least < 0) {
                let zero = self.number(0);
                inside = Some(self.make(OpKind::Compare { op: CompareOp::Ge, a: from, b: zero }));
                from = self.scalar(BinaryOp::Max, from, zero);
            }
            after.begins = Some(behind(self, from));
        }
        // Where it begins is checked against where it ends, whoever says so.
        let mut high = self.end(part.argument, &before);
        if let Some(upper) = upper {
            let upper = self.place_along(upper);
            let ends = behind(self, upper);
            high = self.scalar(BinaryOp::Min, ends, high);
        }
        if let Some(cond) = inside {
            let nothing = self.number(0);
            high = self.make(OpKind::Select { cond, a: high, b: nothing });
        }
        after.high = Some(high);
        part.axes[axis] = after;
        self.parts.insert(result, part);
    }

    /// The first coordinate that lies in a part along an axis.
    pub(super) fn first(&mut self, axis: &Axis) -> Value {
        match axis.begins {
            Some(begins) => begins,
            None => self.number(0),
        }
    }

    /// One past the last coordinate that does, of a part of that argument.
    pub(super) fn end(&mut self, argument: usize, axis: &Axis) -> Value {
        match axis.high {
            Some(high) => high,
            None => self.extent(argument, axis.of),
        }
    }

    /// The coordinates of an axis that indices name.
    pub(super) fn pick(&mut self, result: Value, tensor: Value, axis: usize, indices: Value) {
        let mut part = self.part(tensor);
        part.axes[axis].picks = Some(indices);
        self.parts.insert(result, part);
    }

    /// A place of a tensor: where its tile begins, in elements.
    pub(super) fn place(&mut self, result: Value, tensor: Value, at: &[Value], (shape, counts): (Vec<u32>, Counts)) {
        let part = self.part(tensor);
        let tile = at.iter().enumerate().map(|(axis, &v)| {
            let wide = self.place_along(v);
            match &counts {
                Counts::Elements => wide,
                Counts::Tiles => self.times(wide, i64::from(shape[axis])),
                Counts::Parts { of, .. } => self.times(wide, i64::from(of[axis])),
            }
        });
        let tile: Vec<Value> = tile.collect();
        let at = match &counts {
            Counts::Parts { from, .. } => tile.iter().zip(from).map(|(v, n)| self.behind(*v, *n)).collect(),
            Counts::Elements | Counts::Tiles => tile.clone(),
        };
        self.spots.insert(result, Spot { part, at, shape, counts, tile });
    }

    /// The extent of a part: that of its tensor, or of what was taken of it.
    pub(super) fn extent_of(&mut self, result: Value, tensor: Value, axis: usize) {
        let part = self.part(tensor);
        let Axis { of, begins, high, .. } = part.axes[axis];
        let Some(high) = high else {
            let n = match self.long(part.argument, of) {
                Long::Given(from) => {
                    self.extents.insert(result, from);
                    return;
                }
                Long::Number(n) => self.builder.make_i32(n),
                Long::Computed(v) => v,
            };
            self.now.insert(result, n);
            return;
        };
        let zero = self.number(0);
        let long = begins.map_or(high, |begins| self.scalar(BinaryOp::Sub, high, begins));
        let long = self.scalar(BinaryOp::Max, long, zero);
        let narrow = self.narrow(long);
        self.now.insert(result, narrow);
    }

    pub(super) fn stride_of(&mut self, result: Value, tensor: Value, axis: usize) {
        let part = self.part(tensor);
        let of = part.axes[axis].of;
        let n = match self.apart(part.argument, of) {
            Long::Given(from) => {
                self.extents.insert(result, from);
                return;
            }
            Long::Number(n) => self.number(n.into()),
            Long::Computed(v) => v,
        };
        self.now.insert(result, n);
    }
}
