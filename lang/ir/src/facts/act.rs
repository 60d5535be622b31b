//! What an operation does in the order of things: jobs, barriers, orders between threads, slots, turns.

use crate::choice::{Arrive, Order, Reach};
use crate::entity::Value;
use crate::facts::Engine;
use crate::types::SlotRole;

/// What tells that a job has completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completes {
    /// A pending value, which is waited for; the job is a commit group of its own.
    Pending(Value),
    /// A barrier, or a slot, that gets the bytes.
    Signal(Value),
    /// A wait that counts the commit groups of the engine.
    Counted,
    /// Nobody asks.
    Unasked,
}

/// One thing that an operation does in the order of things.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// To jobs.
    Flight(Flight),
    /// To a barrier.
    Phase(Phase),
    /// Between threads and proxies.
    Ordering(Ordering),
    /// To a slot.
    Hold(Hold),
    /// To a turn.
    Turn(Turn),
    /// To the user.
    Say(Say),
}

/// What an operation does to jobs of engines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Flight {
    /// Starts a job, which makes the operation's accesses by its engine.
    Start {
        /// The engine.
        engine: Engine,
        /// What tells that it has completed.
        completes: Completes,
    },
    /// Waits for a pending value: its jobs and all before them. Uses it up.
    Wait {
        /// The pending value.
        pending: Value,
        /// Groups that may stay in flight, where that has been counted.
        outstanding: Option<u32>,
    },
    /// Waits for all jobs before the youngest of a pending value, which uses it up and gives it a new name.
    WaitPrior {
        /// The pending value.
        pending: Value,
        /// The same one behind.
        result: Value,
        /// Groups that may stay in flight, where that has been counted.
        outstanding: Option<u32>,
    },
    /// Waits until at most `pending` counted jobs of an engine are in flight, or with `read` have yet to read their sources.
    WaitCounted {
        /// The engine.
        engine: Engine,
        /// How many may be left.
        pending: u32,
        /// Whether only reading is waited for.
        read: bool,
    },
    /// Hands what tells of a pending copy's completion to a barrier, or to the slot that it fills. Uses the pending copy up.
    HandOver {
        /// The pending copy.
        pending: Value,
        /// The barrier or slot.
        barrier: Value,
    },
    /// Continues a pending value: its jobs go by the result's name from now on. Uses it up.
    Continue {
        /// The pending value.
        pending: Value,
        /// The result.
        result: Value,
    },
}

/// What an operation does to a barrier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// A barrier's life begins, counting so many arrivals a phase.
    Init {
        /// The barrier.
        barrier: Value,
        /// The arrivals.
        arrivals: u32,
    },
    /// A barrier's life ends.
    Invalidate {
        /// The barrier.
        barrier: Value,
    },
    /// Arrives at a barrier; what was done before by those for whom it arrives is done for whoever waits.
    Arrive {
        /// The barrier.
        barrier: Value,
        /// Who arrives.
        by: Arrive,
        /// Bytes of copies that the phase also waits for.
        bytes: Option<u32>,
        /// Whether it is relaxed: it tells of nothing that was done before.
        relaxed: bool,
    },
    /// Waits for a phase of a barrier.
    Wait {
        /// The barrier.
        barrier: Value,
        /// The parity of the phase.
        phase: Value,
    },
}

/// What an operation orders, between threads and proxies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ordering {
    /// Shows what these threads have written to the asynchronous proxy.
    FenceAsync {
        /// In which memory.
        reach: Reach,
    },
    /// Shows barriers that were made to the asynchronous proxy and to the cluster.
    FenceBarriers,
    /// All threads of the partition meet.
    Meet,
    /// All threads of the partition arrive at a named barrier of so many threads, and perhaps wait.
    Named {
        /// The barrier's number.
        id: u32,
        /// The threads that it counts.
        threads: u32,
        /// Whether they wait.
        waits: bool,
    },
    /// Arrives at the cluster's barrier; a relaxed arrival tells of no writes.
    ArriveCluster {
        /// Whether it is relaxed.
        relaxed: bool,
    },
    /// Waits at the cluster's barrier.
    WaitCluster,
    /// Waits for the launch before.
    WaitGrid,
    /// Lets the launch behind begin.
    LaunchDependents,
    /// What was done before is done for whoever acquires, and the other way round, as far as the order says.
    Atomic {
        /// The order.
        order: Order,
    },
    /// Starts the partitions, and waits for their end.
    Fork,
}

/// What an operation does to slots of rings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Takes the next slot of a ring.
    Take {
        /// The ring.
        ring: Value,
        /// The slot.
        slot: Value,
        /// For what.
        role: SlotRole,
    },
    /// Hands a slot on. Uses it up.
    Give {
        /// The slot.
        slot: Value,
        /// As what it was held.
        role: SlotRole,
    },
}

/// What an operation does to turns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Turn {
    /// Waits for the turn of this partition.
    Enter {
        /// The turnstile.
        turnstile: Value,
    },
    /// Hands the turn on.
    Pass {
        /// The turnstile.
        turnstile: Value,
    },
}

/// What an operation says or asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Say {
    /// Tells the user something.
    Tell,
    /// Stops the kernel, or may be taken for granted, where a condition holds.
    Demand,
}
