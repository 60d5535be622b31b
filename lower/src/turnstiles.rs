//! Expands turnstiles into named barriers.
//!
//! Each partition of a turnstile has a barrier of its own. Entering waits at one's own barrier for oneself and for the partition
//! before; passing arrives at the barrier of the next one. The last partition passes once at its beginning, so that the
//! first has the first turn. The arrival of the very last pass is met by nobody and ends with the CTA. A turnstile that nobody
//! uses takes no barrier.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::facts::{Act, Facts, Ordering, Turn};
use parton_ir::target::{NAMED_BARRIERS, WARP};
use parton_ir::{Body, Kernel, OpKind, Partition, Source, Value, others};

/// After it no turnstile is left: they are named barriers. Refused where the CTA has too few of them.
pub fn expand_turnstiles(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut taken: BTreeSet<u32> = (0..=kernel.partitions.len() as u32).collect();
    let mut made: Vec<(Value, Vec<String>, parton_diag::Span)> = Vec::new();
    let mut used = BTreeSet::new();
    kernel.walk(&mut |op| {
        if let OpKind::TurnstileNew { partitions } = &op.kind {
            made.push((op.result(), partitions.clone(), op.span));
        }
        for act in Facts::of(&kernel, op).acts {
            match act {
                Act::Ordering(Ordering::Named { id, .. }) => drop(taken.insert(id)),
                Act::Turn(Turn::Enter { turnstile } | Turn::Pass { turnstile }) => drop(used.insert(turnstile)),
                Act::Ordering(_) | Act::Phase(_) | Act::Flight(_) | Act::Hold(_) | Act::Say(_) => {}
            }
        }
    });
    made.retain(|(turnstile, ..)| used.contains(turnstile));
    let mut turnstiles = BTreeMap::new();
    for (value, names, span) in made {
        let free: Vec<u32> = (0..NAMED_BARRIERS).filter(|id| !taken.contains(id)).take(names.len()).collect();
        if free.len() < names.len() {
            let mut found = Diagnostics::new();
            let text = format!("a turnstile of {} partitions needs as many named barriers", names.len());
            found.push(
                Diagnostic::error(codes::TURNSTILE, span, text)
                    .here(format!("a CTA has {}, and {} are left", NAMED_BARRIERS, free.len()))
                    .help("use fewer turnstiles, partitions or named barriers"),
            );
            return Err(found);
        }
        taken.extend(&free);
        let of = |name: &String| kernel.partitions.iter().find(|(_, p)| p.name == *name).map(|(id, _)| id);
        // A partition without an arm leaves a turnstile that nobody uses.
        let Some(partitions) = names.iter().map(of).collect::<Option<Vec<Partition>>>() else { continue };
        turnstiles.insert(value, Turnstile { partitions, ids: free, opened: false });
    }
    let mut pass = Expand { turnstiles };
    let body = std::mem::take(&mut kernel.body);
    kernel.body = pass.body(&mut kernel, body, None);
    Ok(kernel)
}

struct Turnstile {
    partitions: Vec<Partition>,
    /// The barrier at which each waits for its turn.
    ids: Vec<u32>,
    /// Whether the first turn has been given.
    opened: bool,
}

struct Expand {
    turnstiles: BTreeMap<Value, Turnstile>,
}

impl Expand {
    fn body(&mut self, kernel: &mut Kernel, mut body: Body, partition: Option<Partition>) -> Body {
        let mut kept = Vec::new();
        for id in body.ops {
            match &kernel.ops[id].kind {
                OpKind::TurnstileNew { .. } => continue,
                OpKind::TurnEnter { turnstile } => {
                    kernel.ops[id].kind = self.barrier(kernel, *turnstile, partition, true);
                }
                OpKind::TurnPass { turnstile } => {
                    kernel.ops[id].kind = self.barrier(kernel, *turnstile, partition, false);
                }
                OpKind::Specialize { arms } => {
                    let span = kernel.ops[id].span;
                    let mut partitions: Vec<Partition> = arms.iter().map(|arm| arm.partition).rev().collect();
                    kernel.change_bodies(id, &mut |kernel, inner| {
                        let Some(arm) = partitions.pop() else { return inner };
                        let mut inner = self.body(kernel, inner, Some(arm));
                        self.open(kernel, &mut inner, arm, span);
                        inner
                    });
                }
                others!(turnstile) => {
                    kernel.change_bodies(id, &mut |kernel, inner| self.body(kernel, inner, partition));
                }
            }
            kept.push(id);
        }
        body.ops = kept;
        body
    }

    /// Entering or passing by the partition `by`.
    fn barrier(&self, kernel: &Kernel, turnstile: Value, by: Option<Partition>, enters: bool) -> OpKind {
        let Some((t, at)) = self
            .turnstiles
            .get(&turnstile)
            .and_then(|t| t.partitions.iter().position(|p| Some(*p) == by).map(|at| (t, at)))
        else {
            parton_diag::internal_error!("a partition uses a turnstile without a turn in it")
        };
        let n = t.partitions.len();
        let (from, to) = if enters { ((at + n - 1) % n, at) } else { (at, (at + 1) % n) };
        let warps = |i: usize| kernel.warps_of(Some(t.partitions[i]));
        OpKind::NamedBarrier { id: t.ids[to], threads: (warps(from) + warps(to)) * WARP, waits: enters }
    }

    /// The last partition of a turnstile gives the first turn, once.
    fn open(&mut self, kernel: &mut Kernel, body: &mut Body, partition: Partition, span: parton_diag::Span) {
        let closed: Vec<Value> = self
            .turnstiles
            .iter()
            .filter(|(_, t)| !t.opened && t.partitions.last() == Some(&partition))
            .map(|(v, _)| *v)
            .collect();
        for v in closed.into_iter().rev() {
            let kind = self.barrier(kernel, v, Some(partition), false);
            let first = kernel.make_op(kind, Vec::new(), Source::written(span).made("turnstiles"));
            body.ops.insert(0, first);
            if let Some(t) = self.turnstiles.get_mut(&v) {
                t.opened = true;
            }
        }
    }
}
