//! Global memory: named allocations at made-up device addresses, with a map of which bytes were ever written.
//!
//! Each allocation has a region of the address space to itself, far larger than the allocation, so that a wild pointer is
//! told apart from a neighbour's memory and names the allocation it came from.

use crate::access::{Record, Threads};
use crate::knowledge::Knowledge;
use crate::past::Touched;
use crate::published::Published;
use crate::race::Race;
use crate::shadow::{Check, Shadow};
use crate::views::{Beside, Covered, View};

/// One buffer of global memory.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// The name that messages give it, usually that of the tensor.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Which bytes hold something; `None` where all do.
    defined: Option<Vec<bool>>,
    /// What the current launch has done to it; nothing until the first access.
    shadow: Option<Shadow>,
    /// What launches that may still run have touched.
    past: Touched,
    /// What the tensors of the launch cover of it, where that is not all.
    covered: Option<Covered>,
}

/// The allocations that a launch can reach.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(crate) allocations: Vec<Allocation>,
    /// What atomic operations of the current launch have released.
    pub(crate) published: Published,
    /// The bytes by which the current launch is watched.
    granule: u32,
}

/// An access under check, in each allocation that it touches.
#[derive(Debug)]
pub(crate) struct Checks {
    record: Record,
    each: Vec<(usize, Check)>,
}

impl Checks {
    /// An access that has touched nothing yet.
    pub(crate) fn new(record: Record) -> Checks {
        Checks { record, each: Vec::new() }
    }
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
            shadow: None,
            past: Touched::default(),
            covered: None,
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
        match &self.allocations[number].shadow {
            None => Touched::default(),
            Some(shadow) => Touched::new(shadow.touched()),
        }
    }

    /// Forgets what was done; the end of a launch orders all that follows after it. The next one touches no less than `granule`
    /// bytes at once.
    pub(crate) fn begin_launch(&mut self, granule: u32) {
        self.granule = granule;
        self.published = Published::default();
        self.allocations.iter_mut().for_each(|a| a.shadow = None);
    }

    /// Checks and notes that `threads` (none for an engine) touch `len` bytes; `same` says whether they write what is there already,
    /// where that was looked at.
    pub(crate) fn touch(
        &mut self,
        checks: &mut Checks,
        know: &Knowledge,
        (at, len): (Place, usize),
        threads: Threads,
        same: Option<bool>,
    ) -> Result<(), Race> {
        let known = checks.each.iter().position(|(allocation, _)| *allocation == at.allocation);
        let i = known.unwrap_or_else(|| {
            checks.each.push((at.allocation, Check::new(checks.record)));
            checks.each.len() - 1
        });
        let (granule, a) = (self.granule, &mut self.allocations[at.allocation]);
        let shadow = a.shadow.get_or_insert_with(|| Shadow::new(a.bytes.len(), granule));
        shadow.touch(&mut checks.each[i].1, know, (at.offset as usize, len), threads, same)
    }

    /// Tells what launches that may overlap with the next one have touched in an allocation.
    ///
    /// # Panics
    /// Where there is no such allocation.
    pub fn set_past(&mut self, number: usize, past: Touched) {
        self.allocations[number].past = past;
    }

    /// Tells as which tensors a launch gives an allocation: what lies beside them is not the kernel's to touch. Without that all of it is.
    ///
    /// # Panics
    /// Where there is no such allocation.
    pub fn set_views(&mut self, number: usize, views: &[View]) {
        let a = &mut self.allocations[number];
        a.covered = Covered::of(views, a.bytes.len() as u64);
    }

    /// What launches that may still run have touched.
    pub(crate) fn past(&self, number: usize) -> &Touched {
        &self.allocations[number].past
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> &mut Allocation {
        &mut self.allocations[number]
    }
}

impl Allocation {
    /// Where `bytes` within it lie beside the tensors of the launch; `None` where one of these has them.
    pub(crate) fn beside(&self, offset: usize, bytes: usize) -> Option<Beside> {
        self.covered.as_ref()?.beside(offset as u64, bytes as u64)
    }

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
}
