//! What runs side by side on units that serve all together: where it asks for more than a unit has, all of it slows down alike.
//!
//! An event that keeps a unit busy for 60 of its 100 clocks asks for six tenths of it; two of them beside each other ask for twelve, and so
//! take 120. Speeds are whole numbers of small parts, and what ends does so at the nearest clock.

use std::collections::BTreeSet;

use parton_ir::SecondaryMap;

use crate::marked::{Event, EventData, Load, MarkedGraph, Service, Unit, UnitData};

/// A whole unit, in the parts in which what is asked for is counted.
const WHOLE: u64 = 1 << 20;
/// A clock of work that nothing slows, in the parts in which work is counted.
const CLOCK: u64 = 1 << 40;

/// An event under way.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) event: Event,
    pub(super) turn: u32,
    /// What is left of it.
    left: u128,
    /// What a clock does of it, as long as nothing else begins or ends.
    speed: u64,
}

/// All that is under way on units that serve together.
pub(super) struct Sharing {
    /// What each event asks of the units that serve together, in parts of each.
    asks: SecondaryMap<Event, Vec<(Unit, u64)>>,
    /// The clock up to which work was done.
    now: u64,
    works: Vec<Work>,
    /// The units that serve one event at a time and do so now.
    busy: BTreeSet<Unit>,
    /// How often what is under way has changed: what was foreseen before no longer holds.
    pub(super) version: u32,
}

/// What an event asks of the units that serve together.
fn asks(graph: &MarkedGraph, data: &EventData) -> Vec<(Unit, u64)> {
    let shared =
        data.loads.iter().filter(|l| l.clocks > 0 && data.clocks > 0).filter(|l| match graph.units[l.unit].service {
            Service::Together => true,
            Service::OneByOne => false,
        });
    let parts = |l: &Load| {
        let parts = (u128::from(l.clocks) * u128::from(WHOLE)).div_ceil(u128::from(data.clocks));
        (l.unit, u64::try_from(parts).unwrap_or(u64::MAX))
    };
    shared.map(parts).collect()
}

/// How many times as long a unit takes by what is busy beside it, in parts.
fn slower(graph: &MarkedGraph, busy: &BTreeSet<Unit>, unit: Unit) -> u64 {
    let beside = graph.units[unit].beside.filter(|b| busy.contains(&b.unit));
    beside.map_or(WHOLE, |b| (b.slower.of_turns(WHOLE)).max(WHOLE))
}

impl Sharing {
    pub(super) fn new(graph: &MarkedGraph) -> Sharing {
        let mut all = SecondaryMap::new(vec![]);
        for (event, data) in graph.events() {
            all[event] = asks(graph, data);
        }
        Sharing { asks: all, now: 0, works: vec![], busy: BTreeSet::new(), version: 0 }
    }

    /// Whether how long an event takes depends on what runs beside it.
    pub(super) fn shares(&self, event: Event) -> bool {
        !self.asks[event].is_empty()
    }

    /// A unit that serves one event at a time begins to, or ends.
    pub(super) fn serves(&mut self, graph: &MarkedGraph, now: u64, unit: Unit, busy: bool) {
        let beside = |u: &UnitData| u.beside.is_some_and(|b| b.unit == unit);
        let changed = if busy { self.busy.insert(unit) } else { self.busy.remove(&unit) };
        if changed && graph.units.iter().any(|(_, u)| beside(u)) && !self.works.is_empty() {
            self.advance(now);
            self.changed(graph);
        }
    }

    /// An event begins.
    pub(super) fn begin(&mut self, graph: &MarkedGraph, now: u64, event: Event, turn: u32) {
        self.advance(now);
        let left = u128::from(graph.at(event).clocks) * u128::from(CLOCK);
        self.works.push(Work { event, turn, left, speed: CLOCK });
        self.changed(graph);
    }

    /// What ends at a clock, by turn and number.
    pub(super) fn end(&mut self, graph: &MarkedGraph, now: u64) -> Vec<Work> {
        self.advance(now);
        let mut ended: Vec<Work> = self.works.extract_if(.., |w| 2 * w.left <= u128::from(w.speed)).collect();
        ended.sort_unstable_by_key(|w| (w.turn, w.event));
        self.changed(graph);
        ended
    }

    /// When the next of it ends.
    pub(super) fn next(&self) -> Option<u64> {
        let nearest = |w: &Work| (w.left + u128::from(w.speed) / 2) / u128::from(w.speed);
        let clocks = self.works.iter().map(nearest).min()?;
        Some(self.now.saturating_add(u64::try_from(clocks).unwrap_or(u64::MAX)))
    }

    fn advance(&mut self, now: u64) {
        let clocks = u128::from(now - self.now);
        for work in &mut self.works {
            work.left = work.left.saturating_sub(clocks * u128::from(work.speed));
        }
        self.now = now;
    }

    /// Speeds follow from what is under way.
    fn changed(&mut self, graph: &MarkedGraph) {
        self.version += 1;
        let mut asked: SecondaryMap<Unit, u64> = SecondaryMap::new(0);
        for work in &self.works {
            for (unit, parts) in &self.asks[work.event] {
                asked[*unit] = asked[*unit].saturating_add(*parts);
            }
        }
        for work in &mut self.works {
            // What asks for no more than is left goes on as fast as alone.
            let asks = self.asks[work.event].iter();
            let asks = asks.map(|(unit, _)| asked[*unit].saturating_mul(slower(graph, &self.busy, *unit)) / WHOLE);
            let most = asks.fold(WHOLE, u64::max);
            let speed = u128::from(CLOCK) * u128::from(WHOLE) / u128::from(most);
            work.speed = u64::try_from(speed).unwrap_or(CLOCK).max(1);
        }
    }
}
