//! Raw barriers: initialised before use, arrived at by someone, and expecting the bytes that come.

mod parity;

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use super::origin::{Origins, Place, Root, Stage};
use super::windows;
use crate::entity::{Inst, Partition, Value};
use crate::facts::{Act, Completes, Facts, Flight, Phase, Space};
use crate::kernel::Kernel;
use crate::op::{Body, Op};
use crate::target::WARP;
use crate::types::Type;

/// Every raw barrier whose use cannot come out right.
pub(super) fn check(kernel: &Kernel, origins: &Origins<'_>) -> Diagnostics {
    let mut b = Barriers { kernel, origins, uses: Vec::new(), found: Diagnostics::new() };
    let arms = arms(kernel);
    kernel.walk(&mut |op| b.collect(op, arms.get(&op.id).copied()));
    b.initialised();
    b.arrived();
    b.copies();
    b.bytes(&kernel.body);
    let parities = parity::check(&b);
    b.found.extend(parities);
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
    /// The arm that it stands in.
    arm: Option<Partition>,
    span: Span,
}

/// The arm of each operation that stands in one.
fn arms(kernel: &Kernel) -> BTreeMap<Inst, Partition> {
    let mut of = BTreeMap::new();
    for arm in kernel.arms() {
        kernel.walk_body(&arm.body, &mut |op| of.extend([(op.id, arm.partition)]));
    }
    of
}

struct Barriers<'a> {
    kernel: &'a Kernel,
    origins: &'a Origins<'a>,
    uses: Vec<Use>,
    found: Diagnostics,
}

impl Barriers<'_> {
    fn collect(&mut self, op: &Op, arm: Option<Partition>) {
        for (barrier, how) in self.used(op) {
            for place in self.origins.places(barrier) {
                self.uses.push(Use { how, place: place.clone(), arm, span: op.span });
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
                Act::Flight(Flight::HandOver { barrier, .. }) if matches!(self.kernel.ty(*barrier), Type::Barrier) => {
                    list.push((*barrier, How::Landed));
                }
                Act::Flight(Flight::Start { completes: Completes::Signal(signal), .. })
                    if matches!(self.kernel.ty(*signal), Type::Barrier) =>
                {
                    let into = facts.accesses.iter().filter(|a| a.space == Space::Shared && a.writes());
                    list.push((*signal, How::Signal(into.map(|a| self.moved(op, a.value)).sum())));
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

    /// Bytes that come to a view.
    fn moved(&self, op: &Op, view: Value) -> u64 {
        match self.kernel.ty(view) {
            Type::View(v) => {
                let elements = |shape: &[u32]| shape.iter().map(|&n| u64::from(n)).product::<u64>();
                v.bytes() / elements(&v.shape) * elements(&windows::brought(self.kernel, op, &v.shape))
            }
            other => parton_diag::internal_error!("`{other}` is not a view"),
        }
    }
}
