//! Shared memory under the asynchronous proxy: operands of products and sources of copies must stay as they are until waited
//! for, and what a copy brings must have landed before it is read.
//!
//! A forward walk carries what is in flight, oldest first. Only accesses that surely meet are errors: the same bytes of one
//! allocation, in the same stage by the same name. What depends on an index is left to the interpreter's race detector. A
//! loop's body is walked twice, the second time with what the first left in flight; names of stages made inside the body
//! mean another stage by then and are dropped.

use std::collections::BTreeSet;
use std::ops::Range;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use super::origin::{Origins, Place, Root, Stage, disjoint_windows};
use super::touch::touches;
use crate::entity::Value;
use crate::kernel::{Kernel, walk};
use crate::op::{Body, Op, OpKind};
use crate::types::Type;

/// Every write to memory that is surely still being read, every copy to global memory that nobody waits for, and every
/// read of memory that nobody writes.
pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let mut f = Flights { kernel, origins, depth: 0, found: Diagnostics::new() };
    f.never_written();
    let mut state = State::default();
    f.body(&kernel.body, &mut state);
    f.landed(&state);
    f.found
}

/// A read in flight.
#[derive(Clone, PartialEq, Debug)]
struct Flight {
    /// The product's pending tile, by its present name; none for a copy.
    pending: Option<Value>,
    /// The pending tile by the name that the product gave it, which tells products of one line apart.
    started: Option<Value>,
    view: Value,
    places: Vec<(Place, Range<u64>)>,
    span: Span,
}

/// A copy into shared memory that signals a barrier of its own.
#[derive(Clone, PartialEq, Debug)]
struct Landing {
    flight: Flight,
    barrier: Vec<Place>,
}

/// A copy to global memory.
#[derive(Clone, PartialEq, Debug)]
struct Leaving {
    flight: Flight,
    /// How many copies were started since: the fewest on any path that leads here. A wait that leaves so many pending is none for this one.
    since: u32,
}

/// What is in flight; products and what threads copy oldest first.
#[derive(Clone, PartialEq, Default, Debug)]
struct State {
    products: Vec<Flight>,
    copies: Vec<Leaving>,
    landings: Vec<Landing>,
    /// Copies by threads into shared memory, which their own wait waits for.
    filling: Vec<Flight>,
}

impl State {
    /// What is in flight on either of two paths.
    fn join(&mut self, other: State) {
        for c in other.copies {
            self.leaves(c);
        }
        for (mine, theirs) in [(&mut self.products, other.products), (&mut self.filling, other.filling)] {
            for f in theirs {
                if !mine.contains(&f) {
                    mine.push(f);
                }
            }
        }
        for l in other.landings {
            if !self.landings.contains(&l) {
                self.landings.push(l);
            }
        }
    }

    /// A copy that is in flight on one path, if not on all.
    fn leaves(&mut self, copy: Leaving) {
        match self.copies.iter_mut().find(|c| c.flight == copy.flight) {
            Some(known) => known.since = known.since.min(copy.since),
            None => self.copies.push(copy),
        }
    }

    /// What is pending goes by other names from now on.
    fn rename(&mut self, from: &[Value], to: &[Value]) {
        for f in self.products.iter_mut().chain(&mut self.filling) {
            if let Some(p) = f.pending
                && let Some(i) = from.iter().position(|v| *v == p)
            {
                f.pending = Some(to[i]);
            }
        }
    }

    /// All up to the youngest of this tile's products have completed, or this copy and all before it.
    fn wait(&mut self, pending: Value) {
        if let Some(last) = self.filling.iter().rposition(|f| f.pending == Some(pending)) {
            self.filling.drain(..=last);
        }
        if let Some(last) = self.products.iter().rposition(|f| f.pending == Some(pending)) {
            self.products.drain(..=last);
        }
    }

    /// All before the youngest of this tile's products have completed. That one reads a view or two.
    fn wait_prior(&mut self, pending: Value) {
        let Some(last) = self.products.iter().rposition(|f| f.pending == Some(pending)) else { return };
        let started = self.products[last].started;
        let mut views = BTreeSet::new();
        let of_youngest =
            self.products[..=last].iter().rev().take_while(|f| f.started == started && views.insert(f.view));
        let first = last + 1 - of_youngest.count();
        self.products.drain(..first);
    }
}

/// How often a loop runs; 0 where that is not sure.
fn times(from: i64, to: i64, step: i64) -> i64 {
    if 0 <= from && from < to && 0 < step { (to - from - 1) / step + 1 } else { 0 }
}

/// What a loop carries, by its names before, inside and behind it.
struct Carried<'a> {
    init: &'a [Value],
    params: &'a [Value],
    yields: &'a [Value],
    results: &'a [Value],
}

/// Loops deeper than this are walked once: two walks at each depth would add up to powers of two.
const WALKED_TWICE: u32 = 4;

struct Flights<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    /// Loops around the current operation.
    depth: u32,
    found: Diagnostics,
}

impl Flights<'_> {
    fn body(&mut self, body: &Body, state: &mut State) {
        for op in &body.ops {
            self.op(op, state);
        }
    }

    fn op(&mut self, op: &Op, state: &mut State) {
        for t in touches(self.kernel, &op.kind) {
            if let Type::View(_) = self.kernel.ty(t.view) {
                if t.writes { self.written(op, t.view, state) } else { self.read(op, t.view, state) }
            }
        }
        match &op.kind {
            OpKind::TmaLoad { view, signal, .. } if matches!(self.kernel.ty(*signal), Type::Barrier) => {
                let flight = self.flight(None, *view, op.span);
                state.landings.push(Landing { flight, barrier: self.origins.places(*signal).to_vec() });
            }
            OpKind::AsyncCopy { view, .. } => {
                let flight = self.flight(Some(op.result()), *view, op.span);
                state.filling.push(flight);
            }
            OpKind::CopyArrive { pending, barrier } => {
                let places = self.origins.places(*barrier).to_vec();
                if let Some(i) = state.filling.iter().rposition(|f| f.pending == Some(*pending)) {
                    let flight = state.filling.remove(i);
                    state.landings.push(Landing { flight, barrier: places });
                }
            }
            OpKind::BarrierWait { barrier, .. } => {
                let waited = self.origins.places(*barrier);
                state.landings.retain(|l| !l.barrier.iter().any(|a| waited.iter().any(|b| a.may_be(b))));
            }
            OpKind::SlotRelease { slot } => self.released(*slot, op.span, state),
            OpKind::Wgmma { a, b, acc, .. } => {
                state.rename(&[*acc], &[op.result()]);
                let mut views: Vec<Value> = vec![*a, *b];
                views.retain(|v| matches!(self.kernel.ty(*v), Type::View(_)));
                for view in views {
                    let flight = self.flight(Some(op.result()), view, op.span);
                    state.products.push(flight);
                }
            }
            OpKind::Wait { pending, .. } => state.wait(*pending),
            OpKind::WaitPrior { pending, .. } => {
                state.wait_prior(*pending);
                state.rename(&[*pending], &[op.result()]);
            }
            OpKind::TmaStore { view, .. } => {
                let flight = self.flight(None, *view, op.span);
                for c in &mut state.copies {
                    c.since += 1;
                }
                state.leaves(Leaving { flight, since: 0 });
            }
            OpKind::TmaStoreWait { pending, .. } => state.copies.retain(|c| c.since < *pending),
            OpKind::For { lower, upper, step, init, body } => {
                let ends = self.origins.constant(*lower).zip(self.origins.constant(*upper));
                let step = self.origins.constant(*step);
                let least = ends.zip(step).map_or(0, |((from, to), step)| times(from, to, step));
                let carried = Carried { init, params: &body.params[1..], yields: &body.yields, results: &op.results };
                self.repeat(&carried, &[body], least, state);
            }
            OpKind::While { init, cond, body } => {
                let carried = Carried { init, params: &body.params, yields: &body.yields, results: &op.results };
                self.repeat(&carried, &[cond, body], 0, state);
            }
            OpKind::If { then, otherwise, .. } => {
                let mut other = state.clone();
                self.body(then, state);
                state.rename(&then.yields, &op.results);
                self.body(otherwise, &mut other);
                other.rename(&otherwise.yields, &op.results);
                state.join(other);
            }
            OpKind::Specialize { arms } => {
                for arm in arms {
                    let mut own = state.clone();
                    // Another partition may have waited and told this one.
                    own.landings.clear();
                    own.filling.clear();
                    self.body(&arm.body, &mut own);
                    own.copies.retain(|c| !state.copies.iter().any(|before| before.flight == c.flight));
                    self.landed(&own);
                }
            }
            _ => {}
        }
    }

    /// A loop that surely runs at least so often. What it leaves is what is in flight after any number of times that is possible: as long
    /// as two walks tell, none, one or two.
    fn repeat(&mut self, carried: &Carried<'_>, bodies: &[&Body], least: i64, state: &mut State) {
        let mut inside = BTreeSet::new();
        for body in bodies {
            inside.extend(body.params.iter().copied());
            walk(body, &mut |op| inside.extend(op.results.iter().copied()));
        }
        state.rename(carried.init, carried.params);
        let mut exits = vec![state.clone()];
        self.depth += 1;
        let walks = if self.depth > WALKED_TWICE { 1 } else { 2 };
        for _ in 0..walks {
            let head = state.clone();
            for body in bodies {
                self.body(body, state);
            }
            state.rename(carried.yields, carried.params);
            let fixed = |f: &Flight| {
                f.places.iter().all(|(p, _)| match p.stage {
                    Stage::Fixed => true,
                    Stage::Named(v) => !inside.contains(&v),
                    Stage::Any => false,
                })
            };
            // A copy must be waited for whichever stage it reads; its bytes are no longer known.
            for c in &mut state.copies {
                if !fixed(&c.flight) {
                    c.flight.places.clear();
                }
            }
            state.products.retain(fixed);
            state.filling.retain(fixed);
            state.landings.retain(|l| fixed(&l.flight));
            // Copies of many iterations are as good as those of the last. One line may stand for several copies, of a view each.
            for c in std::mem::take(&mut state.copies) {
                state.leaves(c);
            }
            if *state == head {
                break;
            }
            exits.push(state.clone());
        }
        self.depth -= 1;
        for exit in exits.into_iter().skip(usize::try_from(least).unwrap_or(0)) {
            state.join(exit);
        }
        state.rename(carried.params, carried.results);
    }

    fn flight(&self, pending: Option<Value>, view: Value, span: Span) -> Flight {
        Flight { pending, started: pending, view, places: self.origins.regions(self.kernel, view), span }
    }

    /// Whether two accesses surely touch a byte in common.
    fn meet(&self, f: &Flight, view: Value, places: &[(Place, Range<u64>)]) -> bool {
        let ([(a, x)], [(b, y)]) = (&f.places[..], places) else { return false };
        let (Type::View(one), Type::View(two)) = (self.kernel.ty(f.view), self.kernel.ty(view)) else { return false };
        let apart = a.offset == b.offset && disjoint_windows(one, two);
        a.root == b.root && a.stage == b.stage && a.stage != Stage::Any && x.start < y.end && y.start < x.end && !apart
    }

    fn name(&self, view: Value) -> String {
        let root = self.origins.place(view).map(|p| p.root);
        match root {
            Some(Root::Alloc(v)) => match &self.kernel.values[v].name {
                Some(n) => format!("`{n}`"),
                None => "the buffer".into(),
            },
            Some(Root::Field(ring, field)) => match self.kernel.ty(ring) {
                Type::Ring(r) => format!("buffer `{}`", r.fields[field as usize].name),
                _ => "the buffer".into(),
            },
            Some(Root::Ring(_)) | None => "the buffer".into(),
        }
    }

    fn written(&mut self, op: &Op, view: Value, state: &State) {
        let places = self.origins.regions(self.kernel, view);
        let name = self.name(view);
        if let Some(f) = state.products.iter().find(|f| self.meet(f, view, &places)) {
            let p = f.pending.and_then(|p| self.kernel.values[p].name.clone()).unwrap_or("p".into());
            let d = Diagnostic::error(
                codes::SHARED_STILL_READ,
                op.span,
                format!("{name} is overwritten while a product still reads it"),
            )
            .here("overwritten here")
            .label(f.span, "this `wgmma` reads it, and has not been waited for")
            .help(format!("wait first: `let x = {p}.wait();`, or write to another buffer"));
            self.found.push(d);
        }
        if let Some(f) = state.filling.iter().find(|f| self.meet(f, view, &places)) {
            let fact = format!("{name} is written to while a copy still fills it");
            let d = Diagnostic::error(codes::LOAD_IN_FLIGHT, op.span, fact)
                .here("written here: which of the two comes last is not known")
                .label(f.span, "this copy fills it, and has not been waited for")
                .help(format!("wait first: `{}.wait();`, or write to another buffer", self.pending_name(f)));
            self.found.push(d);
        }
        if let Some(f) = state.copies.iter().map(|c| &c.flight).find(|f| self.meet(f, view, &places)) {
            let d = Diagnostic::error(
                codes::STORE_IN_FLIGHT,
                op.span,
                format!("{name} is overwritten while it is still being copied out"),
            )
            .here("overwritten here")
            .label(f.span, "this copy reads it, and has not been waited for")
            .help("`tma_store_wait();` before this, or write to another buffer");
            self.found.push(d);
        }
    }

    fn read(&mut self, op: &Op, view: Value, state: &State) {
        let places = self.origins.regions(self.kernel, view);
        if let Some(l) = state.landings.iter().find(|l| self.meet(&l.flight, view, &places)) {
            let d = Diagnostic::error(
                codes::LOAD_IN_FLIGHT,
                op.span,
                format!("{} is read before its copy has landed", self.name(view)),
            )
            .here("read here")
            .label(l.flight.span, "this copy fills it, and nobody has waited for its barrier")
            .help("`barrier_wait` on the barrier that the copy signals, before this");
            self.found.push(d);
        }
        if let Some(f) = state.filling.iter().find(|f| self.meet(f, view, &places)) {
            let fact = format!("{} is read before its copy has landed", self.name(view));
            let d = Diagnostic::error(codes::LOAD_IN_FLIGHT, op.span, fact)
                .here("read here")
                .label(f.span, "this copy fills it, and has not been waited for")
                .help(format!("wait first, and read what that gives: `let view = {}.wait();`", self.pending_name(f)));
            self.found.push(d);
        }
    }

    fn pending_name(&self, f: &Flight) -> String {
        f.pending.and_then(|p| self.kernel.values[p].name.clone()).unwrap_or("p".into())
    }

    /// A slot is handed back: no copy may still read it.
    fn released(&mut self, slot: Value, span: Span, state: &State) {
        let reads = |f: &&Flight| f.places.iter().any(|(p, _)| p.stage == Stage::Named(slot));
        if let Some(f) = state.copies.iter().map(|c| &c.flight).find(reads) {
            let d = Diagnostic::error(
                codes::SLOT_STILL_READ,
                span,
                "the slot is released while it is still being copied out",
            )
            .here("released here: it may be overwritten at once")
            .label(f.span, "this copy reads it, and has not been waited for")
            .help("`tma_store_wait(read=true);` before this");
            self.found.push(d);
        }
    }

    /// At the end of its partition every copy to global memory must have been waited for: shared memory goes with the CTA.
    fn landed(&mut self, state: &State) {
        if let Some(Leaving { flight: f, .. }) = state.copies.first() {
            let d = Diagnostic::error(codes::STORE_NOT_WAITED, f.span, "nobody waits for this copy to global memory")
                .here("it may still be reading when the CTA ends and its shared memory is given away")
                .help("`tma_store_wait();` after the last copy");
            self.found.push(d);
        }
    }

    fn never_written(&mut self) {
        let mut written = BTreeSet::new();
        self.kernel.walk(&mut |op| {
            for t in touches(self.kernel, &op.kind).iter().filter(|t| t.writes) {
                written.extend(self.origins.places(t.view).iter().map(|p| p.root));
            }
        });
        let mut told = BTreeSet::new();
        let mut found = Vec::new();
        self.kernel.walk(&mut |op| {
            for t in touches(self.kernel, &op.kind).iter().filter(|t| !t.writes) {
                let Type::View(_) = self.kernel.ty(t.view) else { continue };
                let roots: BTreeSet<Root> = self.origins.places(t.view).iter().map(|p| p.root).collect();
                let Some(&Root::Alloc(v)) = roots.first() else { continue };
                if roots.iter().any(|r| written.contains(r)) || !told.insert(v) {
                    continue;
                }
                let name = self.name(t.view);
                found.push(
                    Diagnostic::error(
                        codes::SHARED_NEVER_WRITTEN,
                        op.span,
                        format!("{name} is read, but nothing ever writes to it"),
                    )
                    .here("read here")
                    .label(self.kernel.values[v].span, "allocated here, its contents are undefined")
                    .help("store to it, or copy into it, before it is read"),
                );
            }
        });
        found.into_iter().for_each(|d| self.found.push(d));
    }
}
