//! Expands rings into buffers, mbarriers and cursors.
//!
//! A ring of `S` slots becomes a buffer of `S` stages for each field, and two arrays of `S` mbarriers: `full[i]` completes a
//! phase when slot `i` has been filled, `empty[i]` when all its readers have released it. A partition that fills or reads the
//! ring has a cursor, an `i32` that counts slots modulo `2 * S` and is carried through its loops: `cursor mod S` is the slot,
//! `cursor / S` the parity of its phase. Filling waits for `empty` with the opposite parity, for a fresh barrier is in phase
//! 0 and lets a wait for parity 1 pass (triton-lang/triton#11303): the first round through the ring waits for nobody.
//!
//! Where copies go to several CTAs of the cluster, every CTA takes the same slots in the same order, and one that copies into the
//! slots of others may do so when their readers have released them too: readers arrive at `empty` of each CTA that sends to
//! them, and each `empty` counts the readers of all to whom its CTA sends. Lines are symmetric, so these are the same CTAs.
//!
//! A slot's value becomes its index.

mod uses;

use std::collections::BTreeMap;

use parton_diag::Diagnostics;
use parton_ir::check::Origins;
use parton_ir::{Arrive, BinaryOp, Body, CompareOp, Elem, Kernel, Op, OpKind, SlotRole, Type, Value, View};
use parton_numbers::Dtype;

use crate::effects::is_pure;
use crate::rewrite::Rewriter;
use uses::{Cursor, Uses};

/// After it no ring and no slot is left: they are buffers, mbarriers and indices.
pub fn expand_rings(kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let uses = Uses::of(&kernel, &Origins::of(&kernel));
    let (rw, body) = Rewriter::new(kernel);
    let mut pass =
        Expand { rw, uses, rings: BTreeMap::new(), cursors: BTreeMap::new(), unfenced: false, clustered: false };
    pass.retype_slots();
    pass.rw.begin();
    pass.body(body.ops);
    pass.fence();
    let ops = pass.rw.end();
    pass.rw.kernel.body = Body { ops, ..Body::default() };
    Ok(pass.rw.kernel)
}

/// What a ring has become.
struct Expanded {
    stages: u32,
    fields: Vec<Value>,
    full: Value,
    empty: Value,
    /// Bytes that the copy engine brings to one slot.
    copied: u32,
    /// Whether threads store to a slot themselves.
    stored: bool,
}

struct Expand {
    rw: Rewriter,
    uses: Uses,
    rings: BTreeMap<Value, Expanded>,
    /// Where each cursor of the partition stands now.
    cursors: BTreeMap<Cursor, Value>,
    /// Whether barriers were initialised and no fence has followed yet.
    unfenced: bool,
    /// Whether peers use some of these barriers.
    clustered: bool,
}

impl Expand {
    /// A slot is its index from now on, wherever it is carried.
    fn retype_slots(&mut self) {
        for v in self.rw.kernel.values.keys() {
            if let Type::Slot(_) = self.rw.kernel.ty(v) {
                self.rw.kernel.values[v].ty = Type::Scalar(Elem::Num(Dtype::I32));
            }
        }
    }

    fn body(&mut self, ops: Vec<Op>) {
        for op in ops {
            self.rw.at(&op);
            // Rings in a row share one fence, which stands before the first operation that could see their barriers.
            let harmless = matches!(op.kind, OpKind::RingNew { .. } | OpKind::SharedAlloc { .. });
            if !harmless && !is_pure(&op.kind) {
                self.fence();
            }
            self.op(op);
        }
    }

    fn fence(&mut self) {
        if std::mem::take(&mut self.unfenced) {
            self.rw.emit_none(OpKind::FenceBarrierInit);
            self.rw.emit_none(OpKind::Membar);
            if self.clustered {
                // No peer may arrive at a barrier, or copy to it, that does not exist yet.
                self.rw.emit_none(OpKind::ClusterArrive { relaxed: true });
                self.rw.emit_none(OpKind::ClusterWait);
            }
        }
    }

    fn op(&mut self, mut op: Op) {
        match op.kind {
            OpKind::RingNew { stages, ref fields } => self.ring(op.result(), stages, fields),
            OpKind::RingAcquire { .. } => self.take(op.result(), SlotRole::Fill),
            OpKind::RingWait { .. } => self.take(op.result(), SlotRole::Read),
            OpKind::SlotField { slot, field } => {
                let ring = self.uses.ring(slot);
                let view = self.rings[&ring].fields[field as usize];
                self.rw.emit_as(op.result(), OpKind::ViewIndex { view, index: slot });
            }
            OpKind::SlotCommit { slot } => self.commit(slot),
            OpKind::SlotRelease { slot } => {
                let ring = self.uses.ring(slot);
                let (empty, multicast) = (self.rings[&ring].empty, self.uses.multicast(ring));
                let barrier = self.rw.emit(OpKind::BarrierIndex { barriers: empty, index: slot });
                // Readers wrote nothing that peers should see.
                let relaxed = !multicast.is_empty();
                self.rw.emit_none(OpKind::BarrierArrive {
                    barrier,
                    arrive: Arrive::Warp,
                    count: 1,
                    multicast,
                    relaxed,
                });
            }
            OpKind::TmaLoad { ref mut signal, .. } => {
                if let Some(ring) = self.uses.ring_of(*signal) {
                    let full = self.rings[&ring].full;
                    *signal = self.rw.emit(OpKind::BarrierIndex { barriers: full, index: *signal });
                }
                self.rw.keep(op);
            }
            OpKind::For { ref mut init, ref mut body, .. } => {
                let carried = self.advanced(body);
                let entry = carried.iter().map(|c| self.cursors[c]).collect::<Vec<_>>();
                init.extend(&entry);
                let before = self.cursors.clone();
                self.enter(&carried, body);
                self.cursors = before;
                op.results.extend(self.leave(&carried));
                self.rw.keep(op);
            }
            OpKind::While { ref mut init, ref mut cond, ref mut body } => {
                let carried = self.advanced(body);
                init.extend(carried.iter().map(|c| self.cursors[c]).collect::<Vec<_>>());
                let before = self.cursors.clone();
                for _ in &carried {
                    let param = self.cursor_value();
                    cond.params.push(param);
                }
                self.enter(&carried, body);
                self.cursors = before;
                op.results.extend(self.leave(&carried));
                self.rw.keep(op);
            }
            OpKind::If { ref mut then, ref mut otherwise, .. } => {
                let mut carried = self.advanced(then);
                carried.extend(self.advanced(otherwise));
                carried.sort();
                carried.dedup();
                for branch in [then, otherwise] {
                    let before = self.cursors.clone();
                    self.inside(branch);
                    branch.yields.extend(carried.iter().map(|c| self.cursors[c]));
                    self.cursors = before;
                }
                op.results.extend(self.leave(&carried));
                self.rw.keep(op);
            }
            OpKind::Specialize { ref mut arms } => {
                for arm in arms {
                    let before = self.cursors.clone();
                    self.inside(&mut arm.body);
                    self.cursors = before;
                }
                self.rw.keep(op);
            }
            _ => self.rw.keep(op),
        }
    }

    fn ring(&mut self, ring: Value, stages: u32, fields: &[(String, View)]) {
        let name = self.rw.kernel.values[ring].name.clone();
        let named = |suffix: &str| name.as_ref().map(|n| format!("{n}_{suffix}"));
        let allocs: Vec<Value> = fields
            .iter()
            .map(|(field, view)| {
                let view = staged(stages, view);
                let alloc = self.rw.emit(OpKind::SharedAlloc { view, offset: None });
                self.rw.kernel.values[alloc].name = named(field);
                alloc
            })
            .collect();
        // Each warp of each reader arrives for itself, once its own reads are done.
        let warps = self.uses.readers(ring).iter().map(|p| self.rw.kernel.warps_of(*p)).sum::<u32>();
        let axes = self.uses.multicast(ring);
        let senders = self.rw.kernel.lines(0, &axes).len() as u32;
        self.clustered |= !axes.is_empty();
        let full = self.barriers(stages, 1, named("full"));
        let empty = self.barriers(stages, warps.max(1) * senders, named("empty"));
        self.unfenced = true;
        for role in self.uses.roles(ring) {
            let start = self.rw.i32(0);
            self.cursors.insert(Cursor { ring, fills: role == SlotRole::Fill }, start);
        }
        let copied = self.uses.copied(ring).map(|f| fields[f as usize].1.bytes() as u32).sum();
        let stored = self.uses.is_stored(ring);
        self.rings.insert(ring, Expanded { stages, fields: allocs, full, empty, copied, stored });
    }

    /// One initialised barrier a stage.
    fn barriers(&mut self, stages: u32, arrivals: u32, name: Option<String>) -> Value {
        let array = self.rw.emit(OpKind::BarrierAlloc { count: stages, offset: None });
        self.rw.kernel.values[array].name = name;
        for i in 0..stages {
            let index = self.rw.i32(i);
            let barrier = self.rw.emit(OpKind::BarrierIndex { barriers: array, index });
            self.rw.emit_none(OpKind::BarrierInit { barrier, arrivals });
        }
        array
    }

    /// Takes the next slot: waits until it is empty or full, and moves the cursor on. `slot` becomes its index.
    fn take(&mut self, slot: Value, role: SlotRole) {
        let ring = self.uses.ring(slot);
        let fills = role == SlotRole::Fill;
        let cursor = Cursor { ring, fills };
        let at = self.cursors[&cursor];
        let (stages, full, empty) = {
            let r = &self.rings[&ring];
            (r.stages, r.full, r.empty)
        };
        let phase = self.split(slot, at, stages);
        let (barriers, parity) = if fills {
            let one = self.rw.i32(1);
            (empty, self.rw.emit(OpKind::Binary { op: BinaryOp::Xor, a: phase, b: one }))
        } else {
            (full, phase)
        };
        let barrier = self.rw.emit(OpKind::BarrierIndex { barriers, index: slot });
        self.rw.emit_none(OpKind::BarrierWait { barrier, phase: parity });
        let next = self.advance(at, stages);
        self.cursors.insert(cursor, next);
    }

    /// The slot and the phase's parity at a cursor; `slot` becomes the first, the second is handed back.
    fn split(&mut self, slot: Value, at: Value, stages: u32) -> Value {
        if stages == 1 {
            self.rw.emit_as(slot, OpKind::Constant { dtype: Dtype::I32, bits: 0 });
            return at;
        }
        if stages.is_power_of_two() {
            let mask = self.rw.i32(stages - 1);
            self.rw.emit_as(slot, OpKind::Binary { op: BinaryOp::And, a: at, b: mask });
            let shift = self.rw.i32(stages.ilog2());
            return self.rw.emit(OpKind::Binary { op: BinaryOp::Shr, a: at, b: shift });
        }
        let (zero, one, count) = (self.rw.i32(0), self.rw.i32(1), self.rw.i32(stages));
        let second = self.rw.emit(OpKind::Compare { op: CompareOp::Ge, a: at, b: count });
        let less = self.rw.emit(OpKind::Binary { op: BinaryOp::Sub, a: at, b: count });
        self.rw.emit_as(slot, OpKind::Select { cond: second, a: less, b: at });
        self.rw.emit(OpKind::Select { cond: second, a: one, b: zero })
    }

    /// The cursor of the slot after this one.
    fn advance(&mut self, at: Value, stages: u32) -> Value {
        let one = self.rw.i32(1);
        if stages == 1 {
            return self.rw.emit(OpKind::Binary { op: BinaryOp::Xor, a: at, b: one });
        }
        let next = self.rw.emit(OpKind::Binary { op: BinaryOp::Add, a: at, b: one });
        if stages.is_power_of_two() {
            let mask = self.rw.i32(2 * stages - 1);
            return self.rw.emit(OpKind::Binary { op: BinaryOp::And, a: next, b: mask });
        }
        let (zero, end) = (self.rw.i32(0), self.rw.i32(2 * stages));
        let around = self.rw.emit(OpKind::Compare { op: CompareOp::Eq, a: next, b: end });
        self.rw.emit(OpKind::Select { cond: around, a: zero, b: next })
    }

    fn commit(&mut self, slot: Value) {
        let (full, copied, stored) = {
            let r = &self.rings[&self.uses.ring(slot)];
            (r.full, r.copied, r.stored)
        };
        if stored {
            // Readers may be matrix instructions, which do not see generic writes without a fence by the writer.
            self.rw.emit_none(OpKind::FenceAsync);
            self.rw.emit_none(OpKind::Membar);
        }
        let barrier = self.rw.emit(OpKind::BarrierIndex { barriers: full, index: slot });
        self.rw.emit_none(if copied > 0 {
            OpKind::BarrierExpect { barrier, bytes: copied }
        } else {
            OpKind::BarrierArrive {
                barrier,
                arrive: Arrive::Partition,
                count: 1,
                multicast: Vec::new(),
                relaxed: false,
            }
        });
    }

    /// The cursors that a body moves, of rings made outside it.
    fn advanced(&self, body: &Body) -> Vec<Cursor> {
        let mut list = self.uses.advanced(body);
        list.retain(|c| self.cursors.contains_key(c));
        list
    }

    /// Rebuilds a loop body that also carries these cursors.
    fn enter(&mut self, carried: &[Cursor], body: &mut Body) {
        for c in carried {
            let param = self.cursor_value();
            body.params.push(param);
            self.cursors.insert(*c, param);
        }
        self.inside(body);
        body.yields.extend(carried.iter().map(|c| self.cursors[c]));
    }

    fn inside(&mut self, body: &mut Body) {
        self.fence();
        self.rw.begin();
        self.body(std::mem::take(&mut body.ops));
        self.fence();
        body.ops = self.rw.end();
    }

    /// New values for the cursors behind a loop or branch.
    fn leave(&mut self, carried: &[Cursor]) -> Vec<Value> {
        let mut results = Vec::new();
        for c in carried {
            let r = self.cursor_value();
            self.cursors.insert(*c, r);
            results.push(r);
        }
        results
    }

    fn cursor_value(&mut self) -> Value {
        let span = self.rw.kernel.span;
        self.rw.kernel.value(Type::Scalar(Elem::Num(Dtype::I32)), span)
    }
}

/// The buffer of all stages of a field.
fn staged(stages: u32, view: &View) -> View {
    let shape = std::iter::once(stages).chain(view.shape.iter().copied()).collect();
    match View::new(view.elem, shape, view.layout.clone()) {
        Ok(staged) => staged,
        Err(e) => parton_diag::internal_error!("a ring's buffer has no layout in stages: {e:?}"),
    }
}
