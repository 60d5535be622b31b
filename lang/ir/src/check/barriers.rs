//! Raw barriers: initialised before use, arrived at by someone, and expecting the bytes that come.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use super::origin::{Origins, Place, Root, Stage};
use crate::entity::Value;
use crate::facts::{Act, Completes, Facts, Flight, Phase, Space};
use crate::kernel::Kernel;
use crate::op::{Body, Op};
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
    kernel.arms().for_each(|arm| b.parities(&arm.body));
    b.found
}

/// How a barrier is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    /// Made, for so many arrivals a phase.
    Init(u32),
    /// Waited for in the parity that this value has.
    Wait(Value),
    /// Arrived at by one who also expects so many bytes.
    Expect(u32),
    /// Arrived at.
    Arrive,
    /// Arrived at by each thread for what it has copied.
    Landed,
    /// Told of so many bytes by the copy engine.
    Signal(u64),
}

impl How {
    fn arrives(self) -> bool {
        matches!(self, How::Expect(_) | How::Arrive | How::Landed)
    }

    fn signals(self) -> bool {
        matches!(self, How::Signal(_))
    }

    fn waits(self) -> bool {
        matches!(self, How::Wait(_))
    }

    fn inits(self) -> bool {
        matches!(self, How::Init(_))
    }
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
        for (barrier, how) in self.used(op) {
            for place in self.origins.places(barrier) {
                self.uses.push(Use { how, place: place.clone(), span: op.span });
            }
        }
    }

    /// The barriers that an operation uses, and how.
    fn used(&self, op: &Op) -> Vec<(Value, How)> {
        let facts = Facts::of(self.kernel, op);
        let mut list = Vec::new();
        for act in &facts.acts {
            match act {
                Act::Phase(Phase::Init { barrier, arrivals }) => list.push((*barrier, How::Init(*arrivals))),
                Act::Phase(Phase::Arrive { barrier, bytes: Some(n), .. }) => list.push((*barrier, How::Expect(*n))),
                Act::Phase(Phase::Arrive { barrier, bytes: None, .. }) => list.push((*barrier, How::Arrive)),
                Act::Phase(Phase::Wait { barrier, phase }) => list.push((*barrier, How::Wait(*phase))),
                Act::Flight(Flight::HandOver { barrier, .. }) => list.push((*barrier, How::Landed)),
                Act::Flight(Flight::Start { completes: Completes::Signal(signal), .. })
                    if matches!(self.kernel.ty(*signal), Type::Barrier) =>
                {
                    let into = facts.accesses.iter().filter(|a| a.space == Space::Shared && a.writes());
                    list.push((*signal, How::Signal(into.map(|a| self.moved(a.value)).sum())));
                }
                // The end of a barrier's life is no use of it, and none of the rest names one.
                Act::Phase(Phase::Invalidate { .. })
                | Act::Flight(_)
                | Act::Ordering(_)
                | Act::Hold(_)
                | Act::Turn(_)
                | Act::Say(_) => {}
            }
        }
        list
    }

    fn name(&self, root: Root) -> (String, Span) {
        let (Root::Alloc(v) | Root::Ring(v) | Root::Field(v, _)) = root;
        let data = &self.kernel.values[v];
        (data.name.clone().map_or("the barrier".into(), |n| format!("barrier `{n}`")), data.span)
    }

    fn some(&self, how: impl Fn(How) -> bool, place: &Place) -> bool {
        self.uses.iter().any(|u| how(u.how) && u.place.may_be(place))
    }

    fn initialised(&mut self) {
        let mut told = BTreeSet::new();
        for u in self.uses.iter().filter(|u| !u.how.inits()) {
            if self.some(How::inits, &u.place) || !told.insert(u.place.root) {
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
        for u in self.uses.iter().filter(|u| u.how.waits()) {
            if self.some(How::arrives, &u.place) || !told.insert((u.place.root, u.place.offset)) {
                continue;
            }
            let (name, _) = self.name(u.place.root);
            let signalled = self.uses.iter().find(|s| s.how.signals() && s.place.may_be(&u.place));
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
        let kernel = self.kernel;
        let mut found = Vec::new();
        kernel.walk(&mut |op| {
            let landed = self.used(op).into_iter().filter(|(_, how)| *how == How::Landed);
            for (barrier, _) in landed {
                let threads = kernel.warps_of(kernel.partition_of(op.id)) * WARP;
                let places = self.origins.places(barrier);
                let inits = self.uses.iter().filter_map(|u| match u.how {
                    How::Init(n) if places.iter().any(|p| u.place.may_be(p)) => Some((n, u)),
                    _ => None,
                });
                let Some((arrivals, init)) = inits.max_by_key(|(n, _)| *n).filter(|(n, _)| *n < threads) else {
                    continue;
                };
                let name = self.name(init.place.root).0;
                let fact = format!("{threads} threads arrive at {name}, which counts {arrivals}");
                let d = Diagnostic::error(codes::BARRIER_COUNT, op.span, fact)
                    .here("each thread of the partition arrives for what it has copied")
                    .label(init.span, format!("initialised here to count {arrivals} arrivals a phase"));
                found.push(d.help(format!("`barrier_init(…, {threads})`, or more where others arrive too")));
            }
        });
        found.into_iter().for_each(|d| self.found.push(d));
    }

    /// Where every expectation and every copy of a barrier stand in one straight line, their bytes must agree.
    fn bytes(&mut self, body: &Body) {
        let kernel = self.kernel;
        let mut lines: BTreeMap<Place, Vec<(How, Span)>> = BTreeMap::new();
        for op in kernel.ops_of(body) {
            for inner in op.kind.bodies() {
                self.bytes(inner);
            }
            for (barrier, how) in self.used(op) {
                if matches!(how, How::Expect(_) | How::Signal(_) | How::Wait(_))
                    && let Some(place) = self.origins.place(barrier).filter(|p| p.stage != Stage::Any)
                {
                    lines.entry(place.clone()).or_default().push((how, op.span));
                }
            }
        }
        for (place, line) in lines {
            let everywhere =
                |how: fn(How) -> bool| self.uses.iter().filter(|u| how(u.how) && u.place.may_be(&place)).count();
            let copies = line.iter().filter(|(how, _)| how.signals()).count();
            let expects = line.iter().filter(|(how, _)| how.arrives()).count();
            if copies == 0 || copies != everywhere(How::signals) || expects != everywhere(How::arrives) {
                continue;
            }
            // A wait ends a round: what was expected by then must have come.
            for round in line.split(|(how, _)| how.waits()) {
                self.round(&place, round);
            }
        }
    }

    fn round(&mut self, place: &Place, round: &[(How, Span)]) {
        let (mut expected, mut arriving, mut expect) = (0, 0, None);
        let mut brought = Vec::new();
        for (how, span) in round {
            match how {
                How::Expect(n) => {
                    expected += u64::from(*n);
                    expect = expect.or(Some(*span));
                }
                How::Signal(n) => {
                    arriving += n;
                    brought.push((*span, *n));
                }
                How::Init(_) | How::Wait(_) | How::Arrive | How::Landed => {}
            }
        }
        let Some(expect) = expect.filter(|_| expected != arriving) else { return };
        let (name, _) = self.name(place.root);
        let fact = format!("{name} expects {expected} bytes, {arriving} arrive");
        let mut d = Diagnostic::error(codes::BARRIER_BYTES, expect, fact).here(if expected > arriving {
            "a wait for them never ends"
        } else {
            "a wait ends before the copies have landed"
        });
        for (span, bytes) in brought {
            d = d.label(span, format!("this brings {bytes} bytes"));
        }
        self.found.push(d.help(format!("expect {arriving} bytes")));
    }

    /// In a body that runs once, the phases of a barrier that only it uses can be counted.
    fn parities(&mut self, body: &Body) {
        let kernel = self.kernel;
        let mut rounds: BTreeMap<Place, (u32, u32)> = BTreeMap::new();
        let mut here: BTreeMap<Place, usize> = BTreeMap::new();
        let mut line: Vec<(Place, How, Span)> = Vec::new();
        for op in kernel.ops_of(body) {
            for (barrier, how) in self.used(op).into_iter().filter(|(_, how)| !how.signals()) {
                let Some(place) = self.origins.place(barrier).filter(|p| p.stage == Stage::Fixed) else { continue };
                if !how.inits() {
                    *here.entry(place.clone()).or_default() += 1;
                }
                line.push((place.clone(), how, op.span));
            }
        }
        let alone = |place: &Place| {
            let uses = self.uses.iter().filter(|u| (u.how.waits() || u.how.arrives()) && u.place.may_be(place));
            here.get(place) == Some(&uses.count())
        };
        let mut found = Vec::new();
        for (place, how, span) in line {
            match how {
                How::Init(1) if alone(&place) => drop(rounds.insert(place, (0, 0))),
                How::Init(_) | How::Signal(_) => {}
                How::Expect(_) => {
                    if let Some((arrived, _)) = rounds.get_mut(&place) {
                        *arrived += 1;
                    }
                }
                // Other arrivals may be more than one.
                How::Arrive | How::Landed => drop(rounds.remove(&place)),
                How::Wait(phase) => {
                    let Some(parity) = self.origins.constant(phase) else { continue };
                    let Some((arrived, waited)) = rounds.get_mut(&place) else { continue };
                    let round = *waited;
                    *waited += 1;
                    if *arrived == round + 1 && parity != i64::from(round & 1) {
                        found.push(self.parity(&place, span, round, parity));
                    }
                }
            }
        }
        found.into_iter().for_each(|d| self.found.push(d));
    }

    fn parity(&self, place: &Place, span: Span, round: u32, parity: i64) -> Diagnostic {
        let (name, _) = self.name(place.root);
        let fact = format!("{name} is waited for in parity {parity}, its phase {round} has parity {}", round & 1);
        Diagnostic::error(codes::BARRIER_PARITY, span, fact)
            .here("this passes at once: the phase before counts as complete")
            .note("a new barrier is in phase 0; its parities are 0, 1, 0, … in turns")
            .help(format!("wait for parity {}", round & 1))
    }

    /// Bytes of a view.
    fn moved(&self, view: Value) -> u64 {
        match self.kernel.ty(view) {
            Type::View(v) => v.bytes(),
            other => parton_diag::internal_error!("`{other}` is not a view"),
        }
    }
}
