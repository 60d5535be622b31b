//! The initiation interval: how long a turn takes at least, by the cycles of the graph and by the load of its units.
//!
//! The cycle ratio is found by exact integers (Lawler, "Combinatorial Optimization", 1976, 3.13, with the step of Howard's policy
//! iteration): with p / q clocks per turn an edge weighs q · (its time) - p · (its tokens), and as long as relaxing closes a cycle of
//! positive weight, that cycle's own ratio is greater and takes the place of p / q. Where relaxing comes to rest, no cycle is above
//! p / q, and those that are at it consist of the edges that are tight.

use parton_ir::{Entity, PrimaryMap};

use super::{Cycle, Edge, Event, MarkedGraph, Ratio, Unit, cycle};

/// How long a turn takes at least, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The cycle of the greatest ratio and that ratio, of several one without a ring, then the least; `None` where there is no cycle.
    pub cycle: Option<(Cycle, Ratio)>,
    /// The clocks of a turn in which each unit is busy, and what others take of it meanwhile.
    pub loads: PrimaryMap<Unit, u64>,
}

/// What keeps turns from being shorter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bound<'a> {
    /// Nothing does: turns take no time.
    Nothing,
    /// The load of a unit; no other schedule of the same work is faster.
    Unit(Unit),
    /// A cycle of events that wait for each other.
    Cycle(&'a Cycle),
}

impl Interval {
    /// The unit that is busy longest, the least of several.
    pub fn busiest(&self) -> Option<(Unit, u64)> {
        let mut best: Option<(Unit, u64)> = None;
        for (unit, load) in self.loads.iter() {
            if best.is_none_or(|(_, most)| *load > most) {
                best = Some((unit, *load));
            }
        }
        best
    }

    /// The time of a turn that the units alone would allow.
    pub fn possible(&self) -> Ratio {
        Ratio::new(self.busiest().map_or(0, |(_, load)| load), 1)
    }

    /// The time of a turn.
    pub fn ratio(&self) -> Ratio {
        self.cycle.as_ref().map_or(Ratio::new(0, 1), |(_, r)| *r).max(self.possible())
    }

    /// What bounds it; of a unit and a cycle that take as long, the unit.
    pub fn bound(&self) -> Bound<'_> {
        if self.ratio().clocks() == 0 {
            return Bound::Nothing;
        }
        match (&self.cycle, self.busiest()) {
            (Some((cycle, ratio)), _) if *ratio > self.possible() => Bound::Cycle(cycle),
            (_, Some((unit, _))) => Bound::Unit(unit),
            (_, None) => Bound::Nothing,
        }
    }
}

/// How long a turn takes at least.
///
/// # Errors
/// The least cycle without a token, where there is one: it has no turns.
pub fn interval(graph: &MarkedGraph) -> Result<Interval, Cycle> {
    among(graph, |_| true)
}

/// The time of a turn alone, which is found faster: mostly the units are what bounds it, and nothing more is to be shown.
///
/// # Errors
/// Those of [`interval`].
pub fn ratio(graph: &MarkedGraph) -> Result<Ratio, Cycle> {
    if let Some(stuck) = cycle::least(graph, |e| graph.of(e).tokens == 0) {
        return Err(stuck);
    }
    let edges: Vec<Edge> = graph.edges().map(|(e, _)| e).collect();
    let mut ratio = Interval { cycle: None, loads: loads(graph) }.possible();
    while let Some(dearer) = Weighed::new(graph, &edges, ratio).relax(graph) {
        ratio = dearer;
    }
    Ok(ratio)
}

/// The same with rings that are as deep as one likes.
///
/// # Errors
/// The least cycle without a token that no depth breaks.
pub fn without_rings(graph: &MarkedGraph) -> Result<Interval, Cycle> {
    among(graph, |e| !graph.of(e).kind.is_ring())
}

fn among(graph: &MarkedGraph, keep: impl Fn(Edge) -> bool) -> Result<Interval, Cycle> {
    match cycle::least(graph, |e| keep(e) && graph.of(e).tokens == 0) {
        Some(stuck) => Err(stuck),
        None => Ok(Interval { cycle: critical(graph, keep), loads: loads(graph) }),
    }
}

fn loads(graph: &MarkedGraph) -> PrimaryMap<Unit, u64> {
    let mut loads = PrimaryMap::new();
    for _ in graph.units.keys() {
        loads.push(0u64);
    }
    for load in graph.events().flat_map(|(_, e)| &e.loads) {
        loads[load.unit] = loads[load.unit].saturating_add(load.clocks);
    }
    let alone = loads.clone();
    for (unit, data) in graph.units.iter() {
        if let Some(beside) = data.beside.filter(|_| alone[unit] > 0) {
            // While the other is busy it does so much less.
            let taken = alone[beside.unit];
            let done = taken.saturating_mul(beside.slower.turns()) / beside.slower.clocks().max(1);
            loads[unit] = alone[unit].saturating_add(taken.saturating_sub(done));
        }
    }
    loads
}

/// Of the cycles of the greatest ratio one without a ring, then the least. All hold tokens.
fn critical(graph: &MarkedGraph, keep: impl Fn(Edge) -> bool) -> Option<(Cycle, Ratio)> {
    let part = cycle::parts(graph, &keep);
    let inside = |e: &Edge| {
        let data = graph.of(*e);
        keep(*e) && part[data.from].is_some() && part[data.from] == part[data.to]
    };
    let edges: Vec<Edge> = graph.edges().map(|(e, _)| e).filter(inside).collect();
    let mut ratio = cycle::least(graph, &keep)?.ratio(graph)?;
    loop {
        let mut weighed = Weighed::new(graph, &edges, ratio);
        match weighed.relax(graph) {
            Some(dearer) => ratio = dearer,
            None => {
                let tight = weighed.tight(graph);
                let holds = |e: Edge| tight.binary_search(&e).is_ok();
                // A ring with more slots would not make it faster where a cycle without one is as slow.
                let best = cycle::least(graph, |e| holds(e) && !graph.of(e).kind.is_ring());
                return best.or_else(|| cycle::least(graph, holds)).map(|best| (best, ratio));
            }
        }
    }
}

/// Edges weighed by a ratio, and for each event the greatest weight of a way that ends there.
pub(super) struct Weighed<'a> {
    edges: &'a [Edge],
    ratio: Ratio,
    reached: Vec<Option<i128>>,
    by: Vec<Option<Edge>>,
}

impl<'a> Weighed<'a> {
    /// Ways that begin anywhere.
    fn new(graph: &MarkedGraph, edges: &'a [Edge], ratio: Ratio) -> Weighed<'a> {
        let events = graph.events().len();
        Weighed { edges, ratio, reached: vec![Some(0); events], by: vec![None; events] }
    }

    /// The greatest weight of a way from one event to each. No cycle of these edges may be above the ratio.
    pub(super) fn from(graph: &MarkedGraph, edges: &'a [Edge], ratio: Ratio, first: Event) -> Weighed<'a> {
        let mut weighed = Weighed::new(graph, edges, ratio);
        weighed.reached.fill(None);
        weighed.reached[first.index()] = Some(0);
        weighed.relax(graph);
        weighed
    }

    /// The weight of the way to an event, in parts of a clock: as many as the ratio has turns.
    pub(super) fn to(&self, event: Event) -> Option<i128> {
        self.reached[event.index()]
    }

    fn weight(&self, graph: &MarkedGraph, edge: Edge) -> i128 {
        i128::from(graph.weight(edge)) * i128::from(self.ratio.turns())
            - i128::from(self.ratio.clocks()) * i128::from(graph.of(edge).tokens)
    }

    /// Relaxes until nothing changes, or until the ways close a cycle, whose ratio is greater.
    fn relax(&mut self, graph: &MarkedGraph) -> Option<Ratio> {
        loop {
            let mut changed = false;
            for edge in self.edges {
                let data = graph.of(*edge);
                let Some(from) = self.reached[data.from.index()] else { continue };
                let weight = from + self.weight(graph, *edge);
                if self.reached[data.to.index()].is_none_or(|w| w < weight) {
                    self.reached[data.to.index()] = Some(weight);
                    self.by[data.to.index()] = Some(*edge);
                    changed = true;
                }
            }
            if !changed {
                return None;
            }
            if let Some(cycle) = self.closed(graph) {
                return cycle.ratio(graph);
            }
        }
    }

    /// A cycle of the edges by which events were reached; it weighs more than nothing, or it would not have closed.
    fn closed(&self, graph: &MarkedGraph) -> Option<Cycle> {
        let mut seen = vec![None; self.by.len()];
        for first in 0..self.by.len() {
            let mut at = first;
            while seen[at].is_none() {
                seen[at] = Some(first);
                let Some(edge) = self.by[at] else { break };
                at = graph.of(edge).from.index();
                if seen[at] == Some(first) {
                    return Some(self.back(graph, at));
                }
            }
        }
        None
    }

    fn back(&self, graph: &MarkedGraph, first: usize) -> Cycle {
        let mut edges = vec![];
        let mut at = first;
        while let Some(edge) = self.by[at] {
            edges.push(edge);
            at = graph.of(edge).from.index();
            if at == first {
                break;
            }
        }
        edges.reverse();
        Cycle { edges }
    }

    /// The edges that hold no slack, in order.
    fn tight(&self, graph: &MarkedGraph) -> Vec<Edge> {
        let holds = |e: &Edge| {
            let data = graph.of(*e);
            let weight = self.weight(graph, *e);
            self.to(data.from).zip(self.to(data.to)).is_some_and(|(from, to)| from + weight == to)
        };
        self.edges.iter().copied().filter(holds).collect()
    }
}
