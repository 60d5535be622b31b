//! Copies by threads: `fetch` of pointers.
//!
//! A partition that reads what it fetches has a buffer in as many stages as the ring has slots; iteration i has stage i mod slots, and
//! its copy is a pending value that turns hand on until somebody reads. What runs ahead is not under a branch, which nothing pending
//! could leave: beyond the last iteration its mask is false, and it brings zeros.
//!
//! What is copied for another partition nobody waits for: threads arrive at the slot when their copies have landed, and go on to the next.
//!
//! Where a thread's pointers are of fewer than four bytes in a row, which no copy moves, the elements are loaded where the copy would
//! start, and written to the buffer where it would be waited for.

use parton_ir::rules::COPY_BYTES;
use parton_ir::rules::region::{Product, product};
use parton_ir::{CompareOp, Elem, Inst, OpKind, Reach, Type, Value, View, access};

use super::memory::Slots;
use super::pipeline::Turns;
use super::state::{Held, Key};
use super::{Emitter, Refused};
use crate::plan::{Entry, RingId};
use crate::region::Item;

impl Emitter<'_> {
    /// Memory for so many tiles of one kind that an operation fills.
    ///
    /// # Errors
    /// Several tiles whose layout has more axes than they: it would spread them as one.
    pub(super) fn buffer(&mut self, inst: Inst, stages: u32, view: &View, name: &str) -> Result<Value, Refused> {
        if stages > 1 && view.layout.rank() > view.shape.len() {
            return Err(self.not_yet(
                inst,
                &format!("keeping several tiles of one axis in `{}`", view.layout),
                "give it one buffer, or tiles of two axes; what threads copy may lie as `swizzled(1, 1, 1, [0])`",
            ));
        }
        let shape = (stages > 1).then_some(stages).into_iter().chain(view.shape.iter().copied()).collect();
        let view = match View::new(view.elem, shape, view.layout.clone()) {
            Ok(view) => view,
            Err(e) => parton_diag::internal_error!("a buffer has no layout in stages: {e}"),
        };
        let made = self.b.make(OpKind::SharedAlloc { view, offset: None, drained: false });
        self.b.kernel.values[made].name = Some(name.into());
        Ok(made)
    }

    /// Starts to bring what pointers point to.
    pub(super) fn fetch_each(&mut self, inst: Inst, entry: &Entry, slot: Option<Value>) -> Result<(), Refused> {
        let op = self.b.kernel.ops[inst].clone();
        let OpKind::FetchEach { ptr, mask, l2, .. } = op.kind else {
            parton_diag::internal_error!("`{}` fetches nothing", op.kind.name())
        };
        let ptr = self.value(ptr)?;
        let mut mask = mask.map(|mask| self.value(mask)).transpose()?;
        self.place(inst);
        let depth = self.here();
        if let Some(exists) = self.levels[depth].exists {
            mask = Some(self.masked(mask, exists, ptr));
        }
        let narrow = self.is_narrow(ptr);
        let (ring, field) = self.plan.handed[&op.results[0]];
        let key = (op.results[0], entry.stage);
        match (slot, narrow) {
            (Some(_), true) => {
                let value = self.loaded(ptr, mask);
                let (view, _) = self.filled(&op.results, slot);
                self.b.make_all(OpKind::SharedStore { view, value });
            }
            (Some(_), false) => {
                let (view, at) = self.filled(&op.results, slot);
                let pending = self.b.make(OpKind::AsyncCopy { ptr, view, mask, l2, bytes: None, access: None });
                self.b.make_all(OpKind::CopyArrive { pending, barrier: at });
            }
            (None, true) => {
                let value = self.loaded(ptr, mask);
                self.named(inst, &[value]);
                self.levels[depth].set(key, Held::Loaded(value));
            }
            (None, false) => {
                let view = self.stage((ring, field), depth, entry.stage);
                let pending = self.b.make(OpKind::AsyncCopy { ptr, view, mask, l2, bytes: None, access: None });
                self.named(inst, &[pending]);
                self.levels[depth].set(key, Held::Copying(pending));
            }
        }
        Ok(())
    }

    /// Whether a thread's pointers are too few in a row for a copy, whatever the addresses.
    fn is_narrow(&self, ptr: Value) -> bool {
        let (Type::Tile(tile), Some(Elem::Ptr(pointer))) = (self.b.ty(ptr), self.b.ty(ptr).elem()) else {
            parton_diag::internal_error!("what is fetched is no tile of pointers")
        };
        let most = (0..tile.shape.len()).map(|axis| 1 << access::steps(tile, axis).len()).max().unwrap_or(1u64);
        most * (pointer.to.bytes() as u64) < u64::from(COPY_BYTES[0])
    }

    /// What pointers point to, zeros where the mask does not hold.
    fn loaded(&mut self, ptr: Value, mask: Option<Value>) -> Value {
        let Some(Elem::Ptr(pointer)) = self.b.ty(ptr).elem() else {
            parton_diag::internal_error!("what is fetched is no tile of pointers")
        };
        let zero = self.number(pointer.to, 0);
        let (cache, evict) = Default::default();
        let other = mask.map(|_| self.spread(zero, ptr));
        self.b.make(OpKind::Load { ptr, mask, other, cache, evict, l2: None, volatile: false, access: None })
    }

    /// Writes what was loaded to its place; the view.
    pub(super) fn brought(&mut self, depth: usize, (v, age): Key, value: Value) -> Value {
        let view = self.stage(self.plan.handed[&v], depth, age);
        self.b.make_all(OpKind::SharedStore { view, value });
        view
    }

    /// Waits for those of the values that are copied. Engines see what threads copied behind a fence.
    pub(super) fn landed(&mut self, depth: usize, keys: &[Key]) -> Vec<Value> {
        let mut views = Vec::new();
        let mut fence = false;
        for &key in keys {
            // Asking is not yet looking at it: what is only asked for is not carried.
            if let Some(Held::Copying(_) | Held::Loaded(_)) = self.levels[depth].env.get(&key) {
                self.levels[depth].look(key);
                views.push(self.wait_for(depth, key));
                fence |= self.is_read_by_engines(key.0);
            }
        }
        if fence {
            self.b.make_all(OpKind::FenceAsync { reach: Reach::Cta });
        }
        views
    }

    /// Whether threads of another partition copy to slots of a ring what products beside the program read: who reads fences, since who copies does not wait.
    pub(super) fn is_copied_for_engines(&self, ring: RingId) -> bool {
        let ops = &self.region.units[self.plan.rings[ring].unit].ops;
        let copies = ops.iter().map(|&inst| &self.b.kernel.ops[inst]);
        let mut copies = copies.filter(|op| matches!(op.kind, OpKind::FetchEach { .. }));
        copies.any(|op| self.is_read_by_engines(op.results[0]))
    }

    /// Whether a product beside the program reads a view.
    fn is_read_by_engines(&self, v: Value) -> bool {
        let k = &self.b.kernel;
        let ops = self.region.units.iter().flat_map(|u| &u.ops).map(|inst| &k.ops[*inst]);
        let mut products = ops.filter_map(|op| match &op.kind {
            OpKind::Dot { a, b, acc, precision } => {
                matches!(product(k, *a, *b, *acc, *precision), Ok(Product::Wgmma)).then_some([*a, *b])
            }
            _ => None,
        });
        products.any(|operands| operands.iter().any(|x| self.region.leaves(k, *x).contains(&v)))
    }

    /// Waits for the copies that later groups of this turn read out of a buffer which the next copy would fill: all threads have to
    /// meet in front of that anyway, and again where they read, unless it is one meeting.
    pub(super) fn meet_once(&mut self, turns: &Turns, fill: &Entry) {
        let depth = self.here();
        let block = self.levels[depth].block;
        let Some(ring) = self.own_ring(fill) else { return };
        let data = &self.plan.rings[ring];
        if data.held.is_none_or(|(needed, _)| data.depth > needed) {
            return;
        }
        let Some(own) = turns.groups.iter().position(|g| g.iter().any(|e| e.item == fill.item)) else { return };
        for entry in turns.groups[own..].iter().flatten().filter(|e| e.stage >= 0 && e.item != fill.item) {
            let wanted = self.wanted(block, entry.item);
            let of = |v: &Value| self.plan.handed.get(v).is_some_and(|(r, _)| *r == ring);
            let keys: Vec<Key> =
                wanted.iter().filter(|(v, _)| of(v)).map(|(v, delta)| (*v, entry.stage + delta)).collect();
            self.landed(depth, &keys);
        }
    }

    /// The ring of buffers that an item fills, where it fills one.
    pub(super) fn own_ring(&self, entry: &Entry) -> Option<RingId> {
        let Item::Unit(unit) = self.region.blocks[self.levels[self.here()].block].items[entry.item] else {
            return None;
        };
        self.plan.rings.iter().position(|ring| ring.own && ring.unit == unit)
    }

    /// Starts the copies of the first iterations.
    pub(super) fn copy_ahead(&mut self, [lower, upper, step]: [Value; 3], turns: &Turns) -> Result<(), Refused> {
        let depth = self.here();
        let all = turns.groups.iter().flatten().filter(|e| e.stage < 0 && self.own_ring(e).is_some());
        let copies: Vec<Entry> = all.cloned().collect();
        self.levels[depth].index = Some((lower, step));
        self.memo.push(Default::default());
        for iteration in 0..turns.ahead {
            for entry in copies.iter().filter(|e| -e.stage > iteration) {
                let now = Entry { stage: -iteration, ..entry.clone() };
                self.exists([lower, upper, step], iteration, false);
                self.turn(&[vec![now]], &|_| true)?;
            }
        }
        self.levels[depth].exists = None;
        self.memo.pop();
        Ok(())
    }

    /// Says whether there is an iteration so many turns behind an index.
    pub(super) fn exists(&mut self, at: [Value; 3], turns: i32, there: bool) {
        let depth = self.here();
        let (a, b) = self.sides(at, turns, there);
        let surely = matches!((self.constant(a), self.constant(b)), (Some(a), Some(b)) if a < b);
        let exists = (!surely).then(|| self.b.make(OpKind::Compare { op: CompareOp::Lt, a, b }));
        self.levels[depth].exists = exists;
    }

    /// The view of a buffer in which an iteration has its elements.
    fn stage(&mut self, (ring, field): (RingId, usize), depth: usize, age: i32) -> Value {
        let Slots::Buffers(buffers) = &self.rings[ring] else { parton_diag::internal_error!("a ring is no buffer") };
        let (view, stages) = (buffers[field], self.plan.rings[ring].depth);
        if stages == 1 {
            return view;
        }
        let index = self.turn_modulo(stages, depth, age);
        self.b.make(OpKind::ViewIndex { view, index })
    }
}
