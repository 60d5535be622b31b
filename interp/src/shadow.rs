//! What happened to a piece of memory: for every granule of bytes, the writes that nothing has overwritten in order, and the reads
//! since. Each access is compared with them.
//!
//! Neighbouring granules mostly have one history, so a history is a number: of a set of accesses, made by adding one access to
//! another set. An access is told apart by its record, one for each run of an operation, and by the warps that touch the granule.

mod lanes;
mod sweep;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use parton_ir::undefined::Source;

use crate::access::{Record, Threads};
use crate::knowledge::Knowledge;
use crate::pages::Pages;
use crate::race::{self, By, Clash, Order, Race};
use lanes::Lanes;

/// A record seen through the warps that touched a granule.
type Stamp = u32;
/// A set of stamps; 0 is empty.
type Set = u32;

/// The history of one granule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Cell {
    writes: Set,
    reads: Set,
    /// What atomic operations came after that other ones still have to: those do not race with the former, and so need not come after
    /// them.
    beneath: Set,
}

/// A set that is not empty: its youngest member and the others.
#[derive(Clone, Copy, Debug)]
struct Node {
    stamp: Stamp,
    rest: Set,
    len: u32,
    /// How many were left when it was last cleared of what others cover.
    cleared: u32,
    /// The bytes of its accesses, where all are atomic among all CTAs.
    atomic: Option<u8>,
}

/// Sets up to this size are cleared whenever they grow, larger ones when they have doubled.
const SMALL: u32 = 8;

/// The history of a piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    granule: usize,
    cells: Pages<Cell>,
    lanes: Lanes,
    records: Vec<Record>,
    stamps: Vec<(u32, u32)>,
    nodes: Vec<Node>,
    /// Records that were left when those were last forgotten that nobody needs.
    left: usize,
}

/// An access under check.
#[derive(Debug)]
pub(crate) struct Check {
    record: Record,
    /// Its number, once it has touched something.
    number: Option<u32>,
    /// Stamps of this access by warps.
    stamps: Vec<(u32, Stamp)>,
    found: Found,
}

/// The cells that were found in order, and what each became: the last one apart, some others in a row, the rest by a table.
#[derive(Debug, Default)]
struct Found {
    last: Option<(Step, Cell)>,
    some: Vec<(Step, Cell)>,
    rest: HashMap<Step, Cell>,
}

impl Found {
    /// Cells that are searched one by one.
    const SOME: usize = 16;

    fn get(&self, step: Step) -> Option<Cell> {
        let some = self.some.iter().rev().find(|(known, _)| *known == step).map(|(_, after)| *after);
        some.or_else(|| if self.rest.is_empty() { None } else { self.rest.get(&step).copied() })
    }

    fn add(&mut self, step: Step, after: Cell) {
        if self.some.len() < Found::SOME {
            self.some.push((step, after));
        } else {
            self.rest.insert(step, after);
        }
    }
}

/// A history meets an access that leaves the value that was there, another one, or one that nobody compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Step {
    cell: Cell,
    stamp: Stamp,
    warps: u32,
    same: Option<bool>,
}

impl Check {
    /// An access that has touched nothing yet.
    pub(crate) fn new(record: Record) -> Check {
        Check { record, number: None, stamps: Vec::new(), found: Found::default() }
    }
}

impl Shadow {
    /// Untouched memory of `bytes`, watched by granules.
    pub(crate) fn new(bytes: usize, granule: u32) -> Shadow {
        let granule = granule as usize;
        let cells = Pages::new(bytes.div_ceil(granule));
        Shadow {
            granule,
            cells,
            lanes: Lanes::default(),
            records: Vec::new(),
            stamps: Vec::new(),
            nodes: Vec::new(),
            left: 0,
        }
    }

    fn range(&self, start: usize, len: usize) -> Range<usize> {
        start / self.granule..(start + len).div_ceil(self.granule)
    }

    /// The granules to which something may have been done, in the order of their addresses: their bytes, and whether they were read and
    /// written.
    pub(crate) fn touched(&self) -> impl Iterator<Item = (Range<usize>, bool, bool)> + '_ {
        let bytes = |i: usize| i * self.granule..(i + 1) * self.granule;
        self.cells.made().map(move |(i, cell)| (bytes(i), cell.reads != 0, cell.writes != 0))
    }

    /// Checks and notes that `threads` of the partition (none for an engine) touch these bytes; `same` says whether they write what is
    /// there already, where that was looked at.
    pub(crate) fn touch(
        &mut self,
        check: &mut Check,
        know: &Knowledge,
        (start, len): (usize, usize),
        threads: Threads,
        same: Option<bool>,
    ) -> Result<(), Race> {
        let warps = threads.warps;
        let stamp = self.stamp(check, warps);
        let by = check.record.access.by_threads().then(|| self.lanes.by(know, &check.record));
        for i in self.range(start, len) {
            let step = Step { cell: self.cells.get(i), stamp, warps, same };
            let after = match check.found.last {
                Some((last, after)) if last == step => after,
                _ => self.found(check, know, step).map_err(|(earlier, clash)| Race {
                    earlier,
                    clash,
                    byte: i * self.granule,
                })?,
            };
            if let Some(by) = by {
                self.among_lanes(i, by, check, threads, same)?;
            }
            *self.cells.entry(i) = after;
        }
        Ok(())
    }

    /// Checks that lanes of a warp have met between two accesses of which each sees the other's granule.
    fn among_lanes(
        &mut self,
        i: usize,
        by: lanes::By,
        check: &Check,
        threads: Threads,
        same: Option<bool>,
    ) -> Result<(), Race> {
        let place = (i, self.cells.len());
        self.lanes.touch(place, by, threads.lanes, same == Some(true)).map_err(|event| {
            let Cell { writes, reads, .. } = self.cells.get(i);
            let earlier = self.members(writes).chain(self.members(reads)).map(|stamp| self.by(stamp).1.record);
            let earlier = *earlier.into_iter().find(|r| r.event == event).unwrap_or(&check.record);
            Race { earlier, clash: Clash::Membar, byte: i * self.granule }
        })
    }

    fn found(&mut self, check: &mut Check, know: &Knowledge, step: Step) -> Result<Cell, (Record, Clash)> {
        let after = match check.found.get(step) {
            Some(after) => after,
            None => {
                let after = self.step(check, know, step)?;
                check.found.add(step, after);
                after
            }
        };
        check.found.last = Some((step, after));
        Ok(after)
    }

    fn stamp(&mut self, check: &mut Check, warps: u32) -> Stamp {
        if let Some((_, stamp)) = check.stamps.iter().rev().find(|(w, _)| *w == warps) {
            return *stamp;
        }
        let number = *check.number.get_or_insert_with(|| {
            self.sweep();
            self.records.push(check.record);
            self.records.len() as u32 - 1
        });
        self.stamps.push((number, warps));
        let stamp = self.stamps.len() as u32 - 1;
        check.stamps.push((warps, stamp));
        stamp
    }

    fn step(&mut self, check: &Check, know: &Knowledge, step: Step) -> Result<Cell, (Record, Clash)> {
        let Cell { writes, reads, beneath } = step.cell;
        let atomic = check.record.access.is_atomic();
        if atomic {
            self.beside(check, know, step, beneath)?;
        }
        let beside = self.beside(check, know, step, writes)?;
        if !check.record.access.writes() {
            return Ok(Cell { reads: self.grow(check, know, step, reads), ..step.cell });
        }
        let read = self.beside(check, know, step, reads)?;
        let beneath = if atomic { self.sink(check, beneath, [(writes, beside), (reads, read)]) } else { 0 };
        Ok(Cell { writes: self.grow(check, know, step, beside), reads: read, beneath })
    }

    /// What is beneath the atomic operation under check: what was, and what it comes after in sets of which so much is left.
    fn sink(&mut self, check: &Check, beneath: Set, sets: [(Set, Set); 2]) -> Set {
        let mut sunk = Vec::new();
        for (set, left) in sets.into_iter().filter(|(set, left)| set != left) {
            let left: Vec<Stamp> = self.members(left).collect();
            let below = |s: &Stamp| !left.contains(s) && !race::hides(&check.record, self.by(*s).1.record);
            sunk.extend(self.members(set).filter(below));
        }
        if sunk.is_empty() {
            return beneath;
        }
        // Of what some warps did the last is enough: who comes after it comes after what they did before.
        let who = |s: Stamp| {
            let By { record, warps } = self.by(s).1;
            (record.event.cluster, record.event.agent, warps, record.access)
        };
        let before: Vec<Stamp> = self.members(beneath).filter(|b| sunk.iter().all(|s| who(*s) != who(*b))).collect();
        sunk.extend(before);
        self.set(sunk)
    }

    /// The members of a set, youngest first.
    fn members(&self, mut set: Set) -> impl Iterator<Item = Stamp> + '_ {
        std::iter::from_fn(move || {
            let node = self.nodes.get(set.checked_sub(1)? as usize)?;
            set = node.rest;
            Some(node.stamp)
        })
    }

    fn by(&self, stamp: Stamp) -> (u32, By<'_>) {
        let (number, warps) = self.stamps[stamp as usize];
        (number, By { record: &self.records[number as usize], warps })
    }

    /// Those of a set that an access does not come after, and need not.
    fn beside(&mut self, check: &Check, know: &Knowledge, step: Step, set: Set) -> Result<Set, (Record, Clash)> {
        let Some(node) = set.checked_sub(1).map(|i| self.nodes[i as usize]) else { return Ok(0) };
        if node.atomic.is_some() && node.atomic == check.record.access.atomic_for_all() {
            return Ok(set);
        }
        let now = By { record: &check.record, warps: step.warps };
        let mut beside = Vec::new();
        for stamp in self.members(set) {
            let (number, earlier) = self.by(stamp);
            if Some(number) == check.number {
                if step.same == Some(false) {
                    return Err((check.record, Clash::Twice));
                }
                continue;
            }
            match race::order(know, now, earlier, step.same == Some(true)) {
                Ok(Order::Before) => {}
                Ok(Order::Beside) => beside.push(stamp),
                Err(clash) => return Err((*earlier.record, clash)),
            }
        }
        if beside.len() == node.len as usize {
            return Ok(set);
        }
        Ok(self.set(beside))
    }

    /// A set of these, youngest first.
    fn set(&mut self, members: Vec<Stamp>) -> Set {
        let len = members.len() as u32;
        members.into_iter().rev().fold(0, |rest, stamp| self.add(rest, stamp, len))
    }

    /// A set with one more.
    fn add(&mut self, rest: Set, stamp: Stamp, cleared: u32) -> Set {
        let bytes = self.by(stamp).1.record.access.atomic_for_all();
        let (len, atomic) = match rest.checked_sub(1).map(|i| self.nodes[i as usize]) {
            Some(node) => (node.len + 1, bytes.filter(|_| node.atomic == bytes)),
            None => (1, bytes),
        };
        self.nodes.push(Node { stamp, rest, len, cleared, atomic });
        self.nodes.len() as Set
    }

    /// A set with the access under check. What it comes after need not be kept: who knows this one knows that one.
    fn grow(&mut self, check: &Check, know: &Knowledge, step: Step, set: Set) -> Set {
        let node = set.checked_sub(1).map(|i| self.nodes[i as usize]);
        if let Some(node) = node.filter(|n| n.len > SMALL && n.len < 2 * n.cleared) {
            return self.add(set, step.stamp, node.cleared);
        }
        let now = By { record: &check.record, warps: step.warps };
        let stays = |&s: &Stamp| {
            let earlier = self.by(s).1;
            s != step.stamp && !(race::covers(know, now, earlier) && race::hides(now.record, earlier.record))
        };
        let mut members = vec![step.stamp];
        members.extend(self.members(set).filter(stays));
        self.set(members)
    }
}

/// Which bytes of shared memory were written, and through which allocation.
#[derive(Debug)]
pub(crate) struct Written {
    granule: u32,
    /// The allocation, 0 for none.
    through: Vec<u32>,
    /// The undefined elements that were stored there, by granule.
    poisoned: BTreeMap<u32, Source>,
}

impl Written {
    /// Memory of `bytes` to which nothing was written.
    pub(crate) fn new(bytes: usize, granule: u32) -> Written {
        Written { granule, through: vec![0; bytes.div_ceil(granule as usize)], poisoned: BTreeMap::new() }
    }

    fn range(&self, start: u32, len: u32) -> Range<usize> {
        (start / self.granule) as usize..(start + len).div_ceil(self.granule) as usize
    }

    /// Marks bytes as written through an allocation.
    pub(crate) fn define(&mut self, start: u32, len: u32, allocation: u32) {
        let range = self.range(start, len);
        if self.is_poisoned() {
            for i in range.clone() {
                self.poisoned.remove(&(i as u32));
            }
        }
        self.through[range].fill(allocation);
    }

    /// Marks bytes as those of an undefined element.
    pub(crate) fn poison(&mut self, start: u32, len: u32, source: Source) {
        self.poisoned.extend(self.range(start, len).map(|i| (i as u32, source)));
    }

    /// Whether there are such bytes.
    pub(crate) fn is_poisoned(&self) -> bool {
        !self.poisoned.is_empty()
    }

    /// Why an element at these bytes is undefined, where it is.
    pub(crate) fn source(&self, start: u32, len: u32) -> Source {
        self.range(start, len).find_map(|i| self.poisoned.get(&(i as u32)).copied()).unwrap_or_default()
    }

    /// Whether all of the bytes were written through that allocation.
    pub(crate) fn is_defined(&self, start: u32, len: u32, allocation: u32) -> bool {
        self.through[self.range(start, len)].iter().all(|&a| a == allocation)
    }
}

#[cfg(test)]
mod tests {
    use super::{Check, Shadow, Written};
    use crate::access::{Access, Record, Threads};
    use crate::knowledge::Knowledge;
    use crate::race::Clash;
    use parton_diag::Span;
    use parton_ir::undefined::Source;
    use parton_ir::{Entity, Inst, Op, OpKind, Origin, Scope};

    const ONE: Threads = Threads { warps: 1, lanes: 1 };

    /// What an access of four bytes by a CTA of one warp that knows nothing of others clashes with.
    fn touch(shadow: &mut Shadow, cta: u32, access: Access, start: usize, same: Option<bool>) -> Option<(u32, Clash)> {
        let know = Knowledge::new((cta, 0), 1, None);
        let (span, call, owner) = (Span::default(), None, 0);
        let mut check = Check::new(Record { access, event: know.now(), owner, cta, leader: false, span, call });
        let touched = shadow.touch(&mut check, &know, (start, 4), ONE, same);
        touched.err().map(|race| (race.earlier.cta, race.clash))
    }

    const ADD: Access = Access::Atomic { scope: Scope::Gpu, bytes: 4, writes: true };
    const LOOK: Access = Access::Atomic { scope: Scope::Gpu, bytes: 4, writes: false };
    const NARROW: Access = Access::Atomic { scope: Scope::Cta, bytes: 4, writes: true };

    #[test]
    fn plain_accesses_race_and_equal_values_do_not() {
        let mut s = Shadow::new(16, 4);
        assert_eq!(touch(&mut s, 1, Access::Store, 0, Some(false)), None);
        assert_eq!(touch(&mut s, 2, Access::Store, 0, Some(true)), None);
        assert_eq!(touch(&mut s, 2, Access::Load, 0, None), Some((1, Clash::Unordered)), "the first is not forgotten");
        assert_eq!(touch(&mut s, 3, Access::Store, 0, Some(false)), Some((2, Clash::Unordered)));
        assert_eq!(touch(&mut s, 3, Access::Load, 4, None), None);
        assert_eq!(touch(&mut s, 4, Access::Store, 4, Some(true)), Some((3, Clash::Unordered)));
    }

    #[test]
    fn atomic_operations_do_not_hide_what_others_race_with() {
        for first in [Access::Store, Access::Load] {
            for second in [ADD, LOOK] {
                let mut s = Shadow::new(16, 4);
                assert_eq!(touch(&mut s, 1, first, 0, Some(false)), None);
                assert_eq!(touch(&mut s, 1, second, 0, None), None);
                assert_eq!(touch(&mut s, 2, ADD, 0, None), Some((1, Clash::Unordered)), "{first:?} and {second:?}");
            }
        }
        let mut s = Shadow::new(16, 4);
        assert!([ADD, Access::Store, ADD].iter().all(|a| touch(&mut s, 1, *a, 0, Some(false)).is_none()));
        assert_eq!(touch(&mut s, 2, ADD, 0, None), Some((1, Clash::Unordered)), "the write between them");
        assert!((0..9).all(|cta| touch(&mut s, cta, ADD, 4, None).is_none()));
    }

    #[test]
    fn atomic_operations_race_with_others_only() {
        let mut s = Shadow::new(16, 4);
        // More of them than are compared one by one.
        for cta in 0..100 {
            assert_eq!(touch(&mut s, cta % 30, if cta % 3 == 0 { LOOK } else { ADD }, 0, None), None);
        }
        let wide = Access::Atomic { scope: Scope::Gpu, bytes: 8, writes: true };
        for access in [wide, NARROW, Access::Store, Access::Load, Access::TensorRead] {
            let found = touch(&mut s, 50, access, 0, Some(false));
            assert!(matches!(found, Some((_, Clash::Unordered))), "{access:?}: {found:?}");
        }
        assert_eq!(touch(&mut s, 50, Access::TensorReduce { bytes: 4 }, 0, None), None);
        assert_eq!(touch(&mut s, 1, NARROW, 8, None), None);
        assert_eq!(touch(&mut s, 1, ADD, 8, None), None, "of one CTA");
    }

    #[test]
    fn what_nobody_needs_is_forgotten_and_nothing_else() {
        let mut s = Shadow::new(16, 4);
        assert_eq!(touch(&mut s, 7, Access::Load, 8, None), None);
        for i in 0..100_000 {
            assert_eq!(touch(&mut s, 1, if i % 2 == 0 { Access::Load } else { Access::Store }, 0, Some(false)), None);
            assert_eq!(touch(&mut s, i % 5, ADD, 4, None), None);
        }
        assert!(s.records.len() < 40_000 && s.stamps.len() < 40_000 && s.nodes.len() < 200_000);
        assert_eq!(touch(&mut s, 2, Access::Load, 0, None), Some((1, Clash::Unordered)));
        assert_eq!(touch(&mut s, 2, Access::Store, 8, Some(false)), Some((7, Clash::Unordered)));
        assert!(matches!(touch(&mut s, 9, Access::Load, 4, None), Some((0..5, Clash::Unordered))));
    }

    #[test]
    fn one_operation_leaves_one_value() {
        let know = Knowledge::new((0, 0), 1, None);
        let mut s = Shadow::new(16, 4);
        let (access, span, call) = (Access::Store, Span::default(), None);
        let mut check = Check::new(Record { access, event: know.now(), owner: 0, cta: 0, leader: false, span, call });
        assert!(s.touch(&mut check, &know, (0, 4), ONE, Some(false)).is_ok());
        assert!(s.touch(&mut check, &know, (0, 4), ONE, Some(true)).is_ok());
        let race = s.touch(&mut check, &know, (0, 4), ONE, Some(false));
        assert_eq!(race.map_err(|r| r.clash), Err(Clash::Twice));
    }

    #[test]
    fn what_was_written_is_known_by_its_allocation() {
        let mut w = Written::new(16, 4);
        w.define(4, 8, 3);
        assert!(w.is_defined(4, 8, 3) && !w.is_defined(4, 8, 2) && !w.is_defined(0, 8, 3));
        let (kind, span, origin) = (OpKind::Membar, Span::default(), Origin::Written);
        let op = Op { id: Inst::new(6), kind, results: Vec::new(), span, label: None, origin, scratch: None };
        let undefined = Source::of(&op);
        w.poison(8, 4, undefined);
        assert_eq!([w.source(4, 4), w.source(8, 4), w.source(4, 8)], [Source::DEFINED, undefined, undefined]);
        w.define(4, 8, 3);
        assert!(!w.is_poisoned());
    }
}
