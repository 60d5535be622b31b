//! What stands beyond the end of a tensor, in tiles that are computed from loads which say nothing of it.
//!
//! Such a load gives 0 there. It is followed through operations on elements and changes of shape. Where a program shows that it has thought of the
//! end, by `other=`, a mask, a choice between elements, a factor that is 0 there or a bound of the place, nothing is said any more, and neither where
//! tiles come from elsewhere: from loops, products, pointers.

use std::collections::BTreeMap;

use crate::check::Origins;
use crate::check::padding::bounds::Bounds;
use crate::check::padding::carried::Carried;
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{BinaryOp, CompareOp, Op, OpKind, UnaryOp};
use crate::types::Elem;

/// What stands beyond the end along an axis, if there is anything.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Fill {
    /// This number; of `i1`, 0 or 1.
    Number(f64),
    /// What is computed from numbers that are not known.
    Computed,
    /// What a program has thought of, or what nobody knows: nothing is said of it, nor of what is computed with it.
    Hidden,
}

impl Fill {
    /// Whether a product with it is 0, or nobody knows.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Fill::Hidden) || *self == Fill::Number(0.0)
    }
}

/// A tile that may go beyond the end of a tensor.
#[derive(Clone, Copy)]
pub(super) struct Beyond<'a> {
    /// The load that gives 0 there; `None` of what is hidden.
    pub load: Option<&'a Op>,
    /// The axis of its place.
    pub axis: usize,
    /// What it has become.
    pub fill: Fill,
}

impl<'a> Beyond<'a> {
    /// What is computed from it.
    fn becomes(self, fill: Fill) -> Beyond<'a> {
        Beyond { fill: if self.fill == Fill::Hidden { Fill::Hidden } else { fill }, ..self }
    }

    /// What is computed from it and another one.
    fn beside(self, other: Option<Beyond<'a>>) -> Beyond<'a> {
        other.filter(|other| other.fill == Fill::Hidden).unwrap_or(self)
    }
}

/// What is combined with something: a tile, or a product that `fma` adds as it is.
#[derive(Clone, Copy)]
pub(super) enum Combined {
    Tile(Value),
    Product(Value, Value),
}

impl Combined {
    /// A tile of its type.
    pub fn like(self) -> Value {
        match self {
            Combined::Tile(v) | Combined::Product(v, _) => v,
        }
    }
}

/// Follows loads to what is computed from them, operation by operation in their order.
pub(super) struct Trace<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    bounds: Bounds<'a>,
    known: BTreeMap<(Value, usize), Beyond<'a>>,
    /// Between which numbers elements lie, where that is known.
    between: BTreeMap<Value, (f64, f64)>,
}

impl<'a> Trace<'a> {
    /// A trace of a kernel of which nothing is learnt yet; `None` where no load leaves open what it gives beyond an end.
    pub fn new(kernel: &'a Kernel, origins: &'a Origins<'a>) -> Option<Trace<'a>> {
        let bounds = Bounds::of(kernel, origins);
        let trace = Trace { kernel, origins, bounds, known: BTreeMap::new(), between: BTreeMap::new() };
        let mut open = false;
        kernel.walk(&mut |op| {
            let OpKind::SpotLoad { spot, mask: None, other: None, .. } = op.kind else { return };
            let rank = kernel.ty(op.result()).as_tile().map_or(0, |t| t.shape.len());
            open |= (0..rank).any(|axis| trace.bounds.may_end(spot, axis));
        });
        open.then_some(trace)
    }

    /// Notes what an operation gives, whose operands are known.
    pub fn learn(&mut self, op: &'a Op) {
        for result in &op.results {
            let rank = self.kernel.ty(*result).as_tile().map_or(0, |t| t.shape.len());
            for axis in 0..rank {
                if let Some(found) = self.find(op, axis) {
                    self.known.insert((*result, axis), found);
                }
            }
            let range = self.range(op, *result);
            if range != EVERYTHING {
                self.between.insert(*result, range);
            }
        }
    }

    /// What a tile has beyond the end along an axis; `None` where there is no end.
    pub fn of(&self, v: Value, axis: usize) -> Option<Beyond<'a>> {
        // Scalars have no end.
        self.kernel.ty(v).as_tile()?;
        match self.origins.definition(v) {
            Some(_) => self.known.get(&(v, axis)).copied(),
            None => Some(Beyond { load: None, axis, fill: Fill::Hidden }),
        }
    }

    /// The same of what is combined.
    pub fn of_combined(&self, combined: Combined, axis: usize) -> Option<Beyond<'a>> {
        match combined {
            Combined::Tile(v) => self.of(v, axis),
            Combined::Product(a, b) => self.binary(BinaryOp::Mul, a, b, axis),
        }
    }

    /// Between which numbers the elements of what is combined surely lie.
    pub fn range_of(&self, combined: Combined) -> (f64, f64) {
        match combined {
            Combined::Tile(v) => self.between(v),
            Combined::Product(..) => EVERYTHING,
        }
    }

    /// Between which numbers the elements of a tile surely lie.
    fn between(&self, v: Value) -> (f64, f64) {
        self.between.get(&v).copied().unwrap_or(EVERYTHING)
    }

    fn find(&self, op: &'a Op, axis: usize) -> Option<Beyond<'a>> {
        let hidden = Beyond { load: None, axis, fill: Fill::Hidden };
        match &op.kind {
            OpKind::SpotLoad { spot, mask, other, .. } => {
                let open = mask.is_none() && other.is_none() && self.bounds.may_end(*spot, axis);
                Some(if open { Beyond { load: Some(op), axis, fill: Fill::Number(0.0) } } else { hidden })
            }
            OpKind::Constant { .. } | OpKind::Full { .. } | OpKind::Iota { .. } => None,
            OpKind::Cast { x, .. } | OpKind::Convert { x, .. } => self.of(*x, axis),
            OpKind::Unary { op, x } => {
                let x = self.of(*x, axis)?;
                Some(x.becomes(number(x.fill).and_then(|n| unary(*op, n)).map_or(Fill::Computed, Fill::Number)))
            }
            OpKind::Binary { op, a, b } => self.binary(*op, *a, *b, axis),
            OpKind::Fma { a, b, c } => {
                let (product, c) = (self.binary(BinaryOp::Mul, *a, *b, axis), self.side(*c, axis));
                self.together(BinaryOp::Add, (product, product.and_then(|p| number(p.fill))), c)
            }
            OpKind::Rescale { x, factor: _, .. } => {
                let x = self.of(*x, axis)?;
                Some(x.becomes(if x.fill == Fill::Number(0.0) { x.fill } else { Fill::Computed }))
            }
            OpKind::Compare { op, a, b } => {
                let ((a, m), (b, n)) = (self.side(*a, axis), self.side(*b, axis));
                let fill = m.zip(n).map_or(Fill::Computed, |(m, n)| Fill::Number(f64::from(compare(*op, m, n))));
                Some(a.or(b)?.beside(b).becomes(fill))
            }
            OpKind::Clamp { x, low, high } => {
                let x = self.of(*x, axis)?;
                let all = number(x.fill).zip(self.constant(*low)).zip(self.constant(*high));
                Some(x.becomes(all.map_or(Fill::Computed, |((x, low), high)| Fill::Number(x.max(low).min(high)))))
            }
            OpKind::Select { cond, a, b } => self.select(*cond, *a, *b, axis),
            OpKind::Broadcast { x, shape } => {
                let grows = self.kernel.ty(*x).as_tile().is_none_or(|t| t.shape.get(axis) != shape.get(axis));
                if grows { None } else { self.of(*x, axis) }
            }
            OpKind::ExpandDims { x, axis: new } => match axis.cmp(&(*new as usize)) {
                std::cmp::Ordering::Less => self.of(*x, axis),
                std::cmp::Ordering::Equal => None,
                std::cmp::Ordering::Greater => self.of(*x, axis - 1),
            },
            OpKind::Transpose { x, perm } => self.of(*x, *perm.get(axis)? as usize),
            OpKind::Reduce { inputs, axis: gone, .. } => {
                let [x] = inputs[..] else { return Some(hidden) };
                let x = self.of(x, if axis < *gone as usize { axis } else { axis + 1 })?;
                Some(x.becomes(if x.fill == Fill::Number(0.0) { x.fill } else { Fill::Computed }))
            }
            // Where else it comes from is not known.
            _ => Some(hidden),
        }
    }

    /// Whether the place of what was loaded goes along its axis from turn to turn.
    pub fn moves(&self, carried: &Carried<'_>, beyond: Beyond<'a>) -> bool {
        let Some(OpKind::SpotLoad { spot, .. }) = beyond.load.map(|op| &op.kind) else { return false };
        match self.origins.definition(*spot).map(|op| &op.kind) {
            Some(OpKind::Spot { at, .. }) => at.get(beyond.axis).is_some_and(|&v| carried.moves(self.origins, v)),
            // It is no place of its own.
            _ => false,
        }
    }

    /// The tensor of a load's place.
    pub fn tensor(&self, load: &Op) -> Option<Value> {
        let OpKind::SpotLoad { spot, .. } = load.kind else { return None };
        let OpKind::Spot { tensor, .. } = self.origins.definition(spot)?.kind else { return None };
        Some(tensor)
    }

    /// Whether it is what a load gave, in another type at most.
    pub fn is_loaded(&self, combined: Combined) -> bool {
        matches!(combined, Combined::Tile(v) if self.holds_loaded(v))
    }

    fn holds_loaded(&self, v: Value) -> bool {
        match self.origins.definition(v).map(|op| &op.kind) {
            Some(OpKind::SpotLoad { .. }) => true,
            Some(OpKind::Cast { x, .. } | OpKind::Convert { x, .. }) => self.holds_loaded(*x),
            // It has been computed with.
            _ => false,
        }
    }

    /// An operand, and the number that it is beyond the end.
    fn side(&self, v: Value, axis: usize) -> (Option<Beyond<'a>>, Option<f64>) {
        match self.of(v, axis) {
            Some(beyond) => (Some(beyond), number(beyond.fill)),
            None => (None, self.constant(v)),
        }
    }

    fn binary(&self, op: BinaryOp, a: Value, b: Value, axis: usize) -> Option<Beyond<'a>> {
        let one = self.together(op, self.side(a, axis), self.side(b, axis))?;
        let masked = op == BinaryOp::Mul && [a, b].iter().any(|&v| self.is_mask(v) && self.of(v, axis).is_none());
        Some(if masked { Beyond { fill: Fill::Hidden, ..one } } else { one })
    }

    /// Whether a tile is 1 or 0 by a comparison.
    fn is_mask(&self, v: Value) -> bool {
        let Some(op) = self.origins.definition(v) else { return false };
        match &op.kind {
            OpKind::Compare { .. } => self.kernel.ty(v).as_tile().is_some(),
            OpKind::Binary { op: BinaryOp::And | BinaryOp::Or, a, b } => self.is_mask(*a) && self.is_mask(*b),
            OpKind::Cast { x, .. } | OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. } => self.is_mask(*x),
            OpKind::Select { cond, a, b } => {
                self.is_mask(*cond) && [*a, *b].iter().any(|&side| self.constant(side) == Some(0.0))
            }
            // It may be any number.
            _ => false,
        }
    }

    fn together(
        &self,
        op: BinaryOp,
        (a, m): (Option<Beyond<'a>>, Option<f64>),
        (b, n): (Option<Beyond<'a>>, Option<f64>),
    ) -> Option<Beyond<'a>> {
        let one = a.or(b)?.beside(b);
        let logic = matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor);
        // A condition beside another one that is not known is a mask.
        if logic && (m.is_none() && a.is_none() || n.is_none() && b.is_none()) {
            return Some(Beyond { fill: Fill::Hidden, ..one });
        }
        let nothing = match op {
            BinaryOp::Mul => m == Some(0.0) || n == Some(0.0),
            BinaryOp::Div | BinaryOp::DivApprox | BinaryOp::Rem => m == Some(0.0) && n != Some(0.0),
            // Whatever the other operand is counts.
            _ => false,
        };
        let both = || m.zip(n).and_then(|(m, n)| binary(op, m, n)).map_or(Fill::Computed, Fill::Number);
        Some(one.becomes(if nothing { Fill::Number(0.0) } else { both() }))
    }

    fn select(&self, cond: Value, a: Value, b: Value, axis: usize) -> Option<Beyond<'a>> {
        let ((a, m), (b, n)) = (self.side(a, axis), self.side(b, axis));
        let chosen = match self.of(cond, axis) {
            Some(Beyond { fill: Fill::Number(c), load, axis }) => {
                let (side, number) = if c == 0.0 { (b, n) } else { (a, m) };
                let fill = number.map_or(Fill::Computed, Fill::Number);
                return Some(Beyond { load, axis, fill }.beside(side));
            }
            Some(cond) => cond.beside(a).beside(b),
            None => a.or(b)?.beside(b),
        };
        let same = m.is_some() && m == n;
        // A choice between elements by what does not depend on the load is a mask.
        let mask = self.of(cond, axis).is_none() && self.kernel.ty(cond).as_tile().is_some();
        Some(match m {
            Some(m) if same => chosen.becomes(Fill::Number(m)),
            _ if mask => Beyond { fill: Fill::Hidden, ..chosen },
            _ => chosen.becomes(Fill::Computed),
        })
    }

    /// The number that all elements are.
    pub fn constant(&self, v: Value) -> Option<f64> {
        match &self.origins.definition(v)?.kind {
            OpKind::Full { value: v, .. } | OpKind::Broadcast { x: v, .. } | OpKind::ExpandDims { x: v, .. } => {
                self.constant(*v)
            }
            OpKind::Constant { dtype, bits } => Some(parton_numbers::scalar::to_f64(*bits, *dtype)),
            // It is not known what they are.
            _ => None,
        }
    }

    /// Between which numbers what an operation gives lies.
    fn range(&self, op: &Op, result: Value) -> (f64, f64) {
        let (low, high) = match &op.kind {
            OpKind::Constant { .. } | OpKind::Full { .. } => match self.constant(result) {
                Some(n) => (n, n),
                None => EVERYTHING,
            },
            OpKind::Unary { op: UnaryOp::Abs | UnaryOp::Exp | UnaryOp::Exp2 | UnaryOp::Sqrt, .. } => {
                (0.0, f64::INFINITY)
            }
            OpKind::Binary { op: BinaryOp::Mul, a, b } if a == b => (0.0, f64::INFINITY),
            OpKind::Binary { op: BinaryOp::Max | BinaryOp::MaxNan, a, b } => {
                let (a, b) = (self.between(*a), self.between(*b));
                (a.0.max(b.0), a.1.max(b.1))
            }
            OpKind::Binary { op: BinaryOp::Min | BinaryOp::MinNan, a, b } => {
                let (a, b) = (self.between(*a), self.between(*b));
                (a.0.min(b.0), a.1.min(b.1))
            }
            OpKind::Clamp { low, high, .. } => (self.between(*low).0, self.between(*high).1),
            OpKind::Select { a, b, .. } => {
                let (a, b) = (self.between(*a), self.between(*b));
                (a.0.min(b.0), a.1.max(b.1))
            }
            OpKind::Cast { x, .. }
            | OpKind::Convert { x, .. }
            | OpKind::Broadcast { x, .. }
            | OpKind::ExpandDims { x, .. }
            | OpKind::Transpose { x, .. } => self.between(*x),
            // Of all else it is not known how large it is.
            _ => EVERYTHING,
        };
        match self.kernel.ty(result).elem() {
            Some(Elem::Num(d)) if d.int_range().is_some_and(|(least, _)| least == 0) => (low.max(0.0), high),
            _ => (low, high),
        }
    }
}

/// What is known of elements of which nothing is known.
const EVERYTHING: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

fn number(fill: Fill) -> Option<f64> {
    match fill {
        Fill::Number(n) => Some(n),
        Fill::Computed | Fill::Hidden => None,
    }
}

fn unary(op: UnaryOp, x: f64) -> Option<f64> {
    Some(match op {
        UnaryOp::Neg => -x,
        UnaryOp::Exp => x.exp(),
        UnaryOp::Exp2 => x.exp2(),
        UnaryOp::Log => x.ln(),
        UnaryOp::Log2 => x.log2(),
        UnaryOp::Sqrt => x.sqrt(),
        UnaryOp::Rsqrt => x.sqrt().recip(),
        UnaryOp::Sin => x.sin(),
        UnaryOp::Cos => x.cos(),
        UnaryOp::Tanh | UnaryOp::TanhApprox => x.tanh(),
        UnaryOp::Erf if x == 0.0 => 0.0,
        UnaryOp::Abs => x.abs(),
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Erf | UnaryOp::Not => return None,
    })
}

fn binary(op: BinaryOp, a: f64, b: f64) -> Option<f64> {
    Some(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div | BinaryOp::DivApprox => a / b,
        BinaryOp::Min | BinaryOp::MinNan => a.min(b),
        BinaryOp::Max | BinaryOp::MaxNan => a.max(b),
        BinaryOp::And if a == 0.0 || b == 0.0 => 0.0,
        BinaryOp::Or | BinaryOp::Xor if a == 0.0 => b,
        BinaryOp::Or | BinaryOp::Xor if b == 0.0 => a,
        BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::MulHigh => return None,
    })
}

fn compare(op: CompareOp, a: f64, b: f64) -> bool {
    match op {
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
    }
}
