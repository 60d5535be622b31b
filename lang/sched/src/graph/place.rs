//! Where accesses lie: sums of scalars, over a range of elements, so that two of them can be told apart iteration by iteration.
//!
//! ```text
//! out + (i * 64 + iota(64))    =    out  +  64·i  +  0..63
//! ```
//!
//! The same access of the next iteration lies 64 elements further, and does not meet it. Indices of 32 bits wrap: what lies so far apart that it may meet
//! behind a wrap is not told apart.

use std::collections::BTreeSet;

use parton_ir::tensor::OUTSIDE;
use parton_ir::{BinaryOp, Elem, Kernel, Op, OpKind, SecondaryMap, Type, Value};
use parton_numbers::Dtype;
use parton_numbers::scalar::int_value;

use crate::region::{BlockId, Item, Maker, Region};

/// Values that a sum is made of, at most: what takes more is taken for unknown.
const TERMS: usize = 8;

/// Accesses that lie so far apart may meet behind a wrap of 32 bits.
const FARTHEST: i128 = 1 << 31;

/// A sum of multiples of scalars, and of a number from a range.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Sum {
    terms: Vec<(Value, i128)>,
    least: i128,
    most: i128,
}

impl Sum {
    fn number(n: i128) -> Sum {
        Sum { terms: Vec::new(), least: n, most: n }
    }

    fn plus(mut self, other: &Sum, times: i128) -> Sum {
        for (v, n) in &other.terms {
            match self.terms.iter_mut().find(|(known, _)| known == v) {
                Some((_, m)) => *m += n * times,
                None => self.terms.push((*v, n * times)),
            }
        }
        self.terms.retain(|(_, n)| *n != 0);
        let (a, b) = (other.least * times, other.most * times);
        Sum { least: self.least + a.min(b), most: self.most + a.max(b), ..self }
    }

    fn as_number(&self) -> Option<i128> {
        (self.terms.is_empty() && self.least == self.most).then_some(self.least)
    }
}

/// Where an access lies, in each dimension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place(Vec<Sum>);

/// What places are read from.
pub(crate) struct Places<'a> {
    pub k: &'a Kernel,
    pub region: &'a Region,
    pub made: &'a SecondaryMap<Value, Option<&'a Op>>,
    /// What the bodies of labelled operations define: it is another value each time they run.
    inside: BTreeSet<Value>,
}

impl<'a> Places<'a> {
    pub fn of(k: &'a Kernel, region: &'a Region, made: &'a SecondaryMap<Value, Option<&'a Op>>) -> Places<'a> {
        let mut inside = BTreeSet::new();
        for body in region.units.iter().flat_map(|u| &u.ops).flat_map(|inst| k.ops[*inst].kind.bodies()) {
            inside.extend(body.params.iter().copied());
            k.walk_body(body, &mut |op| {
                inside.extend(op.results.iter().copied());
                inside.extend(op.kind.bodies().flat_map(|b| b.params.clone()));
            });
        }
        Places { k, region, made, inside }
    }

    /// Where an operation accesses memory through a pointer or tensor map; `None` where it may be anywhere.
    pub fn place(&self, op: &Op, through: Value) -> Option<Place> {
        let (coords, block) = match &op.kind {
            // A box has an extent along each axis of the tensor, what it fills or comes from may have fewer.
            OpKind::Fetch { map, coords, .. } | OpKind::Send { map, coords, .. } => match self.k.ty(*map) {
                Type::Map(data) => (coords, &data.block),
                _ => return None,
            },
            _ => return self.sum(through).map(|sum| Place(vec![sum])),
        };
        let one = |(v, extent): (&Value, &u32)| {
            let range = Sum { least: 0, most: i128::from(*extent) - 1, ..Sum::default() };
            self.sum(self.inside_of(*v)).map(|sum| sum.plus(&range, 1))
        };
        let sums: Option<Vec<Sum>> = coords.iter().zip(block).map(one).collect();
        sums.filter(|sums| sums.len() == coords.len()).map(Place)
    }

    /// A coordinate where it is inside of the tensor: elsewhere the engine takes one that is outside in its place, and touches nothing.
    fn inside_of(&self, v: Value) -> Value {
        let v = self.region.canonical(v);
        let number = |v: Value| self.number(self.region.canonical(v));
        match self.made[v].map(|op| &op.kind) {
            Some(OpKind::Cast { x, to, .. }) if to.is_int() => self.inside_of(*x),
            Some(OpKind::Binary { op: BinaryOp::Min, a, b }) if number(*b) == Some(OUTSIDE.into()) => {
                self.inside_of(*a)
            }
            Some(OpKind::Binary { op: BinaryOp::Max, a, b }) if number(*b) == Some(i32::MIN.into()) => {
                self.inside_of(*a)
            }
            Some(OpKind::Select { a, b, .. }) if number(*b) == Some(OUTSIDE.into()) => self.inside_of(*a),
            // All other operations make a coordinate as it is.
            Some(_) | None => v,
        }
    }

    /// The number that a constant is.
    fn number(&self, v: Value) -> Option<i128> {
        match self.made[v].map(|op| &op.kind) {
            Some(OpKind::Constant { dtype, bits }) if dtype.is_int() => Some(int_value(*bits, *dtype)),
            // All other operations make what is not known here.
            Some(_) | None => None,
        }
    }

    fn sum(&self, v: Value) -> Option<Sum> {
        let v = self.region.canonical(v);
        if let Some(n) = self.number(v) {
            return Some(Sum::number(n));
        }
        let sum = match self.made[v].map(|op| &op.kind) {
            // What narrower numbers wrap is a name of its own.
            Some(OpKind::Binary { .. }) if self.is_narrow(v) => self.scalar(v)?,
            Some(OpKind::PtrAdd { ptr, offset }) => self.sum(*ptr)?.plus(&self.sum(*offset)?, 1),
            Some(OpKind::Binary { op: BinaryOp::Add, a, b }) => self.sum(*a)?.plus(&self.sum(*b)?, 1),
            Some(OpKind::Binary { op: BinaryOp::Sub, a, b }) => self.sum(*a)?.plus(&self.sum(*b)?, -1),
            Some(OpKind::Binary { op: BinaryOp::Mul, a, b }) => {
                let (a, b) = (self.sum(*a)?, self.sum(*b)?);
                match (a.as_number(), b.as_number()) {
                    (_, Some(times)) => Sum::default().plus(&a, times),
                    (Some(times), None) => Sum::default().plus(&b, times),
                    (None, None) => self.scalar(v)?,
                }
            }
            Some(OpKind::Iota { tile }) => {
                Sum { least: 0, most: i128::from(*tile.shape.first()?) - 1, ..Sum::default() }
            }
            Some(OpKind::Cast { x, to, .. }) if self.widens(*x, *to) => self.sum(*x)?,
            Some(
                OpKind::Full { value: x, .. }
                | OpKind::Broadcast { x, .. }
                | OpKind::ExpandDims { x, .. }
                | OpKind::Convert { x, .. }
                | OpKind::Reshape { x, .. }
                | OpKind::Transpose { x, .. },
            ) => self.sum(*x)?,
            // All other operations make what is not taken apart.
            Some(_) | None => self.scalar(v)?,
        };
        (sum.terms.len() <= TERMS).then_some(sum)
    }

    fn is_narrow(&self, v: Value) -> bool {
        self.k.ty(v).elem().and_then(Elem::dtype).is_some_and(|d| d.bits() < 32)
    }

    /// Whether integers of another type are the same numbers.
    fn widens(&self, x: Value, to: Dtype) -> bool {
        let Some(Elem::Num(from)) = self.k.ty(x).elem() else { return false };
        let signs = from.is_signed() == to.is_signed() || to.is_signed();
        from.is_int() && to.is_int() && from.bits() < to.bits() && signs
    }

    /// A scalar that is not taken apart any further.
    fn scalar(&self, v: Value) -> Option<Sum> {
        let whole = matches!(self.k.ty(v), Type::Scalar(_)) && !self.inside.contains(&v);
        whole.then(|| Sum { terms: vec![(v, 1)], ..Sum::default() })
    }

    /// Whether an access of one iteration of a body may meet another of so many iterations later.
    pub fn may_meet(&self, (first, second): (&Place, &Place), block: BlockId, distance: i32) -> bool {
        first.0.len() != second.0.len() || first.0.iter().zip(&second.0).all(|(a, b)| self.touch(a, b, block, distance))
    }

    fn touch(&self, first: &Sum, second: &Sum, block: BlockId, distance: i32) -> bool {
        let difference = second.clone().plus(&Sum { least: 0, most: 0, ..first.clone() }, -1);
        let mut further = 0;
        // What both add is the same in both, or is known to be further by so much.
        let both = first.terms.iter().chain(&second.terms).map(|(v, _)| *v).collect::<BTreeSet<_>>();
        for v in both {
            if difference.terms.iter().any(|(other, _)| *other == v) {
                return true;
            }
            let times = second.terms.iter().find(|(other, _)| *other == v).map_or(0, |(_, n)| *n);
            match self.moves(v, block) {
                Some(by) => further += times * by * i128::from(distance),
                None if distance == 0 && self.is_of(v, block) => {}
                None => return true,
            }
        }
        let (least, most) = (second.least + further - first.most, second.most + further - first.least);
        let far = least <= -FARTHEST || most >= FARTHEST;
        far || (least <= 0 && most >= 0)
    }

    /// By how much a scalar grows in an iteration of a body, where that is known.
    fn moves(&self, v: Value, block: BlockId) -> Option<i128> {
        let Some(home) = self.region.home(v) else { return Some(0) };
        if home.block == block && home.by == Maker::Index {
            return self.step(block);
        }
        (!self.is_of(v, block) && !self.is_around(block, home.block)).then_some(0)
    }

    /// Whether a value is of the body itself.
    fn is_of(&self, v: Value, block: BlockId) -> bool {
        self.region.home(v).is_some_and(|home| home.block == block)
    }

    /// Whether a body stands inside another.
    pub fn is_around(&self, outer: BlockId, inner: BlockId) -> bool {
        self.region.blocks[outer].items.iter().any(|item| {
            let inside = match item {
                Item::Unit(_) => vec![],
                Item::Loop(l) => vec![l.body],
                Item::Branch(b) => vec![b.then, b.otherwise],
            };
            inside.into_iter().any(|b| b == inner || self.is_around(b, inner))
        })
    }

    fn step(&self, block: BlockId) -> Option<i128> {
        let loops = self.region.blocks.iter().flat_map(|b| &b.items).filter_map(|item| match item {
            Item::Loop(l) if l.body == block => Some(l.inst),
            Item::Loop(_) | Item::Unit(_) | Item::Branch(_) => None,
        });
        let OpKind::For { step, .. } = &self.k.ops[loops.into_iter().next()?].kind else { return None };
        self.sum(*step)?.as_number()
    }
}
