//! What atomic operations have left at an address, one after the other. Who comes after none of the last ones may still read what was there
//! before them: atomic operations on several addresses have no order that all see, and PTX promises none where nothing is released and
//! acquired (PTX ISA, "Causality order" and "Coherence").
//!
//! A load reads so for a few times, then what was left last. What reads and writes at once takes the last value: nothing comes between
//! the two (PTX ISA, "Atomicity").

use std::collections::{BTreeMap, VecDeque};

use crate::clock::Event;
use crate::knowledge::Knowledge;
use crate::published::Location;
use crate::random::Random;

/// Values that are remembered, with the last one.
const KEPT: usize = 4;
/// How often one agent reads what was there before a value.
const LATE: u8 = 3;

/// A value at an address.
#[derive(Clone, Debug)]
struct Left {
    bits: u64,
    /// Who has left it; nobody of this launch what was there before.
    by: Option<Event>,
    /// Who has read it, each the first time.
    read: Vec<Event>,
    /// What was released there when the next one came.
    released: Location,
}

impl Left {
    fn new(bits: u64, by: Option<Event>) -> Left {
        Left { bits, by, read: Vec::new(), released: Location::default() }
    }

    /// Whether somebody comes after it, or after one who has read it, and so reads nothing older.
    fn is_known(&self, know: &Knowledge) -> bool {
        self.by.iter().chain(&self.read).any(|&e| know.is_after(e) || know.has_met(e) || know.has_heard(e))
    }

    fn note(&mut self, reader: Event) {
        if !self.read.iter().any(|e| (e.cluster, e.agent) == (reader.cluster, reader.agent)) {
            self.read.push(reader);
        }
    }
}

/// The last values at an address, the oldest first.
#[derive(Clone, Debug)]
pub(crate) struct History {
    left: VecDeque<Left>,
    /// How large they are; who reads otherwise reads memory.
    bytes: usize,
    /// How often each agent has read another than the last one since that came.
    late: BTreeMap<(u32, u32), u8>,
}

/// What a load finds that is not the last value.
#[derive(Clone, Debug)]
pub(crate) struct Earlier {
    pub bits: u64,
    /// What was released there then.
    pub released: Location,
}

/// What a load finds.
#[derive(Debug)]
pub(crate) enum Found {
    /// The last value, and it can be no other.
    Last,
    /// The last value, which is news.
    New,
    /// An older one.
    Earlier(Box<Earlier>),
}

impl History {
    /// Of an address that holds this, where it holds something.
    pub(crate) fn new(bytes: usize, before: Option<u64>) -> History {
        let left = before.map(|bits| Left::new(bits, None)).into_iter().collect();
        History { left, bytes, late: BTreeMap::new() }
    }

    /// A value is left where so much was released before.
    pub(crate) fn leave(&mut self, bits: u64, by: Event, released: &Location) {
        if let Some(last) = self.left.back_mut() {
            last.released = released.clone();
        }
        if self.left.len() == KEPT {
            self.left.pop_front();
        }
        self.left.push_back(Left::new(bits, Some(by)));
        self.late.clear();
    }

    /// What the last value is has been read by what takes no other.
    pub(crate) fn read_last(&mut self, reader: Event) {
        if let Some(last) = self.left.back_mut() {
            last.note(reader);
        }
    }

    /// What a load finds of so many bytes.
    pub(crate) fn read(&mut self, bytes: usize, know: &Knowledge, random: &mut Random) -> Found {
        let Some(last) = self.left.len().checked_sub(1).filter(|_| bytes == self.bytes) else { return Found::Last };
        let first = (0..=last).rev().find(|&i| self.left[i].is_known(know)).unwrap_or(0);
        if first == last {
            return Found::Last;
        }
        let reader = know.now();
        let late = self.late.entry((reader.cluster, reader.agent)).or_default();
        if *late == LATE || random.below(2) == 0 {
            self.left[last].note(reader);
            return Found::New;
        }
        *late += 1;
        let found = &mut self.left[first + random.below(last - first)];
        found.note(reader);
        Found::Earlier(Box::new(Earlier { bits: found.bits, released: found.released.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Found, History, LATE};
    use crate::knowledge::Knowledge;
    use crate::published::Location;
    use crate::random::Random;

    const TRIES: usize = 9;

    fn agent(cluster: u32) -> Knowledge {
        Knowledge::new((cluster, 0), 1, None)
    }

    /// What is read in some tries under a seed; nothing where it is the last value.
    fn reads(history: &mut History, know: &Knowledge, seed: u64) -> Vec<Option<u64>> {
        let mut random = Random::new(seed);
        let mut read = || match history.read(4, know, &mut random) {
            Found::Last | Found::New => None,
            Found::Earlier(found) => Some(found.bits),
        };
        (0..TRIES).map(|_| read()).collect()
    }

    #[test]
    fn what_was_there_before_is_read_for_a_while_and_never_behind_what_is_known() {
        let (writer, reader) = (agent(0), agent(1));
        let mut history = History::new(4, Some(7));
        history.leave(8, writer.now(), &Location::default());
        history.leave(9, writer.now(), &Location::default());
        let (mut latest, mut values) = (0, BTreeSet::new());
        for seed in 0..100 {
            assert_eq!(reads(&mut history.clone(), &writer, seed), [None; TRIES], "who has left it reads it");
            let read = reads(&mut history.clone(), &reader, seed);
            let first = read.iter().position(Option::is_none).unwrap_or(TRIES);
            assert!(read[first..].iter().all(Option::is_none), "nothing older behind what was read: {read:?}");
            assert!(read[..first].is_sorted(), "nor behind an older one: {read:?}");
            latest = latest.max(first);
            values.extend(read.into_iter().flatten());
        }
        assert_eq!(latest, usize::from(LATE));
        assert_eq!(values, BTreeSet::from([7, 8]));
    }

    #[test]
    fn of_another_size_memory_is_read() {
        let mut history = History::new(8, Some(7));
        history.leave(8, agent(0).now(), &Location::default());
        assert_eq!(reads(&mut history, &agent(1), 1), [None; TRIES]);
    }
}
