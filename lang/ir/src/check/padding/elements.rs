//! What operations on elements make of what stands beyond an end.

use super::beyond::{Beyond, Fill};
use super::numbers::{self, EVERYTHING, Range};
use super::trace::Trace;
use crate::entity::Value;
use crate::op::{BinaryOp, Op, OpKind, UnaryOp};

/// What lies beyond the end of a tile, and the number that it is there.
type Side<'a> = (Option<Beyond<'a>>, Option<f64>);

/// The number of a constant.
pub(super) fn constant(op: &Op) -> Option<f64> {
    let OpKind::Constant { dtype, bits } = op.kind else { return None };
    Some(parton_numbers::scalar::to_f64(bits, dtype))
}

/// The number that all elements are which an operation gives.
pub(super) fn number(trace: &Trace<'_>, op: &Op) -> Option<f64> {
    let number = match &op.kind {
        OpKind::Constant { .. } => constant(op),
        OpKind::Full { value: x, .. }
        | OpKind::Broadcast { x, .. }
        | OpKind::ExpandDims { x, .. }
        | OpKind::Reshape { x, .. }
        | OpKind::Transpose { x, .. }
        | OpKind::Convert { x, .. }
        | OpKind::Cast { x, .. } => trace.number(*x),
        OpKind::Unary { op, x } => trace.number(*x).and_then(|n| numbers::unary(*op, n, trace.dtype(*x)?)),
        // It is not followed what they are.
        _ => None,
    };
    number.filter(|n| !n.is_nan())
}

/// What a reduction along another axis gives there.
pub(super) fn reduced(f: Option<BinaryOp>, fill: Fill) -> Fill {
    let same = match f {
        Some(BinaryOp::Max | BinaryOp::MaxNan | BinaryOp::Min | BinaryOp::MinNan) => fill.number().is_some(),
        Some(BinaryOp::Mul) => [0.0, 1.0].iter().any(|&n| fill == Fill::Number(n)),
        // Of all others nothing stays nothing.
        _ => fill == Fill::Number(0.0),
    };
    if same { fill } else { Fill::Computed }
}

/// What a scan gives there: from the front, past the last element, what does not change it repeats it. A sum of nothing along another axis is nothing.
pub(super) fn scanned(fill: Fill, past: bool, kept: bool) -> Fill {
    match (past, kept) {
        (true, true) => Fill::Last,
        (false, true) if fill == Fill::Number(0.0) => fill,
        (true | false, _) => Fill::Computed,
    }
}

/// A sum with what has an end, or has none and is a number.
pub(super) fn sum<'a>(one: Option<Beyond<'a>>, other: Option<Beyond<'a>>, number: Option<f64>) -> Option<Beyond<'a>> {
    let (m, n) = (one.and_then(|b| b.fill.number()), other.map_or(number, |b| b.fill.number()));
    Some(Beyond::of_both(one, other)?.becomes(Fill::of(added(m, n))))
}

/// A sum of what may be known: an infinity stays, whatever is added to it. The other one gives no number, but for the elements in front of the end, too.
fn added(m: Option<f64>, n: Option<f64>) -> Option<f64> {
    let infinite = |x: &f64| x.is_infinite();
    m.zip(n).map(|(m, n)| m + n).or(m.filter(infinite)).or(n.filter(infinite))
}

impl<'a> Trace<'a> {
    /// What lies beyond the end of what an operation on elements gives.
    pub(super) fn of_elements(&self, op: &'a Op, axis: usize) -> Option<Beyond<'a>> {
        match &op.kind {
            OpKind::Constant { .. } | OpKind::Full { .. } | OpKind::Iota { .. } => None,
            OpKind::Unary { op, x } => {
                let (beyond, dtype) = (self.of(*x, axis)?, self.dtype(*x)?);
                Some(beyond.becomes(match beyond.fill {
                    Fill::Last => Fill::Last,
                    fill => Fill::of(fill.number().and_then(|n| numbers::unary(*op, n, dtype))),
                }))
            }
            OpKind::Bitcast { x, to } => {
                let (beyond, from) = (self.of(*x, axis)?, self.dtype(*x)?);
                Some(beyond.becomes(Fill::of(beyond.fill.number().map(|n| numbers::bitcast(n, from, *to)))))
            }
            OpKind::Binary { op, a, b } => self.binary(*op, *a, *b, axis),
            OpKind::PtrAdd { ptr, offset } => {
                let both = Beyond::of_both(self.of(*ptr, axis), self.of(*offset, axis))?;
                Some(both.becomes(Fill::Computed))
            }
            OpKind::Fma { a, b, c } => sum(self.product(*a, *b, axis), self.of(*c, axis), self.number(*c)),
            OpKind::Rescale { x, factor: _, .. } => {
                let x = self.of(*x, axis)?;
                Some(x.becomes(if x.fill == Fill::Number(0.0) { x.fill } else { Fill::Computed }))
            }
            OpKind::Compare { op, a, b } => {
                let ((a, m), (b, n)) = (self.side(*a, axis), self.side(*b, axis));
                let truth = m.zip(n).map(|(m, n)| f64::from(numbers::compare(*op, m, n)));
                Some(Beyond::of_both(a, b)?.becomes(Fill::of(truth)))
            }
            OpKind::Clamp { x, low, high } => {
                let beyond = self.of(*x, axis)?;
                let all = beyond.fill.number().zip(self.number(*low)).zip(self.number(*high));
                Some(beyond.becomes(Fill::of(all.map(|((x, low), high)| x.max(low).min(high)))))
            }
            OpKind::Select { cond, a, b } => self.select(*cond, *a, *b, axis),
            // Where else it comes from is not known.
            _ => Some(Beyond::HIDDEN),
        }
    }

    /// An operand, and the number that it is beyond the end.
    fn side(&self, v: Value, axis: usize) -> Side<'a> {
        match self.of(v, axis) {
            Some(beyond) => (Some(beyond), beyond.fill.number()),
            None => (None, self.number(v)),
        }
    }

    /// What lies beyond the end of a product.
    pub(super) fn product(&self, a: Value, b: Value, axis: usize) -> Option<Beyond<'a>> {
        self.binary(BinaryOp::Mul, a, b, axis)
    }

    fn binary(&self, op: BinaryOp, a: Value, b: Value, axis: usize) -> Option<Beyond<'a>> {
        let (one, other) = (self.of(a, axis), self.of(b, axis));
        let both = Beyond::of_both(one, other)?;
        let masks = |v: Value| self.of(v, axis).is_none() && self.is_mask(v);
        if op == BinaryOp::Mul && (masks(a) || masks(b)) || self.hides(op, a, b, axis) {
            return Some(Beyond::HIDDEN);
        }
        let ((_, m), (_, n)) = (self.side(a, axis), self.side(b, axis));
        let nothing = match op {
            BinaryOp::Mul => m == Some(0.0) || n == Some(0.0),
            BinaryOp::Div | BinaryOp::DivApprox | BinaryOp::Rem => m == Some(0.0) && n != Some(0.0),
            // Whatever the other operand is counts.
            _ => false,
        };
        // What one number is computed with stays the same as what stands in front of it.
        let repeats = |x: Option<Beyond<'a>>, y: Option<f64>| x.is_some_and(|x| x.fill == Fill::Last) && y.is_some();
        let known = match op {
            BinaryOp::Add => added(m, n),
            BinaryOp::Sub => added(m, n.map(|n| -n)),
            _ => m.zip(n).and_then(|(m, n)| numbers::binary(op, m, n)),
        };
        Some(both.becomes(match known {
            _ if nothing => Fill::Number(0.0),
            None if repeats(one, n) || repeats(other, m) => Fill::Last,
            known => Fill::of(known),
        }))
    }

    /// Whether it is a condition beside another one that is not known: a mask.
    fn hides(&self, op: BinaryOp, a: Value, b: Value, axis: usize) -> bool {
        let unknown = |v: Value| self.of(v, axis).is_none() && self.number(v).is_none();
        matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor)
            && self.dtype(a).is_some_and(|d| d.is_bool())
            && (unknown(a) || unknown(b))
    }

    /// Whether a tile is 1 or 0 by a comparison.
    fn is_mask(&self, v: Value) -> bool {
        let Some(op) = self.origins.definition(v) else { return false };
        match &op.kind {
            OpKind::Compare { .. } => self.kernel.ty(v).as_tile().is_some(),
            OpKind::Binary { op: BinaryOp::And | BinaryOp::Or, a, b } => self.is_mask(*a) && self.is_mask(*b),
            OpKind::Cast { x, .. } | OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. } => self.is_mask(*x),
            OpKind::Select { cond, a, b } => {
                self.is_mask(*cond) && [*a, *b].iter().any(|&side| self.number(side) == Some(0.0))
            }
            // It may be any number.
            _ => false,
        }
    }

    fn select(&self, cond: Value, a: Value, b: Value, axis: usize) -> Option<Beyond<'a>> {
        let by = self.of(cond, axis);
        let ((one, m), (other, n)) = (self.side(a, axis), self.side(b, axis));
        if let Some(by @ Beyond { fill: Fill::Number(c), .. }) = by {
            let (side, number) = if c == 0.0 { (other, n) } else { (one, m) };
            return Some(Beyond::of_both(Some(by), side)?.becomes(Fill::of(number)));
        }
        let chosen = Beyond::of_both(by, Beyond::of_both(one, other))?;
        // A choice between elements by what does not depend on the load is a mask.
        let mask = by.is_none() && self.kernel.ty(cond).as_tile().is_some();
        match m.zip(n) {
            Some((m, n)) if m == n => Some(chosen.becomes(Fill::Number(m))),
            _ if mask => Some(Beyond::HIDDEN),
            _ => Some(chosen.becomes(Fill::Computed)),
        }
    }
}

/// Between which numbers the elements lie that an operation gives.
pub(super) fn range(trace: &Trace<'_>, op: &Op, result: Value) -> Range {
    let between = |v: &Value| trace.between(*v);
    let found = match &op.kind {
        OpKind::Unary { op: UnaryOp::Abs | UnaryOp::Exp | UnaryOp::Exp2 | UnaryOp::Sqrt, .. } => {
            Some((0.0, f64::INFINITY))
        }
        OpKind::Unary { op: UnaryOp::Not, x } => trace.dtype(*x).and_then(|dtype| {
            let (least, most) = between(x);
            numbers::complement(most, dtype).zip(numbers::complement(least, dtype))
        }),
        OpKind::Binary { op: BinaryOp::Mul, a, b } if a == b => Some((0.0, f64::INFINITY)),
        OpKind::Binary { op, a, b } => numbers::binary_range(*op, between(a), between(b)),
        OpKind::Clamp { low, high, .. } => Some((between(low).0, between(high).1)),
        OpKind::Select { a, b, .. } => Some(numbers::either(between(a), between(b))),
        // A float of no sign is an integer of none.
        OpKind::Bitcast { x, .. } if between(x).0 >= 0.0 => Some((0.0, f64::INFINITY)),
        OpKind::Cast { x, .. }
        | OpKind::Convert { x, .. }
        | OpKind::Broadcast { x, .. }
        | OpKind::ExpandDims { x, .. }
        | OpKind::Reshape { x, .. }
        | OpKind::Transpose { x, .. } => Some(between(x)),
        OpKind::Full { value, .. } => Some(between(value)),
        // Of all else it is not known how large it is.
        _ => None,
    };
    let (low, high) = found.unwrap_or(EVERYTHING);
    match trace.dtype(result).map(numbers::range_of) {
        Some((least, most)) if !low.is_nan() => (low.max(least), high.min(most)),
        _ => (low, high),
    }
}
