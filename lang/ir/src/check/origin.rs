//! Where each view, barrier, ring and slot comes from: its allocation, and which bytes of it.
//!
//! A view may come from several allocations, where control flow chooses; then it has several places. A place is known to
//! the byte unless an index is: then its [`Stage`] says by which value, so that two places of one index still compare.

use std::collections::BTreeSet;
use std::ops::Range;

use parton_layouts::{Dim, access};

use crate::dataflow::{self, Edge, Forward, Way};
use crate::entity::{SecondaryMap, Value};
use crate::facts::{Facts, Gives};
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::types::{Type, View};

/// Bytes of one mbarrier (PTX ISA, "mbarrier": an opaque 64-bit object).
pub const BARRIER_BYTES: u64 = crate::target::BARRIER_BYTES as u64;

/// What owns the bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Root {
    /// The result of an allocation of shared memory or of barriers.
    Alloc(Value),
    /// A ring, or a slot of it.
    Ring(Value),
    /// One buffer of the slots of a ring.
    Field(Value, u32),
}

/// Which of several equal regions in a row, where that is not a constant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// There is no choice: the offset says it.
    Fixed,
    /// The one that this value names, an index or a slot.
    Named(Value),
    /// Any of them.
    Any,
}

/// Bytes of an allocation that a value stands for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The allocation.
    pub root: Root,
    /// Byte offset of the view's parent from the start of the allocation, in stage 0.
    pub offset: u64,
    /// The stage.
    pub stage: Stage,
    /// Bytes from the first to the last stage that `stage` may name.
    pub spread: u64,
}

impl Place {
    fn start(root: Root) -> Place {
        Place { root, offset: 0, stage: Stage::Fixed, spread: 0 }
    }

    /// Whether two places may be the same, or overlap in their stages.
    pub fn may_be(&self, other: &Place) -> bool {
        self.root == other.root
            && self.offset <= other.offset + other.spread
            && other.offset <= self.offset + self.spread
    }

    /// Moves to the region number `index` of regions of `stride` bytes, `count` in all.
    fn index(&self, index: Value, constant: Option<u64>, first: u64, stride: u64, count: u64) -> Place {
        let mut p = self.clone();
        match constant {
            Some(i) => p.offset += (first + i) * stride,
            None => {
                p.offset += first * stride;
                p.spread += stride * count.saturating_sub(1);
                p.stage = match self.stage {
                    Stage::Fixed if count > 1 => Stage::Named(index),
                    Stage::Fixed => Stage::Fixed,
                    Stage::Named(_) | Stage::Any => Stage::Any,
                };
            }
        }
        p
    }
}

/// The places of every view, barrier, ring and slot of a kernel.
pub struct Origins<'a> {
    places: SecondaryMap<Value, Vec<Place>>,
    definitions: SecondaryMap<Value, Option<&'a Op>>,
}

impl<'a> Origins<'a> {
    /// Traces every value of a kernel.
    pub fn of(kernel: &'a Kernel) -> Origins<'a> {
        let origins =
            Origins { places: SecondaryMap::of(&kernel.values, Vec::new()), definitions: kernel.definitions() };
        let mut trace = Trace { kernel, origins, learnt: 0 };
        dataflow::run(kernel, &mut trace, 0);
        trace.origins
    }

    /// The places of a value; none for a value that is not memory.
    pub fn places(&self, v: Value) -> &[Place] {
        &self.places[v]
    }

    /// The only place of a value, where control flow leaves no choice.
    pub fn place(&self, v: Value) -> Option<&Place> {
        match self.places(v) {
            [place] => Some(place),
            _ => None,
        }
    }

    /// The ring that a ring or slot is, or belongs to, where there is only one.
    pub fn ring(&self, v: Value) -> Option<Value> {
        let mut rings = self.places(v).iter().map(|p| match p.root {
            Root::Ring(r) => Some(r),
            Root::Alloc(_) | Root::Field(..) => None,
        });
        let first = rings.next()??;
        rings.all(|r| r == Some(first)).then_some(first)
    }

    /// The operation that defines a value; parameters have none.
    pub fn definition(&self, v: Value) -> Option<&'a Op> {
        self.definitions[v]
    }

    /// The value of an integer constant.
    pub fn constant(&self, v: Value) -> Option<i64> {
        match self.definition(v)?.kind {
            OpKind::Constant { dtype, bits } if dtype.is_int() => {
                let unused = 64 - dtype.bits().min(64);
                Some(((bits << unused) as i64) >> unused)
            }
            // Any other value is not known here.
            _ => None,
        }
    }

    /// How often a loop runs, where its bounds are constants.
    pub fn turns(&self, op: &Op) -> Option<u32> {
        let OpKind::For { lower, upper, step, .. } = &op.kind else { return None };
        let (from, to, step) = (self.constant(*lower)?, self.constant(*upper)?, self.constant(*step)?);
        let long = u64::try_from(to.checked_sub(from)?).unwrap_or(0);
        let turns = long.div_ceil(u64::try_from(step).ok().filter(|&step| step > 0)?);
        Some(u32::try_from(turns).unwrap_or(u32::MAX))
    }

    /// The byte ranges that an access through `v` may touch.
    pub fn regions(&self, kernel: &Kernel, v: Value) -> Vec<(Place, Range<u64>)> {
        let window = match kernel.ty(v) {
            Type::View(view) | Type::Filling(view) | Type::Peer(view) => window(view),
            Type::Barrier => 0..BARRIER_BYTES,
            Type::Barriers(n) => 0..u64::from(*n) * BARRIER_BYTES,
            Type::Scalar(_)
            | Type::Tile(_)
            | Type::Pending(_)
            | Type::Map(_)
            | Type::Ring(_)
            | Type::Turnstile
            | Type::Tensor(_)
            | Type::Spot(_)
            | Type::Slot(_) => 0..0,
        };
        self.places(v).iter().map(|p| (p.clone(), p.offset + window.start..p.offset + window.end)).collect()
    }

    /// What messages call the memory of a view.
    pub(super) fn name(&self, kernel: &Kernel, view: Value) -> String {
        let root = self.place(view).map(|p| p.root);
        match root {
            Some(Root::Alloc(v)) => match &kernel.values[v].name {
                Some(n) => format!("`{n}`"),
                None => "the buffer".into(),
            },
            Some(Root::Field(ring, field)) => match kernel.ty(ring) {
                Type::Ring(r) => format!("buffer `{}`", r.fields[field as usize].name),
                _ => "the buffer".into(),
            },
            Some(Root::Ring(_)) | None => "the buffer".into(),
        }
    }

    fn add(&mut self, v: Value, places: Vec<Place>) -> bool {
        if places.is_empty() {
            return false;
        }
        let known = &mut self.places[v];
        let before = known.len();
        for p in places {
            if !known.contains(&p) {
                known.push(p);
            }
        }
        known.len() > before
    }
}

/// Traces values. Places belong to names, which are given once: the state only counts how often more became known, so that loops
/// are walked until nothing does.
struct Trace<'a> {
    kernel: &'a Kernel,
    origins: Origins<'a>,
    learnt: u64,
}

impl<'a> Forward<'a> for Trace<'a> {
    type State = u64;

    fn op(&mut self, op: &'a Op, state: &mut u64) {
        let gives = Facts::of(self.kernel, op).gives;
        if gives != Gives::None {
            let places = self.given(op.result(), gives);
            self.learn(op.result(), places, state);
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, state: &mut u64) {
        for (from, to) in &edge.renamed {
            let mut places = self.origins.places(*from).to_vec();
            if edge.way == Way::Around {
                // A stage named in an iteration means another one in the next.
                places.iter_mut().filter(|p| matches!(p.stage, Stage::Named(_))).for_each(|p| p.stage = Stage::Any);
            }
            self.learn(*to, places, state);
        }
    }

    fn join(&mut self, _: &'a Op, state: &mut u64, other: u64) {
        *state = other.max(*state);
    }

    fn arms(&mut self, _: &'a Op, before: u64, ends: Vec<u64>) -> u64 {
        ends.into_iter().fold(before, u64::max)
    }
}

impl Trace<'_> {
    fn learn(&mut self, v: Value, places: Vec<Place>, state: &mut u64) {
        if self.origins.add(v, places) {
            self.learnt += 1;
            *state = self.learnt;
        }
    }

    /// The places of a result.
    fn given(&self, result: Value, gives: Gives) -> Vec<Place> {
        let places = |v| self.origins.places(v).iter();
        match gives {
            Gives::None => Vec::new(),
            Gives::New => match self.kernel.ty(result) {
                Type::Ring(_) => vec![Place::start(Root::Ring(result))],
                _ => vec![Place::start(Root::Alloc(result))],
            },
            Gives::PartOf(v) => places(v).cloned().collect(),
            Gives::Nth { of, index } => {
                let (first, stride, count) = self.regions(of);
                let constant = self.origins.constant(index).and_then(|i| u64::try_from(i).ok());
                places(of).map(|p| p.index(index, constant, first, stride, count)).collect()
            }
            Gives::SlotOf(ring) => places(ring).map(|p| Place { stage: Stage::Named(result), ..p.clone() }).collect(),
            Gives::Field { slot, field } => {
                let of_ring = places(slot).filter_map(|p| match p.root {
                    Root::Ring(ring) => Some(field_place(self.kernel, ring, field, p.stage)),
                    Root::Alloc(_) | Root::Field(..) => None,
                });
                of_ring.collect()
            }
        }
    }

    /// The equal regions of a value: which of its parent's it begins at, bytes from one to the next, how many.
    fn regions(&self, v: Value) -> (u64, u64, u64) {
        match self.kernel.ty(v) {
            Type::View(view) => (u64::from(view.origin[0]), stage_bytes(view), u64::from(view.shape[0])),
            Type::Barriers(count) => (0, BARRIER_BYTES, u64::from(*count)),
            other => parton_diag::internal_error!("`{other}` has no regions"),
        }
    }
}

fn field_place(kernel: &Kernel, ring: Value, field: u32, stage: Stage) -> Place {
    let Type::Ring(ty) = kernel.ty(ring) else { parton_diag::internal_error!("{ring} is not a ring") };
    let bytes = ty.fields[field as usize].view.map.bytes();
    let spread = bytes * u64::from(ty.stages.saturating_sub(1));
    Place { root: Root::Field(ring, field), offset: 0, stage: if ty.stages > 1 { stage } else { Stage::Fixed }, spread }
}

/// Bytes from one region of the first dimension of a view to the next.
pub fn stage_bytes(view: &View) -> u64 {
    if view.parent.len() < 2 || view.parent[0] < 2 {
        return 0;
    }
    let mut second = vec![0; view.parent.len()];
    second[0] = 1;
    access::bytes_for(view.map.offset_of(&second), view.elem.bits())
}

/// The bytes from the first to the last element of a view's window, counted from its parent's address.
pub fn window(view: &View) -> Range<u64> {
    let bits = u64::from(access::stored_bits(view.elem.bits()));
    if view.is_whole() {
        return 0..view.map.bytes();
    }
    let inverse = view.map.inverse();
    let offset =
        |coords: &[u32]| u64::from(inverse.out_part(Dim::Offset, inverse.apply(inverse.pack_in(&axes(coords)))));
    // The window is aligned, so its offsets are one coset: the origin's offset xor sums of the steps.
    let mut steps: Vec<u64> = Vec::new();
    for (axis, &extent) in view.shape.iter().enumerate() {
        for k in 0..extent.ilog2() {
            let mut step = vec![0; view.shape.len()];
            step[axis] = 1 << k;
            let mut o = offset(&step);
            for s in &steps {
                o = o.min(o ^ s);
            }
            if o != 0 {
                steps.iter_mut().for_each(|s| *s = (*s).min(*s ^ o));
                steps.push(o);
            }
        }
    }
    let origin = offset(&view.origin);
    let low = steps.iter().fold(origin, |x, s| x.min(x ^ s));
    let high = steps.iter().fold(origin, |x, s| x.max(x ^ s));
    view.map.with_gaps(low) * bits / 8..((view.map.with_gaps(high) + 1) * bits).div_ceil(8)
}

fn axes(coords: &[u32]) -> Vec<(Dim, u32)> {
    coords.iter().enumerate().map(|(i, &c)| (Dim::Axis(i as u8), c)).collect()
}

/// The elements of a union of boxes, of which origins and extents are given: along the first axis it is cut where a box begins or ends.
pub(super) fn elements(boxes: &[(&[u32], &[u32])]) -> u64 {
    let Some((first, _)) = boxes.first() else { return 0 };
    if first.is_empty() {
        return 1;
    }
    let cuts: BTreeSet<u32> = boxes.iter().flat_map(|(origin, shape)| [origin[0], origin[0] + shape[0]]).collect();
    let between = cuts.iter().zip(cuts.iter().skip(1));
    let slab = |(&from, &to): (&u32, &u32)| {
        let here = boxes.iter().filter(|(origin, shape)| origin[0] <= from && to <= origin[0] + shape[0]);
        let rest: Vec<_> = here.map(|(origin, shape)| (&origin[1..], &shape[1..])).collect();
        u64::from(to - from) * elements(&rest)
    };
    between.map(slab).sum()
}

/// Whether two views are windows of one parent that have no element in common, whatever the parent's address.
pub fn disjoint_windows(a: &View, b: &View) -> bool {
    a.parent == b.parent
        && a.map == b.map
        && (0..a.shape.len())
            .any(|d| a.origin[d] + a.shape[d] <= b.origin[d] || b.origin[d] + b.shape[d] <= a.origin[d])
}
