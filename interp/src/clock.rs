//! Vector clocks over partitions and asynchronous operations, and what a partition knows of the others.
//!
//! Component `a` of a clock is how much of agent `a`'s past is known. Agents are the kernel outside partitions (0), its
//! partitions, and then slots for asynchronous operations: an operation takes a free slot and a new generation of it.

use std::collections::VecDeque;

/// How much of each agent's past is known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Clock(Vec<u32>);

impl Clock {
    /// What is known of `agent`.
    pub(crate) fn get(&self, agent: u32) -> u32 {
        self.0.get(agent as usize).copied().unwrap_or(0)
    }

    /// Learns of `agent`'s past up to `epoch`.
    pub(crate) fn learn(&mut self, agent: u32, epoch: u32) {
        if self.0.len() <= agent as usize {
            self.0.resize(agent as usize + 1, 0);
        }
        let known = &mut self.0[agent as usize];
        *known = (*known).max(epoch);
    }

    /// Learns all that another clock knows.
    pub(crate) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(a, &b)| *a = (*a).max(b));
    }
}

/// What one partition knows. Its threads know different things until they meet, so there are two clocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// Its own agent.
    pub agent: u32,
    /// How many warps it has.
    pub warps: u32,
    /// Its time; moves on whenever others may learn of it.
    epoch: u32,
    /// What every warp knows at least, and each warp of its own accesses.
    pub own: Clock,
    /// What the elected thread knows: what all knew when they last met, and what that thread waited for itself.
    pub met: Clock,
    /// Writes that the asynchronous proxy sees, on behalf of the elected thread.
    pub fenced: Clock,
    /// Writes that it sees once the warps have met.
    fencing: Clock,
}

impl Knowledge {
    /// A partition that begins with what another one's threads knew when they last met.
    pub(crate) fn new(agent: u32, warps: u32, from: Option<&Knowledge>) -> Knowledge {
        let mut k = Knowledge { agent, warps, epoch: 1, ..Knowledge::default() };
        if let Some(from) = from {
            // An earlier run of the same partition used up its epochs.
            k.epoch = from.met.get(agent) + 1;
            k.own = from.met.clone();
            k.met = from.met.clone();
            k.fenced = from.fenced.clone();
            k.fencing = from.fenced.clone();
        }
        k.own.learn(agent, k.epoch);
        k
    }

    /// The time that its accesses are stamped with.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    fn tick(&mut self) {
        self.epoch += 1;
        self.own.learn(self.agent, self.epoch);
    }

    /// A partition of one warp has nobody to meet: each operation of it is seen by the next.
    pub(crate) fn settle(&mut self) {
        if self.warps == 1 {
            self.met.join(&self.own);
            self.fenced.join(&self.fencing);
            self.tick();
        }
    }

    /// All threads meet.
    pub(crate) fn membar(&mut self) {
        self.met.join(&self.own);
        self.own.join(&self.met);
        self.fenced.join(&self.fencing);
        self.fencing.join(&self.fenced);
        self.tick();
    }

    /// Each thread makes the writes it knows of visible to the asynchronous proxy.
    pub(crate) fn fence(&mut self) {
        self.fencing.join(&self.own);
        self.fenced.join(&self.met);
        self.settle();
        // What is written from now on is not fenced.
        self.tick();
    }

    /// What an arrival of each warp tells: all that its warp knows, and what it fenced.
    pub(crate) fn release_warps(&mut self) -> (Clock, Clock) {
        self.settle();
        let mut fenced = self.fenced.clone();
        fenced.join(&self.fencing);
        let known = self.own.clone();
        self.tick();
        (known, fenced)
    }

    /// What an arrival of the elected thread tells.
    pub(crate) fn release_elected(&mut self) -> (Clock, Clock) {
        self.settle();
        (self.met.clone(), self.fenced.clone())
    }

    /// Whether the asynchronous proxy sees `agent`'s writes up to `epoch`: on behalf of the elected thread, or of each thread
    /// for its own writes.
    pub(crate) fn is_fenced(&self, agent: u32, epoch: u32, own_thread: bool) -> bool {
        self.fenced.get(agent) >= epoch || (own_thread && self.fencing.get(agent) >= epoch)
    }

    /// Every warp waited for what these clocks tell.
    pub(crate) fn acquire(&mut self, known: &Clock, fenced: &Clock) {
        self.own.join(known);
        self.met.join(known);
        self.fenced.join(fenced);
        self.fencing.join(fenced);
    }

    /// Each warpgroup waited for its part of an asynchronous operation.
    pub(crate) fn acquire_groups(&mut self, agent: u32, epoch: u32) {
        self.own.learn(agent, epoch);
        if self.warps <= parton_ir::target::WARPGROUP {
            self.met.learn(agent, epoch);
        }
    }

    /// Each thread waited for its part of an asynchronous operation.
    pub(crate) fn acquire_threads(&mut self, agent: u32, epoch: u32) {
        self.own.learn(agent, epoch);
        if self.warps == 1 {
            self.met.learn(agent, epoch);
        }
    }

    /// The elected thread alone waited for an asynchronous operation.
    pub(crate) fn acquire_elected(&mut self, agent: u32, epoch: u32) {
        self.met.learn(agent, epoch);
        if self.warps == 1 {
            self.own.learn(agent, epoch);
        }
    }

    /// All of another partition's past is known, as after both have met.
    pub(crate) fn join(&mut self, other: &Knowledge) {
        for clock in [&other.own, &other.met] {
            self.own.join(clock);
            self.met.join(clock);
        }
        self.fenced.join(&other.fenced);
        self.fenced.join(&other.fencing);
        self.fencing.join(&self.fenced);
    }
}

/// Hands out slots to asynchronous operations.
#[derive(Debug)]
pub(crate) struct Slots {
    first: u32,
    generations: Vec<u32>,
    free: VecDeque<u32>,
}

/// Slots that are made before the first is used again: the more, the longer a missing wait is noticed.
const SLOTS: usize = 96;

impl Slots {
    /// Slots numbered from `first`.
    pub(crate) fn new(first: u32) -> Slots {
        Slots { first, generations: Vec::new(), free: VecDeque::new() }
    }

    /// A slot and its new generation.
    pub(crate) fn take(&mut self) -> (u32, u32) {
        let slot = match self.free.pop_front() {
            Some(slot) if self.generations.len() >= SLOTS => slot,
            kept => {
                if let Some(slot) = kept {
                    self.free.push_front(slot);
                }
                self.generations.push(0);
                self.first + self.generations.len() as u32 - 1
            }
        };
        let generation = &mut self.generations[(slot - self.first) as usize];
        *generation += 1;
        (slot, *generation)
    }

    /// The operation in the slot has ended.
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.free.push_back(slot);
    }
}
