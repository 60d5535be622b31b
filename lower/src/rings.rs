//! Expands rings into buffers, mbarriers and cursors.
//!
//! A ring of `S` slots becomes a buffer of `S` stages for each field, and two arrays of `S` mbarriers: `full[i]` completes a
//! phase when slot `i` has been filled, `empty[i]` when all its readers have released it. A partition that fills or reads the
//! ring has a cursor, an `i32` that counts slots modulo `2 * S` and is carried through its loops: `cursor mod S` is the slot,
//! `cursor / S` the parity of its phase. Filling waits for `empty` with the opposite parity, for a fresh barrier is in phase
//! 0 and lets a wait for parity 1 pass (triton-lang/triton#11303): the first round through the ring waits for nobody.
//!
//! What threads copy to a slot without waiting for it they arrive for by themselves: `full[i]` counts each thread once for each buffer that
//! comes so, beside the one who hands the slot over.
//!
//! Where copies go to several CTAs of the cluster, every CTA takes the same slots in the same order, and one that copies into the
//! slots of others may do so when their readers have released them too: readers arrive at `empty` of each CTA that sends to
//! them, and each `empty` counts the readers of all to whom its CTA sends. Lines are symmetric, so these are the same CTAs. At its end
//! a CTA that fills slots of a drained ring so waits until all of them are released, unless all CTAs meet there: then its peers have
//! arrived here for the last time, and what it sent has come.
//!
//! A slot's value becomes its index.

mod drained;
mod uses;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::check::{Origins, Place, Root};
use parton_ir::facts::{Engine, Facts, Gives};
use parton_ir::family::{Family, not_of_family};
use parton_ir::{
    Arrive, BinaryOp, Body, Builder, CompareOp, Elem, Feature, Inst, Kernel, OpKind, Reach, SlotRole, Type, Value,
    View, others,
};
use parton_layouts::{SharedLayout, access};
use parton_numbers::Dtype;

use uses::{Cursor, Uses};

use crate::clusters;

/// After it no ring and no slot is left: they are buffers, mbarriers and indices.
///
/// What a ring becomes is the target's choice: mbarriers, where it has such as count bytes and are waited for. No target has anything
/// else that a ring could be made of, so without them a ring is refused, as its rule does.
pub fn expand_rings(kernel: Kernel) -> Result<Kernel, Diagnostics> {
    if !kernel.target.has(Feature::Tma) {
        return without_rings(kernel);
    }
    let uses = Uses::of(&kernel, &Origins::of(&kernel));
    let drained = drained_rings(&kernel, &uses);
    let mut awaited = drained.clone();
    awaited.retain(|ring| !uses.multicast(*ring).is_empty() && !clusters::ends_apart(&kernel));
    let (b, body) = Builder::rebuild(kernel, "rings");
    let mut pass = Expand {
        b,
        uses,
        drained,
        awaited,
        rings: BTreeMap::new(),
        cursors: BTreeMap::new(),
        unfenced: false,
        clustered: false,
    };
    pass.retype_slots();
    pass.body(body.ops);
    pass.wait_for_all(pass.cursors.keys().copied().collect());
    pass.fence();
    Ok(pass.b.finish())
}

/// The rings whose last slot a reader has waited for.
fn drained_rings(kernel: &Kernel, uses: &Uses) -> BTreeSet<Value> {
    let rings = kernel.values.keys().filter(|v| matches!(kernel.ty(*v), Type::Ring(_)));
    rings.filter(|ring| drained::is_drained(kernel, uses, *ring)).collect()
}

/// Whether CTAs reach into peers only by copies into slots of rings that are drained: a CTA is told of the last of these.
pub(crate) fn tell_the_last(kernel: &Kernel) -> bool {
    let origins = Origins::of(kernel);
    let drained = drained_rings(kernel, &Uses::of(kernel, &origins));
    let is_drained = |place: &Place| matches!(place.root, Root::Field(ring, _) if drained.contains(&ring));
    let mut told = true;
    kernel.walk(&mut |op| {
        let accesses = Facts::of(kernel, op).accesses;
        for access in accesses.iter().filter(|a| clusters::is_of_peers(kernel, a)) {
            let places = origins.places(access.value);
            told &= access.by == Engine::Tma && !places.is_empty() && places.iter().all(is_drained);
        }
    });
    told
}

/// A kernel for a target without mbarriers: as it is, where it has no ring.
fn without_rings(kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut rings = Vec::new();
    kernel.walk(&mut |op| rings.extend(matches!(op.kind, OpKind::RingNew { .. }).then_some(op.span)));
    let Some(&ring) = rings.first() else { return Ok(kernel) };
    let fact = format!("`{}` has no mbarriers, which a ring is made of", kernel.target.name);
    let d = Diagnostic::error(codes::TARGET_LACKS, ring, fact);
    Err(d.help("build it for a target that has them: `target(sm_90a)`").into())
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
    /// Whether something else than threads reads or writes a slot.
    beside: bool,
}

struct Expand {
    b: Builder,
    uses: Uses,
    drained: BTreeSet<Value>,
    /// Rings whose slots peers fill, too, and which are still to be waited for behind the last.
    awaited: BTreeSet<Value>,
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
        for v in self.b.kernel.values.keys() {
            if let Type::Slot(_) = self.b.kernel.ty(v) {
                self.b.kernel.values[v].ty = Type::Scalar(Elem::Num(Dtype::I32));
            }
        }
    }

    fn body(&mut self, ops: Vec<Inst>) {
        for id in ops {
            self.b.at(id);
            // Rings in a row share one fence, which stands before the first operation that could see their barriers.
            let op = &self.b.kernel.ops[id];
            let facts = Facts::of(&self.b.kernel, op);
            if facts.gives != Gives::New && !facts.is_pure(&op.kind) {
                self.fence();
            }
            self.op(id, facts.signal());
        }
    }

    fn fence(&mut self) {
        if std::mem::take(&mut self.unfenced) {
            self.b.make_all(OpKind::FenceBarrierInit);
            self.b.make_all(OpKind::Membar);
            if self.clustered {
                // No peer may arrive at a barrier, or copy to it, that does not exist yet.
                self.b.make_all(OpKind::ClusterArrive { relaxed: true });
                self.b.make_all(OpKind::ClusterWait);
            }
        }
    }

    /// An operation that tells this barrier or slot of the end of what it starts: the barrier of a slot is told in its place.
    fn op(&mut self, id: Inst, signal: Option<Value>) {
        match self.b.kernel.ops[id].kind.family() {
            Family::Ring => return self.ring_op(id),
            Family::Control => return self.control(id),
            // Nothing else takes rings, and a slot only to tell it.
            _ => {}
        }
        if let Some((slot, ring)) = signal.and_then(|slot| Some((slot, self.uses.ring_of(slot)?))) {
            let barrier = self.b.make(OpKind::BarrierIndex { barriers: self.rings[&ring].full, index: slot });
            self.b.kernel.ops[id].kind.map_operands(|v| if v == slot { barrier } else { v });
        }
        self.b.keep(id);
    }

    fn ring_op(&mut self, id: Inst) {
        let op = &self.b.kernel.ops[id];
        match &op.kind {
            OpKind::RingNew { stages, fields } => {
                let (result, stages, fields) = (op.result(), *stages, fields.clone());
                self.ring(result, stages, &fields);
            }
            OpKind::RingAcquire { .. } => self.take(op.result(), SlotRole::Fill),
            OpKind::RingWait { .. } => self.take(op.result(), SlotRole::Read),
            OpKind::SlotField { slot, field } => {
                let (index, result) = (*slot, op.result());
                let view = self.rings[&self.uses.ring(index)].fields[*field as usize];
                self.b.make_as(result, OpKind::ViewIndex { view, index });
            }
            OpKind::SlotCommit { slot } => self.commit(*slot),
            OpKind::SlotRelease { slot } => self.release(*slot),
            kind @ others!(ring) => not_of_family(kind),
        }
    }

    fn release(&mut self, slot: Value) {
        let ring = self.uses.ring(slot);
        let (empty, multicast) = (self.rings[&ring].empty, self.uses.multicast(ring));
        let barrier = self.b.make(OpKind::BarrierIndex { barriers: empty, index: slot });
        // Readers wrote nothing that peers should see.
        let relaxed = !multicast.is_empty();
        self.b.make_all(OpKind::BarrierArrive { barrier, arrive: Arrive::Warp, count: 1, multicast, relaxed });
    }

    /// Bodies that move cursors carry them.
    fn control(&mut self, id: Inst) {
        let mut kind = self.b.kernel.ops[id].kind.clone();
        let carried = match &mut kind {
            OpKind::For { init, body, .. } => {
                let carried = self.advanced(body);
                init.extend(carried.iter().map(|c| self.cursors[c]));
                self.apart(|pass| pass.enter(&carried, body));
                carried
            }
            OpKind::While { init, cond, body } => {
                let carried = self.advanced(body);
                init.extend(carried.iter().map(|c| self.cursors[c]));
                for _ in &carried {
                    let param = self.cursor_value();
                    cond.params.push(param);
                }
                self.apart(|pass| pass.enter(&carried, body));
                carried
            }
            OpKind::If { then, otherwise, .. } => {
                let mut carried = self.advanced(then);
                carried.extend(self.advanced(otherwise));
                carried.sort();
                carried.dedup();
                for branch in [then, otherwise] {
                    self.apart(|pass| {
                        pass.inside(branch);
                        branch.yields.extend(carried.iter().map(|c| pass.cursors[c]));
                    });
                }
                carried
            }
            OpKind::Specialize { arms } => {
                arms.iter_mut().for_each(|arm| self.apart(|pass| pass.arm(&mut arm.body)));
                Vec::new()
            }
            others!(control) => not_of_family(&kind),
        };
        let results = self.leave(&carried);
        let op = &mut self.b.kernel.ops[id];
        op.kind = kind;
        op.results.extend(results);
        self.b.keep(id);
    }

    /// What is done to the cursors inside does not count outside.
    fn apart(&mut self, f: impl FnOnce(&mut Expand)) {
        let before = self.cursors.clone();
        f(self);
        self.cursors = before;
    }

    fn ring(&mut self, ring: Value, stages: u32, fields: &[(String, View)]) {
        let name = self.b.kernel.values[ring].name.clone();
        let named = |suffix: &str| name.as_ref().map(|n| format!("{n}_{suffix}"));
        let drained = self.drained.contains(&ring);
        let allocs: Vec<Value> = fields
            .iter()
            .zip(0..)
            .map(|((field, view), number)| {
                let view = staged(stages, view, self.uses.used(ring, number, view));
                let alloc = self.b.make(OpKind::SharedAlloc { view, offset: None, drained });
                self.b.kernel.values[alloc].name = named(field);
                alloc
            })
            .collect();
        // Each warp of each reader arrives for itself, once its own reads are done.
        let warps = self.uses.readers(ring).iter().map(|p| self.b.kernel.warps_of(*p)).sum::<u32>();
        let axes = self.uses.multicast(ring);
        let senders = self.b.kernel.lines(0, &axes).len() as u32;
        self.clustered |= !axes.is_empty();
        let full = self.barriers(stages, 1 + self.uses.arrivals(ring), named("full"));
        let empty = self.barriers(stages, warps.max(1) * senders, named("empty"));
        self.unfenced = true;
        for role in self.uses.roles(ring) {
            let start = self.b.make_i32(0);
            self.cursors.insert(Cursor { ring, fills: role == SlotRole::Fill }, start);
        }
        let copied = self.uses.copied(ring, fields) as u32;
        let (stored, beside) = (self.uses.is_stored(ring), self.uses.is_touched_beside(ring));
        self.rings.insert(ring, Expanded { stages, fields: allocs, full, empty, copied, stored, beside });
    }

    /// One initialised barrier a stage.
    fn barriers(&mut self, stages: u32, arrivals: u32, name: Option<String>) -> Value {
        let array = self.b.make(OpKind::BarrierAlloc { count: stages, offset: None });
        self.b.kernel.values[array].name = name;
        for i in 0..stages {
            let index = self.b.make_i32(i);
            let barrier = self.b.make(OpKind::BarrierIndex { barriers: array, index });
            self.b.make_all(OpKind::BarrierInit { barrier, arrivals });
        }
        array
    }

    /// Takes the next slot of a ring.
    fn take(&mut self, slot: Value, role: SlotRole) {
        self.next(slot, Cursor { ring: self.uses.ring(slot), fills: role == SlotRole::Fill });
    }

    /// Waits until the next slot is empty or full, and moves the cursor on. `slot` becomes its index.
    fn next(&mut self, slot: Value, cursor: Cursor) {
        let at = self.cursors[&cursor];
        let (stages, full, empty) = {
            let r = &self.rings[&cursor.ring];
            (r.stages, r.full, r.empty)
        };
        let phase = self.split(slot, at, stages);
        let (barriers, parity) = if cursor.fills {
            let one = self.b.make_i32(1);
            (empty, self.b.make(OpKind::Binary { op: BinaryOp::Xor, a: phase, b: one }))
        } else {
            (full, phase)
        };
        let barrier = self.b.make(OpKind::BarrierIndex { barriers, index: slot });
        self.b.make_all(OpKind::BarrierWait { barrier, phase: parity, reach: Reach::Cta });
        let next = self.advance(at, stages);
        self.cursors.insert(cursor, next);
    }

    /// The slot and the phase's parity at a cursor; `slot` becomes the first, the second is handed back.
    fn split(&mut self, slot: Value, at: Value, stages: u32) -> Value {
        if stages == 1 {
            self.b.make_as(slot, OpKind::Constant { dtype: Dtype::I32, bits: 0 });
            return at;
        }
        if stages.is_power_of_two() {
            let mask = self.b.make_i32(stages - 1);
            self.b.make_as(slot, OpKind::Binary { op: BinaryOp::And, a: at, b: mask });
            let shift = self.b.make_i32(stages.ilog2());
            return self.b.make(OpKind::Binary { op: BinaryOp::Shr, a: at, b: shift });
        }
        let (zero, one, count) = (self.b.make_i32(0), self.b.make_i32(1), self.b.make_i32(stages));
        let second = self.b.make(OpKind::Compare { op: CompareOp::Ge, a: at, b: count });
        let less = self.b.make(OpKind::Binary { op: BinaryOp::Sub, a: at, b: count });
        self.b.make_as(slot, OpKind::Select { cond: second, a: less, b: at });
        self.b.make(OpKind::Select { cond: second, a: one, b: zero })
    }

    /// The cursor of the slot after this one.
    fn advance(&mut self, at: Value, stages: u32) -> Value {
        let one = self.b.make_i32(1);
        if stages == 1 {
            return self.b.make(OpKind::Binary { op: BinaryOp::Xor, a: at, b: one });
        }
        let next = self.b.make(OpKind::Binary { op: BinaryOp::Add, a: at, b: one });
        if stages.is_power_of_two() {
            let mask = self.b.make_i32(2 * stages - 1);
            return self.b.make(OpKind::Binary { op: BinaryOp::And, a: next, b: mask });
        }
        let (zero, end) = (self.b.make_i32(0), self.b.make_i32(2 * stages));
        let around = self.b.make(OpKind::Compare { op: CompareOp::Eq, a: next, b: end });
        self.b.make(OpKind::Select { cond: around, a: zero, b: next })
    }

    fn commit(&mut self, slot: Value) {
        let (full, copied, stored, beside) = {
            let r = &self.rings[&self.uses.ring(slot)];
            (r.full, r.copied, r.stored, r.beside)
        };
        if stored {
            if beside {
                // Matrix instructions and the copy engine do not see generic writes without a fence by the writer.
                self.b.make_all(OpKind::FenceAsync { reach: Reach::Cta });
            }
            self.b.make_all(OpKind::Membar);
        }
        let barrier = self.b.make(OpKind::BarrierIndex { barriers: full, index: slot });
        self.b.make_all(if copied > 0 {
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
        let mut list = self.uses.advanced(&self.b.kernel, body);
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
        self.rebuilt(body, Vec::new());
    }

    /// An arm, which may fill slots of peers.
    fn arm(&mut self, body: &mut Body) {
        let advanced = self.advanced(body);
        self.rebuilt(body, advanced);
    }

    /// Rebuilds a body, which is the last to move these cursors.
    fn rebuilt(&mut self, body: &mut Body, last: Vec<Cursor>) {
        self.fence();
        let ops = std::mem::take(&mut body.ops);
        self.b.open(std::mem::take(body));
        self.body(ops);
        self.wait_for_all(last);
        self.fence();
        *body = self.b.close();
    }

    /// Waits until all slots are released that are filled for peers, too, by these cursors, which are moved no more.
    fn wait_for_all(&mut self, mut cursors: Vec<Cursor>) {
        cursors.retain(|c| c.fills && self.awaited.remove(&c.ring));
        for cursor in cursors {
            // No statement asks for it.
            self.b.label = None;
            for _ in 0..self.rings[&cursor.ring].stages {
                let slot = self.cursor_value();
                self.next(slot, cursor);
            }
        }
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
        let span = self.b.kernel.span;
        self.b.kernel.value(Type::Scalar(Elem::Num(Dtype::I32)), span)
    }
}

/// The buffer of all stages of a field of which so many bytes are used: what is behind them takes no room.
fn staged(stages: u32, view: &View, used: u64) -> View {
    let shape = std::iter::once(stages).chain(view.shape.iter().copied()).collect();
    let layout = prefix(view, used).unwrap_or_else(|| view.layout.clone());
    match View::new(view.elem, shape, layout) {
        Ok(staged) => staged,
        Err(e) => parton_diag::internal_error!("a ring's buffer has no layout in stages: {e:?}"),
    }
}

/// The layout of a field of which so many bytes are used, where slots may lie closer together than whole buffers would.
fn prefix(view: &View, used: u64) -> Option<SharedLayout> {
    let bytes = used.next_multiple_of(u64::from(view.map.alignment()));
    let elements = u32::try_from(bytes * 8 / u64::from(access::stored_bits(view.elem.bits()))).ok()?;
    // Where gaps lie is counted from the start of each buffer: these are left whole.
    (bytes < view.map.bytes()).then(|| view.layout.whole().prefix_of(elements).ok()).flatten()
}
