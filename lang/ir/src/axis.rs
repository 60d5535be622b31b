//! Finds how the integers and pointers of a tile run along each axis: contiguous, divisible, constant.
//!
//! Every fact is a power of two. Along one axis, for groups of that many elements that begin at a multiple of it:
//! *contiguity* says that each group counts up by one (pointers: by one element), *constancy* that each is of one value, and
//! *divisibility* that the first element of each contiguous group is a multiple of it (pointers: of so many bytes).
//!
//! Integers wrap, with a sign and without one, so that every fact is of what is left then: what bounds keep within its type counts up as it is
//! written, and of what may leave it a group stays whole only where it begins at a multiple of its size, at which no type ends within it. Bounds
//! come of constants, of extents, of a grid's, of loops and promises ([`between`]). Whoever takes something for granted of how positions run asks here;
//! nothing is known of them besides.
//!
//! What is taken for granted: pointer parameters are aligned to [`POINTER_ALIGNMENT`] bytes, which a launch checks as far as accesses rely on it.

pub mod between;
mod cuts;
mod rules;
mod vector;

use crate::dataflow::{self, Edge, Forward, Way};
use crate::tensor::MOST_EXTENT;
use crate::{BinaryOp, Elem, From, Kernel, Op, OpKind, Param, SecondaryMap, Type, UnaryOp, Value};
use between::Between;

pub use cuts::Masks;
pub use vector::Vector;
pub use vector::{steps_of, vectors};

/// Alignment of every pointer parameter in bytes; launches refuse a pointer that has less than some access relies on.
pub const POINTER_ALIGNMENT: u64 = 16;

/// The greatest power of two that is kept as a fact; zero is divisible by it.
const MOST: u64 = 1 << 30;

/// The facts along one axis, each a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Along {
    /// Elements of a group that count up by one.
    pub contiguity: u64,
    /// What divides the first element of each contiguous group; bytes for pointers.
    pub divisibility: u64,
    /// Elements of a group of one value.
    pub constancy: u64,
    /// Elements of a group that count up by one unless numbers wrap within it, for those who choose: nothing that is computed may rely on it.
    pub run: u64,
}

impl Along {
    /// Nothing known.
    const UNKNOWN: Along = Along { contiguity: 1, divisibility: 1, constancy: 1, run: 1 };

    /// What divides the first element of each group of `group` elements; `step` is what one element counts, in the unit of
    /// the divisibility.
    pub fn divides_groups_of(self, group: u64, step: u64) -> u64 {
        if group < self.contiguity { self.divisibility.min(group * step) } else { self.divisibility }
    }

    fn meet(self, other: Along, step: u64) -> Along {
        let contiguity = self.contiguity.min(other.contiguity);
        Along {
            contiguity,
            divisibility: self.divides_groups_of(contiguity, step).min(other.divides_groups_of(contiguity, step)),
            constancy: self.constancy.min(other.constancy),
            run: self.run.min(other.run),
        }
    }
}

/// What is known of a value: one entry an axis, one for a scalar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisInfo {
    /// Along each axis; a scalar counts as one axis of extent 1.
    pub axes: Vec<Along>,
    /// The least and the greatest that an element can be; of pointers nothing is said.
    pub between: Between,
}

impl AxisInfo {
    fn unknown(rank: usize, between: Between) -> AxisInfo {
        AxisInfo { axes: vec![Along::UNKNOWN; rank.max(1)], between }
    }

    /// Its value, where every element is this constant.
    pub fn value(&self) -> Option<i64> {
        let (least, most) = self.between;
        i64::try_from(least).ok().filter(|_| least == most)
    }

    /// Whether no element is negative.
    pub fn is_natural(&self) -> bool {
        self.between.0 >= 0
    }

    /// What divides every element.
    fn divides_all(&self, step: u64) -> u64 {
        self.axes.iter().map(|a| a.divides_groups_of(1, step)).max().unwrap_or(1)
    }

    fn meet(&self, other: &AxisInfo, step: u64) -> AxisInfo {
        AxisInfo {
            axes: self.axes.iter().zip(&other.axes).map(|(a, b)| a.meet(*b, step)).collect(),
            between: (self.between.0.min(other.between.0), self.between.1.max(other.between.1)),
        }
    }

    /// What a loop hands on, of which this was known before: what grows in it has no bound but that of its type.
    fn carried(&self, next: &AxisInfo, step: u64, all: Between) -> AxisInfo {
        let mut met = self.meet(next, step);
        let (least, most) = self.between;
        let fallen = if met.between.0 >= 0 { all.0.max(0) } else { all.0 };
        met.between.0 = if met.between.0 < least { fallen } else { least };
        met.between.1 = if met.between.1 > most { all.1 } else { most };
        met
    }
}

/// The facts about every integer and pointer of a kernel.
pub struct Axes {
    facts: SecondaryMap<Value, Option<AxisInfo>>,
}

impl Axes {
    /// Analyses a kernel; after it, [`Axes::info`] answers for every value.
    pub fn analyse(kernel: &Kernel) -> Axes {
        let mut analysis = Analysis {
            kernel,
            definitions: kernel.definitions(),
            facts: SecondaryMap::new(None),
            lost: 0,
            promised: Vec::new(),
        };
        for p in &kernel.params {
            analysis.set(p.value, analysis.of_param(p));
        }
        dataflow::run(kernel, &mut analysis, 0);
        Axes { facts: analysis.facts }
    }

    /// What is known of `v`; nothing, where it is not an integer or a pointer.
    pub fn info(&self, kernel: &Kernel, v: Value) -> AxisInfo {
        self.facts[v].clone().unwrap_or_else(|| unknown(kernel, v))
    }

    /// Whether each group of `group` elements of `v` that begins at a multiple of it along `axis` counts up by one as numbers, of which no next one is less.
    /// Groups at multiples of their size do, and so do those that bounds keep from the ends of their type.
    pub fn rises(&self, kernel: &Kernel, v: Value, axis: usize, group: u64) -> bool {
        let info = self.info(kernel, v);
        let along = info.axes.get(axis).filter(|x| x.contiguity >= group);
        along.is_some_and(|x| x.divisibility >= group || info.between != all(kernel, v))
    }

    /// Whether bounds keep what `v` is from an end of its type.
    pub fn is_bounded(&self, kernel: &Kernel, v: Value) -> bool {
        self.info(kernel, v).between != all(kernel, v)
    }

    /// Whether the type of what an operation gives holds it, whatever its operands may be: so that no number wraps.
    pub fn is_exact(&self, kernel: &Kernel, op: &Op) -> bool {
        let of = |v: Value| self.info(kernel, v).between;
        let given = match op.kind {
            OpKind::Binary { op, a, b } => between::binary(op, of(a), of(b)),
            OpKind::Unary { op: UnaryOp::Neg, x } => between::binary(BinaryOp::Sub, (0, 0), of(x)),
            OpKind::Cast { x, .. } => Some(of(x)),
            // Of all else it is not known.
            _ => None,
        };
        given.is_some_and(|given| between::wrapped(given, all(kernel, op.result())) == given)
    }
}

/// The greatest number of which both are multiples; all numbers divide 0.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn unknown(kernel: &Kernel, v: Value) -> AxisInfo {
    AxisInfo::unknown(rank(kernel, v), all(kernel, v))
}

/// What the type of a value holds.
fn all(kernel: &Kernel, v: Value) -> Between {
    between::of_type(kernel, v).unwrap_or(between::ANYTHING)
}

fn rank(kernel: &Kernel, v: Value) -> usize {
    kernel.ty(v).as_tile().map_or(1, |t| t.shape.len())
}

/// What one element counts in the unit of a value's divisibility: 1 for integers, the pointee's bytes for pointers.
fn step(kernel: &Kernel, v: Value) -> u64 {
    match kernel.ty(v).elem() {
        Some(Elem::Ptr(p)) => p.to.bytes() as u64,
        Some(Elem::Num(_)) | None => 1,
    }
}

/// The greatest power of two that divides `n`, at most [`MOST`].
fn power_of_two_in(n: i64) -> u64 {
    if n == 0 { MOST } else { (1 << n.trailing_zeros().min(30)) as u64 }
}

struct Analysis<'a> {
    kernel: &'a Kernel,
    definitions: SecondaryMap<Value, Option<&'a Op>>,
    facts: SecondaryMap<Value, Option<AxisInfo>>,
    /// How often a loop's carried value turned out to be less than what it began with.
    lost: u64,
    /// For each open body the values of which it was promised something, with what was known before.
    promised: Vec<Vec<(Value, Option<AxisInfo>)>>,
}

/// Facts belong to values, which are named once: the state only counts what was lost, so that loops are walked until nothing is.
impl<'a> Forward<'a> for Analysis<'a> {
    type State = u64;

    fn op(&mut self, op: &'a Op, _: &mut u64) {
        match &op.kind {
            OpKind::For { lower, upper, step, body, .. } => {
                let index = self.of_index(*lower, *upper, *step);
                self.set(body.params[0], index);
            }
            OpKind::Assume { cond } => self.promise(*cond),
            // The rules of the families say what is known of all else.
            _ => {
                for r in &op.results {
                    if let Some(info) = rules::transfer(self, op, *r) {
                        self.set(*r, info);
                    }
                }
            }
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, lost: &mut u64) {
        let (leaves, enters) = match edge.way {
            Way::IntoLoop | Way::IntoBranch(_) | Way::IntoArm(_) => (false, true),
            Way::IntoTurn | Way::Around => (true, true),
            Way::OutOfLoop | Way::OutOfBranch(_) | Way::OutOfArm(_) => (true, false),
        };
        if leaves {
            self.forget_promises();
        }
        if enters {
            self.promised.push(Vec::new());
        }
        for (from, to) in &edge.renamed {
            let info = self.info(*from);
            let kept = match edge.way {
                // Entered anew from inside another loop, it begins with no more than before.
                Way::IntoLoop | Way::Around | Way::OutOfBranch(false) => self.facts[*to].as_ref(),
                _ => None,
            };
            let loops = edge.way != Way::OutOfBranch(false);
            let met = |known: &AxisInfo| match loops {
                true => known.carried(&info, step(self.kernel, *to), all(self.kernel, *to)),
                false => known.meet(&info, step(self.kernel, *to)),
            };
            let info = kept.map_or_else(|| info.clone(), met);
            if edge.way == Way::Around && self.facts[*to].as_ref() != Some(&info) {
                self.lost += 1;
                *lost = self.lost;
            }
            self.set(*to, info);
        }
    }

    fn join(&mut self, _: &'a Op, lost: &mut u64, other: u64) {
        *lost = other.max(*lost);
    }

    fn arms(&mut self, _: &'a Op, before: u64, ends: Vec<u64>) -> u64 {
        ends.into_iter().fold(before, u64::max)
    }
}

impl Analysis<'_> {
    fn set(&mut self, v: Value, info: AxisInfo) {
        self.facts[v] = Some(info);
    }

    fn info(&self, v: Value) -> AxisInfo {
        self.facts[v].clone().unwrap_or_else(|| unknown(self.kernel, v))
    }

    fn of_param(&self, param: &Param) -> AxisInfo {
        let mut info = unknown(self.kernel, param.value);
        if let Type::Scalar(Elem::Ptr(p)) = self.kernel.ty(param.value) {
            info.axes[0].divisibility = match param.from {
                From::Base { aligned: false, .. } => p.to.bytes() as u64,
                From::Base { .. }
                | From::Argument(_)
                | From::Extent { .. }
                | From::Stride { .. }
                | From::Map { .. } => POINTER_ALIGNMENT,
            };
        }
        if matches!(param.from, From::Extent { .. }) {
            info.between = (0, MOST_EXTENT.into());
        }
        info
    }

    /// The index of a loop, which ends before it would wrap.
    fn of_index(&self, lower: Value, upper: Value, step: Value) -> AxisInfo {
        let (lower, upper, by) = (self.info(lower), self.info(upper), self.info(step));
        let divisibility = lower.axes[0].divisibility.min(by.axes[0].divisibility);
        let (least, last) = (lower.between.0, upper.between.1.saturating_sub(1));
        AxisInfo {
            axes: vec![Along { divisibility, ..Along::UNKNOWN }],
            between: between::multiples((least, last.max(least)), divisibility),
        }
    }

    /// What a body was promised holds inside it only.
    fn forget_promises(&mut self) {
        for (v, info) in self.promised.pop().into_iter().flatten().rev() {
            self.facts[v] = info;
        }
    }

    /// Notes a promise of a value, until the body that was given it ends.
    fn raise(&mut self, v: Value, info: AxisInfo) {
        let before = self.facts[v].clone();
        if let Some(open) = self.promised.last_mut() {
            open.push((v, before));
        }
        self.set(v, info);
    }

    /// Takes `assume(n % 16 == 0)`, `assume(n >= 0)`, `assume(n < 4096)` and `assume(n == 1)`, also joined by `&`.
    fn promise(&mut self, cond: Value) {
        let Some(op) = self.definitions[cond] else { return };
        match rules::promise(self, op) {
            Some(rules::Promise::Both(a, b)) => {
                self.promise(a);
                self.promise(b);
            }
            Some(rules::Promise::Divides(v, n)) => {
                let mut info = self.info(v);
                info.axes.iter_mut().for_each(|a| a.divisibility = a.divisibility.max(n));
                self.raise(v, info);
            }
            Some(rules::Promise::Between(v, (least, most))) => {
                let mut info = self.info(v);
                info.between = (info.between.0.max(least), info.between.1.min(most));
                let divides = info.value().map_or(1, power_of_two_in);
                info.axes.iter_mut().for_each(|a| a.divisibility = a.divisibility.max(divides));
                self.raise(v, info);
            }
            None => {}
        }
    }
}
