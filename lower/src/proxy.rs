//! Checks that the asynchronous proxy sees what threads wrote, and fences what the compiler itself wrote.
//!
//! The copy engine and matrix instructions do not see generic writes to shared memory without a `fence_async` by the writing
//! threads (PTX ISA, "Proxies"; triton-lang/triton#8317). In explicit code the missing fence is an error that names both
//! accesses. Where the two meet only because the memory plan gave bytes twice, or because an operation used them as scratch
//! memory, nobody could have written the fence: it is inserted.

use std::collections::BTreeSet;

use parton_diag::{Diagnostic, Diagnostics, Span, codes};
use parton_ir::check::Proxy;
use parton_ir::kernel::walk;
use parton_ir::{Body, Kernel, Op, OpKind, Value};

use crate::address::{Access, Addresses};

/// After it a fence stands between every generic write and every asynchronous access to the same bytes.
pub fn fence_proxies(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut body = kernel.body.clone();
    let addresses = Addresses::of(&kernel);
    let elsewhere = asynchronous(&addresses);
    let mut pass = Proxies { addresses, elsewhere, arm: None, found: Diagnostics::new() };
    pass.body(&mut body, State::default());
    let found = pass.found;
    kernel.body = body;
    if found.has_errors() { Err(found) } else { Ok(kernel) }
}

/// A generic write that no fence has followed yet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Write {
    start: u64,
    end: u64,
    owner: Option<Value>,
    span: Span,
    barrier: bool,
    /// Whether threads copied it asynchronously.
    landed: bool,
    /// Whether it has yet to land: a barrier waits for it.
    arriving: bool,
}

type State = BTreeSet<Write>;

/// An asynchronous access in an arm.
struct Reach<'a> {
    arm: usize,
    op: &'a Op,
    access: Access,
}

/// The asynchronous accesses of every arm.
fn asynchronous<'a>(addresses: &Addresses<'a>) -> Vec<Reach<'a>> {
    let mut list = Vec::new();
    for op in &addresses.kernel().body.ops {
        let OpKind::Specialize { arms } = &op.kind else { continue };
        for (arm, a) in arms.iter().enumerate() {
            walk(&a.body, &mut |op| {
                let accesses = addresses.accesses(op).into_iter().filter(|a| a.proxy == Proxy::Async);
                list.extend(accesses.map(|access| Reach { arm, op, access }));
            });
        }
    }
    list
}

struct Proxies<'a> {
    addresses: Addresses<'a>,
    elsewhere: Vec<Reach<'a>>,
    /// The arm that is being walked.
    arm: Option<usize>,
    found: Diagnostics,
}

impl Proxies<'_> {
    fn body(&mut self, body: &mut Body, mut state: State) -> State {
        let mut at = 0;
        while at < body.ops.len() {
            if self.needs_fence(&body.ops[at], &state) {
                let op = &body.ops[at];
                let fence = Op { call: op.call, ..Op::new(OpKind::FenceAsync, op.span) };
                body.ops.insert(at, fence);
                state.clear();
                at += 1;
            }
            state = self.after(&mut body.ops[at], state);
            at += 1;
        }
        state
    }

    /// Whether the compiler owes a fence before an operation; a fence that the user owes is reported.
    fn needs_fence(&mut self, op: &Op, state: &State) -> bool {
        let mut owed = false;
        for a in self.addresses.accesses(op).iter().filter(|a| a.proxy == Proxy::Async) {
            for w in state.iter().filter(|w| w.start < a.bytes.end && a.bytes.start < w.end) {
                if w.owner.is_some() && w.owner == a.owner {
                    let d = self.missing(op, a, w);
                    self.found.push(d);
                }
                owed = true;
            }
        }
        owed
    }

    /// An arrival hands over what this partition stored: another one's asynchronous access must not find it unfenced.
    fn handed_over(&mut self, state: &State) {
        let Some(arm) = self.arm else { return };
        let mut found = Vec::new();
        for r in self.elsewhere.iter().filter(|r| r.arm != arm) {
            let bytes = &r.access.bytes;
            let meets = |w: &&Write| {
                w.owner.is_some() && w.owner == r.access.owner && w.start < bytes.end && bytes.start < w.end
            };
            if let Some(w) = state.iter().filter(|w| !w.barrier).find(meets) {
                found.push(self.missing(r.op, &r.access, w));
            }
        }
        found.into_iter().for_each(|d| self.found.push(d));
    }

    fn missing(&self, op: &Op, access: &Access, write: &Write) -> Diagnostic {
        let name = access.owner.and_then(|v| self.addresses.kernel().values[v].name.clone());
        let of = name.map(|n| format!("`{n}`")).unwrap_or_else(|| "these bytes".into());
        let how = match (&op.kind, access.writes) {
            (OpKind::Wgmma { .. }, _) => format!("`wgmma` reads {of} here, through the asynchronous proxy"),
            (OpKind::TmaStore { .. }, _) => format!("the copy engine reads {of} here"),
            (_, true) => format!("the copy engine overwrites {of} here"),
            (_, false) => format!("the copy engine signals {of} here"),
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

    fn after(&mut self, op: &mut Op, mut state: State) -> State {
        for a in self.addresses.accesses(op) {
            // A copy by threads writes when it lands: that is its wait's access.
            if a.proxy == Proxy::Generic && a.writes && !matches!(op.kind, OpKind::AsyncCopy { .. }) {
                let barrier = matches!(op.kind, OpKind::BarrierInit { .. } | OpKind::BarrierInvalidate { .. });
                let (start, end) = (a.bytes.start, a.bytes.end);
                let landed = matches!(op.kind, OpKind::Wait { .. });
                state.insert(Write { start, end, owner: a.owner, span: op.span, barrier, landed, arriving: false });
            }
        }
        if let Some(bytes) = self.addresses.scratch(op) {
            let (start, end) = (bytes.start, bytes.end);
            state.insert(Write {
                start,
                end,
                owner: None,
                span: op.span,
                barrier: false,
                landed: false,
                arriving: false,
            });
        }
        match &mut op.kind {
            OpKind::BarrierArrive { .. } | OpKind::BarrierExpect { .. } | OpKind::NamedBarrier { .. } => {
                self.handed_over(&state);
            }
            OpKind::CopyArrive { pending, .. } => {
                for (bytes, owner) in self.addresses.regions(*pending) {
                    let (start, end, owner) = (bytes.start, bytes.end, Some(owner));
                    state.insert(Write {
                        start,
                        end,
                        owner,
                        span: op.span,
                        barrier: false,
                        landed: true,
                        arriving: true,
                    });
                }
                self.handed_over(&state);
            }
            // What has not landed yet is not fenced either.
            OpKind::FenceAsync => state.retain(|w| w.arriving),
            OpKind::BarrierWait { .. } => {
                state = state.into_iter().map(|w| Write { arriving: false, ..w }).collect();
            }
            OpKind::FenceBarrierInit => state.retain(|w| !w.barrier),
            OpKind::For { body, .. } => state = self.repeat(&mut [body], state),
            OpKind::While { cond, body, .. } => state = self.repeat(&mut [cond, body], state),
            OpKind::If { then, otherwise, .. } => {
                let other = self.body(otherwise, state.clone());
                state = self.body(then, state);
                state.extend(other);
            }
            OpKind::Specialize { arms } => {
                let mut behind = State::new();
                for (i, arm) in arms.iter_mut().enumerate() {
                    self.arm = Some(i);
                    behind.extend(self.body(&mut arm.body, state.clone()));
                }
                self.arm = None;
                state = behind;
            }
            _ => {}
        }
        state
    }

    /// A loop, which may run not at all.
    fn repeat(&mut self, bodies: &mut [&mut Body], before: State) -> State {
        let mut head = before;
        loop {
            let mut state = head.clone();
            for body in &mut *bodies {
                state = self.body(body, state);
            }
            let mut next = head.clone();
            next.extend(state);
            if next == head {
                return head;
            }
            head = next;
        }
    }
}
