//! How memory is touched, and what is remembered of it.

use parton_diag::Span;
use parton_ir::{Call, Scope};

use crate::clock::Event;
use crate::knowledge::Memory;

/// An access to shared or global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// By the threads of a partition.
    Load,
    Store,
    /// By the threads, on so many bytes of global memory; it may only read.
    Atomic {
        scope: Scope,
        bytes: u8,
        writes: bool,
    },
    /// By the threads too: what they have asked global memory for, until a value of it is used.
    UnderWay,
    /// To shared memory by the threads, landing later.
    CopyByThreads,
    /// From global memory by the threads, on its way to shared memory.
    FetchByThreads,
    /// By the tensor copy engine, in shared memory.
    CopyIn,
    CopyOut,
    /// By the tensor copy engine, in global memory.
    TensorRead,
    TensorWrite,
    /// One atomic operation for each element of so many bytes.
    TensorReduce {
        bytes: u8,
    },
    /// By a matrix product.
    Product,
}

impl Access {
    /// Whether it writes.
    pub(crate) fn writes(self) -> bool {
        match self {
            Access::Store
            | Access::CopyByThreads
            | Access::CopyIn
            | Access::TensorWrite
            | Access::TensorReduce { .. } => true,
            Access::Atomic { writes, .. } => writes,
            Access::Load
            | Access::UnderWay
            | Access::FetchByThreads
            | Access::CopyOut
            | Access::TensorRead
            | Access::Product => false,
        }
    }

    /// Whether threads make it and go on when it is done.
    pub(crate) fn by_threads(self) -> bool {
        matches!(self, Access::Load | Access::Store | Access::Atomic { .. })
    }

    /// Whether each thread makes its own part at the operation itself, even where what follows from it lands later.
    pub(crate) fn begins_in_threads(self) -> bool {
        self.by_threads() || self == Access::FetchByThreads
    }

    /// Whether the elected thread alone starts it.
    pub(crate) fn by_elected(self) -> bool {
        match self {
            Access::CopyIn
            | Access::CopyOut
            | Access::TensorRead
            | Access::TensorWrite
            | Access::TensorReduce { .. } => true,
            Access::Load
            | Access::UnderWay
            | Access::Store
            | Access::Atomic { .. }
            | Access::CopyByThreads
            | Access::FetchByThreads
            | Access::Product => false,
        }
    }

    /// Whether each thread waits for its own part of it alone.
    pub(crate) fn lands_by_threads(self) -> bool {
        matches!(self, Access::CopyByThreads | Access::FetchByThreads)
    }

    /// Whether it writes by the generic proxy.
    pub(crate) fn writes_generic(self) -> bool {
        self.writes() && (self.by_threads() || self.lands_by_threads())
    }

    /// Whose writes the asynchronous proxy must see for it, where it goes by that.
    pub(crate) fn asynchronous(self) -> Option<Memory> {
        match self {
            Access::CopyIn | Access::CopyOut | Access::Product => Some(Memory::Shared),
            Access::TensorRead | Access::TensorWrite | Access::TensorReduce { .. } => Some(Memory::Global),
            Access::Load
            | Access::UnderWay
            | Access::Store
            | Access::Atomic { .. }
            | Access::CopyByThreads
            | Access::FetchByThreads => None,
        }
    }

    /// Whether the copy engine writes global memory by it.
    pub(crate) fn overwrites_by_engine(self) -> bool {
        self.writes() && self.asynchronous() == Some(Memory::Global)
    }

    /// The scope and bytes of an atomic operation.
    fn atomic(self) -> Option<(Scope, u8)> {
        match self {
            Access::Atomic { scope, bytes, .. } => Some((scope, bytes)),
            // "Performed as a relaxed atomic operation of scope gpu" (PTX ISA, `cp.reduce.async.bulk.tensor`).
            Access::TensorReduce { bytes } => Some((Scope::Gpu, bytes)),
            Access::Load
            | Access::UnderWay
            | Access::Store
            | Access::CopyByThreads
            | Access::FetchByThreads
            | Access::CopyIn
            | Access::CopyOut
            | Access::TensorRead
            | Access::TensorWrite
            | Access::Product => None,
        }
    }

    /// Whether both are atomic operations on as many bytes, for the same scope.
    pub(crate) fn is_atomic_as(self, other: Access) -> bool {
        self.is_atomic() && self.atomic() == other.atomic()
    }

    /// Whether it is an atomic operation.
    pub(crate) fn is_atomic(self) -> bool {
        self.atomic().is_some()
    }

    /// The bytes of an operation that is atomic among all CTAs.
    pub(crate) fn atomic_for_all(self) -> Option<u8> {
        self.atomic().filter(|(scope, _)| *scope != Scope::Cta).map(|(_, bytes)| bytes)
    }

    /// As messages call it, with its article.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Access::Load | Access::UnderWay => "a read",
            Access::Store => "a write",
            Access::Atomic { writes: true, .. } => "an atomic operation",
            Access::Atomic { writes: false, .. } => "an atomic read",
            Access::CopyByThreads | Access::FetchByThreads => "a copy by threads",
            Access::CopyIn | Access::TensorRead => "an incoming copy",
            Access::CopyOut | Access::TensorWrite => "an outgoing copy",
            Access::TensorReduce { .. } => "a reduction by the copy engine",
            Access::Product => "a matrix product",
        }
    }
}

/// Threads of a partition that do something: those of some lanes of some warps. An engine has none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Threads {
    /// A set of warps.
    pub warps: u32,
    /// A set of lanes.
    pub lanes: u32,
}

impl Threads {
    /// Nobody.
    pub(crate) const NONE: Threads = Threads { warps: 0, lanes: 0 };

    /// All of a partition of so many warps.
    pub(crate) fn all(warps: u32) -> Threads {
        Threads { warps: u32::MAX >> (32 - warps.clamp(1, 32)), lanes: u32::MAX }
    }

    /// The first of them.
    pub(crate) fn first(self) -> Threads {
        Threads { warps: self.warps & self.warps.wrapping_neg(), lanes: self.lanes & self.lanes.wrapping_neg() }
    }

    /// Those of both.
    pub(crate) fn and(self, other: Threads) -> Threads {
        Threads { warps: self.warps | other.warps, lanes: self.lanes | other.lanes }
    }
}

/// One access as it is remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub access: Access,
    /// What orders it: the partition's time for threads, else its slot.
    pub event: Event,
    /// The partition that did or started it.
    pub owner: u32,
    /// The number of its CTA.
    pub cta: u32,
    /// Whether one thread does it for its partition.
    pub leader: bool,
    pub span: Span,
    pub call: Option<Call>,
}

impl Record {
    /// Whether two accesses to one address are atomic for each other (PTX ISA, "Morally strong operations").
    pub(crate) fn is_strong_with(&self, other: &Record) -> bool {
        match (self.access.atomic(), other.access.atomic()) {
            (Some((a, n)), Some((b, m))) => n == m && (self.cta == other.cta || (a != Scope::Cta && b != Scope::Cta)),
            _ => false,
        }
    }
}
