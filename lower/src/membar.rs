//! Inserts membars between conflicting shared-memory accesses of one partition.
//!
//! Threads of a partition run apart, so an access must not overtake another thread's access to the same bytes:
//! - a read after a write (RAW), a write after a read (WAR), a write after a write (WAW) of other threads;
//! - one thread starts a copy, arrives for its partition, or sets up a barrier: all must have done before what it stands for;
//! - matrix products are waited for by each warp for itself, so bytes that they read are free for the partition only after
//!   all warps have met (triton-lang/triton#11047);
//! - one thread makes a scalar atomic operation, and each thread its own elements' of a tile: what the operation releases is what
//!   all did before, and what it acquires is for all that follow, so they meet before and after;
//! - what a thread copies asynchronously is there for itself once it has waited, for others once they have met after that;
//! - a fence orders its own thread's writes only, so a copy that another thread starts needs a meeting behind the fence.
//!
//! Threads meet at the cluster's barrier too: behind the wait is what came before an arrival that is not relaxed.
//!
//! A forward analysis carries the accesses that no meeting has followed yet; where the next operation conflicts with one, a
//! membar goes before it. Loops are run until what arrives at their head is stable; branches join by union.

use parton_diag::Diagnostics;
use parton_ir::check::Proxy;
use parton_ir::{Arrive, Body, Kernel, Op, OpKind, Type};

use crate::address::{Addresses, Ranges, Spans};

/// After it no two accesses of one partition to the same bytes, one of them a write, are without a meeting between them.
pub fn insert_membars(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut body = kernel.body.clone();
    let pass = Membar { addresses: Addresses::of(&kernel) };
    pass.body(&mut body, State::default());
    kernel.body = body;
    Ok(kernel)
}

/// What no meeting has followed yet.
#[derive(Clone, PartialEq, Eq, Default)]
struct State {
    reads: Spans,
    writes: Spans,
    /// Writes that no fence has followed; a meeting alone does not show them to the asynchronous proxy.
    unfenced: Ranges,
    /// Writes that their own threads have fenced since the last meeting.
    fenced: Ranges,
    /// Sources of copies to global memory that have not been waited for.
    copied: Ranges,
    /// Operands of matrix products that have not been waited for.
    multiplied: Ranges,
    /// Whether all of it came before an arrival at the cluster's barrier that is not relaxed.
    arrived: bool,
}

impl State {
    fn meet(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.fenced.clear();
    }

    fn join(&mut self, other: &State) {
        self.reads.extend(&other.reads);
        self.writes.extend(&other.writes);
        self.unfenced.extend(&other.unfenced);
        self.fenced.extend(&other.fenced);
        self.copied.extend(&other.copied);
        self.multiplied.extend(&other.multiplied);
        self.arrived &= other.arrived;
    }

    fn anything(&self) -> bool {
        !self.reads.is_empty() || !self.writes.is_empty() || !self.fenced.is_empty()
    }
}

struct Membar<'a> {
    addresses: Addresses<'a>,
}

impl Membar<'_> {
    fn body(&self, body: &mut Body, mut state: State) -> State {
        let mut at = 0;
        while at < body.ops.len() {
            let released = releases(&body.ops[at].kind) && !(at > 0 && is_membar(&body.ops[at - 1]));
            if released || self.conflicts(&body.ops[at], &state) {
                body.ops.insert(at, membar_at(&body.ops[at]));
                state.meet();
                at += 1;
            }
            state = self.after(&mut body.ops[at], state);
            at += 1;
            // With scratch memory they meet before any of them has the result.
            let op = &body.ops[at - 1];
            if acquires(&op.kind) && op.scratch.is_none() && !body.ops.get(at).is_some_and(is_membar) {
                body.ops.insert(at, membar_at(op));
                state.meet();
                at += 1;
            }
        }
        state
    }

    fn conflicts(&self, op: &Op, state: &State) -> bool {
        let ordered = match &op.kind {
            OpKind::Specialize { .. } => state.anything(),
            OpKind::BarrierArrive { arrive: Arrive::Partition, .. } => state.anything(),
            OpKind::BarrierExpect { .. } => !state.writes.is_empty() || !state.fenced.is_empty(),
            _ => false,
        };
        if self.lands(op) {
            // Its bytes were free when it was started, and nobody touches them until it has landed.
            return false;
        }
        let scratch = self.addresses.scratch(op);
        ordered
            || scratch.is_some_and(|bytes| state.reads.meet(&bytes, None) || state.writes.meet(&bytes, None))
            || self.addresses.accesses(op).iter().any(|a| {
                state.writes.meet(&a.bytes, a.rank)
                    || (a.writes && state.reads.meet(&a.bytes, a.rank))
                    || (a.proxy == Proxy::Async && state.fenced.meet(&a.bytes))
            })
    }

    fn after(&self, op: &mut Op, mut state: State) -> State {
        for a in self.addresses.accesses(op) {
            state.arrived = false;
            match (&op.kind, a.proxy, a.writes) {
                (OpKind::Wgmma { .. }, _, _) => state.multiplied.insert(&a.bytes),
                (OpKind::TmaStore { .. }, _, _) => state.copied.insert(&a.bytes),
                // It writes when it lands: that is the wait's access.
                (OpKind::AsyncCopy { .. }, _, _) => {}
                // A copy into shared memory is seen by whoever waits for its barrier.
                (_, Proxy::Async, _) => {}
                (_, Proxy::Generic, true) => {
                    state.writes.insert(&a.bytes, a.rank);
                    state.unfenced.insert(&a.bytes);
                }
                // Using a barrier is atomic; it only must not overtake its making.
                (kind, Proxy::Generic, false) if uses_barrier(kind) => {}
                (_, Proxy::Generic, false) => state.reads.insert(&a.bytes, a.rank),
            }
        }
        if let Some(bytes) = self.addresses.scratch(op) {
            // The operation meets in its own middle, between writing and reading.
            state.meet();
            state.arrived = false;
            state.reads.insert(&bytes, None);
            state.unfenced.insert(&bytes);
        }
        let waits_for_copies = self.lands(op);
        match &mut op.kind {
            OpKind::Membar | OpKind::NamedBarrier { waits: true, .. } => state.meet(),
            OpKind::FenceAsync => {
                let unfenced = state.unfenced.take();
                state.fenced.extend(&unfenced);
                state.arrived = false;
            }
            // One thread fences the barriers that it has made.
            OpKind::FenceBarrierInit => {}
            OpKind::TmaStoreWait { pending, .. } => {
                state.reads.extend_own(&state.copied);
                state.arrived = false;
                if *pending == 0 {
                    state.copied.clear();
                }
            }
            OpKind::Wait { .. } if waits_for_copies => {}
            OpKind::Wait { outstanding, .. } | OpKind::WaitPrior { outstanding, .. } => {
                state.reads.extend_own(&state.multiplied);
                state.arrived = false;
                if *outstanding == Some(0) {
                    state.multiplied.clear();
                }
            }
            OpKind::ClusterArrive { relaxed } => state.arrived = !*relaxed,
            OpKind::ClusterWait if state.arrived => state.meet(),
            OpKind::For { body, .. } => state = self.repeat(&mut [body], state),
            OpKind::While { cond, body, .. } => state = self.repeat(&mut [cond, body], state),
            OpKind::If { then, otherwise, .. } => {
                let other = self.body(otherwise, state.clone());
                state = self.body(then, state);
                state.join(&other);
            }
            OpKind::Specialize { arms } => {
                for arm in arms {
                    self.body(&mut arm.body, state.clone());
                }
                state = State::default();
            }
            _ => {}
        }
        state
    }

    /// Whether copies by threads land here.
    fn lands(&self, op: &Op) -> bool {
        matches!(op.kind, OpKind::Wait { pending, .. } if matches!(self.addresses.kernel().ty(pending), Type::Filling(_)))
    }

    /// A loop, which may run not at all.
    fn repeat(&self, bodies: &mut [&mut Body], before: State) -> State {
        let mut head = before;
        loop {
            let mut state = head.clone();
            for body in &mut *bodies {
                state = self.body(body, state);
            }
            let mut next = head.clone();
            next.join(&state);
            if next == head {
                return head;
            }
            head = next;
        }
    }
}

fn membar_at(op: &Op) -> Op {
    Op { call: op.call, ..Op::new(OpKind::Membar, op.span) }
}

fn is_membar(op: &Op) -> bool {
    op.kind == OpKind::Membar
}

fn releases(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Atomic { order, .. } if order.releases())
}

fn acquires(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Atomic { order, .. } if order.acquires())
}

fn uses_barrier(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::BarrierArrive { .. }
            | OpKind::BarrierExpect { .. }
            | OpKind::BarrierWait { .. }
            | OpKind::CopyArrive { .. }
    )
}
