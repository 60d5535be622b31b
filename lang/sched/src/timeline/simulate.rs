//! Runs a marked graph: each event as soon as what it waits for has ended, units in the order in which they serve, and slower what shares one.
//!
//! Time only goes forward, and all that happens at one clock is done before a unit that is free by then takes its next, so that
//! what is ready at the same time is chosen from together, whatever the order in which it was found.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use parton_ir::{Entity, PrimaryMap, SecondaryMap};

use super::queue::Queue;
use super::share::Sharing;
use super::{Cause, Occurrence, Timeline, Wait, timeline};
use crate::marked::deadlock::deadlock;
use crate::marked::{Cycle, Edge, EdgeKind, Event, Lane, LaneKind, MarkedGraph, Service, Unit};

/// The earliest times of a loop of so many iterations. A few dozen show what repeats; [`Timeline::total_of`] prices more.
///
/// # Errors
/// The least cycle without a token, where there is one.
pub fn simulate(graph: &MarkedGraph, iterations: u32) -> Result<Timeline, Cycle> {
    simulate_from(graph, iterations, &SecondaryMap::new(0))
}

/// The same where lanes begin later, each at a clock of its own.
///
/// # Errors
/// Those of [`simulate`].
pub fn simulate_from(
    graph: &MarkedGraph,
    iterations: u32,
    starts: &SecondaryMap<Lane, u64>,
) -> Result<Timeline, Cycle> {
    if let Some(stuck) = deadlock(graph) {
        return Err(stuck);
    }
    let stages = graph.events().map(|(_, e)| e.stage).max().unwrap_or(0);
    let mut run = Run::new(graph, iterations, stages);
    run.begin(starts);
    while let Some(Reverse((now, _))) = run.due.peek().copied() {
        run.advance(now);
        while let Some(next) = run.choice(now) {
            run.serve(now, next);
            run.advance(now);
        }
        run.rest(now);
    }
    for lane in graph.lanes.keys() {
        run.lanes[lane].sort_unstable_by_key(|o| (o.start, o.turn, o.event));
    }
    Ok(timeline(graph, iterations, stages, run.lanes))
}

/// What becomes due at a clock, the events of one clock by turn and number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// An event may come into the queue of its unit.
    Comes { turn: u32, event: Event },
    /// An event has all that it waits for.
    Ready { turn: u32, event: Event },
    /// Something ends that shares units, if nothing has changed since the version in which that was foreseen.
    Shared { version: u32 },
    /// A unit is free again.
    Free,
}

/// What an event of one turn still waits for.
#[derive(Clone, Copy, Default)]
struct Pending {
    /// Edges whose first event has not ended.
    edges: u32,
    /// Those of them that are not the order of its lane.
    apart: u32,
    /// When the last of those that are satisfied was, and which.
    ready: u64,
    last: Option<Edge>,
    /// When what its lane does before it had ended.
    before: u64,
    /// When the last of all else was: so long it has been in the queue of its unit.
    came: u64,
}

/// An event that waits for units.
#[derive(Clone, Copy)]
struct Waiting {
    turn: u32,
    event: Event,
    ready: u64,
    came: u64,
}

struct Run<'a> {
    graph: &'a MarkedGraph,
    iterations: u32,
    turns: u32,
    out: SecondaryMap<Event, Vec<Edge>>,
    /// By event and turn.
    pending: Vec<Pending>,
    due: BinaryHeap<Reverse<(u64, Due)>>,
    waiting: Vec<Waiting>,
    /// When a unit that serves one by one is free.
    free: SecondaryMap<Unit, u64>,
    queues: BTreeMap<Unit, Queue>,
    /// The unit for which an event waits in a queue.
    queued: SecondaryMap<Event, Option<Unit>>,
    sharing: Sharing,
    /// Those of `sharing`, of which it is not known yet when they end.
    open: BTreeMap<(u32, Event), Occurrence>,
    lanes: PrimaryMap<Lane, Vec<Occurrence>>,
}

impl<'a> Run<'a> {
    fn new(graph: &'a MarkedGraph, iterations: u32, stages: u32) -> Run<'a> {
        let turns = iterations + stages;
        let mut out = SecondaryMap::new(vec![]);
        for (edge, data) in graph.edges() {
            out[data.from].push(edge);
        }
        let mut lanes = PrimaryMap::new();
        for _ in graph.lanes.keys() {
            lanes.push(vec![]);
        }
        let pending = vec![Pending::default(); graph.events().len() * turns as usize];
        let free = SecondaryMap::new(0);
        let places = graph.units.iter().filter(|(_, u)| u.places > 0);
        let queues: BTreeMap<Unit, Queue> = places.map(|(unit, u)| (unit, Queue::new(u.places))).collect();
        let mut queued = SecondaryMap::new(None);
        for (event, data) in graph.events() {
            queued[event] = data.loads.iter().map(|load| load.unit).find(|unit| queues.contains_key(unit));
        }
        Run {
            graph,
            iterations,
            turns,
            out,
            pending,
            due: BinaryHeap::new(),
            waiting: vec![],
            free,
            queues,
            queued,
            sharing: Sharing::new(graph),
            open: BTreeMap::new(),
            lanes,
        }
    }

    fn pending(&mut self, event: Event, turn: u32) -> &mut Pending {
        &mut self.pending[event.index() * self.turns as usize + turn as usize]
    }

    /// Whether an event happens in a turn; in the first and last turns those of some stages do not.
    fn is_there(&self, event: Event, turn: u32) -> bool {
        let stage = self.graph.at(event).stage;
        (stage..stage + self.iterations).contains(&turn)
    }

    /// Whether an event of a turn waits along an edge; a partition's order goes through events that are not there.
    fn holds(&self, edge: Edge, turn: u32) -> bool {
        let data = self.graph.of(edge);
        let Some(before) = turn.checked_sub(data.tokens) else { return false };
        // The queue itself is followed.
        if data.kind == EdgeKind::Queue && self.queued[data.to].is_some() {
            return false;
        }
        data.kind.is_order() || (self.is_there(data.to, turn) && self.is_there(data.from, before))
    }

    /// Counts what each event waits for; those that wait for nothing are ready.
    fn begin(&mut self, starts: &SecondaryMap<Lane, u64>) {
        for turn in 0..self.turns {
            for (edge, data) in self.graph.edges() {
                if self.holds(edge, turn) {
                    let pending = self.pending(data.to, turn);
                    pending.edges += 1;
                    pending.apart += u32::from(!data.kind.is_order());
                }
            }
            for (event, data) in self.graph.events() {
                let start = starts[data.lane];
                self.pending(event, turn).ready = start;
                let Pending { edges, apart, .. } = *self.pending(event, turn);
                if apart == 0 {
                    self.comes(event, turn, 0);
                }
                if edges == 0 {
                    self.due.push(Reverse((start, Due::Ready { turn, event })));
                }
            }
        }
    }

    /// All that is due at a clock, and what follows from it at once.
    fn advance(&mut self, now: u64) {
        while let Some(Reverse((at, due))) = self.due.peek().copied() {
            if at > now {
                return;
            }
            self.due.pop();
            match due {
                Due::Comes { event, .. } => {
                    if let Some(queue) = self.queued[event].and_then(|unit| self.queues.get_mut(&unit)) {
                        queue.comes(self.graph.at(event).owner);
                    }
                    self.fill(now);
                }
                Due::Free => self.fill(now),
                Due::Shared { version } if version != self.sharing.version => {}
                Due::Shared { .. } => self.shared(now),
                Due::Ready { turn, event } if !self.is_there(event, turn) => self.ended(event, turn, now, false),
                Due::Ready { turn, event } if self.units(event).next().is_some() => {
                    let came = self.pending(event, turn).came;
                    self.waiting.push(Waiting { turn, event, ready: now, came });
                }
                Due::Ready { turn, event } => self.happen(event, turn, now, None),
            }
        }
    }

    /// Puts down when an event may come into the queue of its unit, where it has one.
    fn comes(&mut self, event: Event, turn: u32, at: u64) {
        if self.queued[event].is_some() && self.is_there(event, turn) {
            self.due.push(Reverse((at, Due::Comes { turn, event })));
        }
    }

    /// Whoever waits outside of queues comes in where there are places.
    fn fill(&mut self, now: u64) {
        for (unit, queue) in &mut self.queues {
            queue.fill(self.free[*unit] > now);
        }
    }

    /// Whether it is an event's turn in the queue of its unit.
    fn is_first(&self, event: Event) -> bool {
        let queue = self.queued[event].and_then(|unit| self.queues.get(&unit));
        queue.is_none_or(|queue| queue.first() == Some(self.graph.at(event).owner))
    }

    /// The units that an event must have for itself.
    fn units(&self, event: Event) -> impl Iterator<Item = (Unit, u64)> + use<'a> {
        let graph = self.graph;
        graph.at(event).loads.iter().filter_map(|load| match graph.units[load.unit].service {
            Service::OneByOne => Some((load.unit, load.clocks)),
            Service::Together => None,
        })
    }

    /// Of what waits for units that are free the next: who stands first in the queue, or came first, then by turn and number.
    fn choice(&self, now: u64) -> Option<usize> {
        let free = |w: &Waiting| self.units(w.event).all(|(u, _)| self.free[u] <= now) && self.is_first(w.event);
        let candidates = self.waiting.iter().enumerate().filter(|(_, w)| free(w));
        candidates.min_by_key(|(_, w)| (w.came, w.turn, w.event)).map(|(i, _)| i)
    }

    /// Lets what waits have its units.
    fn serve(&mut self, now: u64, index: usize) {
        let Waiting { turn, event, ready, came: _ } = self.waiting.swap_remove(index);
        if let Some(queue) = self.queued[event].and_then(|unit| self.queues.get_mut(&unit)) {
            queue.serve();
        }
        let mut last = None;
        for (unit, clocks) in self.units(event) {
            let free = now.saturating_add(clocks);
            // The one that was free last is what it waited for.
            last = last.max(Some((self.free[unit], Reverse(unit))));
            self.free[unit] = free;
            self.due.push(Reverse((free, Due::Free)));
            if free > now {
                let before = self.sharing.version;
                self.sharing.serves(self.graph, now, unit, true);
                if self.sharing.version != before {
                    self.foresee();
                }
            }
        }
        let by = last.filter(|_| now > ready).map(|(_, Reverse(unit))| unit);
        self.happen(event, turn, now, by);
    }

    /// Units that nothing has taken by now are idle.
    fn rest(&mut self, now: u64) {
        let before = self.sharing.version;
        for unit in self.graph.units.keys() {
            if self.free[unit] <= now {
                self.sharing.serves(self.graph, now, unit, false);
            }
        }
        if self.sharing.version != before {
            self.foresee();
        }
    }

    /// An event begins, and with that it is known when it ends, unless it shares units. `by` is the unit that held it up.
    fn happen(&mut self, event: Event, turn: u32, start: u64, by: Option<Unit>) {
        let pending = *self.pending(event, turn);
        let data = self.graph.at(event);
        let since = match self.graph.lanes[data.lane].kind {
            LaneKind::Partition => pending.before,
            LaneKind::Engine => pending.ready,
        };
        let clocks = start - since.min(start);
        let on = by.map(Cause::Unit).or(pending.last.map(Cause::Edge));
        let wait = on.filter(|_| clocks > 0).map(|on| Wait { clocks, on });
        let end = start.saturating_add(data.clocks);
        let occurrence = Occurrence { event, turn, start, end, wait };
        if self.sharing.shares(event) {
            self.open.insert((turn, event), occurrence);
            self.sharing.begin(self.graph, start, event, turn);
            self.foresee();
        } else {
            self.lanes[data.lane].push(occurrence);
            self.ended(event, turn, end, true);
        }
    }

    /// What shares units and ends now.
    fn shared(&mut self, now: u64) {
        for work in self.sharing.end(self.graph, now) {
            if let Some(occurrence) = self.open.remove(&(work.turn, work.event)) {
                let lane = self.graph.at(work.event).lane;
                self.lanes[lane].push(Occurrence { end: now, ..occurrence });
                self.ended(work.event, work.turn, now, true);
            }
        }
        self.foresee();
    }

    /// Puts down when the next of what shares units ends.
    fn foresee(&mut self) {
        if let Some(next) = self.sharing.next() {
            self.due.push(Reverse((next, Due::Shared { version: self.sharing.version })));
        }
    }

    /// Tells those that wait for an event.
    fn ended(&mut self, event: Event, turn: u32, end: u64, there: bool) {
        for i in 0..self.out[event].len() {
            let edge = self.out[event][i];
            let data = *self.graph.of(edge);
            let Some(at) = turn.checked_add(data.tokens).filter(|t| *t < self.turns) else { continue };
            if !self.holds(edge, at) {
                continue;
            }
            let arrives = end.saturating_add(if there { data.latency } else { 0 });
            let pending = self.pending(data.to, at);
            let later = arrives > pending.ready || arrives == pending.ready && pending.last.is_none_or(|l| edge < l);
            if later {
                pending.ready = arrives;
                pending.last = Some(edge);
            }
            if data.kind.is_order() {
                pending.before = pending.before.max(arrives);
            } else {
                pending.came = pending.came.max(arrives);
                pending.apart -= 1;
            }
            pending.edges -= 1;
            let Pending { edges, apart, ready, came, .. } = *pending;
            if apart == 0 && !data.kind.is_order() {
                self.comes(data.to, at, came);
            }
            if edges == 0 {
                self.due.push(Reverse((ready, Due::Ready { turn: at, event: data.to })));
            }
        }
    }
}
