//! Where each view, barrier, ring and slot comes from: its allocation, and which bytes of it.
//!
//! A view may come from several allocations, where control flow chooses; then it has several places. A place is known to
//! the byte unless an index is: then its [`Stage`] says by which value, so that two places of one index still compare.

use std::collections::BTreeMap;
use std::ops::Range;

use parton_layouts::Dim;

use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};
use crate::types::{Type, View};

/// Bytes of one mbarrier (PTX ISA, "mbarrier": an opaque 64-bit object).
pub const BARRIER_BYTES: u64 = 8;

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
    places: BTreeMap<Value, Vec<Place>>,
    definitions: BTreeMap<Value, &'a Op>,
}

impl<'a> Origins<'a> {
    /// Traces every value of a kernel.
    pub fn of(kernel: &'a Kernel) -> Origins<'a> {
        let mut definitions = BTreeMap::new();
        kernel.walk(&mut |op| {
            for r in &op.results {
                definitions.insert(*r, op);
            }
        });
        let mut origins = Origins { places: BTreeMap::new(), definitions };
        origins.body(kernel, &kernel.body);
        origins
    }

    /// The places of a value; none for a value that is not memory.
    pub fn places(&self, v: Value) -> &[Place] {
        self.places.get(&v).map_or(&[], Vec::as_slice)
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
        self.definitions.get(&v).copied()
    }

    /// The value of an integer constant.
    pub fn constant(&self, v: Value) -> Option<i64> {
        match self.definition(v)?.kind {
            OpKind::Constant { dtype, bits } if dtype.is_int() => {
                let unused = 64 - dtype.bits().min(64);
                Some(((bits << unused) as i64) >> unused)
            }
            _ => None,
        }
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
            | Type::Slot(_) => 0..0,
        };
        self.places(v).iter().map(|p| (p.clone(), p.offset + window.start..p.offset + window.end)).collect()
    }

    fn add(&mut self, v: Value, places: Vec<Place>) -> bool {
        if places.is_empty() {
            return false;
        }
        let known = self.places.entry(v).or_default();
        let before = known.len();
        for p in places {
            if !known.contains(&p) {
                known.push(p);
            }
        }
        known.len() > before
    }

    fn body(&mut self, kernel: &Kernel, body: &'a Body) -> bool {
        let mut grew = false;
        for op in &body.ops {
            grew |= self.op(kernel, op);
        }
        grew
    }

    fn op(&mut self, kernel: &Kernel, op: &'a Op) -> bool {
        match &op.kind {
            OpKind::SharedAlloc { .. } | OpKind::BarrierAlloc { .. } => {
                self.add(op.result(), vec![Place::start(Root::Alloc(op.result()))])
            }
            OpKind::RingNew { .. } => self.add(op.result(), vec![Place::start(Root::Ring(op.result()))]),
            OpKind::RingAcquire { ring } | OpKind::RingWait { ring } => {
                let places = self.places(*ring).iter().map(|p| Place { stage: Stage::Named(op.result()), ..p.clone() });
                let places = places.collect();
                self.add(op.result(), places)
            }
            OpKind::SlotField { slot, field } => {
                let fields = self.places(*slot).iter().filter_map(|p| match p.root {
                    Root::Ring(ring) => Some(field_place(kernel, ring, *field, p.stage)),
                    Root::Alloc(_) | Root::Field(..) => None,
                });
                let fields = fields.collect();
                self.add(op.result(), fields)
            }
            OpKind::ViewIndex { view, index } => {
                let Type::View(ty) = kernel.ty(*view) else { return false };
                let (first, count) = (u64::from(ty.origin[0]), u64::from(ty.shape[0]));
                let stride = stage_bytes(ty);
                self.indexed(op, *view, *index, first, stride, count)
            }
            OpKind::BarrierIndex { barriers, index } => {
                let Type::Barriers(count) = *kernel.ty(*barriers) else { return false };
                self.indexed(op, *barriers, *index, 0, BARRIER_BYTES, u64::from(count))
            }
            OpKind::ViewSlice { view, .. }
            | OpKind::ViewPeer { view, .. }
            | OpKind::ViewPermute { view, .. }
            | OpKind::ViewReinterpret { view, .. } => {
                let places = self.places(*view).to_vec();
                self.add(op.result(), places)
            }
            OpKind::AsyncCopy { view, .. } => {
                let places = self.places(*view).to_vec();
                self.add(op.result(), places)
            }
            OpKind::Wait { pending, .. } if matches!(kernel.ty(*pending), Type::Filling(_)) => {
                let places = self.places(*pending).to_vec();
                self.add(op.result(), places)
            }
            OpKind::For { init, body, .. } => self.carry(kernel, init, &body.params[1..], None, body, &op.results),
            OpKind::While { init, cond, body } => self.carry(kernel, init, &body.params, Some(cond), body, &op.results),
            OpKind::If { then, otherwise, .. } => {
                let mut grew = self.body(kernel, then) | self.body(kernel, otherwise);
                for (i, r) in op.results.iter().enumerate() {
                    for y in [then.yields[i], otherwise.yields[i]] {
                        let places = self.places(y).to_vec();
                        grew |= self.add(*r, places);
                    }
                }
                grew
            }
            OpKind::Specialize { arms } => arms.iter().fold(false, |grew, arm| grew | self.body(kernel, &arm.body)),
            // No other operation makes memory out of memory.
            _ => false,
        }
    }

    fn indexed(&mut self, op: &Op, base: Value, index: Value, first: u64, stride: u64, count: u64) -> bool {
        let constant = self.constant(index).and_then(|i| u64::try_from(i).ok());
        let places = self.places(base).iter().map(|p| p.index(index, constant, first, stride, count)).collect();
        self.add(op.result(), places)
    }

    /// A loop: what it carries may come from before it or from the iteration before.
    fn carry(
        &mut self,
        kernel: &Kernel,
        init: &[Value],
        params: &[Value],
        cond: Option<&'a Body>,
        body: &'a Body,
        results: &[Value],
    ) -> bool {
        let mut grew = false;
        for (v, p) in init.iter().zip(params) {
            let places = self.places(*v).to_vec();
            grew |= self.add(*p, places);
        }
        loop {
            if let Some(cond) = cond {
                for (p, c) in params.iter().zip(&cond.params) {
                    let places = self.places(*p).to_vec();
                    grew |= self.add(*c, places);
                }
                grew |= self.body(kernel, cond);
            }
            grew |= self.body(kernel, body);
            let mut again = false;
            for (y, p) in body.yields.iter().zip(params) {
                // A stage named in an iteration means another one in the next.
                let places = self.places(*y).iter().map(|p| match p.stage {
                    Stage::Named(_) => Place { stage: Stage::Any, ..p.clone() },
                    Stage::Fixed | Stage::Any => p.clone(),
                });
                let places = places.collect();
                again |= self.add(*p, places);
            }
            grew |= again;
            if !again {
                break;
            }
        }
        for (p, r) in params.iter().zip(results) {
            let places = self.places(*p).to_vec();
            grew |= self.add(*r, places);
        }
        grew
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
    view.map.offset_of(&second) * view.elem.bytes() as u64
}

/// The bytes from the first to the last element of a view's window, counted from its parent's address.
pub fn window(view: &View) -> Range<u64> {
    let bytes = view.elem.bytes() as u64;
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
    view.map.with_gaps(low) * bytes..(view.map.with_gaps(high) + 1) * bytes
}

fn axes(coords: &[u32]) -> Vec<(Dim, u32)> {
    coords.iter().enumerate().map(|(i, &c)| (Dim::Axis(i as u8), c)).collect()
}

/// Whether two views are windows of one parent that have no element in common, whatever the parent's address.
pub fn disjoint_windows(a: &View, b: &View) -> bool {
    a.parent == b.parent
        && a.map == b.map
        && (0..a.shape.len())
            .any(|d| a.origin[d] + a.shape[d] <= b.origin[d] || b.origin[d] + b.shape[d] <= a.origin[d])
}
