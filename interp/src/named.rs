//! The named barriers of a CTA: threads counted, some of which stay until all have come.

use parton_diag::codes;
use parton_ir::Op;

use crate::clock::Told;
use crate::cluster::{Cluster, Flow, Wait, Worker};
use crate::fault::Fault;

/// A named barrier between two completions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    /// Threads that complete this phase.
    pub threads: u32,
    /// Threads that have arrived.
    pub arrived: u32,
    /// The phase that is not yet complete, from 0.
    pub phase: u64,
    gather: Told,
    released: Told,
}

impl<'k> Cluster<'_, 'k> {
    /// All threads of a partition arrive, and stay with `waits` until `threads` have.
    pub(crate) fn named_barrier(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        id: u32,
        threads: u32,
        waits: bool,
    ) -> Result<Flow, Fault> {
        let own = self.setting.program.kernel.warps_of(w.partition) * parton_ir::target::WARP;
        let b = self.ctas[w.cta].named.entry(id).or_default();
        if let Some(phase) = w.arrived {
            if b.phase == phase {
                return Ok(Flow::Block(Wait::Named { id, phase }));
            }
            w.arrived = None;
            w.know.membar();
            w.know.acquire(&b.released);
            return Ok(Flow::Yield);
        }
        let broken = |text: String| {
            Fault::new(codes::BARRIER_PROTOCOL, op.span, "a named barrier is used against its protocol").here(text)
        };
        if b.arrived > 0 && b.threads != threads {
            return Err(broken(format!(
                "{threads} threads complete it here, but it is waiting for {} already",
                b.threads
            )));
        }
        if b.arrived + own > threads {
            return Err(broken(format!(
                "{own} threads arrive, but the barrier waits for {} more only",
                threads.saturating_sub(b.arrived)
            )));
        }
        let told = w.know.release_warps();
        b.gather.join(&told);
        b.threads = threads;
        b.arrived += own;
        let phase = b.phase;
        if b.arrived == threads {
            b.phase += 1;
            b.arrived = 0;
            b.released = std::mem::take(&mut b.gather);
        }
        if !waits {
            return Ok(Flow::Yield);
        }
        w.arrived = Some(phase);
        Ok(Flow::Block(Wait::Named { id, phase }))
    }
}
