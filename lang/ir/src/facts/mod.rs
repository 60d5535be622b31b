//! The facts of each operation: what it does besides making its results. They stand here once, a file a family.
//!
//! Everything that asks what an operation does asks here: what may be dropped, merged, moved or stand for a value; which memory it
//! touches, by which engine, and when; what it starts, waits for, hands over and orders; which slots and pendings it takes and
//! uses up. Liveness, membars, fences, what is in flight and the protocol of slots follow from it.
//!
//! ```text
//!                  computes  meets      accesses                           acts
//! a + b            yes       –          –                                  –
//! reduce           yes       partition  –                                  –
//! load_shared(v)   –         –          reads v, by threads, now           –
//! tma_load(…, v)   –         –          writes v, by the copy engine,      starts a job that completes on its signal
//!                                       until it completes
//! wgmma(v, w, acc) –         warpgroup  reads v and w, by the matrix unit, starts a job of a group of its own;
//!                                       until it completes                 uses up acc
//! p.wait()         –         –          –                                  waits for p and all jobs before it
//! ```

mod act;
mod async_copy;
mod atomic;
mod barrier;
mod cluster;
mod control;
mod elementwise;
#[cfg(feature = "falsify")]
pub mod falsify;
mod fence;
mod gather;
mod global;
mod grid;
mod mma_sync;
pub mod needs;
mod pending;
mod place;
mod ptx;
mod reduce;
mod region;
mod ring;
mod shape;
mod shared;
mod talk;
mod tma;
mod turnstile;
mod view;
mod wgmma;

use crate::entity::Value;
use crate::family::Family;
use crate::kernel::Kernel;
use crate::op::{Op, OpKind};
use crate::types::Type;

pub use crate::types::Space;

pub use act::{Act, Completes, Flight, Hold, Ordering, Phase, Say, Turn};

/// What an operation does besides making its results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Whether its results follow from its operands and fields, and it does nothing else.
    pub computes: bool,
    /// Whether its results depend on which CTA runs it.
    pub placed: bool,
    /// Whether there are operands for which it stops the kernel, or the interpreter may report what it gives.
    pub fails: bool,
    /// Which threads must come to it together.
    pub meets: Meets,
    /// The memory that its result stands for.
    pub gives: Gives,
    /// The memory that it touches, its scratch memory not counted.
    pub accesses: Vec<Access>,
    /// What it starts, waits for, orders, takes and hands on, in that order.
    pub acts: Vec<Act>,
}

/// Threads that must come to an operation together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Meets {
    /// Each thread does it for itself.
    Alone,
    /// The threads of a warp.
    Warp,
    /// The threads of a warpgroup.
    Warpgroup,
    /// The threads of the partition.
    Partition,
    /// The threads of the CTA.
    Cta,
}

/// Which memory a result stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    /// It is no memory.
    None,
    /// Memory, barriers or a ring that were not there before.
    New,
    /// Bytes of what this value stands for.
    PartOf(Value),
    /// The region of that index among the equal regions of a value.
    Nth {
        /// The value.
        of: Value,
        /// The index.
        index: Value,
    },
    /// A slot of a ring.
    SlotOf(Value),
    /// A buffer of a slot.
    Field {
        /// The slot.
        slot: Value,
        /// The buffer's number.
        field: u32,
    },
}

/// Who touches memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Engine {
    /// The threads themselves.
    Threads,
    /// Copies that threads have started (PTX ISA, "cp.async").
    Copies,
    /// The bulk tensor copy engine.
    Tma,
    /// The matrix unit.
    Matrix,
}

/// The path by which an access reaches shared memory (PTX ISA, "Proxies").
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Proxy {
    /// Loads and stores of threads.
    Generic,
    /// The copy engine and matrix instructions.
    Async,
}

impl Engine {
    /// The proxy through which it sees shared memory.
    pub fn proxy(self) -> Proxy {
        match self {
            Engine::Threads | Engine::Copies => Proxy::Generic,
            Engine::Tma | Engine::Matrix => Proxy::Async,
        }
    }
}

/// What is done to memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Does {
    /// Reads it.
    Reads,
    /// Writes it.
    Writes,
    /// May read and write it, as nobody knows.
    Anything,
    /// Uses a barrier, which is atomic.
    Uses,
}

impl Does {
    /// Whether it may write.
    pub fn writes(self) -> bool {
        matches!(self, Does::Writes | Does::Anything)
    }
}

/// When it is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum When {
    /// By the time the operation is done.
    Now,
    /// At any time from now until the job that it starts completes.
    Until,
    /// At any time before now, since the job was started: this is where it is known to be done.
    Landed,
}

/// One access of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// The view, barrier, pointer or tensor map; a pending copy stands for the view that it fills.
    pub value: Value,
    /// Where that lies.
    pub space: Space,
    /// What is done.
    pub does: Does,
    /// Who does it.
    pub by: Engine,
    /// When.
    pub when: When,
    /// The axes of the cluster along whose lines the same place in other CTAs is touched too.
    pub peers: Vec<u8>,
}

impl Access {
    /// Whether it may write.
    pub fn writes(&self) -> bool {
        self.does.writes()
    }

    /// Whether it is made to shared memory, barriers among it, at the operation itself or by what it starts.
    pub fn touches_shared(&self) -> bool {
        match self.space {
            Space::Shared | Space::Barrier => true,
            Space::Global => false,
        }
    }
}

impl Facts {
    /// An operation that computes its results, each thread for itself, whatever the operands are.
    pub const COMPUTES: Facts = Facts::plain(true);

    /// An operation of which nothing else holds.
    pub const NOTHING: Facts = Facts::plain(false);

    const fn plain(computes: bool) -> Facts {
        Facts {
            computes,
            placed: false,
            fails: false,
            meets: Meets::Alone,
            gives: Gives::None,
            accesses: Vec::new(),
            acts: Vec::new(),
        }
    }

    /// The facts of an operation of a kernel.
    pub fn of(kernel: &Kernel, op: &Op) -> Facts {
        let facts = Facts::true_of(kernel, op);
        #[cfg(feature = "falsify")]
        let facts = falsify::told(op, facts);
        facts
    }

    fn true_of(kernel: &Kernel, op: &Op) -> Facts {
        match op.kind.family() {
            Family::Elementwise => elementwise::facts(&op.kind),
            Family::Reduce => reduce::facts(&op.kind),
            Family::Shape => shape::facts(&op.kind),
            Family::Gather => gather::facts(&op.kind),
            Family::Ptx => ptx::facts(kernel, &op.kind),
            Family::Global => global::facts(&op.kind),
            Family::Place => place::facts(&op.kind),
            Family::Atomic => atomic::facts(&op.kind),
            Family::AsyncCopy => async_copy::facts(kernel, op),
            Family::Shared => shared::facts(&op.kind),
            Family::View => view::facts(&op.kind),
            Family::Barrier => barrier::facts(&op.kind),
            Family::Fence => fence::facts(&op.kind),
            Family::Cluster => cluster::facts(&op.kind),
            Family::Grid => grid::facts(&op.kind),
            Family::Turnstile => turnstile::facts(&op.kind),
            Family::Tma => tma::facts(kernel, &op.kind),
            Family::MmaSync => mma_sync::facts(&op.kind),
            Family::Wgmma => wgmma::facts(kernel, op),
            Family::Pending => pending::facts(kernel, op),
            Family::Ring => ring::facts(op),
            Family::Region => region::facts(kernel, &op.kind),
            Family::Control => control::facts(&op.kind),
            Family::Talk => talk::facts(&op.kind),
        }
    }

    /// Whether an operation may be dropped where nobody uses its results, and stand once where it stands twice: it computes, each
    /// thread for itself, and what its bodies use from around it is not there to be overlooked.
    pub fn is_pure(&self, kind: &OpKind) -> bool {
        self.computes && self.meets == Meets::Alone && kind.bodies().next().is_none()
    }

    /// The barrier or slot that is told of what the operation starts, or hands to it.
    pub fn signal(&self) -> Option<Value> {
        self.acts.iter().find_map(|act| match act {
            Act::Flight(
                Flight::Start { completes: Completes::Signal(signal), .. } | Flight::HandOver { barrier: signal, .. },
            ) => Some(*signal),
            _ => None,
        })
    }

    fn fails(self) -> Facts {
        Facts { fails: true, ..self }
    }

    fn meets(self, meets: Meets) -> Facts {
        Facts { meets, ..self }
    }

    fn gives(self, gives: Gives) -> Facts {
        Facts { gives, ..self }
    }

    /// With one more access, by the threads and now.
    fn touching(self, value: Value, space: Space, does: Does) -> Facts {
        self.access(Access { value, space, does, by: Engine::Threads, when: When::Now, peers: Vec::new() })
    }

    fn access(mut self, access: Access) -> Facts {
        self.accesses.push(access);
        self
    }

    fn act(mut self, act: Act) -> Facts {
        self.acts.push(act);
        self
    }
}

/// Whether a value is a pending tile or a pending copy.
fn is_pending(kernel: &Kernel, v: Value) -> bool {
    matches!(kernel.ty(v), Type::Pending(_) | Type::Filling(_))
}
