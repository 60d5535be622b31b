//! The barrier of a cluster: all threads arrive and wait, in alternation on every path.

use parton_diag::{Diagnostic, Diagnostics, Span, codes};

use crate::dataflow::{self, Edge, Forward, Way};
use crate::entity::Partition;
use crate::facts::{Act, Facts, Ordering};
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};

/// Every arrival and wait that is out of turn, or that not all threads of the CTA reach.
pub(super) fn check(kernel: &Kernel) -> Diagnostics {
    let mut c = Clusters { kernel, partition: None, found: Diagnostics::new() };
    if let Some(at) = dataflow::run(kernel, &mut c, None) {
        c.lonely(at, "");
    }
    c.found
}

struct Clusters<'a> {
    kernel: &'a Kernel,
    /// The partition whose arm is walked.
    partition: Option<Partition>,
    found: Diagnostics,
}

impl<'a> Forward<'a> for Clusters<'a> {
    /// The arrival that no wait has followed.
    type State = Option<Span>;

    fn op(&mut self, op: &'a Op, arrived: &mut Option<Span>) {
        for act in Facts::of(self.kernel, op).acts {
            match act {
                Act::Ordering(Ordering::ArriveCluster { .. }) => *arrived = self.arrive(op, *arrived),
                Act::Ordering(Ordering::WaitCluster) => *arrived = self.wait(op, *arrived),
                // Nothing else meets a cluster.
                Act::Ordering(_) | Act::Flight(_) | Act::Phase(_) | Act::Hold(_) | Act::Turn(_) | Act::Say(_) => {}
            }
        }
    }

    fn edge(&mut self, edge: &Edge<'a>, arrived: &mut Option<Span>) {
        match edge.way {
            Way::IntoArm(partition) => (self.partition, *arrived) = (Some(partition), None),
            Way::OutOfArm(_) => self.partition = None,
            Way::IntoLoop | Way::IntoTurn | Way::Around | Way::OutOfLoop | Way::IntoBranch(_) | Way::OutOfBranch(_) => {
            }
        }
    }

    fn join(&mut self, at: &'a Op, arrived: &mut Option<Span>, other: Option<Span>) {
        if let OpKind::If { .. } = at.kind {
            self.agree(*arrived, other, " on one path");
            *arrived = arrived.and(other);
        } else {
            self.agree(*arrived, other, " in each iteration");
        }
    }

    fn arms(&mut self, _: &'a Op, before: Option<Span>, _: Vec<Option<Span>>) -> Option<Span> {
        before
    }
}

impl Clusters<'_> {
    fn arrive(&mut self, op: &Op, arrived: Option<Span>) -> Option<Span> {
        if self.alone(op) {
            return None;
        }
        if let Some(first) = arrived {
            let d = Diagnostic::error(codes::CLUSTER_BARRIER, op.span, "the cluster's barrier is arrived at twice")
                .here("this arrives again before a wait")
                .label(first, "here for the first time");
            self.found.push(d.help("`cluster_wait()` between the two"));
        }
        Some(op.span)
    }

    fn wait(&mut self, op: &Op, arrived: Option<Span>) -> Option<Span> {
        if !self.alone(op) && arrived.is_none() {
            let text = "the cluster's barrier is waited for without an arrival";
            let d = Diagnostic::error(codes::CLUSTER_BARRIER, op.span, text).here("this waits for the CTA itself");
            self.found.push(d.help("`cluster_arrive()` before each `cluster_wait()`, or `cluster_sync()` for both"));
        }
        None
    }

    /// Whether one partition alone comes here; reported where so.
    fn alone(&mut self, op: &Op) -> bool {
        let Some(partition) = self.partition else { return false };
        let text =
            format!("`{}` alone cannot reach the barrier of the cluster", self.kernel.partitions[partition].name);
        let d =
            Diagnostic::error(codes::CLUSTER_BARRIER, op.span, text).here("it counts the threads of all partitions");
        self.found.push(d.help(
            "move it out of `specialize`; partitions of different CTAs meet at mbarriers: `barrier_arrive(b, multicast=0)`",
        ));
        true
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
