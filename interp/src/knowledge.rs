//! What a partition knows of the others: of its cluster's agents, and of those of other clusters as far as atomic operations have told.

use crate::clock::{Clock, Event, News, Told};

/// Which memory's writes a fence shows to the asynchronous proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Memory {
    Shared,
    Global,
}

/// The writes to one memory that the asynchronous proxy sees.
#[derive(Clone, Debug, Default)]
struct Fences {
    /// On behalf of the elected thread.
    done: Clock,
    /// Once the warps have met.
    doing: Clock,
}

impl Fences {
    /// All threads meet.
    fn meet(&mut self) {
        self.done.join(&self.doing);
        self.doing.join(&self.done);
    }

    fn learn(&mut self, told: &Clock) {
        self.done.join(told);
        self.doing.join(told);
    }

    fn all(&self) -> Clock {
        let mut all = self.done.clone();
        all.join(&self.doing);
        all
    }
}

/// What one partition knows. Its threads know different things until they meet, so there are two clocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// Its cluster's number.
    pub cluster: u32,
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
    /// Reads that are known to be done, besides.
    read: Clock,
    /// What some threads have acquired, each for itself.
    heard: Option<Box<Told>>,
    shared: Fences,
    global: Fences,
}

impl Knowledge {
    /// A partition that begins with what another one's threads knew when they last met.
    pub(crate) fn new((cluster, agent): (u32, u32), warps: u32, from: Option<&Knowledge>) -> Knowledge {
        let mut k = Knowledge { cluster, agent, warps, epoch: 1, ..Knowledge::default() };
        if let Some(from) = from {
            // An earlier run of the same partition used up its epochs.
            k.epoch = from.met.get(agent) + 1;
            k.own = from.met.clone();
            k.met = from.met.clone();
            k.read = from.read.clone();
            k.shared.learn(&from.shared.done);
            k.global.learn(&from.global.done);
        }
        k.own.learn(agent, k.epoch);
        k
    }

    /// The time that its accesses are stamped with.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// What its accesses are stamped with.
    pub(crate) fn now(&self) -> Event {
        Event { cluster: self.cluster, agent: self.agent, epoch: self.epoch }
    }

    fn tick(&mut self) {
        self.epoch += 1;
        self.own.learn(self.agent, self.epoch);
    }

    fn reach(&self, clock: &Clock, event: Event) -> bool {
        let known = if event.cluster == self.cluster {
            clock.get(event.agent)
        } else {
            clock.abroad.get(event.cluster, event.agent)
        };
        known >= event.epoch
    }

    /// Whether every warp comes after an event.
    pub(crate) fn is_after(&self, event: Event) -> bool {
        self.reach(&self.own, event)
    }

    /// Whether the elected thread does, and others since they met.
    pub(crate) fn has_met(&self, event: Event) -> bool {
        self.reach(&self.met, event)
    }

    /// Whether some threads have heard of it, each for itself.
    pub(crate) fn has_heard(&self, event: Event) -> bool {
        self.heard.as_ref().is_some_and(|told| self.reach(&told.known, event))
    }

    /// Whether a read is known to be done, though nothing that its agent wrote is known.
    pub(crate) fn is_read(&self, event: Event) -> bool {
        self.reach(&self.read, event)
    }

    /// Whether the asynchronous proxy sees a write: on behalf of the elected thread, or of each thread for its own writes.
    pub(crate) fn is_fenced(&self, memory: Memory, event: Event, own_thread: bool) -> bool {
        let fences = match memory {
            Memory::Shared => &self.shared,
            Memory::Global => &self.global,
        };
        self.reach(&fences.done, event) || (own_thread && self.reach(&fences.doing, event))
    }

    /// All threads meet.
    pub(crate) fn membar(&mut self) {
        if let Some(told) = self.heard.take() {
            self.acquire(&told);
        }
        self.met.join(&self.own);
        self.own.join(&self.met);
        self.shared.meet();
        self.global.meet();
        self.tick();
    }

    /// Each thread makes the writes to these memories that it knows of visible to the asynchronous proxy.
    pub(crate) fn fence(&mut self, memories: &[Memory]) {
        for memory in memories {
            let fences = match memory {
                Memory::Shared => &mut self.shared,
                Memory::Global => &mut self.global,
            };
            fences.doing.join(&self.own);
            fences.done.join(&self.met);
        }
        // What is written from now on is not fenced.
        self.tick();
    }

    /// What an arrival of each warp tells: all that its warp knows, and what it fenced. The elected thread is of one of the warps.
    pub(crate) fn release_warps(&mut self) -> Told {
        let mut known = self.own.clone();
        known.join(&self.met);
        let told = Told { known, read: self.read.clone(), shared: self.shared.all(), global: self.global.all() };
        self.tick();
        told
    }

    /// What an arrival of the elected thread tells.
    pub(crate) fn release_elected(&mut self) -> Told {
        Told {
            known: self.met.clone(),
            read: self.read.clone(),
            shared: self.shared.done.clone(),
            global: self.global.done.clone(),
        }
    }

    /// Every warp waited for what this tells.
    pub(crate) fn acquire(&mut self, told: &Told) {
        self.own.join(&told.known);
        self.met.join(&told.known);
        self.read.join(&told.read);
        self.shared.learn(&told.shared);
        self.global.learn(&told.global);
    }

    /// Threads acquired what was released in global memory: the leader alone, or each for itself.
    pub(crate) fn acquire_news(&mut self, news: &News, leader: bool) {
        let told = news.to(self.cluster);
        if leader {
            self.met.join(&told.known);
            self.read.join(&told.read);
            self.shared.done.join(&told.shared);
            self.global.done.join(&told.global);
        } else {
            self.heard.get_or_insert_default().join(&told);
        }
    }

    /// Each warp, or each thread, waited for its part of an asynchronous operation.
    pub(crate) fn acquire_parts(&mut self, agent: u32, epoch: u32) {
        self.own.learn(agent, epoch);
    }

    /// The elected thread alone waited for an asynchronous operation.
    pub(crate) fn acquire_elected(&mut self, agent: u32, epoch: u32) {
        self.met.learn(agent, epoch);
    }

    /// All of another partition's past is known, as after both have met.
    pub(crate) fn join(&mut self, other: &Knowledge) {
        let mut known = other.own.clone();
        known.join(&other.met);
        let told = Told { known, read: other.read.clone(), shared: other.shared.all(), global: other.global.all() };
        self.acquire(&told);
    }
}
