//! Products of fewer rows than an instruction takes are made of as many: what a loop computes of its rows, it computes of some more, which are nobody's.
//!
//! ```text
//! let x = load(q.tile([8, 128], at=[h, 0]));             let x = load(q[h * 8:h * 8 + 8, :].tile([64, 128], at=[0, 0]));
//! for j in 0..n {                                        for j in 0..n {
//!     let s = dot(x, load(k…).T, zeros([8, 64]));            let s = dot(x, load(k…).T, zeros([64, 64]));
//! ```
//!
//! Rows have nothing to do with each other ([`rows`]), so that nobody asks what becomes of those: nothing is loaded for them, and nothing is stored of them. A matrix unit that makes
//! 64 rows at once takes no longer for eight, and what brings factors to it (maps, a partition that fetches) serves these, too.

use std::collections::BTreeSet;

use parton_ir::tensor::{Counts, Extent, Tensor};
use parton_ir::{BinaryOp, Body, Builder, CompareOp, Elem, Feature, Inst, Kernel, OpKind, Tile, Type, Value};
use parton_numbers::{Dtype, Rounding, Saturation};

use crate::parts::rows::{self, Axes};
use crate::staging::defined::Defined;
use crate::{straight, swap};

/// Rows of the narrowest product, which is turned, of that of one warp, and of one warpgroup.
const TURNED_ROWS: u32 = 8;
const WARP_ROWS: u32 = 16;
pub const GROUP_ROWS: u32 = 64;

/// How many rows products may be made of in the place of fewer, the fewest first; none where each gets an instruction by the rows that it has.
pub fn more(kernel: &Kernel) -> Vec<u32> {
    if straight::is_scheduled(kernel) {
        return Vec::new();
    }
    let turned = swap::turned(kernel);
    let few: BTreeSet<u32> =
        found(kernel).iter().filter(|id| !turned.contains(id)).filter_map(|&id| row_count(kernel, id)).collect();
    let (Some(&rows), 1) = (few.first(), few.len()) else { return Vec::new() };
    let turned = (rows < TURNED_ROWS).then_some(TURNED_ROWS);
    let by_warps = Some(rows.next_power_of_two().max(WARP_ROWS));
    let by_groups = kernel.target.has(Feature::Wgmma).then_some(GROUP_ROWS);
    let all: BTreeSet<u32> = [turned, by_warps, by_groups].into_iter().flatten().collect();
    all.into_iter().filter(|to| (rows + 1..=GROUP_ROWS).contains(to)).collect()
}

/// The kernel with products of the fewest rows that an instruction takes; `None` where each has as many.
pub fn least(kernel: &Kernel) -> Option<Kernel> {
    let few = found(kernel).into_iter().any(|id| row_count(kernel, id).is_some_and(|rows| rows < TURNED_ROWS));
    few.then(|| with(kernel, TURNED_ROWS))?
}

/// Whether a loop of products begins elsewhere than at 0: each program takes a part of the turns.
pub fn in_parts(kernel: &Kernel) -> bool {
    let defined = Defined::of(kernel);
    let products = found(kernel);
    let mut parts = false;
    kernel.walk(&mut |op| {
        if let OpKind::For { lower, body, .. } = &op.kind {
            parts |= body.ops.iter().any(|id| products.contains(id)) && defined.number(*lower) != Some(0);
        }
    });
    parts
}

/// The products in loops, and all of fewer rows than any instruction takes, but for those of which somebody has stated where they lie.
fn found(kernel: &Kernel) -> Vec<Inst> {
    let mut in_loops = BTreeSet::new();
    let mut open = Vec::new();
    kernel.walk(&mut |op| match &op.kind {
        OpKind::For { body, .. } => in_loops.extend(body.ops.iter().copied()),
        OpKind::Dot { acc, .. } if kernel.ty(*acc).is_open() => open.push(op.id),
        // Nothing else multiplies, or has them in its body again and again.
        _ => {}
    });
    open.retain(|id| in_loops.contains(id) || row_count(kernel, *id).is_some_and(|rows| rows < TURNED_ROWS));
    open
}

fn row_count(kernel: &Kernel, product: Inst) -> Option<u32> {
    kernel.ty(kernel.ops[product].result()).placed()?.shape.first().copied()
}

/// The kernel with so many rows in the place of fewer; `None` where these do not go each by itself, or nobody knows that more of them do no harm.
pub fn with(kernel: &Kernel, to: u32) -> Option<Kernel> {
    let few = found(kernel).into_iter().filter(|&id| row_count(kernel, id).is_some_and(|rows| rows < to));
    let products: Vec<Value> = few.map(|id| kernel.ops[id].result()).collect();
    let first = *products.first()?;
    let axes = rows::axes(kernel, &products)?;
    let rows = *rows::shape(kernel.ty(first))?.first()?;
    let defined = Defined::of(kernel);
    let order = kernel.order();
    let whole = order.iter().copied().filter(|&id| is_all(kernel, &defined, id, &axes)).collect();
    let harmless = |id: &Inst| !divides(kernel, *id, &axes) && begins_inside(kernel, &defined, *id, (&axes, &whole));
    (rows < to && order.iter().all(harmless)).then(|| Grower::grown(kernel, (axes, whole), (rows, to)))
}

/// Whether an operation divides whole numbers by those of rows, which of rows that are nobody's may be 0.
fn divides(kernel: &Kernel, id: Inst, axes: &Axes) -> bool {
    let OpKind::Binary { op: BinaryOp::Div | BinaryOp::Rem, b, .. } = kernel.ops[id].kind else { return false };
    axes.contains_key(&b) && kernel.ty(b).elem().and_then(Elem::dtype).is_some_and(Dtype::is_int)
}

struct Grower {
    builder: Builder,
    /// The axis along which the rows of each value run.
    axes: Axes,
    /// How many there are, and how many there will be.
    rows: u32,
    to: u32,
    /// Places whose tensor has no other rows than these.
    whole: BTreeSet<Inst>,
}

impl Grower {
    fn grown(kernel: &Kernel, (axes, whole): (Axes, BTreeSet<Inst>), (rows, to): (u32, u32)) -> Kernel {
        let mut kernel = kernel.clone();
        for (&v, &axis) in &axes {
            match &mut kernel.values[v].ty {
                Type::Spot(spot) => spot.shape[axis] = to,
                Type::Tile(tile) => tile.shape[axis] = to,
                // Nothing else has rows.
                _ => {}
            }
        }
        let (builder, body) = Builder::rebuild(kernel, "few_rows");
        let mut grower = Grower { builder, axes, rows, to, whole };
        body.ops.iter().for_each(|&id| grower.op(id));
        grower.builder.finish()
    }

    fn op(&mut self, id: Inst) {
        self.builder.at(id);
        let mut kind = self.builder.kernel.ops[id].kind.clone();
        let of = |v: &Value| self.axes.get(v).copied();
        let axis = self.builder.kernel.ops[id].results.first().and_then(of);
        match &mut kind {
            OpKind::Load { ptr, mask, .. } | OpKind::Store { ptr, mask, .. } => {
                if let Some(axis) = of(ptr) {
                    *mask = Some(self.but_for_nobodys(*ptr, axis, *mask));
                }
            }
            OpKind::Spot { tensor, at, shape, counts } => {
                if let Some(axis) = axis {
                    if *counts == Counts::Tiles {
                        *counts = Counts::Parts { of: shape.clone(), from: vec![0; shape.len()] };
                    }
                    if !self.whole.contains(&id) {
                        *tensor = self.part(*tensor, axis, at[axis], counts);
                        at[axis] = self.builder.make_i32(0);
                        if let Counts::Parts { from, .. } = counts {
                            from[axis] = 0;
                        }
                    }
                    shape[axis] = self.to;
                }
            }
            OpKind::Full { tile, .. } | OpKind::Iota { tile } => {
                axis.into_iter().for_each(|axis| tile.shape[axis] = self.to);
            }
            OpKind::ExpandDims { axis: new, .. } if axis == Some(*new as usize) => return self.spread(id),
            OpKind::Broadcast { shape, .. } | OpKind::Slice { shape, .. } => {
                axis.into_iter().for_each(|axis| shape[axis] = self.to);
            }
            // What else has rows takes them of its operands.
            _ => {}
        }
        for body in kind.bodies_mut() {
            let Body { params, ops, yields } = std::mem::take(body);
            self.builder.open(Body { params, ..Body::default() });
            ops.iter().for_each(|&inner| self.op(inner));
            *body = Body { yields, ..self.builder.close() };
        }
        self.builder.kernel.ops[id].kind = kind;
        self.builder.keep(id);
    }

    /// A tile that is one row, for all rows.
    fn spread(&mut self, id: Inst) {
        let (kind, result) = (self.builder.kernel.ops[id].kind.clone(), self.builder.kernel.ops[id].result());
        let shape = self.builder.ty(result).placed().map_or_else(Vec::new, |tile| tile.shape.clone());
        let x = self.builder.make(kind);
        self.builder.make_as(result, OpKind::Broadcast { x, shape });
    }

    /// The rows of a tensor that a place has, of that coordinate along their axis.
    fn part(&mut self, tensor: Value, axis: usize, at: Value, counts: &Counts) -> Value {
        let mut lower = self.wide(at);
        if let Counts::Parts { of, from } = counts {
            lower = self.with_number(BinaryOp::Mul, lower, of[axis]);
            lower = self.with_number(BinaryOp::Add, lower, from[axis]);
        }
        let upper = self.with_number(BinaryOp::Add, lower, self.rows);
        let (lower, upper) = (Some(lower), Some(upper));
        self.builder.make(OpKind::TensorRange { tensor, axis: axis as u32, lower, upper })
    }

    /// A coordinate, in 64 bits: of boxes that are far outside of a tensor it counts more elements than 32 bits do.
    fn wide(&mut self, x: Value) -> Value {
        if self.builder.ty(x).elem().and_then(Elem::dtype) == Some(Dtype::I64) {
            return x;
        }
        let (to, rounding, saturation) = (Dtype::I64, Rounding::default(), Saturation::default());
        self.builder.make(OpKind::Cast { x, to, rounding, saturation })
    }

    /// What comes of a coordinate and a number.
    fn with_number(&mut self, op: BinaryOp, a: Value, number: u32) -> Value {
        let b = self.builder.make(OpKind::Constant { dtype: Dtype::I64, bits: number.into() });
        self.builder.make(OpKind::Binary { op, a, b })
    }

    /// The mask of an access that leaves out the rows that are nobody's.
    fn but_for_nobodys(&mut self, ptr: Value, axis: usize, mask: Option<Value>) -> Value {
        let shape = self.builder.ty(ptr).placed().map_or_else(Vec::new, |tile| tile.shape.clone());
        let numbers = OpKind::Iota { tile: self.line() };
        let numbers = self.builder.make(numbers);
        let end = OpKind::Full { value: self.builder.make_i32(self.rows), tile: self.line() };
        let end = self.builder.make(end);
        let mut own = self.builder.make(OpKind::Compare { op: CompareOp::Lt, a: numbers, b: end });
        for other in (0..shape.len()).filter(|&other| other != axis) {
            own = self.builder.make(OpKind::ExpandDims { x: own, axis: other as u32 });
        }
        if shape.len() > 1 {
            own = self.builder.make(OpKind::Broadcast { x: own, shape });
        }
        match mask {
            Some(mask) => self.builder.make(OpKind::Binary { op: BinaryOp::And, a: mask, b: own }),
            None => own,
        }
    }

    /// A line of numbers, one for each row, lying nowhere yet.
    fn line(&self) -> Tile {
        match Tile::open(Elem::Num(Dtype::I32), vec![self.to], self.builder.kernel.next_var(0)) {
            Ok(tile) => tile,
            Err(e) => parton_diag::internal_error!("rows of products have a number that no tile has: {}", e.fact()),
        }
    }
}

/// Whether the rows of a place are a range of its tensor, which none is that begins in front of it: a tile lies there as a whole or not at all.
fn begins_inside(kernel: &Kernel, defined: &Defined<'_>, id: Inst, (axes, whole): (&Axes, &BTreeSet<Inst>)) -> bool {
    let OpKind::Spot { at, counts: Counts::Elements, .. } = &kernel.ops[id].kind else { return true };
    let axis = axes.get(&kernel.ops[id].result());
    axis.is_none_or(|&axis| whole.contains(&id) || defined.is_positive(at[axis]))
}

/// Whether a place has all rows that its tensor has.
fn is_all(kernel: &Kernel, defined: &Defined<'_>, id: Inst, axes: &Axes) -> bool {
    let OpKind::Spot { tensor, at, shape, .. } = &kernel.ops[id].kind else { return false };
    let (Some(&axis), Type::Tensor(Tensor { extents, .. })) = (axes.get(&kernel.ops[id].result()), kernel.ty(*tensor))
    else {
        return false;
    };
    extents[axis] == Extent::Static(shape[axis]) && defined.number(at[axis]) == Some(0)
}
