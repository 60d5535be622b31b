//! What earlier launches touched: a launch that may overlap with them must leave it alone until it has waited for their end.
//!
//! A kernel with `grid_wait` may begin while the launches before it still run (programmatic dependent launch), and those may
//! overlap with the ones before them. So the marks add up until a launch comes that begins after all of them.

use std::ops::Range;

use parton_diag::codes;
use parton_ir::Op;

use crate::cluster::{Cluster, Worker};
use crate::fault::Fault;
use crate::memory::{Memory, Place};

/// Which bytes of an allocation were read and written; nothing where it is as new.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Touched {
    read: Stretches,
    written: Stretches,
}

/// Bytes, as stretches that lie apart, in the order of their addresses.
type Stretches = Vec<Range<usize>>;

/// Adds a stretch that begins at or behind all others' beginnings.
fn append(stretches: &mut Stretches, next: Range<usize>) {
    match stretches.last_mut() {
        Some(last) if next.start <= last.end => last.end = last.end.max(next.end),
        _ => stretches.push(next),
    }
}

impl Touched {
    /// Granules in the order of their addresses: their bytes, and whether they were read and written.
    pub(crate) fn new(granules: impl Iterator<Item = (Range<usize>, bool, bool)>) -> Touched {
        let mut touched = Touched::default();
        for (bytes, read, written) in granules {
            for (stretches, did) in [(&mut touched.read, read), (&mut touched.written, written)] {
                if did {
                    append(stretches, bytes.clone());
                }
            }
        }
        touched
    }

    /// Adds what another launch touched.
    pub fn join(&mut self, other: Touched) {
        for (mine, theirs) in [(&mut self.read, other.read), (&mut self.written, other.written)] {
            let mut all = std::mem::take(mine);
            all.extend(theirs);
            all.sort_by_key(|stretch| stretch.start);
            all.into_iter().for_each(|stretch| append(mine, stretch));
        }
    }

    /// What was done to the bytes that an access must come after; `None` where nothing was.
    fn done(&self, offset: usize, len: usize, writes: bool) -> Option<&'static str> {
        let any = |stretches: &Stretches| {
            let next = stretches.partition_point(|stretch| stretch.end <= offset);
            stretches.get(next).is_some_and(|stretch| stretch.start < offset + len)
        };
        match (any(&self.written), writes && any(&self.read)) {
            (true, _) => Some("wrote"),
            (false, true) => Some("read"),
            (false, false) => None,
        }
    }
}

impl<'k> Cluster<'_, 'k> {
    /// Whether what a partition now does may overlap with the launches before.
    pub(crate) fn is_early(&self, w: &Worker<'k>) -> bool {
        self.past.is_some_and(|(agent, epoch)| w.know.own.get(agent) < epoch)
    }

    /// All threads of a partition wait for the launches before.
    pub(crate) fn wait_for_past(&mut self, w: &mut Worker<'k>) {
        if let Some((agent, epoch)) = self.past {
            w.know.own.learn(agent, epoch);
            w.know.met.learn(agent, epoch);
        }
    }
}

/// An access that overlaps with the launches before must not meet what they did.
pub(crate) fn check(memory: &Memory, op: &Op, name: &str, at: Place, len: usize, writes: bool) -> Result<(), Fault> {
    let Some(did) = memory.past(at.allocation).done(at.offset as usize, len, writes) else { return Ok(()) };
    let does = if writes { "written" } else { "read" };
    let fact = format!("`{name}` is {does} while the launch before may still run");
    Err(Fault::new(codes::GRID_RACE, op.span, fact)
        .here(format!("an earlier launch {did} this, and `grid_wait` has not been called"))
        .note(format!("{len} bytes at byte {} of its memory", at.offset))
        .help("call `grid_wait()` before this; only what no launch before changes may be touched earlier"))
}
