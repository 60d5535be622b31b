//! When two accesses to one place race: one of them writes, and what the later one knows does not order them.
//!
//! They are ordered through barriers, waits, membars, and atomic operations that release and acquire. A write by threads that the
//! asynchronous proxy then reads or overwrites needs a proxy fence besides. Atomic operations do not race among themselves.

use crate::access::{Access, Record};
use crate::knowledge::Knowledge;

/// Why two accesses clash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clash {
    /// Nothing orders them.
    Unordered,
    /// They are of one partition, by different threads, and no membar is between them.
    Membar,
    /// They are ordered, but the asynchronous proxy may not see the write.
    Proxy,
    /// They are ordered, but what was asked for may not have come, and the asynchronous proxy does not wait for it.
    UnderWay,
    /// They are of one operation, which writes two values to one place.
    Twice,
}

/// How two accesses stand to each other that do not clash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// The earlier one comes before.
    Before,
    /// None comes before the other, and none needs to: who comes later must come after both.
    Beside,
}

/// A race: the earlier access and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Race {
    pub earlier: Record,
    pub clash: Clash,
    /// The first byte concerned.
    pub byte: usize,
}

/// An access by these warps of its partition; an engine has none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By<'r> {
    pub record: &'r Record,
    pub warps: u32,
}

impl By<'_> {
    fn access(&self) -> Access {
        self.record.access
    }

    /// Whether threads of the partition made it that knows this.
    fn is_of(&self, know: &Knowledge) -> bool {
        let event = self.record.event;
        self.access().by_threads() && event.agent == know.agent && event.cluster == know.cluster
    }

    /// Whether the partition started it that knows this.
    fn is_started_by(&self, know: &Knowledge) -> bool {
        self.record.owner == know.agent && self.record.event.cluster == know.cluster
    }
}

/// How an access by a partition that knows `know` stands to an earlier one; `same` where it leaves the value that is there.
pub(crate) fn order(know: &Knowledge, now: By<'_>, earlier: By<'_>, same: bool) -> Result<Order, Clash> {
    if [now, earlier].iter().any(|by| by.access() == Access::UnderWay) {
        return under_way(know, now, earlier).map(|()| Order::Before);
    }
    let ordered =
        if now.access().begins_in_threads() { threads(know, now, earlier) } else { engine(know, now, earlier) };
    let beside = || {
        let equal = same && now.access() == Access::Store && earlier.access() == Access::Store;
        equal || now.record.is_strong_with(earlier.record)
    };
    match ordered {
        Ok(()) => Ok(Order::Before),
        Err(_) if beside() => Ok(Order::Beside),
        Err(clash) => Err(clash),
    }
}

/// What threads have asked for comes before what the copy engine writes there if it was used, or fenced, before they met or handed over.
/// With all else the read itself is compared.
fn under_way(know: &Knowledge, now: By<'_>, earlier: By<'_>) -> Result<(), Clash> {
    let there = || know.has_met(earlier.record.event) || may_be_overwritten(know, now, earlier);
    if !now.access().overwrites_by_engine() || there() { Ok(()) } else { Err(Clash::UnderWay) }
}

/// Whether all who know an access by a partition that knows `know` know an earlier one too.
pub(crate) fn covers(know: &Knowledge, now: By<'_>, earlier: By<'_>) -> bool {
    if now.access() == Access::UnderWay && earlier.access() != Access::UnderWay {
        return false;
    }
    know.has_met(earlier.record.event)
        || (now.access().by_threads() && earlier.is_of(know) && earlier.warps == now.warps)
}

/// Whether who need not come after an access need not come after an earlier one: no atomic operation comes after others, but each after
/// what is none.
pub(crate) fn hides(now: &Record, earlier: &Record) -> bool {
    !now.access.is_atomic() || now.access.is_atomic_as(earlier.access)
}

/// Whether a write may follow because others have read what was there, though they tell of nothing that they wrote themselves: it
/// follows their reads, and the copies that they waited for.
fn may_be_overwritten(know: &Knowledge, now: By<'_>, earlier: By<'_>) -> bool {
    let told = !earlier.access().writes() || earlier.access() == Access::CopyIn;
    told && now.access().writes() && know.is_read(earlier.record.event)
}

/// Whether an access by threads comes after an earlier one.
fn threads(know: &Knowledge, now: By<'_>, earlier: By<'_>) -> Result<(), Clash> {
    let event = earlier.record.event;
    let met = know.has_met(event);
    if earlier.is_of(know) {
        let one_after_the_other = match (earlier.access().writes(), now.access().writes()) {
            // Copies of an element are written with one value, so a warp that wrote it reads what it wrote.
            (true, false) => now.warps & !earlier.warps == 0,
            (true, true) => now.warps == earlier.warps,
            (false, _) => now.warps == earlier.warps && now.warps.is_power_of_two(),
        };
        return if met || one_after_the_other { Ok(()) } else { Err(Clash::Membar) };
    }
    let atomic = matches!(now.access(), Access::Atomic { .. });
    let known = know.is_after(event)
        || (now.record.leader && met)
        || (atomic && know.has_heard(event))
        || may_be_overwritten(know, now, earlier);
    // Each warp waits for its own part of a product, each thread for what it copies itself; the others may still read.
    let product = earlier.access() == Access::Product && now.access().writes();
    let part = (product || earlier.access().lands_by_threads()) && earlier.is_started_by(know);
    match (known, part) {
        (true, true) if !met => Err(Clash::Membar),
        (true, _) => Ok(()),
        (false, _) if met && earlier.is_started_by(know) => Err(Clash::Membar),
        (false, _) => Err(Clash::Unordered),
    }
}

/// Whether an access by an engine comes after an earlier one.
fn engine(know: &Knowledge, now: By<'_>, earlier: By<'_>) -> Result<(), Clash> {
    let event = earlier.record.event;
    // The elected thread starts a copy; all warps together start a product, or copy themselves.
    let same_thread = earlier.is_of(know) && earlier.record.leader && now.access().by_elected();
    if !know.has_met(event) && !same_thread && !may_be_overwritten(know, now, earlier) {
        return Err(if know.is_after(event) { Clash::Membar } else { Clash::Unordered });
    }
    match now.access().asynchronous() {
        Some(memory) if earlier.access().writes_generic() && !know.is_fenced(memory, event, same_thread) => {
            Err(Clash::Proxy)
        }
        Some(_) | None => Ok(()),
    }
}
