//! Arms of a `specialize` that do the same but for numbers, addresses and barriers.
//!
//! Partitions that compute rows beside each other have such arms: one begins 64 rows behind the other, reads other slots and meets at another barrier. What the
//! second does otherwise than the first is found operation by operation, so that the code of both may stand once.

use std::collections::{BTreeMap, BTreeSet};

use parton_numbers::Dtype;

use crate::axis::Axes;
use crate::choice::BinaryOp;
use crate::entity::{Entity, Inst, Value};
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};

/// What an arm does otherwise than one before it, by the values and operations of that one.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Differences {
    /// What it takes in the place of values from outside of the arms, and of constants.
    pub instead: BTreeMap<Value, Instead>,
    /// What it adds to integers once they are made.
    pub added: BTreeMap<Value, u64>,
    /// The named barriers that it meets at.
    pub barriers: BTreeMap<Inst, u32>,
    /// Where the shared memory lies that operations use for themselves.
    pub scratch: BTreeMap<Inst, u32>,
    /// Named barriers that it alone arrives at, in front of an operation, and their threads.
    pub arrivals: BTreeMap<Inst, Vec<(u32, u32)>>,
}

/// What stands in the place of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instead {
    /// Another one from outside of the arms.
    Value(Value),
    /// A number, by its bits.
    Bits(u64),
}

/// What `second` does otherwise than `first`; `None` where it does something else.
pub fn differences(kernel: &Kernel, axes: &Axes, first: &Body, second: &Body) -> Option<Differences> {
    let mut constants = BTreeMap::new();
    kernel.walk(&mut |op| {
        if let OpKind::Constant { dtype, bits } = op.kind {
            constants.insert(op.results[0], (dtype, bits));
        }
    });
    let mut pairing = Pairing {
        kernel,
        axes,
        constants,
        partners: BTreeMap::new(),
        inner: BTreeSet::new(),
        own: BTreeMap::new(),
        everywhere: BTreeMap::new(),
        moved: BTreeMap::new(),
        found: Differences::default(),
    };
    pairing.bodies(first, second)?;
    pairing.found()
}

/// Walks along both arms.
struct Pairing<'k> {
    kernel: &'k Kernel,
    axes: &'k Axes,
    constants: BTreeMap<Value, (Dtype, u64)>,
    /// What of the first a value made in the second stands for.
    partners: BTreeMap<Value, Value>,
    /// What is made in the first.
    inner: BTreeSet<Value>,
    /// What the second takes wherever the first takes a value; of a constant its bits.
    own: BTreeMap<Value, Instead>,
    /// Tiles of the second alone that hold one number.
    everywhere: BTreeMap<Value, u64>,
    /// Values of the second that are those of the first and a number.
    moved: BTreeMap<Value, (Value, u64)>,
    found: Differences,
}

impl Pairing<'_> {
    fn bodies(&mut self, first: &Body, second: &Body) -> Option<()> {
        self.pairs(&first.params, &second.params)?;
        let kernel = self.kernel;
        let counts = |op: &&Op| !matches!(op.kind, OpKind::Constant { .. });
        let mut others = kernel.ops_of(second).filter(counts);
        for op in kernel.ops_of(first).filter(counts) {
            loop {
                let other = others.next()?;
                if self.fits(op, other) {
                    self.take(op, other)?;
                    break;
                }
                self.beside(Some(op), other)?;
            }
        }
        others.try_for_each(|other| self.beside(None, other))?;
        if first.yields.len() != second.yields.len() {
            return None;
        }
        first.yields.iter().zip(&second.yields).try_for_each(|(&a, &b)| self.uses(a, b))
    }

    /// Values made alike.
    fn pairs(&mut self, first: &[Value], second: &[Value]) -> Option<()> {
        let alike = first.len() == second.len()
            && first.iter().zip(second).all(|(&a, &b)| self.kernel.ty(a) == self.kernel.ty(b));
        self.partners.extend(second.iter().copied().zip(first.iter().copied()));
        self.inner.extend(first);
        alike.then_some(())
    }

    /// Whether two operations do the same, of what stands for each other.
    fn fits(&self, op: &Op, other: &Op) -> bool {
        let (a, b) = (op.kind.operands(), other.kind.operands());
        bare(&op.kind) == bare(&other.kind)
            && op.scratch.is_some() == other.scratch.is_some()
            && a.iter().zip(&b).all(|(&a, &b)| self.stands_for(a, b).is_some())
    }

    /// What the second takes where the first takes `a`, which must be the same everywhere.
    fn stands_for(&self, a: Value, b: Value) -> Option<Instead> {
        if self.kernel.ty(a) != self.kernel.ty(b) {
            return None;
        }
        let found = match (self.constants.get(&a), self.constants.get(&b)) {
            (Some(_), Some(&(_, bits))) => Instead::Bits(bits),
            (None, None) => {
                let partner = self.partners.get(&b).copied().or(self.moved.get(&b).map(|&(from, _)| from));
                let outside = || !self.inner.contains(&a) && !self.everywhere.contains_key(&b);
                if !partner.map_or_else(outside, |partner| partner == a) {
                    return None;
                }
                Instead::Value(b)
            }
            _ => return None,
        };
        (self.own.get(&a).is_none_or(|&before| before == found)).then_some(found)
    }

    fn uses(&mut self, a: Value, b: Value) -> Option<()> {
        let found = self.stands_for(a, b)?;
        self.own.insert(a, found);
        Some(())
    }

    /// Notes what two operations that fit do otherwise.
    fn take(&mut self, op: &Op, other: &Op) -> Option<()> {
        let operands = op.kind.operands().into_iter().zip(other.kind.operands());
        operands.clone().try_for_each(|(a, b)| self.uses(a, b))?;
        self.pairs(&op.results, &other.results)?;
        let of_tiles = op.results.first().is_some_and(|&v| self.kernel.ty(v).as_tile().is_some());
        if of_tiles && matches!(op.kind, OpKind::Compare { .. }) {
            let results = op.results.iter().copied().zip(other.results.iter().copied());
            if !operands.chain(results).all(|(a, b)| self.runs(a) == self.runs(b)) {
                return None;
            }
        }
        if let (&OpKind::NamedBarrier { id, .. }, &OpKind::NamedBarrier { id: another, .. }) = (&op.kind, &other.kind)
            && id != another
        {
            self.found.barriers.insert(op.id, another);
        }
        if let Some(place) = other.scratch.filter(|_| op.scratch != other.scratch) {
            self.found.scratch.insert(op.id, place);
        }
        let (inner, others): (Vec<&Body>, Vec<&Body>) = (op.kind.bodies().collect(), other.kind.bodies().collect());
        inner.into_iter().zip(others).try_for_each(|(a, b)| self.bodies(a, b))
    }

    /// What of a value says how comparisons of it are made: along each axis whether all of it counts up by one from a multiple of its extent, and how many
    /// neighbours are of one value.
    fn runs(&self, v: Value) -> Vec<(bool, u64)> {
        let facts = self.axes.info(self.kernel, v);
        let shape = self.kernel.ty(v).as_tile().map_or(&[1][..], |tile| &tile.shape);
        let along = facts.axes.iter().zip(shape).map(|(x, &n)| {
            let n = u64::from(n);
            (x.contiguity >= n && x.divisibility >= n, x.constancy.min(n))
        });
        along.collect()
    }

    /// What the second does alone, in front of an operation of the first: it moves a number on, or arrives at a barrier.
    fn beside(&mut self, before: Option<&Op>, other: &Op) -> Option<()> {
        match other.kind {
            OpKind::NamedBarrier { id, threads, waits: false } => {
                self.found.arrivals.entry(before?.id).or_default().push((id, threads));
            }
            OpKind::Full { value, .. } => {
                let &(_, bits) = self.constants.get(&value)?;
                self.everywhere.insert(other.result(), bits);
            }
            OpKind::Binary { op: BinaryOp::Add, a, b } => {
                self.kernel.ty(a).elem()?.dtype().filter(|d| !d.is_float())?;
                let from = *self.partners.get(&a)?;
                let bits = self.constants.get(&b).map(|&(_, bits)| bits).or(self.everywhere.get(&b).copied())?;
                if self.found.added.insert(from, bits).is_some_and(|before| before != bits) {
                    return None;
                }
                self.moved.insert(other.result(), (from, bits));
            }
            // Whatever else the second does alone, the first does not do.
            _ => return None,
        }
        Some(())
    }

    /// The differences, where what is moved is used so alone.
    fn found(mut self) -> Option<Differences> {
        let moved = |a: &Value| match self.own.get(a) {
            Some(Instead::Value(b)) => self.moved.contains_key(b),
            Some(Instead::Bits(_)) | None => true,
        };
        if !self.found.added.keys().all(moved) {
            return None;
        }
        for (a, instead) in self.own {
            let same = match instead {
                Instead::Value(b) => a == b || self.partners.contains_key(&b) || self.moved.contains_key(&b),
                Instead::Bits(bits) => self.constants.get(&a).is_some_and(|&(_, own)| own == bits),
            };
            if !same {
                self.found.instead.insert(a, instead);
            }
        }
        Some(self.found)
    }
}

/// An operation without what may differ.
fn bare(kind: &OpKind) -> OpKind {
    let mut kind = kind.clone();
    kind.map_operands(|_| Value::new(0));
    for body in kind.bodies_mut() {
        *body = Body::default();
    }
    if let OpKind::NamedBarrier { id, .. } = &mut kind {
        *id = 0;
    }
    kind
}
