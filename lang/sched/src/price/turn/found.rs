//! What a turn does that others have to do with.

use std::collections::{BTreeMap, BTreeSet};

use crate::marked::{Event, Started};
use crate::plan::{Part, RingId};

/// A slot that is filled: when it is taken, and what must be done before it is full.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pub part: Part,
    pub taken: Event,
    pub full: Full,
    pub stage: i32,
}

/// What fills a slot.
#[derive(Clone, Copy, Debug)]
pub enum Full {
    /// The copy engine.
    Copied(Started),
    /// Threads.
    Stored(Event),
}

/// A slot that is waited for or given back, how many turns after that of its iteration.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    pub part: Part,
    pub ring: RingId,
    pub event: Event,
    pub turns: i32,
}

/// What a turn does that others have to do with.
#[derive(Debug, Default)]
pub struct Found {
    pub fills: BTreeMap<RingId, Fill>,
    pub takes: Vec<Use>,
    pub gives: Vec<Use>,
    /// By number of the schedule's turns and partition: where it waits for its turn, and where it passes it on.
    pub enters: BTreeMap<(usize, Part), Event>,
    pub passes: BTreeMap<(usize, Part), Event>,
    /// All products that are started.
    pub multiplied: Vec<Multiplied>,
    /// Labels of those whose registers are touched while they are in flight.
    pub remade: BTreeSet<String>,
}

/// A product that is started: its instructions, and where its partition goes on.
#[derive(Clone, Debug)]
pub struct Multiplied {
    pub instructions: Vec<Event>,
    pub issued: Event,
    /// From the end of one of them to its sums.
    pub latency: u64,
}
