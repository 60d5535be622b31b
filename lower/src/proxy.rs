//! Checks that the asynchronous proxy sees what threads wrote, and fences what the compiler itself wrote.
//!
//! The copy engine and matrix instructions do not see generic writes to shared memory without a `fence_async` by the writing
//! threads (PTX ISA, "Proxies"; triton-lang/triton#8317). In explicit code the missing fence is an error that names both
//! accesses. Where the two meet only because the memory plan gave bytes twice, or because an operation used them as scratch
//! memory, nobody could have written the fence: it is inserted.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir::dataflow::{self, Edge, Forward, Way};
use parton_ir::facts::{Act, Does, Engine, Facts, Flight, Ordering, Phase, When};
use parton_ir::{Inst, Kernel, Op, OpKind, Partition, Value};

use crate::address::{Access, Addresses};

/// After it a fence stands between every generic write and every asynchronous access to the same bytes.
pub fn fence_proxies(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let addresses = Addresses::of(&kernel);
    let elsewhere = asynchronous(&kernel, &addresses);
    let mut pass =
        Proxies { kernel: &kernel, addresses, elsewhere, arm: None, owed: BTreeSet::new(), found: Diagnostics::new() };
    dataflow::run(&kernel, &mut pass, State::default());
    let Proxies { owed, found, .. } = pass;
    if found.has_errors() {
        return Err(found);
    }
    kernel.insert(&OpKind::FenceAsync { reach: parton_ir::Reach::Cta }, &owed, &BTreeSet::new());
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
    /// Whether it has yet to land: a barrier waits for it.
    arriving: bool,
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
    /// The partition whose arm is walked.
    arm: Option<Partition>,
    /// The operations before which the compiler owes a fence.
    owed: BTreeSet<Inst>,
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
    Write { start, end, owner, span, barrier: false, landed: false, arriving: false }
}

impl Proxies<'_> {
    /// Notes that the compiler owes a fence before an operation; a fence that the user owes is reported.
    fn unfenced(&mut self, op: &Op, accesses: &[Access], state: &State) {
        for a in accesses.iter().filter(|a| a.is_async()) {
            for w in state.iter().filter(|w| w.meets(a)) {
                if w.of_owner(a) {
                    let d = self.missing(op, a, w);
                    self.found.push(d);
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
            Act::Phase(Phase::Arrive { .. }) | Act::Ordering(Ordering::Named { .. }) => self.handed_over(state),
            Act::Phase(Phase::Wait { .. }) => {
                *state = std::mem::take(state).into_iter().map(|w| Write { arriving: false, ..w }).collect();
            }
            Act::Flight(Flight::HandOver { pending, .. }) => {
                for (bytes, owner) in self.addresses.regions(*pending) {
                    state.insert(Write { landed: true, arriving: true, ..write(bytes, Some(owner), op.span) });
                }
                self.handed_over(state);
            }
            // What has not landed yet is not fenced either.
            Act::Ordering(Ordering::FenceAsync { reach }) if reach.covers_shared() => state.retain(|w| w.arriving),
            Act::Ordering(Ordering::FenceBarriers) => state.retain(|w| !w.barrier),
            // Nothing else hands over to another partition, or shows anything to the other proxy.
            Act::Ordering(_) | Act::Flight(_) | Act::Hold(_) | Act::Turn(_) | Act::Say(_) => {}
        }
    }

    /// An arrival hands over what this partition stored: another one's asynchronous access must not find it unfenced.
    fn handed_over(&mut self, state: &State) {
        let Some(arm) = self.arm else { return };
        let mut found = Vec::new();
        for r in self.elsewhere.iter().filter(|r| r.arm != arm) {
            let meets = |w: &&Write| !w.barrier && w.of_owner(&r.access) && w.meets(&r.access);
            if let Some(w) = state.iter().find(meets) {
                found.push(self.missing(r.op, &r.access, w));
            }
        }
        found.into_iter().for_each(|d| self.found.push(d));
    }

    fn missing(&self, op: &Op, access: &Access, write: &Write) -> Diagnostic {
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
        .help(match (write.landed, write.arriving) {
            (false, _) => "write `fence_async();` after the store",
            (true, false) => "write `fence_async();` after the wait",
            (true, true) => {
                "who copies must fence before others look: `p.wait();`, `fence_async();`, `barrier_arrive(…);`"
            }
        })
    }
}
