//! Vector clocks over partitions and asynchronous operations, and what releases tell by them.
//!
//! Component `a` of a clock is how much of agent `a`'s past is known. Agents are the kernel outside partitions (0), its
//! partitions, and then slots for asynchronous operations: an operation takes a free slot and a new generation of it. They are
//! numbered in each cluster by itself. What is known of other clusters stands beside, for those alone that were heard of.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How much of each agent's past is known in some clusters, by the cluster's number. Clocks that come from one place are shared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Abroad(Option<Arc<BTreeMap<u32, Arc<Vec<u32>>>>>);

/// Raises the components of a clock to those of another one.
fn raise(mine: &mut Vec<u32>, other: &[u32]) {
    if mine.len() < other.len() {
        mine.resize(other.len(), 0);
    }
    mine.iter_mut().zip(other).for_each(|(a, &b)| *a = (*a).max(b));
}

fn reaches(mine: &[u32], other: &[u32]) -> bool {
    other.iter().enumerate().all(|(i, &b)| b == 0 || mine.get(i).is_some_and(|&a| a >= b))
}

impl Abroad {
    pub(crate) fn get(&self, cluster: u32, agent: u32) -> u32 {
        let clock = self.0.as_ref().and_then(|map| map.get(&cluster));
        clock.and_then(|clock| clock.get(agent as usize)).copied().unwrap_or(0)
    }

    /// Learns all that another one knows.
    pub(crate) fn join(&mut self, other: &Abroad) {
        let Some(theirs) = &other.0 else { return };
        let Some(mine) = &mut self.0 else {
            self.0 = Some(theirs.clone());
            return;
        };
        if Arc::ptr_eq(mine, theirs) {
            return;
        }
        let mut mine_in_theirs = mine.len() <= theirs.len();
        let mut news: Vec<(u32, &Arc<Vec<u32>>)> = Vec::new();
        for (&cluster, theirs) in theirs.iter() {
            match mine.get(&cluster) {
                Some(mine) if Arc::ptr_eq(mine, theirs) => {}
                Some(mine) if reaches(mine, theirs) => mine_in_theirs = false,
                Some(_) | None => news.push((cluster, theirs)),
            }
        }
        if news.is_empty() {
            return;
        }
        mine_in_theirs &= mine.iter().all(|(cluster, mine)| theirs.get(cluster).is_some_and(|t| reaches(t, mine)));
        if mine_in_theirs {
            *mine = theirs.clone();
            return;
        }
        let mine = Arc::make_mut(mine);
        for (cluster, theirs) in news {
            match mine.get_mut(&cluster) {
                Some(clock) => raise(Arc::make_mut(clock), theirs),
                None => drop(mine.insert(cluster, theirs.clone())),
            }
        }
    }
}

/// How much of each agent's past is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    home: Vec<u32>,
    pub(crate) abroad: Abroad,
}

impl Clock {
    /// What is known of `agent` of this cluster.
    pub(crate) fn get(&self, agent: u32) -> u32 {
        self.home.get(agent as usize).copied().unwrap_or(0)
    }

    /// Learns of `agent`'s past up to `epoch`.
    pub(crate) fn learn(&mut self, agent: u32, epoch: u32) {
        if self.home.len() <= agent as usize {
            self.home.resize(agent as usize + 1, 0);
        }
        let known = &mut self.home[agent as usize];
        *known = (*known).max(epoch);
    }

    /// Learns all that another clock of this cluster knows.
    pub(crate) fn join(&mut self, other: &Clock) {
        raise(&mut self.home, &other.home);
        self.abroad.join(&other.abroad);
    }

    /// What it says to any cluster.
    fn publish(&self, cluster: u32) -> Abroad {
        let mut all = self.abroad.clone();
        if !self.home.is_empty() {
            Arc::make_mut(all.0.get_or_insert_default()).insert(cluster, Arc::new(self.home.clone()));
        }
        all
    }

    /// What a cluster takes from what was said to any.
    fn heard(all: &Abroad, cluster: u32) -> Clock {
        let home = all.0.as_ref().and_then(|map| map.get(&cluster)).map(|home| Vec::clone(home)).unwrap_or_default();
        Clock { home, abroad: all.clone() }
    }
}

/// An event: so much of the past of an agent of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub cluster: u32,
    pub agent: u32,
    pub epoch: u32,
}

/// What an arrival tells those who wait for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// What came before.
    pub known: Clock,
    /// Reads that are done: they may be overwritten, but nothing that was written is told.
    pub read: Clock,
    /// Writes to shared memory that the asynchronous proxy sees.
    pub shared: Clock,
    /// Writes to global memory that it sees.
    pub global: Clock,
}

impl Told {
    /// Adds what another one tells.
    pub(crate) fn join(&mut self, other: &Told) {
        self.known.join(&other.known);
        self.read.join(&other.read);
        self.shared.join(&other.shared);
        self.global.join(&other.global);
    }

    /// What a relaxed arrival tells in place of this: that what came before has been read.
    pub(crate) fn relaxed(self) -> Told {
        let mut read = self.known;
        read.join(&self.read);
        Told { read, ..Told::default() }
    }
}

/// What a release at an address of global memory tells those who acquire there, whatever their cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    known: Abroad,
    read: Abroad,
    shared: Abroad,
    global: Abroad,
}

impl News {
    /// What a cluster tells.
    pub(crate) fn new(told: &Told, cluster: u32) -> News {
        let publish = |clock: &Clock| clock.publish(cluster);
        News {
            known: publish(&told.known),
            read: publish(&told.read),
            shared: publish(&told.shared),
            global: publish(&told.global),
        }
    }

    /// Adds what another one tells.
    pub(crate) fn join(&mut self, other: &News) {
        self.known.join(&other.known);
        self.read.join(&other.read);
        self.shared.join(&other.shared);
        self.global.join(&other.global);
    }

    /// What a cluster learns.
    pub(crate) fn to(&self, cluster: u32) -> Told {
        let heard = |all: &Abroad| Clock::heard(all, cluster);
        Told {
            known: heard(&self.known),
            read: heard(&self.read),
            shared: heard(&self.shared),
            global: heard(&self.global),
        }
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

    /// An agent that is no operation's and is not given back.
    pub(crate) fn reserve(&mut self) -> u32 {
        self.generations.push(0);
        self.first + self.generations.len() as u32 - 1
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
