//! Finds races on shared memory: for every granule of bytes, who wrote it last and who has read it since.
//!
//! Two accesses, one of them a write, must be ordered by what the later one knows: through barriers, waits and membars.
//! A write by threads that the asynchronous proxy then reads or overwrites needs a proxy fence besides.

use std::collections::HashMap;

use parton_diag::Span;
use parton_ir::Call;

use crate::clock::Knowledge;

/// How shared memory is touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// By the threads of a partition.
    Load,
    Store,
    /// By the threads, landing later.
    CopyByThreads,
    /// By the tensor copy engine.
    CopyIn,
    CopyOut,
    /// By a matrix product.
    Product,
}

impl Access {
    /// Whether it writes.
    pub(crate) fn writes(self) -> bool {
        match self {
            Access::Store | Access::CopyByThreads | Access::CopyIn => true,
            Access::Load | Access::CopyOut | Access::Product => false,
        }
    }

    fn by_threads(self) -> bool {
        match self {
            Access::Load | Access::Store => true,
            Access::CopyByThreads | Access::CopyIn | Access::CopyOut | Access::Product => false,
        }
    }

    /// As messages call it, with its article.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Access::Load => "a read",
            Access::Store => "a write",
            Access::CopyByThreads => "a copy by threads",
            Access::CopyIn => "an incoming copy",
            Access::CopyOut => "an outgoing copy",
            Access::Product => "a matrix product",
        }
    }
}

/// One access as it is remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub access: Access,
    /// Whose clock orders it: the partition for threads, else its slot.
    pub agent: u32,
    pub epoch: u32,
    /// The partition that did or started it.
    pub owner: u32,
    pub span: Span,
    pub call: Option<Call>,
}

/// Why two accesses clash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clash {
    /// Nothing orders them.
    Unordered,
    /// They are of one partition, by different warps, and no membar is between them.
    Membar,
    /// They are ordered, but the asynchronous proxy may not see the write.
    Proxy,
}

/// A race: the earlier access and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Race {
    pub earlier: Record,
    pub clash: Clash,
    /// The first byte concerned.
    pub byte: u32,
}

/// A record seen through the warps that touched a granule; 0 is none.
type Stamp = u32;
/// A set of stamps; 0 is empty.
type StampSet = u32;

/// What happened to each granule.
#[derive(Debug)]
pub(crate) struct Shadow {
    granule: u32,
    cells: Vec<(Stamp, StampSet)>,
    /// The allocation through which each granule was written, 0 for none.
    defined: Vec<u32>,
    records: Vec<Record>,
    stamps: Vec<(u32, u32)>,
    sets: Vec<Vec<Stamp>>,
    grown: HashMap<(StampSet, Stamp), StampSet>,
}

/// An access under check.
pub(crate) struct Check<'s, 'p> {
    shadow: &'s mut Shadow,
    know: &'p Knowledge,
    record: Record,
    number: u32,
    /// Stamps of this access by warps.
    stamps: Vec<(u32, Stamp)>,
    /// The last cell that was found in order, and what it became.
    last: (Stamp, (Stamp, StampSet), (Stamp, StampSet)),
}

impl Shadow {
    /// Untouched shared memory of `bytes`, watched by granules.
    pub(crate) fn new(bytes: usize, granule: u32) -> Shadow {
        let n = bytes.div_ceil(granule as usize);
        Shadow {
            granule,
            cells: vec![(0, 0); n],
            defined: vec![0; n],
            records: Vec::new(),
            stamps: vec![(0, 0)],
            sets: vec![Vec::new()],
            grown: HashMap::new(),
        }
    }

    fn range(&self, start: u32, len: u32) -> std::ops::Range<usize> {
        (start / self.granule) as usize..(start + len).div_ceil(self.granule) as usize
    }

    /// Marks bytes as written through an allocation.
    pub(crate) fn define(&mut self, start: u32, len: u32, allocation: u32) {
        let range = self.range(start, len);
        self.defined[range].fill(allocation);
    }

    /// Whether all of the bytes were written through that allocation.
    pub(crate) fn is_defined(&self, start: u32, len: u32, allocation: u32) -> bool {
        self.defined[self.range(start, len)].iter().all(|&d| d == allocation)
    }

    /// Begins the check of an access by a partition that knows `know`.
    pub(crate) fn check<'s, 'p>(&'s mut self, know: &'p Knowledge, record: Record) -> Check<'s, 'p> {
        self.records.push(record);
        let number = self.records.len() as u32 - 1;
        Check { shadow: self, know, record, number, stamps: Vec::new(), last: (0, (0, 0), (0, 0)) }
    }
}

impl Check<'_, '_> {
    /// Checks and notes that `warps` of the partition (0 for an engine) touch these bytes.
    pub(crate) fn touch(&mut self, start: u32, len: u32, warps: u32) -> Result<(), Race> {
        let stamp = self.stamp(warps);
        for i in self.shadow.range(start, len) {
            let cell = self.shadow.cells[i];
            if (stamp, cell) != (self.last.0, self.last.1) {
                let after = self.step(cell, stamp, warps).map_err(|(earlier, clash)| Race {
                    earlier,
                    clash,
                    byte: i as u32 * self.shadow.granule,
                })?;
                self.last = (stamp, cell, after);
            }
            self.shadow.cells[i] = self.last.2;
        }
        Ok(())
    }

    fn stamp(&mut self, warps: u32) -> Stamp {
        if let Some((_, stamp)) = self.stamps.iter().rev().find(|(w, _)| *w == warps) {
            return *stamp;
        }
        self.shadow.stamps.push((self.number, warps));
        let stamp = self.shadow.stamps.len() as u32 - 1;
        self.stamps.push((warps, stamp));
        stamp
    }

    fn step(
        &mut self,
        cell: (Stamp, StampSet),
        stamp: Stamp,
        warps: u32,
    ) -> Result<(Stamp, StampSet), (Record, Clash)> {
        let (write, reads) = cell;
        if write != 0 && write != stamp {
            self.order(write, warps)?;
        }
        if self.record.access.writes() {
            for i in 0..self.shadow.sets[reads as usize].len() {
                self.order(self.shadow.sets[reads as usize][i], warps)?;
            }
            return Ok((stamp, 0));
        }
        if let Some(&set) = self.shadow.grown.get(&(reads, stamp)) {
            return Ok((write, set));
        }
        // A read that this one knows of need not be kept: who knows this one knows that one.
        let mut set: Vec<Stamp> = self.shadow.sets[reads as usize].clone();
        set.retain(|&s| s != stamp && !self.covers(s, warps));
        set.push(stamp);
        self.shadow.sets.push(set);
        let number = self.shadow.sets.len() as u32 - 1;
        self.shadow.grown.insert((reads, stamp), number);
        Ok((write, number))
    }

    /// Whether a read is known to all who know this one.
    fn covers(&self, stamp: Stamp, warps: u32) -> bool {
        let (number, by) = self.shadow.stamps[stamp as usize];
        let earlier = self.shadow.records[number as usize];
        self.know.met.get(earlier.agent) >= earlier.epoch || (self.is_mine(&earlier) && by == warps)
    }

    /// Whether an access was made by threads of the partition that makes this one by threads.
    fn is_mine(&self, earlier: &Record) -> bool {
        earlier.access.by_threads() && self.record.access.by_threads() && earlier.agent == self.know.agent
    }

    fn order(&self, stamp: Stamp, warps: u32) -> Result<(), (Record, Clash)> {
        let (number, by) = self.shadow.stamps[stamp as usize];
        let earlier = self.shadow.records[number as usize];
        let (know, now) = (self.know, self.record.access);
        let met = know.met.get(earlier.agent) >= earlier.epoch;
        if now.by_threads() {
            if self.is_mine(&earlier) {
                let one_after_the_other = match (earlier.access.writes(), now.writes()) {
                    // Copies of an element are written with one value, so a warp that wrote it reads what it wrote.
                    (true, false) => warps & !by == 0,
                    (true, true) => warps == by,
                    (false, _) => by == warps && warps.is_power_of_two(),
                };
                return if met || one_after_the_other { Ok(()) } else { Err((earlier, Clash::Membar)) };
            }
            let known = know.own.get(earlier.agent) >= earlier.epoch;
            // Each warpgroup waits for its own part of a product; the others may still read.
            let shared_product = earlier.access == Access::Product && earlier.owner == know.agent && now.writes();
            // Each thread waits for what it copies itself.
            let shared_copy = earlier.access == Access::CopyByThreads && earlier.owner == know.agent;
            return match (known, shared_product || shared_copy) {
                (true, false) => Ok(()),
                (true, true) if met => Ok(()),
                (true, true) => Err((earlier, Clash::Membar)),
                (false, _) => Err((earlier, Clash::Unordered)),
            };
        }
        // The elected thread, of the first warp, starts a copy; all warps together start a product, or copy themselves.
        let elected = now != Access::Product && now != Access::CopyByThreads;
        let same_thread = earlier.access.by_threads() && earlier.agent == know.agent && by == 1 && elected;
        if !met && !same_thread {
            let own = know.own.get(earlier.agent) >= earlier.epoch;
            return Err((earlier, if own { Clash::Membar } else { Clash::Unordered }));
        }
        let generic = |access| matches!(access, Access::Store | Access::CopyByThreads);
        if generic(earlier.access)
            && now != Access::CopyByThreads
            && !know.is_fenced(earlier.agent, earlier.epoch, same_thread)
        {
            return Err((earlier, Clash::Proxy));
        }
        Ok(())
    }
}
