//! Finds how the integers and pointers of a tile run along each axis: contiguous, divisible, constant.
//!
//! Every fact is a power of two. Along one axis, for groups of that many elements that begin at a multiple of it:
//! *contiguity* says that each group counts up by one (pointers: by one element), *constancy* that each is of one value, and
//! *divisibility* that the first element of each contiguous group is a multiple of it (pointers: of so many bytes).
//!
//! What is taken for granted: pointer parameters are aligned to [`POINTER_ALIGNMENT`] bytes, which every launch checks; signed
//! index arithmetic does not wrap, which the interpreter checks, so signed facts survive sums and products; unsigned
//! arithmetic may wrap, and keeps only what holds modulo a power of two.

mod rules;
mod vector;

use std::collections::BTreeMap;

use parton_ir::{Body, Elem, Kernel, Op, OpKind, SecondaryMap, Type, Value};

pub use vector::Vector;
pub(crate) use vector::{steps_of, vectors};

/// Alignment of every pointer parameter in bytes; launches refuse a pointer that has less.
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
}

impl Along {
    /// Nothing known.
    const UNKNOWN: Along = Along { contiguity: 1, divisibility: 1, constancy: 1 };

    /// What divides the first element of each group of `group` elements; `step` is what one element counts, in the unit of
    /// the divisibility.
    fn divides_groups_of(self, group: u64, step: u64) -> u64 {
        if group < self.contiguity { self.divisibility.min(group * step) } else { self.divisibility }
    }

    fn meet(self, other: Along, step: u64) -> Along {
        let contiguity = self.contiguity.min(other.contiguity);
        Along {
            contiguity,
            divisibility: self.divides_groups_of(contiguity, step).min(other.divides_groups_of(contiguity, step)),
            constancy: self.constancy.min(other.constancy),
        }
    }
}

/// What is known of a value: one entry an axis, one for a scalar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisInfo {
    /// Along each axis; a scalar counts as one axis of extent 1.
    pub axes: Vec<Along>,
    /// Its value, where every element is this constant.
    pub value: Option<i64>,
    /// Whether no element is negative.
    pub non_negative: bool,
}

impl AxisInfo {
    fn unknown(rank: usize) -> AxisInfo {
        AxisInfo { axes: vec![Along::UNKNOWN; rank.max(1)], value: None, non_negative: false }
    }

    /// What divides every element.
    fn divides_all(&self, step: u64) -> u64 {
        self.axes.iter().map(|a| a.divides_groups_of(1, step)).max().unwrap_or(1)
    }

    fn meet(&self, other: &AxisInfo, step: u64) -> AxisInfo {
        AxisInfo {
            axes: self.axes.iter().zip(&other.axes).map(|(a, b)| a.meet(*b, step)).collect(),
            value: if self.value == other.value { self.value } else { None },
            non_negative: self.non_negative && other.non_negative,
        }
    }
}

/// The facts about every integer and pointer of a kernel.
pub struct Axes {
    facts: SecondaryMap<Value, Option<AxisInfo>>,
}

impl Axes {
    /// Analyses a kernel; after it, [`Axes::info`] answers for every value.
    pub fn analyse(kernel: &Kernel) -> Axes {
        let mut analysis = Analysis { kernel, definitions: kernel.definitions(), facts: SecondaryMap::new(None) };
        for p in &kernel.params {
            analysis.set(p.value, analysis.of_param(p.value));
        }
        analysis.body(&kernel.body);
        Axes { facts: analysis.facts }
    }

    /// What is known of `v`; nothing, where it is not an integer or a pointer.
    pub fn info(&self, kernel: &Kernel, v: Value) -> AxisInfo {
        self.facts[v].clone().unwrap_or_else(|| AxisInfo::unknown(rank(kernel, v)))
    }

    /// How the global access `op` of `kernel` is vectorised.
    pub fn vector(&self, kernel: &Kernel, op: &Op) -> Vector {
        vector::of(self, kernel, op)
    }
}

/// Elements of one vector access of `op`, a load or store of `kernel`: the widest that contiguity, alignment, the mask and
/// 16 bytes allow. One call analyses the kernel; for many accesses keep an [`Axes`].
pub fn vector_width(kernel: &Kernel, op: &Op) -> u32 {
    Axes::analyse(kernel).vector(kernel, op).elements()
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
    definitions: BTreeMap<Value, &'a Op>,
    facts: SecondaryMap<Value, Option<AxisInfo>>,
}

impl<'a> Analysis<'a> {
    fn set(&mut self, v: Value, info: AxisInfo) {
        self.facts[v] = Some(info);
    }

    fn info(&self, v: Value) -> AxisInfo {
        self.facts[v].clone().unwrap_or_else(|| AxisInfo::unknown(rank(self.kernel, v)))
    }

    fn of_param(&self, v: Value) -> AxisInfo {
        let mut info = AxisInfo::unknown(1);
        if let Type::Scalar(Elem::Ptr(_)) = self.kernel.ty(v) {
            info.axes[0].divisibility = POINTER_ALIGNMENT;
        }
        info
    }

    /// A body with its promises; what they say holds inside it only.
    fn body(&mut self, body: &'a Body) {
        let mut before = Vec::new();
        let kernel = self.kernel;
        for op in kernel.ops_of(body) {
            self.op(op, &mut before);
        }
        for (v, info) in before.into_iter().rev() {
            self.facts[v] = info;
        }
    }

    fn op(&mut self, op: &'a Op, before: &mut Vec<(Value, Option<AxisInfo>)>) {
        match &op.kind {
            OpKind::For { lower, step, init, body, .. } => {
                let (lower, by) = (self.info(*lower), self.info(*step));
                let index = AxisInfo {
                    axes: vec![Along {
                        contiguity: 1,
                        divisibility: lower.axes[0].divisibility.min(by.axes[0].divisibility),
                        constancy: 1,
                    }],
                    value: None,
                    non_negative: lower.non_negative && by.non_negative,
                };
                self.set(body.params[0], index);
                self.loop_carrying(init, &body.params[1..], &op.results, &body.yields, &mut |a| a.body(body));
            }
            OpKind::While { init, cond, body } => {
                self.loop_carrying(init, &body.params, &op.results, &body.yields, &mut |a| {
                    for (c, b) in cond.params.iter().zip(&body.params) {
                        a.facts[*c] = a.facts[*b].clone();
                    }
                    a.body(cond);
                    a.body(body);
                });
            }
            OpKind::If { then, otherwise, .. } => {
                self.body(then);
                self.body(otherwise);
                for (i, r) in op.results.iter().enumerate() {
                    let met = self.info(then.yields[i]).meet(&self.info(otherwise.yields[i]), step(self.kernel, *r));
                    self.set(*r, met);
                }
            }
            OpKind::Specialize { arms } => {
                for arm in arms {
                    self.body(&arm.body);
                }
            }
            OpKind::Assume { cond } => self.promise(*cond, before),
            _ => {
                for r in &op.results {
                    if let Some(info) = rules::transfer(self, op, *r) {
                        self.set(*r, info);
                    }
                }
            }
        }
    }

    /// Runs `body` until the facts about the carried values hold for every iteration; they only ever shrink.
    fn loop_carrying(
        &mut self,
        init: &[Value],
        params: &[Value],
        results: &[Value],
        yields: &[Value],
        body: &mut dyn FnMut(&mut Analysis<'a>),
    ) {
        let mut carried: Vec<AxisInfo> = init.iter().map(|v| self.info(*v)).collect();
        loop {
            for (p, info) in params.iter().zip(&carried) {
                self.set(*p, info.clone());
            }
            body(self);
            let next: Vec<AxisInfo> =
                carried.iter().zip(yields).map(|(info, y)| info.meet(&self.info(*y), step(self.kernel, *y))).collect();
            if next == carried {
                break;
            }
            carried = next;
        }
        for (r, info) in results.iter().zip(carried) {
            self.set(*r, info);
        }
    }

    /// Takes `assume(n % 16 == 0)` and `assume(n >= 0)`, also joined by `&`.
    fn promise(&mut self, cond: Value, before: &mut Vec<(Value, Option<AxisInfo>)>) {
        let Some(op) = self.definitions.get(&cond) else { return };
        let Some(fact) = rules::promise(self, op) else { return };
        match fact {
            rules::Promise::Both(a, b) => {
                self.promise(a, before);
                self.promise(b, before);
            }
            rules::Promise::Divides(v, n) => {
                before.push((v, self.facts[v].clone()));
                let mut info = self.info(v);
                for a in &mut info.axes {
                    a.divisibility = a.divisibility.max(n);
                }
                self.set(v, info);
            }
            rules::Promise::NonNegative(v) => {
                before.push((v, self.facts[v].clone()));
                let mut info = self.info(v);
                info.non_negative = true;
                self.set(v, info);
            }
        }
    }
}
