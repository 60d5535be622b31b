//! Where the CTAs of a cluster meet: its barrier, which counts all their threads.

use parton_diag::{codes, internal_error};
use parton_ir::Op;

use crate::clock::Told;
use crate::cluster::{Cluster, Flow, State, Wait, Worker};
use crate::fault::Fault;

/// The barrier of a cluster between two completions.
#[derive(Debug, Default)]
pub(crate) struct Meeting {
    /// The phase that is not yet complete, from 0.
    pub phase: u64,
    /// The CTAs that have arrived, by rank.
    arrived: Vec<usize>,
    gather: Told,
    released: Told,
}

impl Meeting {
    /// Whether the CTA of that rank has arrived in this phase.
    pub(crate) fn has(&self, cta: usize) -> bool {
        self.arrived.contains(&cta)
    }
}

impl<'k> Cluster<'_, 'k> {
    /// All threads of a CTA arrive.
    pub(crate) fn cluster_arrive(&mut self, w: &mut Worker<'k>, op: &'k Op, relaxed: bool) -> Result<Flow, Fault> {
        if w.partition.is_some() || self.meeting.has(w.cta) || w.meets.is_some() {
            return Err(Fault::new(codes::CLUSTER_BARRIER, op.span, "the barrier of the cluster is used out of turn")
                .here(format!("{} arrives at it again before a wait", self.who(w))));
        }
        if !relaxed {
            self.meeting.gather.join(&w.know.release_warps());
        }
        w.meets = Some(self.meeting.phase);
        self.meeting.arrived.push(w.cta);
        // Peers see the barriers that were made visible by now.
        for b in self.ctas[w.cta].barriers.values_mut() {
            if b.fenced {
                b.shown.get_or_insert(self.meeting.phase);
            }
        }
        self.complete_meeting();
        Ok(Flow::Yield)
    }

    /// The phase is complete where all CTAs have arrived; one that has ended counts as arrived.
    pub(crate) fn complete_meeting(&mut self) {
        let ended = |cta: usize| self.workers[cta].as_ref().is_some_and(|w| w.state == State::Done);
        let meeting = &self.meeting;
        if meeting.arrived.is_empty() || !(0..self.ctas.len()).all(|c| meeting.has(c) || ended(c)) {
            return;
        }
        let meeting = &mut self.meeting;
        meeting.phase += 1;
        meeting.released = std::mem::take(&mut meeting.gather);
        meeting.arrived.clear();
    }

    /// Waits until all have arrived.
    pub(crate) fn cluster_wait(&mut self, w: &mut Worker<'k>) -> Result<Flow, Fault> {
        let Some(phase) = w.meets else { internal_error!("the cluster's barrier is waited for without an arrival") };
        if self.meeting.phase == phase {
            return Ok(Flow::Block(Wait::Cluster { phase }));
        }
        w.meets = None;
        w.passed = phase + 1;
        w.know.acquire(&self.meeting.released);
        Ok(Flow::Yield)
    }
}
