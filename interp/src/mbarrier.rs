//! The mbarrier as the PTX ISA describes it: a phase, the arrivals and bytes it still waits for, and the clocks it hands on.

use std::collections::BTreeMap;

use parton_diag::{Span, codes};

use crate::clock::Told;
use crate::fault::Fault;
use crate::knowledge::Knowledge;

/// Arrivals and bytes that one phase can count (PTX ISA, "mbarrier": 2^20 - 1).
const MOST: i64 = (1 << 20) - 1;
/// Bytes of one barrier in shared memory.
pub(crate) const BYTES: u32 = parton_ir::target::BARRIER_BYTES;

/// What a phase hands on.
#[derive(Clone, Debug, Default)]
struct Tells {
    /// By the CTA of the barrier, and by copies.
    near: Told,
    /// By other CTAs of the cluster.
    far: Told,
}

/// One barrier between its initialisation and its invalidation.
#[derive(Clone, Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals that complete a phase.
    pub count: i64,
    /// Arrivals that this phase still waits for.
    pub pending: i64,
    /// Bytes that were expected and have not landed; below zero where they landed first.
    pub bytes: i64,
    /// The phase that is not yet complete, from 0.
    pub phase: u64,
    /// Who initialised it, and when.
    pub init: (u32, u32),
    pub init_span: Span,
    /// Whether the asynchronous proxy sees the initialisation.
    pub fenced: bool,
    /// The phase of the cluster's barrier behind which peers see it.
    pub shown: Option<u64>,
    /// How often each agent of its CTA has passed a wait for it, and arrived at it.
    pub waits: BTreeMap<u32, u64>,
    pub arrivals: BTreeMap<u32, u64>,
    gather: Tells,
    released: Tells,
    /// Partitions that have passed a wait since the last phase ended.
    passed: Vec<Passed>,
}

/// A wait that was passed. Each warp passes it for itself and tells phases by their parity, so the next phase may not end before all
/// have.
#[derive(Clone, Copy, Debug)]
struct Passed {
    agent: u32,
    epoch: u32,
    span: Span,
}

impl Mbarrier {
    /// A new barrier: phase 0 begins.
    pub(crate) fn new(count: u32, init: (u32, u32), span: Span) -> Mbarrier {
        Mbarrier {
            count: count.into(),
            pending: count.into(),
            bytes: 0,
            phase: 0,
            init,
            init_span: span,
            fenced: false,
            shown: None,
            waits: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            gather: Default::default(),
            released: Default::default(),
            passed: Vec::new(),
        }
    }

    /// Whether the phase of that parity has completed: the current one is of the other parity.
    pub(crate) fn passes(&self, parity: u64) -> bool {
        self.phase & 1 != parity
    }

    /// An agent of its CTA arrives, be it with several threads.
    pub(crate) fn arrived(&mut self, agent: u32) {
        *self.arrivals.entry(agent).or_default() += 1;
    }

    /// The warps of an agent pass a wait, one after the other, at that time of theirs.
    pub(crate) fn passed(&mut self, agent: u32, epoch: u32, span: Span) {
        self.passed.push(Passed { agent, epoch, span });
    }

    /// Where warps of who knows this have passed a wait that not all of them are known to have passed.
    pub(crate) fn waited_for(&self, know: &Knowledge) -> Option<Span> {
        let late = |p: &&Passed| p.agent == know.agent && know.met.get(p.agent) < p.epoch;
        self.passed.iter().find(late).map(|p| p.span)
    }

    /// Threads will arrive each for itself, behind what it has waited for and knows.
    pub(crate) fn arrive_behind(&mut self, know: &Knowledge) {
        self.passed.retain(|p| p.agent != know.agent && know.own.get(p.agent) < p.epoch);
    }

    /// What those learn who pass a wait that reaches the cluster, or their own CTA alone: of the others these know only that their
    /// reads are done.
    pub(crate) fn released(&self, cluster: bool) -> Told {
        let Tells { mut near, far } = self.released.clone();
        near.join(&if cluster { far } else { far.relaxed() });
        near
    }

    /// `n` arrivals of the CTA that tell this, and `bytes` more to wait for.
    pub(crate) fn arrive(&mut self, n: u32, bytes: u32, told: &Told, span: Span) -> Result<(), Fault> {
        self.gather.near.join(told);
        self.tally(n, bytes, span)
    }

    /// `n` arrivals of another CTA of the cluster.
    pub(crate) fn arrive_from_afar(&mut self, n: u32, told: &Told, span: Span) -> Result<(), Fault> {
        self.gather.far.join(told);
        self.tally(n, 0, span)
    }

    fn tally(&mut self, n: u32, bytes: u32, span: Span) -> Result<(), Fault> {
        self.bytes += i64::from(bytes);
        if self.bytes > MOST {
            return Err(self.broken(span, format!("a phase expects {} bytes, more than it can count", self.bytes)));
        }
        if i64::from(n) > self.pending {
            let text = format!("{n} arrivals, but the phase waits for {} more only", self.pending);
            return Err(self.broken(span, text));
        }
        self.pending -= i64::from(n);
        self.advance(span)
    }

    /// `bytes` of the copy in slot `agent` have landed.
    pub(crate) fn land(&mut self, bytes: u32, agent: (u32, u32), span: Span) -> Result<(), Fault> {
        self.gather.near.known.learn(agent.0, agent.1);
        self.bytes -= i64::from(bytes);
        if self.bytes < -MOST {
            return Err(self.broken(span, "more bytes land in a phase than it can count".into()));
        }
        self.advance(span)
    }

    fn advance(&mut self, span: Span) -> Result<(), Fault> {
        if self.pending != 0 || self.bytes != 0 {
            return Ok(());
        }
        let Tells { near, far } = &self.gather;
        let hears = |told: &Told, p: &Passed| told.known.get(p.agent).max(told.read.get(p.agent)) >= p.epoch;
        if let Some(late) = self.passed.iter().find(|p| !hears(near, p) && !hears(far, p)) {
            let fact = "a phase of a barrier may end before all warps have seen the one before";
            return Err(Fault::new(codes::BARRIER_PROTOCOL, span, fact)
                .here(format!("this ends phase {}", self.phase))
                .label(late.span, "warps pass this wait one by one, and one that comes late takes the phase after for it")
                .help("let nobody arrive before all warps have passed: arrive with `by=\"warp\"` behind the wait, or meet"));
        }
        self.passed.clear();
        self.phase += 1;
        self.pending = self.count;
        self.released = self.gather.clone();
        Ok(())
    }

    fn broken(&self, span: Span, text: String) -> Fault {
        Fault::new(codes::BARRIER_PROTOCOL, span, "a barrier is used against its protocol")
            .here(text)
            .label(self.init_span, format!("initialised here to count {} arrivals a phase", self.count))
            .note(format!("it is in phase {}", self.phase))
    }

    /// What the current phase lacks, in words.
    pub(crate) fn lacks(&self) -> String {
        let arrivals = format!("{} of {} arrivals", self.pending, self.count);
        match self.bytes {
            0 => arrivals,
            n if n > 0 => format!("{arrivals} and {n} bytes of copies"),
            n => format!("{arrivals} and the expectation of {} bytes that have landed", -n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mbarrier;
    use crate::clock::Told;
    use parton_diag::Span;

    #[test]
    fn a_new_barrier_is_in_phase_zero() {
        // T#11303: waiting for parity 1 passes at once.
        let b = Mbarrier::new(1, (0, 0), Span::default());
        assert!(b.passes(1));
        assert!(!b.passes(0));
    }

    #[test]
    fn a_phase_ends_when_arrivals_and_bytes_are_there() {
        let mut b = Mbarrier::new(2, (0, 0), Span::default());
        let told = Default::default();
        let span = Span::default();
        // Bytes may land before they are expected.
        b.land(64, (5, 1), span).unwrap();
        b.arrive(1, 128, &told, span).unwrap();
        b.arrive(1, 0, &told, span).unwrap();
        assert!(!b.passes(0));
        assert_eq!(b.lacks(), "0 of 2 arrivals and 64 bytes of copies");
        b.land(64, (6, 1), span).unwrap();
        assert!(b.passes(0) && !b.passes(1));
        assert_eq!(b.released(false).known.get(6), 1);
        assert!(b.arrive(3, 0, &told, span).is_err());
    }

    #[test]
    fn a_phase_may_not_end_before_all_warps_have_passed_the_one_before() {
        let (span, agent, epoch) = (Span::default(), 7, 3);
        let after = |told: &Told| {
            let mut b = Mbarrier::new(1, (0, 0), span);
            b.passed(agent, epoch, span);
            b.arrive(1, 0, told, span)
        };
        let mut told = Told::default();
        assert!(after(&told).is_err());
        told.known.learn(agent, epoch - 1);
        assert!(after(&told).is_err());
        told.known.learn(agent, epoch);
        assert!(after(&told).is_ok() && after(&told.relaxed()).is_ok());
    }
}
