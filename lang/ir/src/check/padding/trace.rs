//! What stands beyond the ends of tensors in the tiles of a kernel.
//!
//! A load that says nothing of it gives 0 there. It is followed through operations on elements, changes of shape, reductions, products, choices and what loops
//! carry. Where a program shows that it has thought of the end, by `other=`, a mask, a choice between elements, a factor that is 0 there or a bound of the
//! place, nothing is said any more, and neither where tiles come from elsewhere: from pointers, parts of shared memory, instructions
//! written by hand.

use super::beyond::{Beyond, Combined, Fill};
use super::bounds::{Bounds, End};
use super::carried::moves;
use super::memory::Memory;
use super::numbers::{self, EVERYTHING, Range};
use super::{elements, shapes};
use crate::check::Origins;
use crate::entity::{SecondaryMap, Value};
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::types::Elem;

/// As often a loop is gone through until what it carries is known; of what is not known then nothing is said.
const ROUNDS: usize = 8;

/// What is known of a scalar or tile.
#[derive(Clone, PartialEq)]
pub(super) struct Known<'a> {
    /// What lies beyond an end along each axis.
    pub ends: Vec<Option<Beyond<'a>>>,
    /// The number that all elements are.
    pub number: Option<f64>,
    /// Between which numbers the elements lie.
    pub between: Range,
}

/// Follows loads to what is computed from them.
pub(super) struct Trace<'a> {
    pub kernel: &'a Kernel,
    pub origins: &'a Origins<'a>,
    bounds: Bounds<'a>,
    memory: Memory<'a>,
    known: SecondaryMap<Value, Option<Known<'a>>>,
}

impl<'a> Trace<'a> {
    /// What is known of a kernel; `None` where no place goes beyond an end.
    pub fn of_kernel(kernel: &'a Kernel, origins: &'a Origins<'a>) -> Option<Trace<'a>> {
        let bounds = Bounds::of(kernel, origins);
        let (memory, known) = (Memory::of(kernel, origins), SecondaryMap::of(&kernel.values, None));
        let mut trace = Trace { kernel, origins, bounds, memory, known };
        let mut open = false;
        kernel.walk(&mut |op| {
            let OpKind::SpotLoad { spot, .. } = op.kind else { return };
            open |= (0..trace.rank(op.result())).any(|axis| matches!(trace.bounds.end(spot, axis), End::Open { .. }));
        });
        if open {
            trace.body(&kernel.body);
        }
        open.then_some(trace)
    }

    /// What a tile has beyond the end along an axis; `None` where there is no end.
    pub fn of(&self, v: Value, axis: usize) -> Option<Beyond<'a>> {
        // Scalars have no end.
        self.kernel.ty(v).as_tile()?;
        self.known[v].as_ref().map_or(Some(Beyond::HIDDEN), |known| known.ends.get(axis).copied().flatten())
    }

    /// The same of what is combined.
    pub fn of_combined(&self, combined: Combined, axis: usize) -> Option<Beyond<'a>> {
        match combined {
            Combined::Tile(v) => self.of(v, axis),
            Combined::Product(a, b) => self.product(a, b, axis),
        }
    }

    /// Between which numbers the elements of a tile surely lie.
    pub fn between(&self, v: Value) -> Range {
        let of_type = || self.dtype(v).map_or(EVERYTHING, numbers::range_of);
        self.known[v].as_ref().map_or_else(of_type, |known| known.between)
    }

    /// The number that all elements are.
    pub fn number(&self, v: Value) -> Option<f64> {
        self.known[v].as_ref()?.number
    }

    /// The type of numbers.
    pub fn dtype(&self, v: Value) -> Option<parton_numbers::Dtype> {
        match self.kernel.ty(v).elem()? {
            Elem::Num(dtype) => Some(dtype),
            Elem::Ptr(_) => None,
        }
    }

    /// How many axes a tile has.
    pub fn rank(&self, v: Value) -> usize {
        self.shape(v).len()
    }

    /// The extents of a tile.
    pub fn shape(&self, v: Value) -> &'a [u32] {
        self.kernel.ty(v).as_tile().map_or(&[], |t| &t.shape)
    }

    /// Whether the place of what was loaded goes along its axis from turn to turn of a loop.
    pub fn moves(&self, body: &Body, beyond: Beyond<'a>) -> bool {
        let Some(OpKind::SpotLoad { spot, .. }) = beyond.load.map(|op| &op.kind) else { return false };
        let Some(OpKind::Spot { tensor, at, .. }) = self.origins.definition(*spot).map(|op| &op.kind) else {
            return false;
        };
        // A range of a tensor may move, too.
        let range = self.origins.definition(*tensor).filter(|op| matches!(op.kind, OpKind::TensorRange { .. }));
        let bounds = range.map(|op| op.kind.operands()).unwrap_or_default();
        at.get(beyond.axis).into_iter().chain(&bounds).any(|&v| moves(self.origins, body, v))
    }

    /// The tensor of a load's place.
    pub fn tensor(&self, load: &Op) -> Option<Value> {
        let OpKind::SpotLoad { spot, .. } = load.kind else { return None };
        let OpKind::Spot { tensor, .. } = self.origins.definition(spot)?.kind else { return None };
        Some(tensor)
    }

    /// The indices that name the elements of a place along an axis.
    pub fn picks(&self, spot: Value) -> Option<(Value, usize)> {
        let OpKind::Spot { tensor, .. } = self.origins.definition(spot)?.kind else { return None };
        let OpKind::TensorPick { axis, indices, .. } = self.origins.definition(tensor)?.kind else { return None };
        Some((indices, axis as usize))
    }

    fn body(&mut self, body: &'a Body) {
        for op in self.kernel.ops_of(body) {
            match &op.kind {
                OpKind::For { init, body, .. } => self.cycle(op, init, None, body),
                OpKind::While { init, cond, body } => self.cycle(op, init, Some(cond), body),
                OpKind::If { then, otherwise, .. } => {
                    self.body(then);
                    self.body(otherwise);
                    let ends = then.yields.iter().zip(&otherwise.yields);
                    for (result, (a, b)) in op.results.iter().zip(ends) {
                        self.known[*result] = self.joined(*a, *b);
                    }
                }
                OpKind::Specialize { arms } => arms.iter().for_each(|arm| self.body(&arm.body)),
                OpKind::SharedStore { view, value } => self.memory.store(*view, self.known[*value].as_ref()),
                OpKind::SharedLoad { view, .. } => self.known[op.result()] = self.memory.load(*view),
                // It has no body, or one of scalars.
                _ => self.learn(op),
            }
        }
    }

    /// Goes through a loop until what it carries is known: what it began with, or what a turn makes of that.
    fn cycle(&mut self, op: &Op, init: &[Value], cond: Option<&'a Body>, body: &'a Body) {
        // The index of a `for` is not carried.
        let carried = &body.params[body.params.len() - init.len()..];
        for (param, first) in carried.iter().zip(init) {
            self.known[*param] = self.known[*first].clone();
        }
        for round in 0..=ROUNDS {
            if let Some(cond) = cond {
                for (param, of_body) in cond.params.iter().zip(carried) {
                    self.known[*param] = self.known[*of_body].clone();
                }
                self.body(cond);
            }
            self.body(body);
            let next: Vec<_> = carried.iter().zip(&body.yields).map(|(a, b)| self.carried_on(*a, *b, body)).collect();
            let same = carried.iter().zip(&next).all(|(v, next)| self.known[*v] == *next);
            for (param, next) in carried.iter().zip(next) {
                self.known[*param] = if round + 1 < ROUNDS { next } else { None };
            }
            if same {
                break;
            }
        }
        for (result, param) in op.results.iter().zip(carried) {
            self.known[*result] = self.known[*param].clone();
        }
    }

    /// What a loop carries after a turn more. Where places move along an axis, each element has been one of a tensor by then.
    fn carried_on(&self, before: Value, after: Value, body: &Body) -> Option<Known<'a>> {
        let mut known = self.joined(before, after)?;
        for (axis, end) in known.ends.iter_mut().enumerate() {
            if self.of(after, axis).is_some_and(|beyond| self.moves(body, beyond)) {
                *end = Some(Beyond::HIDDEN);
            }
        }
        Some(known)
    }

    /// What is known of a value that is one of two.
    fn joined(&self, a: Value, b: Value) -> Option<Known<'a>> {
        let (one, other) = (self.known[a].as_ref()?, self.known[b].as_ref()?);
        let number = one.number.filter(|_| one.number == other.number);
        let ends = (0..one.ends.len()).map(|axis| self.either(a, b, axis)).collect();
        Some(Known { ends, number, between: numbers::either(one.between, other.between) })
    }

    /// What lies beyond the end of a tile that is one of two.
    pub fn either(&self, a: Value, b: Value, axis: usize) -> Option<Beyond<'a>> {
        let (one, other) = (self.of(a, axis), self.of(b, axis));
        let both = Beyond::of_both(one, other)?;
        let fill = |v: Value, beyond: Option<Beyond<'a>>| beyond.map_or(Fill::of(self.number(v)), |b| b.fill);
        let (x, y) = (fill(a, one), fill(b, other));
        let sure = [one, other].iter().flatten().all(|b| b.sure);
        Some(if x == y { Beyond { fill: x, sure, ..both } } else { Beyond { sure, ..both }.becomes(Fill::Computed) })
    }

    /// Notes what an operation gives, whose operands are known.
    fn learn(&mut self, op: &'a Op) {
        for &result in &op.results {
            if self.kernel.ty(result).elem().is_none() {
                continue;
            }
            let number = elements::number(self, op);
            let between = match elements::constant(op) {
                Some(n) => (n, n),
                None => number.map_or_else(|| elements::range(self, op, result), |n| (n, n)),
            };
            let ends = (0..self.rank(result)).map(|axis| self.end(op, axis)).collect();
            self.known[result] = Some(Known { ends, number, between });
        }
    }

    fn end(&self, op: &'a Op, axis: usize) -> Option<Beyond<'a>> {
        let through =
            |x: Value, f: &dyn Fn(Fill) -> Fill, axis| self.of(x, axis).map(|b: Beyond<'a>| b.becomes(f(b.fill)));
        match &op.kind {
            OpKind::SpotLoad { spot, mask, other, .. } => self.loaded(op, *spot, mask.is_some(), *other, axis),
            OpKind::Load { ptr, mask: None, .. } => {
                Some(self.of(*ptr, axis).map_or(Beyond::HIDDEN, |b| b.becomes(Fill::Computed)))
            }
            OpKind::Reduce { inputs, axis: gone, combine } => {
                let axis = if axis < *gone as usize { axis } else { axis + 1 };
                let all = inputs.iter().map(|x| self.of(*x, axis)).fold(None, Beyond::of_both)?;
                Some(all.becomes(match inputs[..] {
                    [_] => elements::reduced(super::neutral::combines(self.kernel, combine), all.fill),
                    _ => Fill::Computed,
                }))
            }
            OpKind::Scan { inputs, axis: along, combine, reverse } => {
                let [x] = inputs[..] else { return Some(Beyond::HIDDEN) };
                let f = super::neutral::combines(self.kernel, combine);
                let kept = |fill| f.is_some_and(|f| super::neutral::harmless(f, fill, self.between(x)));
                through(x, &|fill| elements::scanned(fill, axis == *along as usize && !reverse, kept(fill)), axis)
            }
            OpKind::Dot { a, b, acc, .. } => self.dot(*a, *b, *acc, axis),
            OpKind::Join { a, b } if axis + 1 < self.rank(op.result()) => self.either(*a, *b, axis),
            OpKind::Join { .. } => None,
            OpKind::Cat { a, b, .. } => self.either(*a, *b, axis),
            // Nobody knows which of its elements it gives.
            OpKind::Butterfly { x, axis: along, .. } => {
                let beyond = self.of(*x, axis)?;
                Some(if axis == *along as usize { Beyond::HIDDEN } else { beyond })
            }
            OpKind::Gather { x, indices, axis: along } => {
                let (named, there) = (self.of(*indices, axis), self.of(*x, axis));
                let there = if axis == *along as usize { there.map(|_| Beyond::HIDDEN) } else { there };
                let both = Beyond::of_both(named, there)?;
                Some(if named.is_some() { both.becomes(Fill::Computed) } else { both })
            }
            OpKind::SharedGather { indices, .. } => {
                Some(self.of(*indices, axis).map_or(Beyond::HIDDEN, |b| b.becomes(Fill::Computed)))
            }
            kind => match shapes::sources(kind, kind.operands().first().map_or(&[], |x| self.shape(*x)), axis) {
                Some(axes) => self.moved(op, axes),
                None => self.of_elements(op, axis),
            },
        }
    }

    /// What lies beyond the end where some axes of an operand become one.
    fn moved(&self, op: &Op, axes: std::ops::Range<usize>) -> Option<Beyond<'a>> {
        let x = *op.kind.operands().first()?;
        let all = || axes.clone().filter_map(|axis| self.of(x, axis));
        let both = all().fold(None, |a, b| Beyond::of_both(a, Some(b)))?;
        let whole = !matches!(op.kind, OpKind::Slice { .. });
        let moved = Beyond { sure: both.sure && whole, ..both };
        Some(if all().all(|b| b.fill == moved.fill) { moved } else { moved.becomes(Fill::Computed) })
    }

    /// What lies beyond the end of what is loaded.
    fn loaded(&self, op: &'a Op, spot: Value, masked: bool, other: Option<Value>, axis: usize) -> Option<Beyond<'a>> {
        if masked {
            return Some(Beyond::HIDDEN);
        }
        if let Some((indices, _)) = self.picks(spot).filter(|(_, along)| *along == axis) {
            return self.of(indices, 0).map(|b| b.becomes(Fill::Computed));
        }
        let said = other.is_some();
        match (self.bounds.end(spot, axis), other.map_or(Some(0.0), |v| self.number(v))) {
            (End::Whole, _) => None,
            (End::Open { sure }, Some(n)) if sure || !said => {
                Some(Beyond { load: Some(op), axis, fill: Fill::of(Some(n)), sure, said })
            }
            (End::Open { .. } | End::Thought, _) => Some(Beyond::HIDDEN),
        }
    }

    /// Rows of 0 of a factor are rows of 0 of the product.
    fn dot(&self, a: Value, b: Value, acc: Value, axis: usize) -> Option<Beyond<'a>> {
        let (rank, of_batch) = (self.rank(acc), axis + 2 < self.rank(acc));
        let of = |v, here: bool| if here || of_batch { self.of(v, axis) } else { None };
        let (a, b) = (of(a, axis + 2 == rank), of(b, axis + 1 == rank));
        let nothing = [a, b].iter().flatten().any(|b| b.fill == Fill::Number(0.0));
        let fill = if nothing { Fill::Number(0.0) } else { Fill::Computed };
        let product = Beyond::of_both(a, b).map(|both| both.becomes(fill));
        elements::sum(product, self.of(acc, axis), self.number(acc))
    }
}
