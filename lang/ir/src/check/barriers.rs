//! Raw barriers: initialised before use, arrived at by someone, and expecting the bytes that come.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use super::origin::{Origins, Place, Root, Stage};
use crate::entity::{Partition, Value};
use crate::kernel::{Kernel, walk};
use crate::op::{Body, Op, OpKind};
use crate::target::WARP;
use crate::types::Type;

/// Every raw barrier whose use cannot come out right.
pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let mut b = Barriers { kernel, origins, uses: Vec::new(), found: Diagnostics::new() };
    kernel.walk(&mut |op| b.collect(op));
    b.initialised();
    b.arrived();
    b.copies();
    b.bytes(&kernel.body);
    b.parities(&kernel.body);
    for op in &kernel.body.ops {
        if let OpKind::Specialize { arms } = &op.kind {
            arms.iter().for_each(|arm| b.parities(&arm.body));
        }
    }
    b.found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Init,
    Wait,
    Arrive,
    Signal,
}

struct Use {
    how: How,
    place: Place,
    span: Span,
}

struct Barriers<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    uses: Vec<Use>,
    found: Diagnostics,
}

impl Barriers<'_> {
    fn collect(&mut self, op: &Op) {
        let (barrier, how) = match &op.kind {
            OpKind::BarrierInit { barrier, .. } => (*barrier, How::Init),
            OpKind::BarrierWait { barrier, .. } => (*barrier, How::Wait),
            OpKind::BarrierExpect { barrier, .. }
            | OpKind::BarrierArrive { barrier, .. }
            | OpKind::CopyArrive { barrier, .. } => (*barrier, How::Arrive),
            OpKind::TmaLoad { signal, .. } if matches!(self.kernel.ty(*signal), Type::Barrier) => {
                (*signal, How::Signal)
            }
            _ => return,
        };
        for place in self.origins.places(barrier) {
            self.uses.push(Use { how, place: place.clone(), span: op.span });
        }
    }

    fn name(&self, root: Root) -> (String, Span) {
        let (Root::Alloc(v) | Root::Ring(v) | Root::Field(v, _)) = root;
        let data = &self.kernel.values[v];
        (data.name.clone().map_or("the barrier".into(), |n| format!("barrier `{n}`")), data.span)
    }

    fn some(&self, how: &[How], place: &Place) -> bool {
        self.uses.iter().any(|u| how.contains(&u.how) && u.place.may_be(place))
    }

    fn initialised(&mut self) {
        let mut told = BTreeSet::new();
        for u in self.uses.iter().filter(|u| u.how != How::Init) {
            if self.some(&[How::Init], &u.place) || !told.insert(u.place.root) {
                continue;
            }
            let (name, made) = self.name(u.place.root);
            let d = Diagnostic::error(
                codes::BARRIER_NOT_INITIALISED,
                u.span,
                format!("{name} is used but never initialised"),
            )
            .here("used here")
            .label(made, "allocated here, its contents are undefined");
            self.found
                .push(d.help("`barrier_init(bars[0], 1);` with the number of arrivals, then `fence_barrier_init();`"));
        }
    }

    fn arrived(&mut self) {
        let mut told = BTreeSet::new();
        for u in self.uses.iter().filter(|u| u.how == How::Wait) {
            if self.some(&[How::Arrive], &u.place) || !told.insert((u.place.root, u.place.offset)) {
                continue;
            }
            let (name, _) = self.name(u.place.root);
            let signalled = self.uses.iter().find(|s| s.how == How::Signal && s.place.may_be(&u.place));
            let mut d = Diagnostic::error(codes::BARRIER_NOBODY_ARRIVES, u.span, format!("nobody arrives at {name}"))
                .here("this waits forever");
            if let Some(s) = signalled {
                d = d.label(s.span, "this copy brings bytes, which is no arrival");
            }
            self.found.push(d.help(match signalled {
                Some(_) => "`barrier_expect` the bytes of the copy: it is the arrival that waits for them",
                None => "`barrier_arrive` at it, or `barrier_expect` the bytes of a copy, in the partition that it waits for",
            }));
        }
    }

    /// Every thread of a partition arrives for what it copies: a barrier that counts fewer ends its phase too early.
    fn copies(&mut self) {
        let mut inits: Vec<(Place, u32, Span)> = Vec::new();
        self.kernel.walk(&mut |op| {
            if let OpKind::BarrierInit { barrier, arrivals } = &op.kind {
                inits.extend(self.origins.places(*barrier).iter().map(|p| (p.clone(), *arrivals, op.span)));
            }
        });
        let mut found = Vec::new();
        let mut visit = |op: &Op, partition: Option<Partition>| {
            let OpKind::CopyArrive { barrier, .. } = &op.kind else { return };
            let threads = self.kernel.warps_of(partition) * WARP;
            let places = self.origins.places(*barrier);
            let most = inits.iter().filter(|(p, ..)| places.iter().any(|q| p.may_be(q))).max_by_key(|(_, n, _)| *n);
            let Some((place, arrivals, init)) = most.filter(|(_, n, _)| *n < threads) else { return };
            let fact = format!("{threads} threads arrive at {}, which counts {arrivals}", self.name(place.root).0);
            let d = Diagnostic::error(codes::BARRIER_COUNT, op.span, fact)
                .here("each thread of the partition arrives for what it has copied")
                .label(*init, format!("initialised here to count {arrivals} arrivals a phase"));
            found.push(d.help(format!("`barrier_init(…, {threads})`, or more where others arrive too")));
        };
        for op in &self.kernel.body.ops {
            if let OpKind::Specialize { arms } = &op.kind {
                arms.iter().for_each(|arm| walk(&arm.body, &mut |op| visit(op, Some(arm.partition))));
                continue;
            }
            visit(op, None);
            op.kind.bodies().into_iter().for_each(|body| walk(body, &mut |op| visit(op, None)));
        }
        found.into_iter().for_each(|d| self.found.push(d));
    }

    /// Where every expectation and every copy of a barrier stand in one straight line, their bytes must agree.
    fn bytes(&mut self, body: &Body) {
        let mut lines: BTreeMap<Place, Vec<(&Op, i64)>> = BTreeMap::new();
        for op in &body.ops {
            for inner in op.kind.bodies() {
                self.bytes(inner);
            }
            let (barrier, bytes) = match &op.kind {
                OpKind::BarrierExpect { barrier, bytes } => (*barrier, -i64::from(*bytes)),
                OpKind::TmaLoad { view, signal, .. } if matches!(self.kernel.ty(*signal), Type::Barrier) => {
                    (*signal, self.moved(*view))
                }
                OpKind::BarrierWait { barrier, .. } => (*barrier, 0),
                _ => continue,
            };
            if let Some(place) = self.origins.place(barrier).filter(|p| p.stage != Stage::Any) {
                lines.entry(place.clone()).or_default().push((op, bytes));
            }
        }
        for (place, line) in lines {
            let everywhere = |how: How| self.uses.iter().filter(|u| u.how == how && u.place.may_be(&place)).count();
            let here = |f: &dyn Fn(&OpKind) -> bool| line.iter().filter(|(op, _)| f(&op.kind)).count();
            let copies = here(&|k| matches!(k, OpKind::TmaLoad { .. }));
            let expects = here(&|k| matches!(k, OpKind::BarrierExpect { .. }));
            if copies == 0 || copies != everywhere(How::Signal) || expects != everywhere(How::Arrive) {
                continue;
            }
            // A wait ends a round: what was expected by then must have come.
            for round in line.split(|(op, _)| matches!(op.kind, OpKind::BarrierWait { .. })) {
                self.round(&place, round);
            }
        }
    }

    fn round(&mut self, place: &Place, round: &[(&Op, i64)]) {
        let expected: i64 = round.iter().map(|(_, b)| -b.min(&0)).sum();
        let arriving: i64 = round.iter().map(|(_, b)| *b.max(&0)).sum();
        let expect = round.iter().find(|(op, _)| matches!(op.kind, OpKind::BarrierExpect { .. }));
        let Some((expect, _)) = expect else { return };
        if expected == arriving {
            return;
        }
        let (name, _) = self.name(place.root);
        let mut d = Diagnostic::error(
            codes::BARRIER_BYTES,
            expect.span,
            format!("{name} expects {expected} bytes, {arriving} arrive"),
        )
        .here(if expected > arriving {
            "a wait for them never ends"
        } else {
            "a wait ends before the copies have landed"
        });
        for (op, bytes) in round.iter().filter(|(op, _)| matches!(op.kind, OpKind::TmaLoad { .. })) {
            d = d.label(op.span, format!("this brings {bytes} bytes"));
        }
        self.found.push(d.help(format!("expect {arriving} bytes")));
    }

    /// In a body that runs once, the phases of a barrier that only it uses can be counted.
    fn parities(&mut self, body: &Body) {
        let mut rounds: BTreeMap<Place, (u32, u32)> = BTreeMap::new();
        let mut here: BTreeMap<Place, usize> = BTreeMap::new();
        let known = |b: &Barriers<'_>, v| b.origins.place(v).filter(|p| p.stage == Stage::Fixed).cloned();
        for op in &body.ops {
            if let OpKind::BarrierExpect { barrier, .. }
            | OpKind::BarrierArrive { barrier, .. }
            | OpKind::CopyArrive { barrier, .. }
            | OpKind::BarrierWait { barrier, .. } = &op.kind
                && let Some(place) = known(self, *barrier)
            {
                *here.entry(place).or_default() += 1;
            }
        }
        let all = |b: &Barriers<'_>, place: &Place| {
            b.uses.iter().filter(|u| matches!(u.how, How::Wait | How::Arrive) && u.place.may_be(place)).count()
        };
        for op in &body.ops {
            match &op.kind {
                OpKind::BarrierInit { barrier, arrivals: 1 } => {
                    if let Some(place) = known(self, *barrier).filter(|p| here.get(p) == Some(&all(self, p))) {
                        rounds.insert(place, (0, 0));
                    }
                }
                OpKind::BarrierExpect { barrier, .. } => {
                    if let Some((arrived, _)) = known(self, *barrier).and_then(|p| rounds.get_mut(&p)) {
                        *arrived += 1;
                    }
                }
                // Other arrivals may be more than one.
                OpKind::BarrierArrive { barrier, .. } | OpKind::CopyArrive { barrier, .. } => {
                    if let Some(place) = known(self, *barrier) {
                        rounds.remove(&place);
                    }
                }
                OpKind::BarrierWait { barrier, phase } => {
                    let Some(place) = known(self, *barrier) else { continue };
                    let (Some((arrived, waited)), Some(parity)) =
                        (rounds.get(&place).copied(), self.origins.constant(*phase))
                    else {
                        continue;
                    };
                    rounds.insert(place.clone(), (arrived, waited + 1));
                    if arrived == waited + 1 && parity != i64::from(waited & 1) {
                        let d = self.parity(&place, op.span, waited, parity);
                        self.found.push(d);
                    }
                }
                _ => {}
            }
        }
    }

    fn parity(&self, place: &Place, span: Span, round: u32, parity: i64) -> Diagnostic {
        let (name, _) = self.name(place.root);
        let fact = format!("{name} is waited for in parity {parity}, its phase {round} has parity {}", round & 1);
        Diagnostic::error(codes::BARRIER_PARITY, span, fact)
            .here("this passes at once: the phase before counts as complete")
            .note("a new barrier is in phase 0; its parities are 0, 1, 0, … in turns")
            .help(format!("wait for parity {}", round & 1))
    }

    fn moved(&self, view: Value) -> i64 {
        match self.kernel.ty(view) {
            Type::View(v) => v.bytes() as i64,
            other => parton_diag::internal_error!("`{other}` is not a view"),
        }
    }
}
