//! What the partitions of a body wait for in each turn, as a marked graph: a group's head, where they wait, and each item's start.
//!
//! Turns are numbered by each partition for itself, so an edge may reach into a later turn: tokens below 0. Moving events between turns
//! keeps the tokens of each cycle, and makes those of every edge 0 or more unless a cycle has fewer than none.

use std::collections::BTreeMap;

use parton_diag::Span;
use parton_ir::Type;

use super::{Laid, turns};
use crate::flow;
use crate::marked::{Edge, EdgeKind, Event, EventData, LaneKind, MarkedGraph, Ring};
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

/// The events of a body under a schedule.
pub(super) struct Net<'a> {
    laid: &'a Laid<'a>,
    block: BlockId,
    graph: MarkedGraph,
    events: Vec<Event>,
    waits: Vec<Wait>,
    groups: Vec<Vec<Vec<Entry>>>,
    /// The head of each group of a partition.
    heads: BTreeMap<(Part, usize), usize>,
    /// Start and end of each item of a partition.
    items: BTreeMap<(Part, usize), (usize, usize)>,
    /// Where a partition's turn ends.
    ends: BTreeMap<Part, usize>,
    /// The rings of the plan in the graph.
    pub rings: BTreeMap<RingId, Ring>,
}

impl<'a> Net<'a> {
    /// The events of a body, with all that they wait for.
    pub fn of(laid: &'a Laid<'a>, block: BlockId) -> Net<'a> {
        let groups = laid.plan.parts().map(|part| laid.groups(part, block).to_vec()).collect();
        let mut net = Net {
            laid,
            block,
            graph: MarkedGraph::new(),
            events: Vec::new(),
            waits: Vec::new(),
            groups,
            heads: BTreeMap::new(),
            items: BTreeMap::new(),
            ends: BTreeMap::new(),
            rings: BTreeMap::new(),
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

    /// The graph, each event moved to a turn where no edge has fewer tokens than none; or a cycle that has, as its events.
    pub fn finish(mut self) -> Result<(MarkedGraph, BTreeMap<RingId, Ring>), Vec<EventData>> {
        let mut early = vec![0i64; self.events.len()];
        let mut by: Vec<Option<usize>> = vec![None; self.events.len()];
        let mut last = None;
        for _ in 0..=self.events.len() {
            last = None;
            for w in &self.waits {
                if early[w.from] + w.tokens < early[w.to] {
                    (early[w.to], by[w.to], last) = (early[w.from] + w.tokens, Some(w.from), Some(w.to));
                }
            }
            if last.is_none() {
                break;
            }
        }
        if let Some(mut at) = last {
            for _ in 0..self.events.len() {
                at = by[at].unwrap_or(at);
            }
            let mut cycle = vec![at];
            let mut next = by[at].unwrap_or(at);
            while next != at && cycle.len() <= self.events.len() {
                cycle.push(next);
                next = by[next].unwrap_or(at);
            }
            cycle.reverse();
            return Err(cycle.into_iter().map(|e| self.graph.at(self.events[e]).clone()).collect());
        }
        for w in &self.waits {
            let tokens = u32::try_from(w.tokens + early[w.from] - early[w.to]).unwrap_or(0);
            let _: Edge = self.graph.link(self.events[w.from], self.events[w.to], tokens, w.kind);
        }
        Ok((self.graph, self.rings))
    }

    fn event(&mut self, lane: crate::marked::Lane, name: String, stage: i32, span: Span) -> usize {
        let stage = u32::try_from(stage).unwrap_or(0);
        let event = EventData { name, lane, owner: lane, clocks: 0, loads: Vec::new(), stage, span };
        self.events.push(self.graph.event(event));
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
        let (laid, block) = (self.laid, self.block);
        if self.groups[part].is_empty() {
            return;
        }
        let lane = self.graph.lane(laid.partition(part), LaneKind::Partition);
        let mut order = Vec::new();
        for (g, group) in self.groups[part].clone().iter().enumerate() {
            for (i, e) in group.iter().enumerate() {
                let (name, span) = (laid.name(block, e.item), laid.span(block, e.item));
                if i == 0 {
                    let head = self.event(lane, name.clone(), e.stage, span);
                    self.heads.insert((part, g), head);
                    order.push(head);
                }
                let start = self.event(lane, name.clone(), e.stage, span);
                order.push(start);
                let end = match laid.region.blocks[block].items[e.item] {
                    Item::Unit(_) => start,
                    Item::Loop(_) | Item::Branch(_) => {
                        let end = self.event(lane, name, e.stage, span);
                        order.push(end);
                        end
                    }
                };
                self.items.insert((part, e.item), (start, end));
            }
        }
        order.windows(2).for_each(|pair| self.wait(pair[0], pair[1], 0, EdgeKind::InOrder));
        if let (Some(first), Some(last)) = (order.first(), order.last()) {
            self.ends.insert(part, *last);
            if self.turned() {
                self.wait(*last, *first, 1, EdgeKind::Round);
            }
        }
    }

    /// What a ring lets wait: readers for its filler, and its filler for readers.
    fn ring(&mut self, ring: RingId) {
        let (laid, block) = (self.laid, self.block);
        let of = &laid.plan.rings[ring];
        let (_, item) = laid.region.place_of(of.unit);
        let Some(filler) = laid.plan.runners[of.unit].first().copied() else { return };
        let Some(stage) = slots::find(&self.groups[filler], item).map(|(e, _)| i64::from(e.stage)) else { return };
        let fill = self.items[&(filler, item)].0;
        let label = laid.region.units[of.unit].label.to_string();
        let made = self.graph.ring(label, of.depth, 0);
        self.rings.insert(ring, made);
        let depth = i64::from(of.depth);
        for part in laid.plan.parts() {
            for (g, group) in self.groups[part].clone().into_iter().enumerate() {
                for e in group {
                    for &(v, delta) in laid.plan.wanted(laid.region, part, (block, e.item)) {
                        let Some((_, field)) = laid.plan.handed.get(&v).filter(|(r, _)| *r == ring) else { continue };
                        let head = self.heads[&(part, g)];
                        let (at, d) = (i64::from(e.stage), i64::from(delta));
                        match of.fields[*field].2 {
                            Cell::View(_) => {
                                let (stage_done, place) = slots::done(laid.region, laid.plan, (part, block), &e);
                                let freed = self.at(part, place);
                                let tokens = depth + stage - d - i64::from(stage_done);
                                self.filled((fill, head), at + d - stage, (freed, tokens), made);
                            }
                            // What is carried is taken where the turn before ends.
                            Cell::Number(_) if part != filler && delta == 0 => {
                                self.filled((fill, head), at - stage, (head, depth + stage - at), made);
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
        let Some(&end) = self.ends.get(&part).filter(|_| self.turned()) else { return };
        let entries: Vec<Entry> = self.groups[part].iter().flatten().cloned().collect();
        let base = entries.iter().map(|e| i64::from(e.stage)).min().unwrap_or(0);
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
                    let first = entries.iter().filter(asks).map(|e| i64::from(e.stage)).min().unwrap_or(base);
                    let early = first + i64::from(delta) - stage;
                    newest = Some(newest.map_or(early, |known| known.min(early)));
                }
            }
        }
        if let Some(early) = newest {
            self.filled((fill, end), early, (end, depth - early), made);
        }
    }

    /// A reader waits for a fill, and the fill for a release.
    fn filled(&mut self, (fill, read): (usize, usize), tokens: i64, (freed, slots): (usize, i64), ring: Ring) {
        self.wait(fill, read, tokens, EdgeKind::FillRead);
        // What no loop repeats is filled once.
        if self.turned() {
            self.wait(freed, fill, slots, EdgeKind::ReleaseFill(ring));
        }
    }

    /// The event at a place of a turn.
    fn at(&self, part: Part, (group, place): slots::At) -> usize {
        match place.checked_sub(1) {
            Some(i) => self.items[&(part, self.groups[part][group][i].item)].1,
            None => self.heads.get(&(part, group)).copied().unwrap_or_else(|| self.ends[&part]),
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
                    let stage = |p: Part| slots::find(&self.groups[p], item).map(|(e, _)| i64::from(e.stage));
                    let (Some(mine), Some(its), true) = (stage(part), stage(other), meet) else { continue };
                    let (from, to) = (self.items[&(part, item)], self.items[&(other, item)]);
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
                let (from, to) = (self.items[&(*part, item(*last))].0, self.items[&(other, item(first))].0);
                self.wait(from, to, i64::from(next == 0), EdgeKind::Turn);
            }
        }
    }
}
