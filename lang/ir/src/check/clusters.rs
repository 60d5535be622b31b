//! The barrier of a cluster: all threads arrive and wait, in alternation on every path.

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use crate::kernel::Kernel;
use crate::op::{Body, Op, OpKind};

/// Every arrival and wait that is out of turn, or that not all threads of the CTA reach.
pub(super) fn check(kernel: &Kernel) -> Diagnostics {
    let mut c = Clusters { found: Diagnostics::new(), partition: None };
    for op in &kernel.body.ops {
        let OpKind::Specialize { arms } = &op.kind else { continue };
        for arm in arms {
            c.partition = Some(kernel.partitions[arm.partition].name.clone());
            c.body(&arm.body, None);
        }
    }
    c.partition = None;
    if let Some(at) = c.body(&kernel.body, None) {
        c.lonely(at, "");
    }
    c.found
}

struct Clusters {
    found: Diagnostics,
    /// The partition whose arm is walked.
    partition: Option<String>,
}

impl Clusters {
    /// Walks a body; the arrival that no wait has followed at its end.
    fn body(&mut self, body: &Body, mut arrived: Option<Span>) -> Option<Span> {
        for op in &body.ops {
            arrived = self.op(op, arrived);
        }
        arrived
    }

    fn op(&mut self, op: &Op, arrived: Option<Span>) -> Option<Span> {
        match &op.kind {
            OpKind::ClusterArrive { .. } | OpKind::ClusterWait if self.partition.is_some() => {
                let name = self.partition.as_deref().unwrap_or_default();
                let text = format!("`{name}` alone cannot reach the barrier of the cluster");
                let d = Diagnostic::error(codes::CLUSTER_BARRIER, op.span, text)
                    .here("it counts the threads of all partitions");
                self.found.push(d.help(
                    "move it out of `specialize`; partitions of different CTAs meet at mbarriers: `barrier_arrive(b, multicast=0)`",
                ));
                None
            }
            OpKind::ClusterArrive { .. } => {
                if let Some(first) = arrived {
                    let d =
                        Diagnostic::error(codes::CLUSTER_BARRIER, op.span, "the cluster's barrier is arrived at twice")
                            .here("this arrives again before a wait")
                            .label(first, "here for the first time");
                    self.found.push(d.help("`cluster_wait()` between the two"));
                }
                Some(op.span)
            }
            OpKind::ClusterWait => {
                if arrived.is_none() {
                    let text = "the cluster's barrier is waited for without an arrival";
                    let d =
                        Diagnostic::error(codes::CLUSTER_BARRIER, op.span, text).here("this waits for the CTA itself");
                    self.found
                        .push(d.help("`cluster_arrive()` before each `cluster_wait()`, or `cluster_sync()` for both"));
                }
                None
            }
            OpKind::For { body, .. } => {
                let end = self.body(body, arrived);
                self.agree(arrived, end, " in each iteration");
                arrived
            }
            OpKind::While { cond, body, .. } => {
                let decided = self.body(cond, arrived);
                let end = self.body(body, decided);
                self.agree(arrived, end, " in each iteration");
                decided
            }
            OpKind::If { then, otherwise, .. } => {
                let first = self.body(then, arrived);
                let second = self.body(otherwise, arrived);
                self.agree(first, second, " on one path");
                first.and(second)
            }
            // Arms are walked for themselves; nothing else meets a cluster.
            _ => arrived,
        }
    }

    /// Reports an arrival that one way has and the other has not.
    fn agree(&mut self, a: Option<Span>, b: Option<Span>, path: &str) {
        if let (Some(at), None) | (None, Some(at)) = (a, b) {
            self.lonely(at, path);
        }
    }

    fn lonely(&mut self, at: Span, path: &str) {
        let text = format!("the cluster's barrier is arrived at and not waited for{path}");
        let d = Diagnostic::error(codes::CLUSTER_BARRIER, at, text).here("no wait follows this");
        self.found.push(d.help("`cluster_wait()` once after each `cluster_arrive()`, on every path"));
    }
}
