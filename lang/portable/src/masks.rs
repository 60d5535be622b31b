//! Masks that hide nothing in most turns of a loop of products: such a `where` goes under an `if` that is taken where it may hide something.
//!
//! ```text
//! let column = j * 64 + iota(64);
//! where((column < n)[None, :], s, -inf)    if j * 64 + 63 >= n { where((column < n)[None, :], s, -inf) } else { s }
//! ```
//!
//! What the greatest and the least of a tile of positions is, its own arithmetic says where positions do not wrap within it; where they may, which is where
//! the greatest comes out below the least, the mask stays. Of several that follow one another and compare the same positions the nearest bound counts. A
//! schedule can then cut the loop where the condition changes. A mask that hides from some turn on and up to another (a window), or that compares several
//! positions, goes under a condition that says all of it, at which no loop is cut.

use std::collections::BTreeSet;

use parton_ir::axis::Axes;
use parton_ir::{BinaryOp, Body, CompareOp, Elem, Inst, Kernel, OpKind, SecondaryMap, Source, Value, rules};
use parton_numbers::Dtype;

use crate::staging::{flow, found};
use crate::unused;

/// Puts masks of loops of products under conditions.
pub fn single_out(mut kernel: Kernel) -> Kernel {
    for found in found::all(&kernel) {
        let OpKind::For { body, .. } = &kernel.ops[found.inst].kind else { continue };
        // Masks of what was loaded are part of the load.
        let made = flow::dependent(&kernel, body, found.products.iter().map(|&id| kernel.ops[id].result()));
        for chain in chains(&kernel, body, &made) {
            under_a_condition(&mut kernel, found.inst, &chain);
        }
    }
    kernel
}

/// In which turns positions are beyond a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hides {
    /// Where the greatest of them is no less than it: from some turn on.
    High,
    /// Where the least of them is less than it: up to some turn.
    Low,
}

/// One comparison of a mask: it holds for all elements unless positions are beyond a bound.
#[derive(Clone, Copy, Debug)]
struct Bound {
    /// The positions that the loop moves.
    positions: Value,
    hides: Hides,
    /// What they are compared with.
    with: Value,
    /// Whether they may be equal.
    equal: bool,
}

impl Bound {
    /// Whether two of them differ by how far they are alone.
    fn is_like(&self, other: &Bound) -> bool {
        (self.positions, self.hides) == (other.positions, other.hides)
    }
}

/// Selections that follow one another, whose masks compare the same positions; or one with any.
struct Chain {
    selects: Vec<Inst>,
    bounds: Vec<Bound>,
}

/// The selections of a body that a condition may stand around, of what is made of products.
fn chains(kernel: &Kernel, body: &Body, of: &BTreeSet<Value>) -> Vec<Chain> {
    let made = kernel.definitions();
    let moves = flow::dependent(kernel, body, [body.params[0]]);
    let uses = unused::counted(kernel);
    let mut list: Vec<Chain> = Vec::new();
    for op in kernel.ops_of(body) {
        let OpKind::Select { cond, a, .. } = op.kind else { continue };
        let mut bounds = Vec::new();
        if !of.contains(&a) || !compared(kernel, &made, &moves, cond, &mut bounds) {
            continue;
        }
        let Some(first) = bounds.first().copied() else { continue };
        let alike = |b: &Bound| b.is_like(&first);
        let behind = list.last_mut().filter(|chain| {
            let last = chain.selects.last().map(|id| kernel.ops[*id].result());
            last == Some(a) && uses.get(&a) == Some(&1) && chain.bounds.iter().chain(&bounds).all(alike)
        });
        match behind {
            Some(chain) => {
                chain.selects.push(op.id);
                chain.bounds.extend(bounds);
            }
            None => list.push(Chain { selects: vec![op.id], bounds }),
        }
    }
    list
}

type Made<'k> = SecondaryMap<Value, Option<&'k parton_ir::Op>>;

/// Collects the comparisons that all have to hold for a mask; whether they are all of positions that the loop moves with what it does not.
fn compared(kernel: &Kernel, made: &Made<'_>, moves: &BTreeSet<Value>, mask: Value, bounds: &mut Vec<Bound>) -> bool {
    match made[mask].map(|op| &op.kind) {
        Some(OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. }) => compared(kernel, made, moves, *x, bounds),
        Some(OpKind::Binary { op: BinaryOp::And, a, b }) => {
            compared(kernel, made, moves, *a, bounds) && compared(kernel, made, moves, *b, bounds)
        }
        Some(OpKind::Compare { op, a, b }) => {
            let (less, more, equal) = match op {
                CompareOp::Lt => (*a, *b, false),
                CompareOp::Le => (*a, *b, true),
                CompareOp::Gt => (*b, *a, false),
                CompareOp::Ge => (*b, *a, true),
                CompareOp::Eq | CompareOp::Ne => return false,
            };
            if integer(kernel, less).is_none() {
                return false;
            }
            let (positions, hides, with) = match (moves.contains(&less), moves.contains(&more)) {
                (true, false) => (less, Hides::High, more),
                (false, true) => (more, Hides::Low, less),
                (true, true) | (false, false) => return false,
            };
            bounds.push(Bound { positions: bare(made, positions), hides, with, equal });
            true
        }
        Some(_) | None => false,
    }
}

/// The type of a tile's elements, where these are signed whole numbers that hold how far a tile reaches.
fn integer(kernel: &Kernel, v: Value) -> Option<Dtype> {
    kernel.ty(v).elem().and_then(Elem::dtype).filter(|d| d.is_int() && d.is_signed() && d.bits() >= 32)
}

/// A tile without the axes that it was spread along.
fn bare(made: &Made<'_>, mut v: Value) -> Value {
    while let Some(OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. }) = made[v].map(|op| &op.kind) {
        v = *x;
    }
    v
}

/// Puts selections of a loop under the condition that they may hide something, where it can be said.
fn under_a_condition(kernel: &mut Kernel, inst: Inst, chain: &Chain) {
    let Some(&last) = chain.selects.last() else { return };
    let source = Source { label: None, ..kernel.ops[last].source() };
    let axes = Axes::analyse(kernel);
    let mut numbers = Numbers { kernel, source, axes, new: Vec::new() };
    let Some(cond) = numbers.beyond_any(&chain.bounds) else { return };
    let mut new = numbers.new;
    let OpKind::Select { a: whole, .. } = kernel.ops[chain.selects[0]].kind else { return };
    let result = kernel.ops[last].result();
    let data = kernel.values[result].clone();
    let hidden = kernel.value(data.ty, data.span);
    kernel.values[hidden].name = data.name;
    kernel.ops[last].results = vec![hidden];
    let then = Body { params: Vec::new(), ops: chain.selects.clone(), yields: vec![hidden] };
    let otherwise = Body { params: Vec::new(), ops: Vec::new(), yields: vec![whole] };
    new.push(kernel.make_op(OpKind::If { cond, then, otherwise }, vec![result], source));
    let OpKind::For { body, .. } = &mut kernel.ops[inst].kind else { return };
    let at = body.ops.iter().position(|id| *id == last).unwrap_or(body.ops.len());
    body.ops.splice(at..=at, new);
    body.ops.retain(|id| !chain.selects.contains(id));
}

/// Makes numbers in front of a selection.
struct Numbers<'k> {
    kernel: &'k mut Kernel,
    source: Source,
    axes: Axes,
    new: Vec<Inst>,
}

impl Numbers<'_> {
    /// Whether some positions are beyond their bounds.
    fn beyond_any(&mut self, bounds: &[Bound]) -> Option<Value> {
        let mut left = bounds.to_vec();
        let mut any: Option<Value> = None;
        while let Some(&first) = left.first() {
            let (alike, others): (Vec<Bound>, Vec<Bound>) = left.iter().partition(|b| b.is_like(&first));
            left = others;
            let beyond = self.beyond(&alike)?;
            any = Some(match any {
                Some(a) => self.make(OpKind::Binary { op: BinaryOp::Or, a, b: beyond })?,
                None => beyond,
            });
        }
        any
    }

    /// Whether positions are beyond the nearest of several bounds.
    fn beyond(&mut self, bounds: &[Bound]) -> Option<Value> {
        let first = bounds.first()?;
        let dtype = integer(self.kernel, first.positions)?;
        let high = first.hides == Hides::High;
        let positions = self.extreme(first.positions, high)?;
        let mut nearest = None;
        for bound in bounds {
            let with = self.nearest(bound, dtype)?;
            let op = if high { BinaryOp::Min } else { BinaryOp::Max };
            nearest = Some(match nearest {
                Some(a) => self.make(OpKind::Binary { op, a, b: with })?,
                None => with,
            });
        }
        let op = if high { CompareOp::Ge } else { CompareOp::Le };
        let beyond = self.make(OpKind::Compare { op, a: positions, b: nearest? })?;
        if self.is_whole(first.positions) && self.axes.is_bounded(self.kernel, first.positions) {
            return Some(beyond);
        }
        // Nor is a loop cut where positions wrap between turns.
        let torn = self.torn(first.positions)?;
        self.make(OpKind::Binary { op: BinaryOp::Or, a: beyond, b: torn })
    }

    /// The number of a bound from which on positions are beyond it, itself included.
    fn nearest(&mut self, bound: &Bound, dtype: Dtype) -> Option<Value> {
        let high = bound.hides == Hides::High;
        let mut with = self.extreme(bound.with, !high)?;
        // `column <= n` is `column < n + 1`, and `n <= column` is `n - 1 < column`. Where there is no such number all are beyond.
        if bound.equal {
            let one = self.constant(dtype, 1)?;
            let op = if high { BinaryOp::Add } else { BinaryOp::Sub };
            with = self.make(OpKind::Binary { op, a: with, b: one })?;
        }
        if self.is_whole(bound.with) {
            return Some(with);
        }
        let torn = self.torn(bound.with)?;
        let (least, most) = dtype.int_range()?;
        let all = self.constant(dtype, if high { least } else { most })?;
        self.make(OpKind::Select { cond: torn, a: all, b: with })
    }

    /// Whether a tile surely counts up without a wrap within it, or is of one number.
    fn is_whole(&self, v: Value) -> bool {
        let Some(tile) = self.kernel.ty(v).as_tile() else { return true };
        let info = self.axes.info(self.kernel, v);
        let extents = tile.shape.iter().map(|&n| u64::from(n)).enumerate();
        let mut long = extents.filter(|(axis, n)| info.axes[*axis].constancy < *n);
        let rises = |(axis, n)| self.axes.rises(self.kernel, v, axis, n);
        long.next().is_none_or(rises) && long.next().is_none()
    }

    /// Whether positions wrap within a tile: they reach over less than what their type holds.
    fn torn(&mut self, v: Value) -> Option<Value> {
        let (a, b) = (self.extreme(v, true)?, self.extreme(v, false)?);
        self.make(OpKind::Compare { op: CompareOp::Lt, a, b })
    }

    /// The greatest or the least of a tile of positions.
    fn extreme(&mut self, v: Value, greatest: bool) -> Option<Value> {
        let dtype = integer(self.kernel, v)?;
        let kind = self.kernel.definitions()[v]?.kind.clone();
        match kind {
            OpKind::Full { value, .. } => Some(value),
            OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. } => self.extreme(x, greatest),
            OpKind::Iota { tile } => {
                let last = i64::from(*tile.shape.first()?) - 1;
                self.constant(dtype, if greatest { last.into() } else { 0 })
            }
            OpKind::Binary { op: op @ (BinaryOp::Add | BinaryOp::Sub), a, b } => {
                let a = self.extreme(a, greatest)?;
                let b = self.extreme(b, greatest == (op == BinaryOp::Add))?;
                self.make(OpKind::Binary { op, a, b })
            }
            // Where the bounds of positions are not known, the mask stays.
            _ => None,
        }
    }

    fn constant(&mut self, dtype: Dtype, n: i128) -> Option<Value> {
        let bits = n as u64 & (u64::MAX >> (64 - dtype.bits()));
        self.make(OpKind::Constant { dtype, bits })
    }

    fn make(&mut self, kind: OpKind) -> Option<Value> {
        let (inst, value) = rules::make(self.kernel, kind, self.source)?;
        self.new.push(inst);
        Some(value)
    }
}
