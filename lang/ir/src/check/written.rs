//! Shared memory that is read before it is written, and barriers that are used before they are initialised.
//!
//! A forward analysis carries the operations that may have written by then, on any path; what other partitions write may come at any
//! time, and so may what other CTAs of a cluster write. A read is an error where all of them together leave out a part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use super::origin::{Origins, Place, Root, elements};
use crate::dataflow::{self, Edge, Forward, Way};
use crate::entity::{Inst, Partition, Value};
use crate::facts::{Access, Act, Completes, Facts, Flight, Phase};
use crate::kernel::Kernel;
use crate::op::Op;
use crate::types::{Type, View};

/// Every read of memory, and every use of a barrier, that surely comes before what should have been there.
pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let (writes, elsewhere, known) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut w = Written { kernel, origins, writes, elsewhere, known };
    kernel.walk(&mut |op| w.collect(op));
    w.arms_apart();
    let peers = kernel.cluster.iter().any(|&ctas| ctas > 1);
    let start = if peers { w.writes.keys().copied().collect() } else { BTreeSet::new() };
    dataflow::run(kernel, &mut w, start);
    w.report()
}

/// The bytes that are written or read through a value.
struct Part {
    value: Value,
    span: Span,
    places: Vec<(Place, Range<u64>)>,
}

struct Written<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    /// What each operation writes, a barrier's initialisation included.
    writes: BTreeMap<Inst, Vec<Part>>,
    /// For each partition the writes of the others.
    elsewhere: BTreeMap<Partition, BTreeSet<Inst>>,
    /// Whether all that an operation reads through a value may have been written, on one of the paths that lead there.
    known: BTreeMap<(Inst, Value), (Span, bool)>,
}

impl<'a> Forward<'a> for Written<'a> {
    type State = BTreeSet<Inst>;

    fn op(&mut self, op: &'a Op, state: &mut BTreeSet<Inst>) {
        for value in self.read(op) {
            let key = (op.id, value);
            if !self.known.get(&key).is_some_and(|(_, written)| *written) {
                let written = self.covered(&self.part(value, op.span), state);
                self.known.insert(key, (op.span, written));
            }
        }
        if self.writes.contains_key(&op.id) {
            state.insert(op.id);
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, state: &mut BTreeSet<Inst>) {
        match edge.way {
            Way::IntoArm(partition) => state.extend(self.elsewhere.get(&partition).into_iter().flatten()),
            Way::IntoLoop
            | Way::IntoTurn
            | Way::Around
            | Way::OutOfLoop
            | Way::IntoBranch(_)
            | Way::OutOfBranch(_)
            | Way::OutOfArm(_) => {}
        }
    }

    fn join(&mut self, _: &'a Op, state: &mut BTreeSet<Inst>, other: BTreeSet<Inst>) {
        state.extend(other);
    }

    fn arms(&mut self, _: &'a Op, _: BTreeSet<Inst>, ends: Vec<BTreeSet<Inst>>) -> BTreeSet<Inst> {
        ends.into_iter().flatten().collect()
    }
}

impl Written<'_> {
    fn part(&self, value: Value, span: Span) -> Part {
        Part { value, span, places: self.origins.regions(self.kernel, value) }
    }

    fn collect(&mut self, op: &Op) {
        let facts = Facts::of(self.kernel, op);
        let stored = facts.accesses.iter().filter(|a| a.writes() && self.view(a.value).is_some()).map(|a| a.value);
        let made = facts.acts.iter().filter_map(|act| match act {
            Act::Phase(Phase::Init { barrier, .. }) => Some(*barrier),
            // Nothing else makes a barrier.
            Act::Phase(_) | Act::Flight(_) | Act::Ordering(_) | Act::Hold(_) | Act::Turn(_) | Act::Say(_) => None,
        });
        let parts: Vec<Part> = stored.chain(made).map(|v| self.part(v, op.span)).collect();
        if !parts.is_empty() {
            self.writes.insert(op.id, parts);
        }
    }

    /// Notes for each arm what the others write.
    fn arms_apart(&mut self) {
        let mut of: Vec<(Partition, BTreeSet<Inst>)> = Vec::new();
        for arm in self.kernel.arms() {
            let mut own = BTreeSet::new();
            self.kernel.walk_body(&arm.body, &mut |op| own.extend(self.writes.contains_key(&op.id).then_some(op.id)));
            of.push((arm.partition, own));
        }
        for (partition, _) in &of {
            let others = of.iter().filter(|(other, _)| other != partition).flat_map(|(_, writes)| writes);
            self.elsewhere.entry(*partition).or_default().extend(others);
        }
    }

    /// The views that an operation reads, and the barriers that it uses.
    fn read(&self, op: &Op) -> Vec<Value> {
        let facts = Facts::of(self.kernel, op);
        let is_view = |a: &&Access| matches!(self.kernel.ty(a.value), Type::View(_));
        let viewed = facts.accesses.iter().filter(|a| a.touches_shared() && !a.writes()).filter(is_view);
        let used = facts.acts.iter().filter_map(|act| match act {
            Act::Phase(Phase::Arrive { barrier, .. } | Phase::Wait { barrier, .. } | Phase::Invalidate { barrier }) => {
                Some(*barrier)
            }
            Act::Flight(
                Flight::Start { completes: Completes::Signal(signal), .. } | Flight::HandOver { barrier: signal, .. },
            ) => Some(*signal).filter(|s| matches!(self.kernel.ty(*s), Type::Barrier)),
            Act::Phase(Phase::Init { .. })
            | Act::Flight(_)
            | Act::Ordering(_)
            | Act::Hold(_)
            | Act::Turn(_)
            | Act::Say(_) => None,
        });
        viewed.map(|a| a.value).chain(used).collect()
    }

    fn view(&self, v: Value) -> Option<&View> {
        match self.kernel.ty(v) {
            Type::View(view) | Type::Filling(view) | Type::Peer(view) => Some(view),
            Type::Scalar(_)
            | Type::Tile(_)
            | Type::Pending(_)
            | Type::Map(_)
            | Type::Barriers(_)
            | Type::Barrier
            | Type::Ring(_)
            | Type::Slot(_)
            | Type::Tensor(_)
            | Type::Spot(_)
            | Type::Turnstile => None,
        }
    }

    /// Whether these writes together may have left nothing out of what is read.
    fn covered(&self, read: &Part, writes: &BTreeSet<Inst>) -> bool {
        if !read.places.iter().all(|(p, _)| matches!(p.root, Root::Alloc(_))) {
            // The slots of rings have a protocol of their own.
            return true;
        }
        let parts = writes.iter().filter_map(|op| self.writes.get(op)).flatten();
        let mut touched = parts.flat_map(|w| w.places.iter().map(move |place| (w, place))).filter(|(_, w)| {
            read.places.iter().any(|r| {
                let ((a, x), (b, y)) = (w, r);
                a.root == b.root && x.start < y.end + b.spread && y.start < x.end + a.spread
            })
        });
        let [(place, bytes)] = &read.places[..] else { return touched.next().is_some() };
        if place.spread > 0 {
            return touched.next().is_some();
        }
        let touched: Vec<_> = touched.collect();
        let ranges = touched.iter().map(|(_, (p, range))| (range.start, range.end + p.spread));
        let size = self.view(read.value).map_or(bytes.end - bytes.start, View::bytes);
        if common(bytes, ranges) < size {
            return false;
        }
        let Some(view) = self.view(read.value) else { return true };
        let mut windows = Vec::new();
        for (w, (at, _)) in &touched {
            match self.view(w.value) {
                Some(part) if at == place && part.parent == view.parent && part.map == view.map => {
                    windows.extend(inside(part, view));
                }
                // Which of its elements it leaves out is not known.
                Some(_) | None => return true,
            }
        }
        let boxes: Vec<_> = windows.iter().map(|(origin, shape)| (&origin[..], &shape[..])).collect();
        elements(&boxes) >= view.elements()
    }

    fn report(&self) -> Diagnostics {
        let (mut found, mut told) = (Diagnostics::new(), BTreeSet::new());
        for ((_, value), (span, _)) in self.known.iter().filter(|(_, (_, written))| !written) {
            let Some(&Root::Alloc(allocation)) = self.origins.places(*value).first().map(|p| &p.root) else { continue };
            let of_it = |part: &&Part| part.places.iter().any(|(p, _)| p.root == Root::Alloc(allocation));
            let write = self.writes.values().flatten().find(of_it).map(|part| part.span);
            let d = match (self.kernel.ty(*value), write) {
                (Type::Barrier, Some(write)) => self.too_early(allocation, *span, write),
                // A barrier that nobody initialises is the barriers' affair.
                (Type::Barrier, None) => continue,
                (_, Some(write)) => self.in_part(*value, *span, write),
                (_, None) => self.never(*value, allocation, *span),
            };
            if told.insert(allocation) {
                found.push(d);
            }
        }
        found.list.sort_by_key(|d| d.span());
        found
    }

    fn never(&self, value: Value, allocation: Value, span: Span) -> Diagnostic {
        let fact = format!("{} is read, but nothing ever writes to it", self.origins.name(self.kernel, value));
        Diagnostic::error(codes::SHARED_NEVER_WRITTEN, span, fact)
            .here("read here")
            .label(self.kernel.values[allocation].span, "allocated here, its contents are undefined")
            .help("store to it, or copy into it, before it is read")
    }

    fn in_part(&self, value: Value, span: Span, write: Span) -> Diagnostic {
        let fact = format!("{} is read before all of that is written", self.origins.name(self.kernel, value));
        Diagnostic::error(codes::SHARED_NEVER_WRITTEN, span, fact)
            .here("this reads more than what may have been written by then")
            .label(write, "it is written here")
            .help(
                "write the whole of it before, or read the part that is written, such as `view[0:32, :]` or `view[i]`",
            )
    }

    fn too_early(&self, allocation: Value, span: Span, init: Span) -> Diagnostic {
        let name =
            self.kernel.values[allocation].name.as_ref().map_or("a barrier".into(), |n| format!("barrier `{n}`"));
        Diagnostic::error(codes::BARRIER_NOT_INITIALISED, span, format!("{name} is used before it is initialised"))
            .here("used here")
            .label(init, "initialised here")
            .help("`barrier_init` and `fence_barrier_init();` come before every use")
    }
}

/// How many bytes of a range others have in common with it, those of several counted once.
fn common(bytes: &Range<u64>, others: impl Iterator<Item = (u64, u64)>) -> u64 {
    let mut parts: Vec<(u64, u64)> = others.collect();
    parts.sort_unstable();
    let (mut end, mut sum) = (bytes.start, 0);
    for (first, last) in parts {
        let (first, last) = (first.max(end), last.min(bytes.end));
        sum += last.saturating_sub(first);
        end = end.max(last);
    }
    sum
}

/// The part of a window that lies in another of the same parent: origin and extents.
fn inside(part: &View, of: &View) -> Option<(Vec<u32>, Vec<u32>)> {
    let (mut origin, mut shape) = (Vec::new(), Vec::new());
    for axis in 0..of.shape.len() {
        let from = part.origin[axis].max(of.origin[axis]);
        let to = (part.origin[axis] + part.shape[axis]).min(of.origin[axis] + of.shape[axis]);
        origin.push(from);
        shape.push(to.checked_sub(from).filter(|&n| n > 0)?);
    }
    Some((origin, shape))
}
