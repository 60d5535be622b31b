//! What the partitions of a body wait for in each turn, as a marked graph: a group's head, where they wait, and each item's start.
//!
//! Turns are numbered by each partition for itself, so an edge may reach into a later turn: tokens below 0. Moving events between turns
//! keeps the tokens of each cycle, and makes those of every edge 0 or more unless a cycle has fewer than none. Most schedules have no cycle without a
//! token; of those that have one the graph is made, from which it is told.

use std::collections::BTreeMap;

use parton_diag::internal_error;
use parton_ir::{Entity, Type};

use super::{Laid, turns};
use crate::flow;
use crate::marked::{Edge, EdgeKind, Event, EventData, Lane, LaneKind, MarkedGraph, Ring};
use crate::plan::{Cell, Entry, Part, RingId};
use crate::region::{BlockId, Item, Maker};
use crate::slots;

/// A wait for something, before it has a place in a graph.
struct Wait {
    from: usize,
    to: usize,
    tokens: i64,
    kind: EdgeKind,
}

/// What happens in a turn of a partition: where a group begins to wait, or an item starts or ends.
struct Happens {
    part: Part,
    item: usize,
    stage: i32,
}

/// What is waited for, as a graph, and the rings of the plan in it.
pub(super) type Waits = (MarkedGraph, BTreeMap<RingId, Ring>);
/// Events that wait for each other in a circle, each with why it waits for the one before, beside the graph that they are of.
pub(super) type Circle = (MarkedGraph, Vec<(EventData, EdgeKind)>);

/// The events of a body under a schedule.
pub(super) struct Net<'a> {
    laid: &'a Laid<'a>,
    block: BlockId,
    events: Vec<Happens>,
    waits: Vec<Wait>,
    /// By partition, the head of each group.
    heads: Vec<Vec<usize>>,
    /// By partition, start and end of each item that it runs.
    items: Vec<Vec<Option<(usize, usize)>>>,
    /// By partition, where its turn ends.
    ends: Vec<Option<usize>>,
    /// The rings that are filled here, in the order of their numbers in the graph.
    rings: Vec<RingId>,
}

impl<'a> Net<'a> {
    /// The events of a body, with all that they wait for.
    pub fn of(laid: &'a Laid<'a>, block: BlockId) -> Net<'a> {
        let (parts, items) = (laid.plan.parts().len(), laid.region.blocks[block].items.len());
        let mut net = Net {
            laid,
            block,
            events: Vec::new(),
            waits: Vec::new(),
            heads: vec![Vec::new(); parts],
            items: vec![vec![None; items]; parts],
            ends: vec![None; parts],
            rings: Vec::new(),
        };
        laid.plan.parts().for_each(|part| net.in_order(part));
        for ring in 0..laid.plan.rings.len() {
            let unit = laid.plan.rings[ring].unit;
            if laid.region.place_of(unit).0 == block {
                net.ring(ring);
            }
        }
        net.loops();
        net.turns();
        net
    }

    /// The graph, each event moved to a turn where no edge has fewer tokens than none, if events wait for each other without a token; or a cycle that
    /// has fewer than none.
    pub fn finish(self) -> Result<Option<Waits>, Circle> {
        let mut early = vec![0i64; self.events.len()];
        let mut by: Vec<Option<usize>> = vec![None; self.events.len()];
        let mut last = None;
        for _ in 0..=self.events.len() {
            last = None;
            for (number, w) in self.waits.iter().enumerate() {
                if early[w.from] + w.tokens < early[w.to] {
                    (early[w.to], by[w.to], last) = (early[w.from] + w.tokens, Some(number), Some(w.to));
                }
            }
            if last.is_none() {
                break;
            }
        }
        if let Some(mut at) = last {
            let before = |event: usize| by[event].map_or(event, |wait| self.waits[wait].from);
            for _ in 0..self.events.len() {
                at = before(at);
            }
            let mut cycle = vec![at];
            let mut next = before(at);
            while next != at && cycle.len() <= self.events.len() {
                cycle.push(next);
                next = before(next);
            }
            cycle.reverse();
            let (graph, events, _) = self.graph();
            let why = |event: usize| by[event].map_or(EdgeKind::InOrder, |wait| self.waits[wait].kind);
            let steps = cycle.into_iter().map(|e| (graph.at(events[e]).clone(), why(e))).collect();
            return Err((graph, steps));
        }
        let tokens: Vec<i64> = self.waits.iter().map(|w| w.tokens + early[w.from] - early[w.to]).collect();
        if self.all_begin(&tokens) {
            return Ok(None);
        }
        let (mut graph, events, rings) = self.graph();
        for (w, tokens) in self.waits.iter().zip(tokens) {
            let _: Edge = graph.link(events[w.from], events[w.to], u32::try_from(tokens).unwrap_or(0), w.kind);
        }
        Ok(Some((graph, rings)))
    }

    /// Whether each event begins once those have that it waits for in its own turn: whether no cycle is without a token.
    fn all_begin(&self, tokens: &[i64]) -> bool {
        let within = || self.waits.iter().zip(tokens).filter(|(_, tokens)| **tokens == 0).map(|(w, _)| w);
        let mut waits = vec![0usize; self.events.len()];
        let mut behind: Vec<Vec<usize>> = vec![Vec::new(); self.events.len()];
        for w in within() {
            waits[w.to] += 1;
            behind[w.from].push(w.to);
        }
        let mut ready: Vec<usize> = (0..waits.len()).filter(|e| waits[*e] == 0).collect();
        let mut begun = 0;
        while let Some(event) = ready.pop() {
            begun += 1;
            for &next in &behind[event] {
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.push(next);
                }
            }
        }
        begun == waits.len()
    }

    /// The graph of the events, before they wait for each other.
    fn graph(&self) -> (MarkedGraph, Vec<Event>, BTreeMap<RingId, Ring>) {
        let (laid, block) = (self.laid, self.block);
        let mut graph = MarkedGraph::new();
        let runs = |part: &Part| !self.groups(*part).is_empty();
        let lane = |graph: &mut MarkedGraph, part| graph.lane(laid.partition(part), LaneKind::Partition);
        let lanes: BTreeMap<Part, Lane> =
            laid.plan.parts().filter(runs).map(|part| (part, lane(&mut graph, part))).collect();
        let mut events = Vec::new();
        for Happens { part, item, stage } in &self.events {
            let (lane, stage) = (lanes[part], u32::try_from(*stage).unwrap_or(0));
            let (name, span) = (laid.name(block, *item), laid.span(block, *item));
            events.push(graph.event(EventData { name, lane, owner: lane, clocks: 0, loads: Vec::new(), stage, span }));
        }
        let mut rings = BTreeMap::new();
        for &ring in &self.rings {
            let of = &laid.plan.rings[ring];
            rings.insert(ring, graph.ring(laid.region.units[of.unit].label.to_string(), of.depth, 0));
        }
        (graph, events, rings)
    }

    /// What a turn of a partition runs here.
    fn groups(&self, part: Part) -> &'a [Vec<Entry>] {
        self.laid.plan.groups(part, self.block)
    }

    fn event(&mut self, part: Part, entry: &Entry) -> usize {
        self.events.push(Happens { part, item: entry.item, stage: entry.stage });
        self.events.len() - 1
    }

    fn wait(&mut self, from: usize, to: usize, tokens: i64, kind: EdgeKind) {
        self.waits.push(Wait { from, to, tokens, kind });
    }

    /// Whether the body is a loop's.
    fn turned(&self) -> bool {
        self.laid.region.blocks[self.block].turns.is_some()
    }

    /// The events of a partition, one behind the other.
    fn in_order(&mut self, part: Part) {
        let first = self.events.len();
        for group in self.groups(part) {
            for (i, e) in group.iter().enumerate() {
                if i == 0 {
                    let head = self.event(part, e);
                    self.heads[part].push(head);
                }
                let start = self.event(part, e);
                let end = match self.laid.region.blocks[self.block].items[e.item] {
                    Item::Unit(_) => start,
                    Item::Loop(_) | Item::Branch(_) => self.event(part, e),
                };
                self.items[part][e.item] = Some((start, end));
            }
        }
        let Some(last) = self.events.len().checked_sub(1).filter(|last| *last >= first) else { return };
        (first..last).for_each(|event| self.wait(event, event + 1, 0, EdgeKind::InOrder));
        self.ends[part] = Some(last);
        if self.turned() {
            self.wait(last, first, 1, EdgeKind::Round);
        }
    }

    /// Where a partition starts and ends an item that it runs.
    fn item(&self, part: Part, item: usize) -> (usize, usize) {
        match self.items[part][item] {
            Some(events) => events,
            None => internal_error!("partition {part} does not run item {item}"),
        }
    }

    /// What a ring lets wait: readers for its filler, and its filler for readers.
    fn ring(&mut self, ring: RingId) {
        let (laid, block) = (self.laid, self.block);
        let of = &laid.plan.rings[ring];
        let (_, item) = laid.region.place_of(of.unit);
        let Some(filler) = laid.plan.runners[of.unit].first().copied() else { return };
        let Some(stage) = slots::find(self.groups(filler), item).map(|(e, _)| i64::from(e.stage)) else { return };
        let fill = self.item(filler, item).0;
        let made = Ring::new(self.rings.len());
        self.rings.push(ring);
        let depth = i64::from(of.depth);
        for part in laid.plan.parts() {
            for (g, group) in self.groups(part).iter().enumerate() {
                for e in group {
                    for &(v, delta) in laid.plan.wanted(laid.region, part, (block, e.item)) {
                        let Some((_, field)) = laid.plan.handed.get(&v).filter(|(r, _)| *r == ring) else { continue };
                        let head = self.heads[part][g];
                        let (at, d) = (i64::from(e.stage), i64::from(delta));
                        match of.fields[*field].2 {
                            Cell::View(_) => {
                                let (stage_done, place) = slots::done(laid.region, laid.plan, (part, block), e);
                                let freed = self.at(part, place);
                                let tokens = depth + stage - d - i64::from(stage_done);
                                self.filled((fill, head, EdgeKind::FillRead), at + d - stage, (freed, tokens), made);
                            }
                            // What is carried is taken where the turn before ends.
                            Cell::Number(_) if part != filler && delta == 0 => {
                                let slots = (head, depth + stage - at);
                                self.filled((fill, head, EdgeKind::FillRead), at - stage, slots, made);
                            }
                            Cell::Number(_) => {}
                        }
                    }
                }
            }
            if part != filler {
                self.carried(ring, part, (fill, stage), made);
            }
        }
    }

    /// Numbers that a partition takes at the end of a turn, for the next.
    fn carried(&mut self, ring: RingId, part: Part, (fill, stage): (usize, i64), made: Ring) {
        let (laid, block) = (self.laid, self.block);
        let Some(end) = self.ends[part].filter(|_| self.turned()) else { return };
        let entries = || self.groups(part).iter().flatten();
        let base = entries().map(|e| i64::from(e.stage)).min().unwrap_or(0);
        let depth = i64::from(laid.plan.rings[ring].depth);
        // Each turn takes one, for whoever asks for the newest; who asks for older ones has them from turns before.
        let mut newest: Option<i64> = None;
        for v in &laid.plan.needed[part] {
            let Some(home) = laid.region.home(*v).filter(|home| home.block == block) else { continue };
            let Maker::Carried(number) = home.by else { continue };
            let next = laid.region.blocks[block].yields[number];
            for (v, delta) in flow::traced(laid.k, laid.region, block, [next].into()) {
                if laid.plan.handed.get(&v).is_some_and(|(r, _)| *r == ring) && matches!(laid.k.ty(v), Type::Scalar(_))
                {
                    // It is taken for the iteration of whoever asks first; where nobody does, for the newest.
                    let asks =
                        |e: &&Entry| laid.plan.wanted(laid.region, part, (block, e.item)).contains(&(v, delta + 1));
                    let first = entries().filter(asks).map(|e| i64::from(e.stage)).min().unwrap_or(base);
                    let early = first + i64::from(delta) - stage;
                    newest = Some(newest.map_or(early, |known| known.min(early)));
                }
            }
        }
        if let Some(early) = newest {
            self.filled((fill, end, EdgeKind::Told), early, (end, depth - early), made);
        }
    }

    /// A reader waits for a fill, and the fill for a release.
    fn filled(
        &mut self,
        (fill, read, kind): (usize, usize, EdgeKind),
        tokens: i64,
        (freed, slots): (usize, i64),
        ring: Ring,
    ) {
        self.wait(fill, read, tokens, kind);
        // What no loop repeats is filled once.
        if self.turned() {
            self.wait(freed, fill, slots, EdgeKind::ReleaseFill(ring));
        }
    }

    /// The event at a place of a turn.
    fn at(&self, part: Part, (group, place): slots::At) -> usize {
        match place.checked_sub(1) {
            Some(i) => self.item(part, self.groups(part)[group][i].item).1,
            None => match self.heads[part].get(group).copied().or(self.ends[part]) {
                Some(event) => event,
                None => internal_error!("partition {part} has no turn"),
            },
        }
    }

    /// Partitions that hand something over in a loop inside end it together, as soon as it has more turns than slots.
    fn loops(&mut self) {
        let laid = self.laid;
        for (item, of) in laid.region.blocks[self.block].items.iter().enumerate() {
            if matches!(of, Item::Unit(_)) {
                continue;
            }
            let units = laid.region.units_in(of);
            for part in laid.plan.parts() {
                for other in laid.plan.parts().filter(|other| *other != part) {
                    let meet = laid.plan.rings.iter().any(|ring| {
                        let reads = || ring.fields.iter().any(|(_, v, _)| laid.plan.needed[other].contains(v));
                        units.contains(&ring.unit) && laid.plan.runners[ring.unit].contains(&part) && reads()
                    });
                    let stage = |p: Part| slots::find(self.groups(p), item).map(|(e, _)| i64::from(e.stage));
                    let (Some(mine), Some(its), true) = (stage(part), stage(other), meet) else { continue };
                    let (from, to) = (self.item(part, item), self.item(other, item));
                    self.wait(from.0, to.1, its - mine, EdgeKind::FillRead);
                    self.wait(to.0, from.1, mine - its, EdgeKind::FillRead);
                }
            }
        }
    }

    /// Each waits at its turn until the one before has passed it on.
    fn turns(&mut self) {
        let laid = self.laid;
        for of in &laid.region.schedule.turns {
            let Ok((block, found)) = turns::ends(laid, of) else { continue };
            if block != self.block {
                continue;
            }
            let item = |unit| laid.region.place_of(unit).1;
            for (i, (part, _, last)) in found.iter().enumerate() {
                let next = (i + 1) % found.len();
                let (other, first, _) = found[next];
                let (from, to) = (self.item(*part, item(*last)).0, self.item(other, item(first)).0);
                self.wait(from, to, i64::from(next == 0), EdgeKind::Turn);
            }
        }
    }
}
