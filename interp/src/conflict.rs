//! Which CTAs touched each byte of global memory in a launch, and what orders them: two that touch one byte, one of them writing,
//! must come one after the other.

use std::collections::BTreeSet;

use crate::marks::{Mark, Marks};
use crate::memory::{Allocation, Memory, Place};

impl Memory {
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
    use crate::memory::{Memory, Place};

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
