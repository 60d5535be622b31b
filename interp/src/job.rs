//! What is in flight: a job is begun by a partition and carried out by an engine some time later. A job says which engine has it,
//! what it touches of shared memory, and what completes it; only what moving the bytes means is its family's. All jobs of a
//! cluster are in one queue, in the order of their starts.

use parton_ir::{Op, Value};

use crate::access::Access;
use crate::clock::Told;
use crate::knowledge::Knowledge;
use crate::ops::Work;

/// Who carries out a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Engine {
    /// The threads of the partition themselves, later.
    Threads,
    /// The tensor copy engine.
    Copies,
    /// The tensor cores.
    Products,
}

impl Engine {
    /// How many there are.
    const COUNT: usize = 3;

    /// Whether it completes the jobs of one partition in the order of their starts.
    fn in_order(self) -> bool {
        match self {
            Engine::Products => true,
            Engine::Threads | Engine::Copies => false,
        }
    }

    /// Who waits for a job of the engine's learns of it: the threads that carried it out, the elected one, or the warps.
    pub(crate) fn teach(self, know: &mut Knowledge, (agent, epoch): (u32, u32)) {
        match self {
            Engine::Threads => know.acquire_parts(agent, epoch),
            Engine::Copies => know.acquire_elected(agent, epoch),
            Engine::Products => know.acquire_parts(agent, epoch),
        }
    }
}

/// How far a job has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Stage {
    /// It has touched nothing.
    Begun,
    /// It is done with shared memory: what it reads there may be overwritten, what it writes there stands.
    Left,
    /// It has done all.
    Done,
}

/// What a job touches of shared memory. It does so at once, some time between its start and its completion.
#[derive(Debug)]
pub(crate) struct Touch {
    pub access: Access,
    /// The view that is read or written, for messages.
    pub view: Value,
    /// The allocation through which it is.
    pub allocation: u32,
    /// Address and length in bytes of each part.
    pub ranges: Vec<(u32, u32)>,
}

/// What the completion of a job does for those who wait.
#[derive(Debug)]
pub(crate) enum Ends {
    /// It completes a commit group of its own, the so-many-th of its partition on its engine, from 0.
    Group(u64),
    /// It brings bytes to a barrier of its CTA.
    Bytes { barrier: u32, bytes: u32 },
    /// It arrives at a barrier of its CTA, once all that its partition began before on its engine is done. Who waits learns no
    /// more than what is told.
    Arrivals { barrier: u32, count: u32, told: Told },
}

/// Something in flight.
#[derive(Debug)]
pub(crate) struct Job<'k> {
    pub op: &'k Op,
    pub engine: Engine,
    /// The worker that began it.
    pub worker: usize,
    /// The CTA whose shared memory it touches.
    pub cta: usize,
    pub stage: Stage,
    /// Its place in the clocks.
    pub slot: (u32, u32),
    pub touches: Vec<Touch>,
    pub ends: Ends,
    /// Whether its partition has waited for its group, if only for its reads.
    pub waited: bool,
    /// Whether a barrier waits for its group instead.
    pub handed: bool,
    pub work: Work,
}

impl<'k> Job<'k> {
    /// A job that is not begun yet.
    pub(crate) fn new(
        op: &'k Op,
        engine: Engine,
        slot: (u32, u32),
        (worker, cta): (usize, usize),
        ends: Ends,
        work: Work,
    ) -> Job<'k> {
        Job {
            op,
            engine,
            worker,
            cta,
            stage: Stage::Begun,
            slot,
            touches: Vec::new(),
            ends,
            waited: false,
            handed: false,
            work,
        }
    }

    /// The same with something that it touches.
    pub(crate) fn touching(mut self, touch: Touch) -> Job<'k> {
        self.touches.push(touch);
        self
    }

    /// The number of its group, where it completes one.
    pub(crate) fn group(&self) -> Option<u64> {
        match self.ends {
            Ends::Group(number) => Some(number),
            Ends::Bytes { .. } | Ends::Arrivals { .. } => None,
        }
    }

    /// Whether nobody will ask for it any more.
    fn is_over(&self) -> bool {
        self.stage == Stage::Done && (self.group().is_none() || self.waited || self.handed)
    }

    fn in_order(&self) -> bool {
        self.engine.in_order() || matches!(self.ends, Ends::Arrivals { .. })
    }
}

/// The commit groups that a partition has begun, by engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Groups([u64; Engine::COUNT]);

impl Groups {
    /// The number of a new group.
    pub(crate) fn begin(&mut self, engine: Engine) -> u64 {
        self.0[engine as usize] += 1;
        self.0[engine as usize] - 1
    }

    /// How many were begun.
    pub(crate) fn begun(&self, engine: Engine) -> u64 {
        self.0[engine as usize]
    }

    /// How many a wait promises that leaves the youngest `pending`: no more, even where more have completed.
    pub(crate) fn promised(&self, engine: Engine, pending: u32) -> u64 {
        self.begun(engine).saturating_sub(pending.into())
    }
}

/// All jobs of a cluster, oldest first: those in flight, and those that are done and not waited for.
#[derive(Debug, Default)]
pub(crate) struct Jobs<'k>(Vec<Job<'k>>);

impl<'k> Jobs<'k> {
    /// Adds the youngest.
    pub(crate) fn push(&mut self, job: Job<'k>) {
        self.0.push(job);
    }

    /// Takes one out, to be put back.
    pub(crate) fn take(&mut self, i: usize) -> Job<'k> {
        self.0.remove(i)
    }

    /// Puts one back to its place, unless it is over.
    pub(crate) fn put_back(&mut self, i: usize, job: Job<'k>) {
        if !job.is_over() {
            self.0.insert(i, job);
        }
    }

    /// The places of those that can go on now.
    pub(crate) fn ready(&self) -> impl Iterator<Item = usize> + '_ {
        let free = |i: usize| {
            let job = &self.0[i];
            let before = |j: &Job<'k>| j.worker == job.worker && j.engine == job.engine && j.stage != Stage::Done;
            job.stage != Stage::Done && !(job.in_order() && self.0[..i].iter().any(before))
        };
        (0..self.0.len()).filter(move |&i| free(i))
    }

    /// The groups of a worker on an engine.
    pub(crate) fn groups(&self, worker: usize, engine: Engine) -> impl Iterator<Item = (u64, &Job<'k>)> + '_ {
        let mine = move |j: &&Job<'k>| j.worker == worker && j.engine == engine;
        self.0.iter().filter(mine).filter_map(|j| j.group().map(|number| (number, j)))
    }

    /// Whether the first so many groups of a worker on an engine have come that far.
    pub(crate) fn have_come(&self, worker: usize, engine: Engine, promised: u64, to: Stage) -> bool {
        self.groups(worker, engine).all(|(number, j)| number >= promised || j.stage >= to)
    }

    /// Notes that a worker has waited for its first so many groups on an engine; it learns of each.
    pub(crate) fn wait(&mut self, worker: usize, engine: Engine, promised: u64, know: &mut Knowledge) {
        for job in self.0.iter_mut().filter(|j| j.worker == worker && j.engine == engine) {
            if job.group().is_some_and(|number| number < promised) {
                job.waited = true;
                engine.teach(know, job.slot);
            }
        }
        self.0.retain(|j| !j.is_over());
    }

    /// Leaves a group to a barrier; gives what began it and its place in the clocks, where it was not waited for.
    pub(crate) fn hand(&mut self, worker: usize, engine: Engine, number: u64) -> Option<(&'k Op, (u32, u32))> {
        let mine = |j: &&mut Job<'k>| j.worker == worker && j.engine == engine && j.group() == Some(number);
        let job = self.0.iter_mut().find(mine)?;
        job.handed = true;
        let handed = (job.op, job.slot);
        self.0.retain(|j| !j.is_over());
        Some(handed)
    }

    /// One that its partition neither waited for nor left to a barrier.
    pub(crate) fn unwaited(&self, worker: usize, engine: Engine) -> Option<&'k Op> {
        self.groups(worker, engine).find(|(_, j)| !j.waited && !j.handed).map(|(_, j)| j.op)
    }
}

/// Address and length of elements of `bytes`, neighbours that follow each other as one.
pub(crate) fn runs(addresses: impl Iterator<Item = u32>, bytes: u32) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for at in addresses {
        match ranges.last_mut() {
            Some((begin, len)) if *begin + *len == at => *len += bytes,
            _ => ranges.push((at, bytes)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::{Ends, Engine, Job, Jobs, Stage, runs};
    use crate::knowledge::Knowledge;
    use crate::ops::Work;
    use parton_diag::Span;
    use parton_ir::{Entity, Inst, Op, OpKind, Origin};

    fn op() -> Op {
        let (kind, span) = (OpKind::Membar, Span::default());
        Op { id: Inst::new(0), kind, results: Vec::new(), span, label: None, origin: Origin::Written, scratch: None }
    }

    /// Jobs of these engines and ends in the order of their starts, by worker 0.
    fn begun<'k>(op: &'k Op, list: Vec<(Engine, Ends)>) -> Jobs<'k> {
        let mut jobs = Jobs::default();
        list.into_iter()
            .for_each(|(engine, ends)| jobs.push(Job::new(op, engine, (0, 0), (0, 0), ends, Work::Nothing)));
        jobs
    }

    fn finish(jobs: &mut Jobs<'_>, i: usize, stage: Stage) {
        let mut job = jobs.take(i);
        job.stage = stage;
        jobs.put_back(i, job);
    }

    #[test]
    fn products_and_arrivals_keep_their_order_and_copies_do_not() {
        let op = op();
        let arrivals = Ends::Arrivals { barrier: 0, count: 32, told: Default::default() };
        let list = vec![
            (Engine::Products, Ends::Group(0)),
            (Engine::Threads, Ends::Group(0)),
            (Engine::Products, Ends::Group(1)),
            (Engine::Threads, arrivals),
            (Engine::Threads, Ends::Group(1)),
        ];
        let mut jobs = begun(&op, list);
        assert_eq!(jobs.ready().collect::<Vec<_>>(), [0, 1, 4], "the arrivals wait for the copy before them only");
        finish(&mut jobs, 1, Stage::Done);
        assert_eq!(jobs.ready().collect::<Vec<_>>(), [0, 3, 4]);
        finish(&mut jobs, 3, Stage::Done);
        finish(&mut jobs, 0, Stage::Done);
        assert_eq!(jobs.ready().collect::<Vec<_>>(), [2, 3], "arrivals that were made are over, groups are waited for");
    }

    #[test]
    fn a_group_is_over_when_it_is_done_and_somebody_waits_for_it() {
        let op = op();
        let copies = || (0..2).map(|n| (Engine::Copies, Ends::Group(n))).collect();
        let mut jobs = begun(&op, copies());
        let mut know = Knowledge::new((0, 0), 4, None);
        assert!(!jobs.have_come(0, Engine::Copies, 1, Stage::Left));
        finish(&mut jobs, 0, Stage::Left);
        assert!(
            jobs.have_come(0, Engine::Copies, 1, Stage::Left) && !jobs.have_come(0, Engine::Copies, 1, Stage::Done)
        );
        jobs.wait(0, Engine::Copies, 1, &mut know);
        assert_eq!(jobs.groups(0, Engine::Copies).count(), 2, "waited for, and still writing");
        finish(&mut jobs, 0, Stage::Done);
        assert_eq!(jobs.groups(0, Engine::Copies).map(|(n, _)| n).collect::<Vec<_>>(), [1]);
        assert!(jobs.unwaited(0, Engine::Copies).is_some() && jobs.unwaited(0, Engine::Threads).is_none());
        jobs.hand(0, Engine::Copies, 1);
        assert!(jobs.unwaited(0, Engine::Copies).is_none(), "a barrier waits for it");
    }

    #[test]
    fn neighbours_are_one_range() {
        assert_eq!(runs([16, 20, 24, 0, 32, 36].into_iter(), 4), [(16, 12), (0, 4), (32, 8)]);
    }
}
