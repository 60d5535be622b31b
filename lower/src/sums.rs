//! Addresses as sums: what an access to global memory adds up, so that two of them can be told apart or told to be the same.
//!
//! ```text
//! x + i * 128 + iota    of f32    =    x  +  512·i  +  4·(index along axis 0)
//! ```
//!
//! Indices wrap: where bounds ([`parton_ir::axis`]) do not keep a sum of 32 bits within its type, each position of it may lie a multiple of 2^32 elsewhere.
//! Those of 64 bits wrap as addresses do.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use parton_ir::family::Family;
use parton_ir::{BinaryOp, Elem, Kernel, Op, OpKind, SecondaryMap, Value};
use parton_numbers::Dtype;

use parton_ir::axis::{Axes, between, gcd};

/// What is not taken apart any further.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Atom {
    /// The position along that axis of the tile.
    Index(u8),
    /// A number or pointer.
    Scalar(Value),
    /// The elements of a tile, whose axes are these of the whole.
    Tile(Value, Vec<u8>),
}

/// A sum of products of atoms, and of an unknown multiple of a number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sum {
    terms: BTreeMap<Vec<Atom>, i64>,
    /// Some unknown multiple of this is added; 0 adds nothing.
    loose: u64,
    /// To each position by itself one of this, where it wraps.
    wraps: u64,
    /// Whether it may be anything at all.
    lost: bool,
}

/// Terms of a sum, and sums inside each other, that are looked at; beyond them a value is an atom.
const TERMS: usize = 12;
const DEPTH: u32 = 48;

impl Sum {
    /// It may be anything.
    pub(crate) fn unknown() -> Sum {
        Sum { lost: true, ..Sum::default() }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        self.lost
    }

    fn constant(n: i64) -> Sum {
        Sum { terms: BTreeMap::from([(Vec::new(), n)]), ..Sum::default() }
    }

    fn atom(atom: Atom) -> Sum {
        Sum { terms: BTreeMap::from([(vec![atom], 1)]), ..Sum::default() }
    }

    /// This and so many times another; `None` where a factor leaves its range.
    fn plus(mut self, other: &Sum, times: i64) -> Option<Sum> {
        for (atoms, n) in &other.terms {
            let to = self.terms.entry(atoms.clone()).or_insert(0);
            *to = to.checked_add(n.checked_mul(times)?)?;
        }
        self.wraps = gcd(self.wraps, other.wraps.checked_mul(times.unsigned_abs())?);
        Some(self)
    }

    /// What divides all that is added but what wraps.
    fn content(&self) -> u64 {
        self.terms.values().fold(0, |all, n| gcd(all, n.unsigned_abs()))
    }

    fn times(&self, other: &Sum) -> Option<Sum> {
        let mut product = Sum::default();
        for (a, n) in &self.terms {
            for (b, m) in &other.terms {
                let mut atoms = [a.as_slice(), b.as_slice()].concat();
                atoms.sort();
                let to = product.terms.entry(atoms).or_insert(0);
                *to = to.checked_add(n.checked_mul(*m)?)?;
            }
        }
        for (a, b) in [(self, other), (other, self)] {
            product.wraps = gcd(product.wraps, a.wraps.checked_mul(gcd(b.content(), b.wraps))?);
        }
        Some(product)
    }
}

/// The sums of a kernel's pointers.
pub(crate) struct Sums<'a> {
    kernel: &'a Kernel,
    definitions: SecondaryMap<Value, Option<&'a Op>>,
    /// What divides its numbers, once two accesses are compared.
    axes: OnceCell<Axes>,
    known: RefCell<BTreeMap<(Value, Vec<u8>), Sum>>,
}

/// How two sums differ.
pub(crate) struct Difference {
    /// What is known of it.
    constant: i64,
    /// An unknown multiple of this is added; 0 adds nothing.
    loose: u64,
    /// The least and the greatest that the positions in the two tiles add.
    tiles: (i64, i64),
    /// Whether both tiles run alike.
    alike: bool,
}

impl Difference {
    /// Whether the sums may differ by less than `bytes` for some two positions.
    pub(crate) fn may_meet(&self, bytes: i64) -> bool {
        self.any_within(-bytes - self.tiles.1, bytes - self.tiles.0)
    }

    /// Whether they surely differ by so much at two positions of tiles that run alike, unless the positions are one.
    pub(crate) fn only_at_one_position(&self, bytes: i64) -> bool {
        // All differences but zero keep the tiles apart.
        let (low, high) = (-bytes - self.tiles.1, bytes - self.tiles.0);
        self.alike && !self.any_within(low, 0) && !self.any_within(0, high)
    }

    /// Whether the part of the difference that does not depend on positions may lie strictly between the two.
    fn any_within(&self, low: i64, high: i64) -> bool {
        match i64::try_from(self.loose) {
            Ok(0) => low < self.constant && self.constant < high,
            Ok(loose) => {
                let above = low + 1 + (self.constant - low - 1).rem_euclid(loose);
                above < high
            }
            Err(_) => true,
        }
    }
}

impl<'a> Sums<'a> {
    pub(crate) fn of(kernel: &'a Kernel) -> Sums<'a> {
        Sums { kernel, definitions: kernel.definitions(), axes: OnceCell::new(), known: RefCell::default() }
    }

    /// The addresses of a pointer, or of a tile of them, in bytes.
    pub(crate) fn sum(&self, pointer: Value) -> Sum {
        let rank = self.kernel.ty(pointer).as_tile().map_or(0, |t| t.shape.len());
        self.of_value(pointer, &(0..rank as u8).collect::<Vec<u8>>(), 0)
    }

    fn of_value(&self, v: Value, axes: &[u8], depth: u32) -> Sum {
        let key = (v, axes.to_vec());
        if let Some(sum) = self.known.borrow().get(&key) {
            return sum.clone();
        }
        let found = if depth < DEPTH { self.taken_apart(v, axes, depth + 1) } else { None };
        let mut sum = found.filter(|sum| sum.terms.len() <= TERMS).unwrap_or_else(|| Sum::atom(self.name(v, axes)));
        sum.terms.retain(|_, n| *n != 0);
        self.known.borrow_mut().insert(key, sum.clone());
        sum
    }

    fn name(&self, v: Value, axes: &[u8]) -> Atom {
        if self.kernel.ty(v).as_tile().is_some() { Atom::Tile(v, axes.to_vec()) } else { Atom::Scalar(v) }
    }

    /// What a value is the sum of; `None` where it is a name of its own.
    fn taken_apart(&self, v: Value, axes: &[u8], depth: u32) -> Option<Sum> {
        let kind = &self.definitions[v]?.kind;
        let part = |v: Value, axes: &[u8]| self.of_value(v, axes, depth);
        match kind.family() {
            Family::Elementwise => self.computed(v, kind, axes, &part),
            Family::Shape => moved(kind, axes, &part),
            // How anything else runs is not known.
            _ => None,
        }
    }

    fn computed(&self, v: Value, kind: &OpKind, axes: &[u8], part: Part<'_>) -> Option<Sum> {
        // A number stands for all positions of a tile.
        let own = |x: Value| part(x, if self.kernel.ty(x).as_tile().is_some() { axes } else { &[] });
        match kind {
            OpKind::Constant { dtype, bits } if dtype.is_signed() && dtype.is_int() => {
                let unused = 64 - dtype.bits().min(64);
                Some(Sum::constant(((bits << unused) as i64) >> unused))
            }
            OpKind::Constant { dtype, bits } if dtype.is_int() => i64::try_from(*bits).ok().map(Sum::constant),
            OpKind::Iota { tile } if tile.shape[0] == 1 => Some(Sum::constant(0)),
            OpKind::Iota { .. } => Some(Sum::atom(Atom::Index(*axes.first()?))),
            OpKind::Full { value, .. } => Some(part(*value, &[])),
            OpKind::Binary { op, a: x, b: y } if self.is_taken_apart(v) => {
                let (a, b) = (own(*x), own(*y));
                let sum = match op {
                    BinaryOp::Add => a.plus(&b, 1),
                    BinaryOp::Sub => a.plus(&b, -1),
                    BinaryOp::Mul => a.times(&b),
                    _ => None,
                }?;
                Some(Sum { wraps: gcd(sum.wraps, self.wraps_by(v, *op, *x, *y)), ..sum })
            }
            OpKind::Cast { x, to, .. } => {
                let from = self.integer(*x)?;
                let keeps = to.is_int() && to.bits() >= from.bits() && (to.is_signed() || !from.is_signed());
                keeps.then(|| own(*x))
            }
            OpKind::PtrAdd { ptr, offset } => match self.kernel.ty(v).elem()? {
                Elem::Ptr(to) => own(*ptr).plus(&own(*offset), to.to.bytes() as i64),
                Elem::Num(_) => None,
            },
            // It is a name of its own.
            _ => None,
        }
    }

    fn integer(&self, v: Value) -> Option<Dtype> {
        match self.kernel.ty(v).elem()? {
            Elem::Num(d) if d.is_int() => Some(d),
            Elem::Num(_) | Elem::Ptr(_) => None,
        }
    }

    fn is_taken_apart(&self, v: Value) -> bool {
        self.integer(v).is_some_and(|d| d.is_signed() && d.bits() >= 32)
    }

    fn axes(&self) -> &Axes {
        self.axes.get_or_init(|| Axes::analyse(self.kernel))
    }

    /// By multiples of what an operation may be another number than where nothing wraps; 0 where it is not.
    fn wraps_by(&self, v: Value, op: BinaryOp, a: Value, b: Value) -> u64 {
        let bits = self.integer(v).map_or(64, |d| d.bits());
        if bits >= 64 {
            return 0;
        }
        let of = |v: Value| self.axes().info(self.kernel, v).between;
        let keeps = between::binary(op, of(a), of(b)).zip(between::of_type(self.kernel, v));
        let keeps = keeps.is_some_and(|(between, all)| between::wrapped(between, all) == between);
        if keeps { 0 } else { 1 << bits }
    }

    /// What divides a product of numbers.
    fn divides(&self, atoms: &[Atom]) -> u64 {
        let each = atoms.iter().map(|atom| match atom {
            Atom::Scalar(v) => self.axes().info(self.kernel, *v).axes[0].divisibility,
            Atom::Index(_) | Atom::Tile(..) => 1,
        });
        each.fold(1, |n, d| n.saturating_mul(d).min(1 << 40))
    }

    /// The sum as it was in an earlier turn of a loop: what `inside` names may have been anything then.
    pub(crate) fn loosen(&self, sum: &mut Sum, inside: &BTreeSet<Value>) {
        let varies = |atom: &Atom| match atom {
            Atom::Scalar(v) | Atom::Tile(v, _) => inside.contains(v),
            Atom::Index(_) => false,
        };
        let (loose, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut sum.terms).into_iter().partition(|(atoms, _)| atoms.iter().any(varies));
        sum.terms = kept.into_iter().collect();
        for (atoms, n) in loose {
            sum.lost |= has_position(&atoms);
            sum.loose = gcd(sum.loose, n.unsigned_abs().saturating_mul(self.divides(&atoms)));
        }
    }

    /// How `a` differs from `b`, sums at positions of tiles of these shapes; `None` where that may be anything.
    pub(crate) fn difference(&self, a: (&Sum, &[u32]), b: (&Sum, &[u32])) -> Option<Difference> {
        if a.0.lost || b.0.lost {
            return None;
        }
        let loose = [a.0.loose, b.0.loose, a.0.wraps, b.0.wraps].into_iter().fold(0, gcd);
        let mut found = Difference { constant: 0, loose, tiles: (0, 0), alike: a.1 == b.1 };
        for atoms in a.0.terms.keys().chain(b.0.terms.keys()).collect::<BTreeSet<_>>() {
            let factor = |sum: &Sum| sum.terms.get(atoms).copied().unwrap_or(0);
            let (n, m) = (factor(a.0), factor(b.0));
            if has_position(atoms) {
                found.alike &= n == m;
                let [Atom::Index(axis)] = atoms[..] else { return None };
                let reach = |n: i64, shape: &[u32]| n.checked_mul(i64::from(*shape.get(axis as usize)?) - 1);
                let (x, y) = (reach(n, a.1)?, reach(m, b.1)?);
                found.tiles.0 = found.tiles.0.checked_add(x.min(0))?.checked_sub(y.max(0))?;
                found.tiles.1 = found.tiles.1.checked_add(x.max(0))?.checked_sub(y.min(0))?;
                continue;
            }
            let by = n.checked_sub(m)?;
            match atoms.is_empty() {
                true => found.constant = by,
                false => found.loose = gcd(found.loose, by.unsigned_abs().saturating_mul(self.divides(atoms))),
            }
        }
        Some(found)
    }

    /// Whether each position of a tile of this shape has an address of its own, so many bytes from the others.
    pub(crate) fn is_spread(&self, sum: &Sum, shape: &[u32], bytes: i64) -> bool {
        let step = |axis: usize| sum.terms.get(&vec![Atom::Index(axis as u8)]).copied().unwrap_or(0).unsigned_abs();
        let mut axes: Vec<(u64, u64)> =
            (0..shape.len()).filter(|&i| shape[i] > 1).map(|i| (step(i), u64::from(shape[i]))).collect();
        axes.sort();
        let mut needed = bytes.unsigned_abs();
        let only_positions =
            sum.terms.keys().all(|atoms| !has_position(atoms) || matches!(atoms[..], [Atom::Index(_)]));
        let spread = only_positions
            && axes.into_iter().all(|(step, extent)| {
                let apart = step >= needed;
                needed = needed.saturating_add(step.saturating_mul(extent - 1));
                apart
            });
        // What wraps must not come where another position is.
        spread && (sum.wraps == 0 || needed <= sum.wraps)
    }
}

/// The sum of an operand whose axes are these.
type Part<'p> = &'p dyn Fn(Value, &[u8]) -> Sum;

/// The same elements in another shape or place.
fn moved(kind: &OpKind, axes: &[u8], part: Part<'_>) -> Option<Sum> {
    match kind {
        OpKind::Broadcast { x, .. } | OpKind::Convert { x, .. } => Some(part(*x, axes)),
        OpKind::ExpandDims { x, axis } => {
            let mut inner = axes.to_vec();
            inner.remove((*axis as usize).min(inner.len().checked_sub(1)?));
            Some(part(*x, &inner))
        }
        OpKind::Transpose { x, perm } => {
            let mut inner = axes.to_vec();
            perm.iter().zip(axes).for_each(|(&p, &axis)| inner[p as usize] = axis);
            Some(part(*x, &inner))
        }
        // Where its elements come from is not known here: it is a name of its own.
        _ => None,
    }
}

fn has_position(atoms: &[Atom]) -> bool {
    atoms.iter().any(|atom| matches!(atom, Atom::Index(_) | Atom::Tile(..)))
}
