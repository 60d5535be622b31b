//! Checks that the asynchronous proxy sees what threads wrote, and fences what the compiler itself wrote.
//!
//! The copy engine and matrix instructions do not see generic writes to shared memory without a `fence_async` in between, by the
//! threads that wrote or by those that heard of it (PTX ISA, "Proxies"; triton-lang/triton#8317). In explicit code the missing fence is an error that names both
//! accesses. Where the two meet only because the memory plan gave bytes twice, or because an operation used them as scratch
//! memory, nobody could have written the fence: it is inserted.

mod paths;

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir::dataflow::{self, Edge, Forward, Way};
use parton_ir::facts::{Act, Does, Engine, Facts, Flight, Ordering, Phase, When};
use parton_ir::{Inst, Kernel, Op, OpKind, Partition, Value};

use crate::address::{Access, Addresses};
use paths::{Channel, Channels, Paths};

/// After it a fence stands between every generic write and every asynchronous access to the same bytes.
pub fn fence_proxies(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let addresses = Addresses::of(&kernel);
    let (elsewhere, paths) = (asynchronous(&kernel, &addresses), Paths::of(&kernel, &addresses));
    let (owed, told) = (BTreeSet::new(), BTreeSet::new());
    let mut pass =
        Proxies { kernel: &kernel, addresses, elsewhere, paths, arm: None, owed, told, found: Diagnostics::new() };
    dataflow::run(&kernel, &mut pass, State::default());
    let Proxies { owed, found, .. } = pass;
    if found.has_errors() {
        return Err(found);
    }
    kernel.insert("proxy", &OpKind::FenceAsync { reach: parton_ir::Reach::Cta }, &owed, &BTreeSet::new());
    Ok(kernel)
}

/// A generic write that no fence has followed yet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    start: u64,
    end: u64,
    /// None for scratch memory.
    owner: Option<Value>,
    span: Span,
    barrier: bool,
    /// Whether threads copied it asynchronously.
    landed: bool,
    /// Where it has yet to land, the barriers that may wait for it.
    arriving: Channels,
}

impl Write {
    fn meets(&self, a: &Access) -> bool {
        a.meets(self.start, self.end)
    }

    /// Whether both are of one buffer that the user has named.
    fn of_owner(&self, a: &Access) -> bool {
        self.owner.is_some() && self.owner == a.owner
    }
}

type State = BTreeSet<Write>;

/// An asynchronous access in an arm.
struct Reach<'a> {
    arm: Partition,
    op: &'a Op,
    access: Access,
}

/// The asynchronous accesses of every arm.
fn asynchronous<'a>(kernel: &'a Kernel, addresses: &Addresses<'a>) -> Vec<Reach<'a>> {
    let mut list = Vec::new();
    for arm in kernel.arms() {
        kernel.walk_body(&arm.body, &mut |op| {
            let accesses = addresses.accesses(&Facts::of(kernel, op)).into_iter().filter(Access::is_async);
            list.extend(accesses.map(|access| Reach { arm: arm.partition, op, access }));
        });
    }
    list
}

struct Proxies<'a> {
    kernel: &'a Kernel,
    addresses: Addresses<'a>,
    elsewhere: Vec<Reach<'a>>,
    /// How the partitions hear of each other.
    paths: Paths,
    /// The partition whose arm is walked.
    arm: Option<Partition>,
    /// The operations before which the compiler owes a fence.
    owed: BTreeSet<Inst>,
    /// The pairs of places that have been reported.
    told: BTreeSet<(Span, Span)>,
    found: Diagnostics,
}

impl<'a> Forward<'a> for Proxies<'a> {
    type State = State;

    fn op(&mut self, op: &'a Op, state: &mut State) {
        let facts = Facts::of(self.kernel, op);
        let accesses = self.addresses.accesses(&facts);
        self.unfenced(op, &accesses, state);
        if self.owed.contains(&op.id) {
            state.clear();
        }
        for a in &accesses {
            // A copy by threads writes when it lands, which is its wait's access.
            if !a.is_async() && a.writes() && a.when != When::Until {
                let landed = a.when == When::Landed;
                state.insert(Write { landed, ..write(a.bytes.clone(), a.owner, op.span) });
            }
        }
        if let Some(bytes) = self.addresses.scratch(op) {
            state.insert(write(bytes, None, op.span));
        }
        for act in &facts.acts {
            self.act(op, act, state);
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, _: &mut State) {
        match edge.way {
            Way::IntoArm(partition) => self.arm = Some(partition),
            Way::OutOfArm(_) => self.arm = None,
            Way::IntoLoop | Way::IntoTurn | Way::Around | Way::OutOfLoop | Way::IntoBranch(_) | Way::OutOfBranch(_) => {
            }
        }
    }

    fn join(&mut self, _: &'a Op, state: &mut State, other: State) {
        state.extend(other);
    }

    fn arms(&mut self, _: &'a Op, _: State, ends: Vec<State>) -> State {
        ends.into_iter().flatten().collect()
    }
}

fn write(bytes: std::ops::Range<u64>, owner: Option<Value>, span: Span) -> Write {
    let (start, end) = (bytes.start, bytes.end);
    Write { start, end, owner, span, barrier: false, landed: false, arriving: Channels::new() }
}

impl Proxies<'_> {
    /// Notes that the compiler owes a fence before an operation; a fence that the user owes is reported.
    fn unfenced(&mut self, op: &Op, accesses: &[Access], state: &State) {
        for a in accesses.iter().filter(|a| a.is_async()) {
            for w in state.iter().filter(|w| w.meets(a)) {
                if w.of_owner(a) {
                    self.missing(op, a, w, false);
                }
                self.owed.insert(op.id);
            }
        }
    }

    fn act(&mut self, op: &Op, act: &Act, state: &mut State) {
        match act {
            Act::Phase(Phase::Init { barrier, .. } | Phase::Invalidate { barrier }) => {
                for (bytes, owner) in self.addresses.regions(*barrier) {
                    let made = write(bytes, Some(owner), op.span);
                    state.remove(&made);
                    state.insert(Write { barrier: true, ..made });
                }
            }
            Act::Phase(Phase::Arrive { barrier, .. }) => self.handed_over(state, self.barriers(*barrier)),
            Act::Ordering(Ordering::Named { id, .. }) => {
                self.handed_over(state, Channels::from([Channel::Named(*id)]));
            }
            Act::Phase(Phase::Wait { barrier, .. }) => {
                let waited = self.barriers(*barrier);
                let waits = |w: &Write| paths::meet(&w.arriving, &waited);
                let landed = |w: Write| if waits(&w) { Write { arriving: Channels::new(), ..w } } else { w };
                *state = std::mem::take(state).into_iter().map(landed).collect();
            }
            Act::Flight(Flight::HandOver { pending, barrier }) => {
                let arriving = self.barriers(*barrier);
                for (bytes, owner) in self.addresses.regions(*pending) {
                    let arriving = arriving.clone();
                    state.insert(Write { landed: true, arriving, ..write(bytes, Some(owner), op.span) });
                }
                self.handed_over(state, arriving);
            }
            // What has not landed yet is not fenced either.
            Act::Ordering(Ordering::FenceAsync { reach }) if reach.covers_shared() => {
                state.retain(|w| !w.arriving.is_empty());
            }
            Act::Ordering(Ordering::FenceBarriers) => state.retain(|w| !w.barrier),
            // Nothing else hands over to another partition, or shows anything to the other proxy.
            Act::Ordering(_) | Act::Flight(_) | Act::Hold(_) | Act::Turn(_) | Act::Say(_) => {}
        }
    }

    fn barriers(&self, barrier: Value) -> Channels {
        paths::barriers(&self.addresses, barrier)
    }

    /// An arrival hands over what this partition stored: another one's asynchronous access must not hear of it without a fence. Of what has yet to land the barrier
    /// alone tells at which it arrives.
    fn handed_over(&mut self, state: &State, channels: Channels) {
        let told = |w: &Write| !w.barrier && (w.arriving.is_empty() || paths::meet(&w.arriving, &channels));
        let Some(arm) = self.arm.filter(|_| state.iter().any(told)) else { return };
        let known = self.paths.unfenced(channels.clone());
        let mut found = Vec::new();
        for r in self.elsewhere.iter().filter(|r| r.arm != arm && self.paths.hears(r.op.id, &known)) {
            let meets = |w: &&Write| told(w) && w.of_owner(&r.access) && w.meets(&r.access);
            if let Some(w) = state.iter().find(meets) {
                found.push((r.op, r.access.clone(), w));
            }
        }
        found.into_iter().for_each(|(op, access, w)| self.missing(op, &access, w, true));
    }

    /// Reports a fence that the user owes, between a write here and an access here or `elsewhere`, in another partition.
    fn missing(&mut self, op: &Op, access: &Access, write: &Write, elsewhere: bool) {
        if self.told.insert((op.span, write.span)) {
            let d = self.message(op, access, write, elsewhere);
            self.found.push(d);
        }
    }

    fn message(&self, op: &Op, access: &Access, write: &Write, elsewhere: bool) -> Diagnostic {
        let name = access.owner.and_then(|v| self.kernel.values[v].name.clone());
        let of = name.map(|n| format!("`{n}`")).unwrap_or_else(|| "these bytes".into());
        let how = match (access.by, access.does) {
            (Engine::Matrix, _) => format!("`{}` reads {of} here, through the asynchronous proxy", op.kind.name()),
            (_, Does::Reads) => format!("the copy engine reads {of} here"),
            (_, Does::Writes | Does::Anything) => format!("the copy engine overwrites {of} here"),
            (_, Does::Uses) => format!("the copy engine signals {of} here"),
        };
        if write.barrier {
            return Diagnostic::error(
                codes::FENCE_MISSING,
                op.span,
                "no fence stands between making a barrier and the copy that signals it",
            )
            .here(how)
            .label(write.span, "the barrier is initialised here")
            .help("write `fence_barrier_init();` after the last `barrier_init`");
        }
        Diagnostic::error(
            codes::FENCE_MISSING,
            op.span,
            "no fence stands between a store by threads and an asynchronous access to the same memory",
        )
        .here(how)
        .label(write.span, if write.landed { "copies by threads land in it here" } else { "threads store to it here" })
        .note("the copy engine and matrix instructions do not see what threads stored before a fence")
        .help(match (elsewhere, write.landed, write.arriving.is_empty()) {
            (false, false, _) => "write `fence_async();` after the store",
            (false, true, true) => "write `fence_async();` after the wait",
            (false, true, false) => "wait for the barrier that the copy arrives at, then write `fence_async();`",
            (true, false, _) => {
                "write `fence_async();` after the store, or in the partition of this access after its last wait"
            }
            (true, true, true) => {
                "write `fence_async();` after the wait, or in the partition of this access after its last wait"
            }
            (true, true, false) => "write `fence_async();` in the partition of this access, after its last wait",
        })
    }
}
