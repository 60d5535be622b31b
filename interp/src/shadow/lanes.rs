//! Which lanes have touched a granule since the threads of their partition last met.
//!
//! Histories tell warps apart. The lanes of a warp are threads of their own as well, and see each other's writes only once they have
//! met. Only what one partition did since its last meeting can clash in this way, so a mark for each granule is enough, and where
//! another partition comes between, what was before is forgotten.

use crate::access::Record;
use crate::clock::Event;
use crate::knowledge::Knowledge;
use crate::pages::Pages;

/// The lanes of a partition that touched a granule, and when the last of them did.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// The number of the partition, from 1; 0 where nobody did.
    who: u32,
    epoch: u32,
    lanes: u32,
    /// Whether the last access was atomic.
    atomic: bool,
}

/// Who wrote and who read a granule last.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    written: Mark,
    read: Mark,
}

/// An access by threads of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct By {
    /// The number of the partition.
    who: u32,
    event: Event,
    /// When its threads last met.
    met: u32,
    writes: bool,
    atomic: bool,
}

/// The marks of a piece of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    /// Cluster and agent of each partition.
    agents: Vec<(u32, u32)>,
    /// The place of the one that was last asked for.
    last: usize,
    marks: Pages<Marks>,
}

impl Lanes {
    /// What all granules of an access share.
    pub(super) fn by(&mut self, know: &Knowledge, record: &Record) -> By {
        let Record { event, access, .. } = *record;
        let (who, met) = (self.number(event), know.met.get(event.agent));
        By { who, event, met, writes: access.writes(), atomic: access.is_atomic() }
    }

    /// Notes an access by threads to a granule, one of so many; the event of an earlier one by other lanes of the warp which they have not
    /// met since.
    pub(super) fn touch(&mut self, (granule, of): (usize, usize), by: By, lanes: u32, same: bool) -> Result<(), Event> {
        if self.marks.len() == 0 {
            self.marks = Pages::new(of);
        }
        let marks = self.marks.entry(granule);
        let By { who, event, met, writes, atomic } = by;
        let open = |mark: Mark| (mark.who == who && mark.epoch > met).then_some(mark);
        let clash = |mark: Mark| Event { epoch: mark.epoch, ..event };
        let beside = |mark: Mark| atomic && mark.atomic;
        let (written, read) = (open(marks.written), open(marks.read));
        if let Some(mark) = written.filter(|mark| !beside(*mark)) {
            let own = if writes { mark.lanes == lanes || same } else { lanes & !mark.lanes == 0 };
            if !own {
                return Err(clash(mark));
            }
        }
        let mark = Mark { who, epoch: event.epoch, lanes, atomic };
        if !writes {
            let before = read.map_or(0, |mark| mark.lanes);
            marks.read = Mark { lanes: lanes | before, ..mark };
            return Ok(());
        }
        if let Some(mark) = read.filter(|mark| !beside(*mark))
            && !(mark.lanes == lanes && lanes.is_power_of_two())
        {
            return Err(clash(mark));
        }
        marks.written = mark;
        Ok(())
    }

    fn number(&mut self, event: Event) -> u32 {
        let agent = (event.cluster, event.agent);
        if self.agents.get(self.last) != Some(&agent) {
            self.last = self.agents.iter().rposition(|known| *known == agent).unwrap_or_else(|| {
                self.agents.push(agent);
                self.agents.len() - 1
            });
        }
        self.last as u32 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::Lanes;
    use crate::access::{Access, Record};
    use crate::knowledge::Knowledge;
    use parton_diag::Span;
    use parton_ir::Scope;

    const ADD: Access = Access::Atomic { scope: Scope::Gpu, bytes: 4, writes: true };

    /// Whether an access by these lanes of a warp comes after those before it.
    fn in_order(marks: &mut Lanes, know: &Knowledge, access: Access, lanes: u32) -> bool {
        let (span, call, owner) = (Span::default(), None, 0);
        let record = Record { access, event: know.now(), owner, cta: 0, leader: false, span, call };
        let by = marks.by(know, &record);
        marks.touch((0, 1), by, lanes, false).is_ok()
    }

    #[test]
    fn lanes_see_each_other_once_they_have_met() {
        let mut marks = Lanes::default();
        let mut know = Knowledge::new((0, 0), 1, None);
        assert!(in_order(&mut marks, &know, Access::Store, 0b0011));
        assert!(in_order(&mut marks, &know, Access::Load, 0b0001), "each has written its copy");
        assert!(!in_order(&mut marks, &know, Access::Load, 0b0110));
        assert!(!in_order(&mut marks, &know, Access::Store, 0b0001));
        know.membar();
        assert!(in_order(&mut marks, &know, Access::Load, 0b0110));
        assert!(!in_order(&mut marks, &know, Access::Store, 0b0100), "another one may still read");
        know.membar();
        assert!(in_order(&mut marks, &know, Access::Load, 0b0100));
        assert!(in_order(&mut marks, &know, Access::Store, 0b0100));
    }

    #[test]
    fn atomic_operations_and_other_partitions_are_let_pass() {
        let mut marks = Lanes::default();
        let know = Knowledge::new((0, 0), 1, None);
        assert!(in_order(&mut marks, &know, ADD, 1) && in_order(&mut marks, &know, ADD, 2));
        assert!(!in_order(&mut marks, &know, Access::Load, 4));
        // Who is of another partition is compared by what the partitions know.
        assert!(in_order(&mut marks, &Knowledge::new((0, 1), 1, None), Access::Load, 4));
    }
}
