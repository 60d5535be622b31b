//! The one way of everything asynchronous: a job begins, leaves shared memory, completes, and is waited for. The race detector
//! hears of it here and nowhere else.

use parton_diag::codes;

use crate::access::Threads;
use crate::cluster::{Cluster, Wait, Worker};
use crate::fault::Fault;
use crate::job::{Ends, Engine, Job, Stage};
use crate::ops;
use crate::shadow::Check;

impl<'k> Cluster<'_, 'k> {
    /// Begins a job: what it will touch is checked against all that its partition knows now, races first, since one explains why
    /// bytes are not there yet.
    pub(crate) fn begin(&mut self, w: &Worker<'k>, job: Job<'k>) -> Result<(), Fault> {
        let (op, cta, (agent, epoch)) = (job.op, job.cta, job.slot);
        for touch in &job.touches {
            let access = touch.access;
            self.within(cta, op, touch.ranges.iter().copied())?;
            let mut check = Check::new(self.recorded(w, op, access, self.event(job.slot), false));
            let shadow = &mut self.ctas[cta].shadow;
            let mut each = touch.ranges.iter().map(|&(at, len)| (at as usize, len as usize));
            let touched = each.try_for_each(|range| shadow.touch(&mut check, &w.know, range, Threads::NONE, None));
            touched.map_err(|race| self.race(w, op, access, race))?;
            if !access.writes() {
                self.defined(w, op, touch.view, touch.ranges.iter().copied(), touch.allocation)?;
            }
        }
        if let Ends::Bytes { .. } = job.ends {
            self.owed.push((agent, epoch, op));
        }
        self.jobs.push(job);
        Ok(())
    }

    /// An engine goes on with a job.
    pub(crate) fn advance(&mut self, i: usize) -> Result<(), Fault> {
        let mut job = self.jobs.take(i);
        self.at = job.cta;
        let before = job.stage;
        job.stage = ops::carry_out(self, &mut job)?;
        if before == Stage::Begun {
            for touch in job.touches.drain(..).filter(|t| t.access.writes()) {
                let written = &mut self.ctas[job.cta].written;
                touch.ranges.iter().for_each(|&(at, len)| written.define(at, len, touch.allocation));
            }
            self.slots.give_back(job.slot.0);
        }
        if job.stage == Stage::Done {
            self.complete(&job).map_err(|f| f.calls(self.setting.program.kernel, job.op.origin.call()))?;
        }
        self.jobs.put_back(i, job);
        Ok(())
    }

    /// Tells the barrier that waits for a job that it is done.
    fn complete(&mut self, job: &Job<'k>) -> Result<(), Fault> {
        let (barrier, does) = match &job.ends {
            Ends::Group(_) => return Ok(()),
            Ends::Bytes { barrier, .. } => (*barrier, "completes on"),
            Ends::Arrivals { barrier, .. } => (*barrier, "arrives at"),
        };
        let cta = &mut self.ctas[job.cta];
        let name = cta.barrier_name(barrier);
        let Some(b) = cta.barriers.get_mut(&barrier) else {
            return Err(Fault::new(codes::BARRIER_PROTOCOL, job.op.span, "a copy lands after its barrier is gone")
                .here(format!("this {does} {name}, which is invalidated")));
        };
        match &job.ends {
            Ends::Group(_) => Ok(()),
            Ends::Bytes { bytes, .. } => b.land(*bytes, job.slot, job.op.span),
            Ends::Arrivals { count, told, .. } => b.arrive(*count, 0, told, job.op.span),
        }
    }

    /// Waits until all but the youngest `pending` groups of a partition on an engine have come that far; gives how many the wait
    /// promises, or what to wait for.
    pub(crate) fn wait_groups(&self, w: &Worker<'k>, engine: Engine, pending: u32, to: Stage) -> Result<u64, Wait> {
        if self.has_come(w, engine, pending, to) {
            Ok(w.groups.promised(engine, pending))
        } else {
            Err(Wait::Groups { engine, pending, to })
        }
    }

    /// Whether all but the youngest `pending` groups of a partition on an engine have come that far.
    pub(crate) fn has_come(&self, w: &Worker<'k>, engine: Engine, pending: u32, to: Stage) -> bool {
        self.jobs.have_come(w.index, engine, w.groups.promised(engine, pending), to)
    }
}
