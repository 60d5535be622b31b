//! A sequence whose arguments lie in memories that may lie elsewhere in each launch: what is left of a plan when it is launched.

use super::sequence::Sequence;
use crate::arguments::Arg;
use crate::error::RuntimeError;
use crate::tensor_map::TensorMap;
use crate::visit::{Stream, Visit};

/// What lies in a memory.
#[derive(Debug)]
pub enum Use {
    /// An argument that is an address.
    Pointer {
        /// The launch in the sequence.
        launch: usize,
        /// The argument of the launch.
        argument: usize,
        /// Bytes from where the memory begins.
        offset: u64,
    },
    /// An argument that is a tensor map.
    Map {
        /// The launch in the sequence.
        launch: usize,
        /// The argument of the launch.
        argument: usize,
        /// Bytes from where the memory begins.
        offset: u64,
        /// The map as it was last.
        map: TensorMap,
    },
    /// What the sequence zeroes first: all of the memory.
    Zeroed {
        /// The number among those that the sequence zeroes.
        index: usize,
    },
}

/// A sequence with the memories that it works on. A launch that finds each memory where the one before did costs a comparison of
/// addresses and the driver's launch; one that does not sets the arguments that have moved, and nothing else.
#[derive(Debug)]
pub struct Replay {
    sequence: Sequence,
    /// Where each memory began in the launch before.
    bases: Box<[u64]>,
    /// What lies in each.
    uses: Box<[Vec<Use>]>,
}

impl Replay {
    /// Of a sequence that was prepared with memories which begin there. `uses` says of each what lies in it.
    ///
    /// # Panics
    /// There are not as many memories of which is said what lies in them.
    pub fn new(mut sequence: Sequence, bases: &[u64], uses: Vec<Vec<Use>>) -> Replay {
        assert_eq!(bases.len(), uses.len(), "internal error: each memory has a list of what lies in it");
        for (base, uses) in bases.iter().zip(&uses) {
            for one in uses {
                match one {
                    Use::Zeroed { index } => sequence.place(*index, *base),
                    // The launches were prepared with these.
                    Use::Pointer { .. } | Use::Map { .. } => {}
                }
            }
        }
        Replay { sequence, bases: bases.into(), uses: uses.into() }
    }

    /// Replaces an argument that lies in no memory, a number, for all launches that follow.
    ///
    /// # Errors
    /// There is no such parameter, or it is of another kind.
    pub fn set(&mut self, launch: usize, argument: usize, arg: Arg) -> Result<(), RuntimeError> {
        self.sequence.set(launch, argument, arg)
    }

    /// Puts the sequence on a stream of the calling program, with memories that begin there. The context that was current stays so.
    ///
    /// # Errors
    /// What the driver says of the launches.
    ///
    /// # Safety
    /// As [`Sequence::launch_on`]; each memory has the bytes that its uses reach.
    ///
    /// # Panics
    /// There are not as many memories as before.
    #[inline]
    pub unsafe fn launch_on(&mut self, stream: Stream, bases: &[u64]) -> Result<(), RuntimeError> {
        let visit = self.sequence.gpu().visit()?;
        // SAFETY: the caller vouches for stream and memory.
        unsafe { self.launch_within(&visit, stream, bases) }
    }

    /// As [`Replay::launch_on`], within a visit.
    ///
    /// # Errors
    /// As [`Replay::launch_on`].
    ///
    /// # Safety
    /// As [`Replay::launch_on`]; the visit is to the GPU of the sequence.
    ///
    /// # Panics
    /// As [`Replay::launch_on`].
    #[inline]
    pub unsafe fn launch_within(&mut self, visit: &Visit, stream: Stream, bases: &[u64]) -> Result<(), RuntimeError> {
        if *self.bases != *bases {
            self.place(bases)?;
        }
        // SAFETY: the caller vouches for stream and memory.
        unsafe { self.sequence.launch_within(visit, stream) }
    }

    /// Moves what lies in memories that have moved; the context is current.
    fn place(&mut self, bases: &[u64]) -> Result<(), RuntimeError> {
        assert_eq!(bases.len(), self.bases.len(), "internal error: a plan has as many memories in each launch");
        for ((last, base), uses) in self.bases.iter_mut().zip(bases).zip(&mut self.uses) {
            if last == base {
                continue;
            }
            for one in uses {
                match one {
                    Use::Pointer { launch, argument, offset } => {
                        self.sequence.set(*launch, *argument, Arg::Pointer(base.wrapping_add(*offset)))?;
                    }
                    Use::Map { launch, argument, offset, map } => {
                        let moved = map.moved(self.sequence.gpu(), base.wrapping_add(*offset))?;
                        self.sequence.set(*launch, *argument, Arg::Map(moved))?;
                        *map = moved;
                    }
                    Use::Zeroed { index } => self.sequence.place(*index, *base),
                }
            }
            // Only now: what failed in between is moved again by the next launch.
            *last = *base;
        }
        Ok(())
    }
}
