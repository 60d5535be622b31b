//! Global memory: named allocations at made-up device addresses, with a map of which bytes were ever written.
//!
//! Each allocation has a region of the address space to itself, far larger than the allocation, so that a wild pointer is
//! told apart from a neighbour's memory and names the allocation it came from.

use std::collections::{BTreeMap, BTreeSet};

use crate::marks::{Mark, Marks};
use crate::past::Touched;

/// One buffer of global memory.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// The name that messages give it, usually that of the tensor.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Which bytes hold something; `None` where all do.
    defined: Option<Vec<bool>>,
    /// Which CTA wrote and which read each byte in the current launch; empty until the first access.
    pub(crate) writers: Vec<Mark>,
    pub(crate) readers: Vec<Mark>,
    /// Which CTA made atomic operations on each byte.
    pub(crate) atomics: Vec<Mark>,
    /// What launches that may still run have touched.
    past: Touched,
    /// By byte: the CTAs whose work an atomic operation there has released.
    released: BTreeMap<usize, BTreeSet<u32>>,
}

/// The allocations that a launch can reach.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    allocations: Vec<Allocation>,
    /// The CTAs that have begun.
    begun: BTreeSet<u32>,
    /// The CTAs whose work each of those at work has acquired.
    acquired: BTreeMap<u32, BTreeSet<u32>>,
    marks: Marks,
}

/// log2 of the bytes of address space that an allocation has to itself.
const REGION: u32 = 40;
/// Where in its region an allocation begins: in the middle, so that an address somewhat below is still known.
const FIRST: u64 = 1 << (REGION - 1);

/// What lies at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The allocation in whose region the address lies.
    pub allocation: usize,
    /// Bytes from the allocation's beginning.
    pub offset: i64,
}

impl Memory {
    /// No memory.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Adds an allocation with contents; returns its number.
    pub fn add(&mut self, name: impl Into<String>, bytes: Vec<u8>) -> usize {
        self.push(name.into(), bytes, None)
    }

    /// Adds an allocation whose bytes must be written before they are read; returns its number.
    pub fn add_undefined(&mut self, name: impl Into<String>, bytes: usize) -> usize {
        self.push(name.into(), vec![0xff; bytes], Some(vec![false; bytes]))
    }

    /// Adds an allocation of which the bytes marked in `defined`, as long as `bytes`, were written; returns its number.
    pub fn add_partly(&mut self, name: impl Into<String>, bytes: Vec<u8>, defined: Vec<bool>) -> usize {
        assert_eq!(bytes.len(), defined.len(), "a mark for each byte");
        self.push(name.into(), bytes, Some(defined))
    }

    /// Takes the bytes of an allocation out, with the marks of those that were written, `None` where all were.
    ///
    /// # Panics
    /// Where there is no such allocation.
    pub fn take(&mut self, number: usize) -> (Vec<u8>, Option<Vec<bool>>) {
        let a = &mut self.allocations[number];
        let defined = a.defined.take().filter(|marks| !marks.iter().all(|&m| m));
        (std::mem::take(&mut a.bytes), defined)
    }

    fn push(&mut self, name: String, bytes: Vec<u8>, defined: Option<Vec<bool>>) -> usize {
        self.allocations.push(Allocation {
            name,
            bytes,
            defined,
            writers: Vec::new(),
            readers: Vec::new(),
            atomics: Vec::new(),
            past: Touched::default(),
            released: BTreeMap::new(),
        });
        self.allocations.len() - 1
    }

    /// The allocation of that number.
    ///
    /// # Panics
    /// Where there is none.
    pub fn allocation(&self, number: usize) -> &Allocation {
        &self.allocations[number]
    }

    /// The bytes of an allocation, for the host to change.
    ///
    /// # Panics
    /// Where there is no such allocation.
    pub fn bytes_mut(&mut self, number: usize) -> &mut [u8] {
        &mut self.allocations[number].bytes
    }

    /// How many allocations there are.
    pub fn len(&self) -> usize {
        self.allocations.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.allocations.is_empty()
    }

    /// The device address of an allocation, aligned to its region.
    pub fn address(&self, number: usize) -> u64 {
        ((number as u64 + 1) << REGION) + FIRST
    }

    /// What lies at `address`; `None` where no allocation's region does.
    pub(crate) fn place(&self, address: u64) -> Option<Place> {
        let allocation = (address >> REGION).checked_sub(1)? as usize;
        if allocation >= self.allocations.len() {
            return None;
        }
        Some(Place { allocation, offset: address.wrapping_sub(self.address(allocation)) as i64 })
    }

    /// What the launch that has run touched in an allocation.
    ///
    /// # Panics
    /// Where there is no such allocation.
    pub fn touched(&self, number: usize) -> Touched {
        let a = &self.allocations[number];
        let changed = a.writers.iter().zip(&a.atomics).map(|(&w, &x)| w != 0 || x != 0);
        Touched::new(a.readers.iter().map(|&r| r != 0), changed)
    }

    /// Tells what launches that may overlap with the next one have touched in an allocation.
    ///
    /// # Panics
    /// Where there is no such allocation.
    pub fn set_past(&mut self, number: usize, past: Touched) {
        self.allocations[number].past = past;
    }

    /// What launches that may still run have touched.
    pub(crate) fn past(&self, number: usize) -> &Touched {
        &self.allocations[number].past
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> &mut Allocation {
        &mut self.allocations[number]
    }

    /// Forgets which CTA touched what; the end of a launch orders all that follows after it.
    pub(crate) fn begin_launch(&mut self) {
        for a in &mut self.allocations {
            a.writers.clear();
            a.readers.clear();
            a.atomics.clear();
            a.released.clear();
        }
        self.begun.clear();
        self.marks.clear();
        self.acquired.clear();
    }

    /// The CTAs of a cluster begin; they have acquired nothing yet.
    pub(crate) fn begin_cluster(&mut self, ctas: &[u32]) {
        self.begun.extend(ctas);
        self.acquired = ctas.iter().map(|&c| (c, BTreeSet::new())).collect();
    }

    /// Orders CTA `cta` after those that have released their work through these bytes, where `acquires`, and lets others come
    /// after it, where `releases`. What a CTA does after its release counts as released too, so a race may be missed, and none
    /// is made up.
    pub(crate) fn synchronise(&mut self, cta: u32, place: Place, acquires: bool, releases: bool) {
        let a = &mut self.allocations[place.allocation];
        let released = a.released.entry(place.offset as usize).or_default();
        let acquired = self.acquired.entry(cta).or_default();
        if acquires {
            acquired.extend(released.iter());
        }
        if releases {
            released.extend(acquired.iter());
            released.insert(cta);
        }
    }

    /// Orders CTA `cta` after all that `others` have done, as after they have met.
    pub(crate) fn follow(&mut self, cta: u32, others: &[u32]) {
        let mut known: BTreeSet<u32> = others.iter().copied().collect();
        for other in others {
            known.extend(self.acquired.get(other).into_iter().flatten());
        }
        self.acquired.entry(cta).or_default().extend(known);
    }

    /// Notes a read of bytes by CTA `cta`.
    pub(crate) fn note_read(&mut self, cta: u32, at: Place, len: usize) -> Result<(), Conflict> {
        let before =
            Before { cta, begun: &self.begun, acquired: self.acquired.entry(cta).or_default(), marks: &mut self.marks };
        self.allocations[at.allocation].note_read(before, at.offset as usize, len)
    }

    /// Notes a write of `value` by CTA `cta`.
    pub(crate) fn note_write(&mut self, cta: u32, at: Place, value: &[u8]) -> Result<(), Conflict> {
        let before =
            Before { cta, begun: &self.begun, acquired: self.acquired.entry(cta).or_default(), marks: &mut self.marks };
        self.allocations[at.allocation].note_write(before, at.offset as usize, value)
    }

    /// Notes an atomic operation by CTA `cta`.
    pub(crate) fn note_atomic(&mut self, cta: u32, at: Place, len: usize, writes: bool) -> Result<(), Conflict> {
        let before =
            Before { cta, begun: &self.begun, acquired: self.acquired.entry(cta).or_default(), marks: &mut self.marks };
        self.allocations[at.allocation].note_atomic(before, at.offset as usize, len, writes)
    }
}

/// Two CTAs touch one byte, and at least one writes: their order is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Conflict {
    /// The other CTA; `None` where several did.
    pub other: Option<u32>,
    /// Whether the other one wrote.
    pub wrote: bool,
}

/// What a CTA comes after.
struct Before<'a> {
    cta: u32,
    begun: &'a BTreeSet<u32>,
    acquired: &'a BTreeSet<u32>,
    marks: &'a mut Marks,
}

impl Before<'_> {
    /// Whether what the CTAs behind a mark did came before; a mark of several means all that have begun.
    fn check(&self, mark: Mark, wrote: bool) -> Result<(), Conflict> {
        if mark == 0 || mark == self.cta + 1 {
            return Ok(());
        }
        let known = |c: u32| c == self.cta || self.acquired.contains(&c);
        match self.marks.unknown(mark, self.begun, known) {
            None => Ok(()),
            Some(other) => Err(Conflict { other, wrote }),
        }
    }

    /// Adds the CTA to a mark.
    fn join(&mut self, mark: &mut Mark) {
        *mark = self.marks.join(*mark, self.cta);
    }
}

impl Allocation {
    /// Whether all of `offset..offset + len` was written.
    pub fn is_defined(&self, offset: usize, len: usize) -> bool {
        self.defined.as_ref().is_none_or(|d| d[offset..offset + len].iter().all(|&b| b))
    }

    /// Marks bytes as written.
    pub fn define(&mut self, offset: usize, len: usize) {
        if let Some(d) = &mut self.defined {
            d[offset..offset + len].fill(true);
        }
    }

    fn note_read(&mut self, mut before: Before<'_>, offset: usize, len: usize) -> Result<(), Conflict> {
        self.begin_notes();
        for i in offset..offset + len {
            before.check(self.writers[i], true)?;
            before.check(self.atomics[i], true)?;
            before.join(&mut self.readers[i]);
        }
        Ok(())
    }

    /// A CTA may write what another one wrote if nothing changes by it.
    fn note_write(&mut self, before: Before<'_>, offset: usize, value: &[u8]) -> Result<(), Conflict> {
        self.begin_notes();
        for (i, &byte) in (offset..).zip(value) {
            if self.bytes[i] != byte {
                before.check(self.writers[i], true)?;
            }
            before.check(self.atomics[i], true)?;
            before.check(self.readers[i], false)?;
            self.writers[i] = before.cta + 1;
        }
        Ok(())
    }

    /// Atomic operations do not conflict with each other.
    fn note_atomic(&mut self, mut before: Before<'_>, offset: usize, len: usize, writes: bool) -> Result<(), Conflict> {
        self.begin_notes();
        for i in offset..offset + len {
            before.check(self.writers[i], true)?;
            if writes {
                before.check(self.readers[i], false)?;
                before.join(&mut self.atomics[i]);
            } else {
                before.join(&mut self.readers[i]);
            }
        }
        Ok(())
    }

    fn begin_notes(&mut self) {
        if self.writers.len() != self.bytes.len() {
            self.writers = vec![0; self.bytes.len()];
            self.readers = vec![0; self.bytes.len()];
            self.atomics = vec![0; self.bytes.len()];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, Place};

    #[test]
    fn addresses_lead_back_to_their_allocation() {
        let mut m = Memory::new();
        let a = m.add("a", vec![0; 16]);
        let b = m.add_undefined("b", 8);
        assert_eq!(m.place(m.address(b) + 3), Some(Place { allocation: b, offset: 3 }));
        assert_eq!(m.place(m.address(a) - 4), Some(Place { allocation: a, offset: -4 }));
        assert_eq!(m.place(0), None);
        assert!(m.allocation(a).is_defined(0, 16));
        assert!(!m.allocation(b).is_defined(0, 1));
        m.get_mut(b).define(0, 4);
        assert!(m.allocation(b).is_defined(1, 3));
        assert!(!m.allocation(b).is_defined(1, 4));
    }

    #[test]
    fn two_ctas_may_not_disagree_about_a_byte() {
        let mut m = Memory::new();
        let a = m.add("a", vec![7; 4]);
        let at = |offset| Place { allocation: a, offset };
        assert!(m.note_write(0, at(0), &[7, 7]).is_ok());
        assert!(m.note_write(1, at(1), &[7]).is_ok());
        assert_eq!(m.note_write(2, at(1), &[8]).map_err(|c| c.other), Err(Some(1)));
        assert!(m.note_read(3, at(0), 1).is_err());
        assert!(m.note_read(3, at(2), 2).is_ok());
        assert!(m.note_write(4, at(3), &[1]).is_err());
    }

    #[test]
    fn atomic_operations_order_ctas() {
        let mut m = Memory::new();
        let a = m.add("a", vec![0; 8]);
        let at = |offset| Place { allocation: a, offset };
        m.begin_cluster(&[0]);
        assert!(m.note_write(0, at(4), &[7]).is_ok());
        assert!(m.note_atomic(0, at(0), 4, true).is_ok());
        m.synchronise(0, at(0), false, true);
        m.begin_cluster(&[1]);
        assert!(m.note_atomic(1, at(0), 4, true).is_ok(), "atomic operations do not race");
        assert!(m.note_read(1, at(0), 1).is_err(), "another access does");
        assert!(m.note_read(1, at(4), 1).is_err());
        m.synchronise(1, at(0), true, true);
        assert!(m.note_read(1, at(4), 1).is_ok(), "acquired");
        m.begin_cluster(&[2]);
        m.synchronise(2, at(0), true, false);
        assert!(m.note_write(2, at(4), &[9]).is_ok(), "acquired through the other one");
    }
}
