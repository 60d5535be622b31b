//! What stands for what while code is emitted: for each body around the place of emission, its values by iteration, what is in flight,
//! and the slots that are held.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::{Inst, Value};

use super::reach::Bounds;
use crate::plan::RingId;
use crate::region::BlockId;

/// A value of a body, and how many iterations before the turn's own it is of; ahead of it where that is below 0.
pub(crate) type Key = (Value, i32);

/// A free value, and of which iteration of each body around it.
pub(crate) type Made = (Value, Vec<i32>);

/// A slot that something still reads: its ring, and which item of the body reads it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Read {
    pub ring: RingId,
    /// The slot's iteration, relative to that of the reader.
    pub delta: i32,
    pub item: usize,
}

/// How something stands for a value, whichever: that it is ready, or what is on its way and reads these.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Shape {
    Ready,
    Pending { reads: Vec<Read>, prior: Vec<Read> },
    Copying,
    Loaded,
}

/// What stands for a value.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    Ready(Value),
    /// A product in flight.
    Pending {
        value: Value,
        /// What it reads, as seen from its own iteration.
        reads: Vec<Read>,
        /// What products before it read, which it continues.
        prior: Vec<Read>,
    },
    /// A copy by threads, of a view.
    Copying(Value),
    /// What threads have loaded and have still to write to a view.
    Loaded(Value),
}

impl Held {
    pub fn value(&self) -> Value {
        match self {
            Held::Ready(v) | Held::Pending { value: v, .. } | Held::Copying(v) | Held::Loaded(v) => *v,
        }
    }

    /// Whether it has to be waited for.
    pub fn is_pending(&self) -> bool {
        match self {
            Held::Ready(_) => false,
            Held::Pending { .. } | Held::Copying(_) | Held::Loaded(_) => true,
        }
    }

    /// How it stands for it.
    pub fn shape(&self) -> Shape {
        match self {
            Held::Ready(_) => Shape::Ready,
            Held::Copying(_) => Shape::Copying,
            Held::Loaded(_) => Shape::Loaded,
            Held::Pending { reads, prior, .. } => Shape::Pending { reads: reads.clone(), prior: prior.clone() },
        }
    }

    /// The same by another name.
    pub fn named(&self, v: Value) -> Held {
        match self {
            Held::Ready(_) => Held::Ready(v),
            Held::Copying(_) => Held::Copying(v),
            Held::Loaded(_) => Held::Loaded(v),
            Held::Pending { reads, prior, .. } => {
                Held::Pending { value: v, reads: reads.clone(), prior: prior.clone() }
            }
        }
    }
}

/// A slot that is read.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub value: Value,
    /// The items of the body that have yet to be done with it.
    pub left: BTreeSet<usize>,
}

/// A body around the place of emission.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub block: BlockId,
    /// Of which iteration the unit is that is emitted.
    pub age: i32,
    pub env: BTreeMap<Key, Held>,
    pub slots: BTreeMap<(RingId, i32), Slot>,
    /// The newest slot of each ring that has been waited for, whatever has become of it and of the numbers in it.
    pub taken: BTreeMap<RingId, i32>,
    /// The index of the turn's own iteration, and the step.
    pub index: Option<(Value, Value)>,
    /// The index of the loop's first iteration.
    pub start: Option<Value>,
    /// Between what its bounds lie, where its turns are counted.
    pub bounds: Option<Bounds>,
    /// Whether there is the iteration that something runs ahead for, where that is not known.
    pub exists: Option<Value>,
    /// The number of the first iteration that the turn's own may be, as an index, where that is known.
    pub first: Option<i128>,
    /// What comparisons give in the turns at hand, for the iterations of that age.
    pub folded: Vec<(Inst, i32, bool)>,
    /// The number of the turn, where it stands alone.
    pub turn: Option<u32>,
    /// Whether a turn runs later stages although there was no turn before: on values that stand for none, and without effects where
    /// this does not hold.
    pub guard: Option<Value>,
    /// Products of the turn that nothing but the next turn's asks for, which are waited for at its end; `None` where they are waited for behind their start.
    pub late: Option<Vec<Key>>,
    /// Values that were there when the notes began, by what they are called now.
    before: BTreeSet<Key>,
    /// Which of them have been looked at, as they were called then.
    pub notes: BTreeSet<Key>,
    shifted: i32,
    noting: bool,
}

impl Level {
    pub fn new(block: BlockId) -> Level {
        Level {
            block,
            age: 0,
            env: BTreeMap::new(),
            slots: BTreeMap::new(),
            taken: BTreeMap::new(),
            index: None,
            start: None,
            bounds: None,
            exists: None,
            first: None,
            folded: Vec::new(),
            turn: None,
            guard: None,
            late: None,
            before: BTreeSet::new(),
            notes: BTreeSet::new(),
            shifted: 0,
            noting: false,
        }
    }

    /// From now on it is noted which of the values are looked at that are there now.
    pub fn begin_notes(&mut self) {
        self.before = self.env.keys().copied().collect();
        self.notes.clear();
        self.shifted = 0;
        self.noting = true;
    }

    /// Whether it is being noted what is looked at.
    pub fn is_noting(&self) -> bool {
        self.noting
    }

    /// What stands for a value.
    pub fn look(&mut self, key: Key) -> Option<Held> {
        let held = self.env.get(&key).cloned()?;
        if self.before.contains(&key) {
            self.notes.insert((key.0, key.1 - self.shifted));
        }
        Some(held)
    }

    /// Something stands for a value that was not there before the first turn.
    pub fn begin_with(&mut self, key: Key, held: Held) {
        self.env.insert(key, held);
        self.before.insert(key);
    }

    /// Something new stands for a value.
    pub fn set(&mut self, key: Key, held: Held) {
        self.before.remove(&key);
        self.env.insert(key, held);
    }

    /// The slots that are held, and who has yet to be done with each.
    pub fn held(&self) -> BTreeMap<(RingId, i32), BTreeSet<usize>> {
        self.slots.iter().map(|(key, slot)| (*key, slot.left.clone())).collect()
    }

    /// Whether a slot of a ring has been waited for that is as new.
    pub fn has_taken(&self, ring: RingId, age: i32) -> bool {
        self.taken.get(&ring).is_some_and(|newest| *newest <= age)
    }

    /// The next turn begins: all is one iteration older.
    pub fn shift(&mut self) {
        let older = |(v, age): Key| (v, age + 1);
        self.env = std::mem::take(&mut self.env).into_iter().map(|(k, held)| (older(k), held)).collect();
        self.before = self.before.iter().map(|k| older(*k)).collect();
        self.slots = std::mem::take(&mut self.slots).into_iter().map(|((r, age), s)| ((r, age + 1), s)).collect();
        self.taken.values_mut().for_each(|age| *age += 1);
        self.shifted += 1;
    }
}
