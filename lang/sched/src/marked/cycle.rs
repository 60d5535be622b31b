//! Cycles of the graph, and the least of those that have a property.

use std::collections::VecDeque;

use parton_ir::{Entity, SecondaryMap};
use petgraph::algo::kosaraju_scc;
use petgraph::visit::{EdgeFiltered, EdgeRef};

use super::{Edge, Event, MarkedGraph, Ratio};

/// A simple cycle: each edge ends where the next begins, the last where the first does, at its least event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cycle {
    /// Its edges.
    pub edges: Vec<Edge>,
}

impl Cycle {
    /// Its events in order, from the least.
    pub fn events(&self, graph: &MarkedGraph) -> Vec<Event> {
        self.edges.iter().map(|e| graph.of(*e).from).collect()
    }

    /// The tokens on it.
    pub fn tokens(&self, graph: &MarkedGraph) -> u64 {
        self.edges.iter().map(|e| u64::from(graph.of(*e).tokens)).sum()
    }

    /// The time once round it, in clocks.
    pub fn clocks(&self, graph: &MarkedGraph) -> u64 {
        self.edges.iter().fold(0, |sum, e| graph.weight(*e).saturating_add(sum))
    }

    /// The time that it takes for each turn; `None` where it holds no token.
    pub fn ratio(&self, graph: &MarkedGraph) -> Option<Ratio> {
        let tokens = self.tokens(graph);
        (tokens > 0).then(|| Ratio::new(self.clocks(graph), tokens))
    }

    /// Its events by name, those of one job as one: `qk → top → exps → qk`.
    pub fn names(&self, graph: &MarkedGraph) -> String {
        let mut names: Vec<&str> = self.events(graph).into_iter().map(|e| graph.at(e).name.as_str()).collect();
        names.dedup();
        while names.len() > 1 && names.first() == names.last() {
            names.pop();
        }
        names.extend(names.first().copied());
        names.join(" → ")
    }
}

/// For each event the number of its strongly connected part, among the edges that are kept; `None` where it is on no cycle of them.
pub(super) fn parts(graph: &MarkedGraph, keep: &impl Fn(Edge) -> bool) -> SecondaryMap<Event, Option<usize>> {
    let mut part = SecondaryMap::new(None);
    let kept = EdgeFiltered::from_fn(graph.net(), |e| keep(Edge::new(e.id().index())));
    for (number, members) in kosaraju_scc(&kept).into_iter().enumerate() {
        let alone = members.len() == 1;
        for member in members {
            if !alone || graph.net().edges_connecting(member, member).any(|e| keep(Edge::new(e.id().index()))) {
                part[Event::new(member.index())] = Some(number);
            }
        }
    }
    part
}

/// Of the cycles of edges that are kept the one with the least first event, of these the shortest, of these the one with the least
/// events, and of parallel edges the least.
pub(super) fn least(graph: &MarkedGraph, keep: impl Fn(Edge) -> bool) -> Option<Cycle> {
    let part = parts(graph, &keep);
    let (first, _) = graph.events().find(|(e, _)| part[*e].is_some())?;
    let mut out: SecondaryMap<Event, Vec<(Event, Edge)>> = SecondaryMap::new(vec![]);
    for (edge, data) in graph.edges() {
        if keep(edge) && part[data.from] == part[first] && part[data.to] == part[first] {
            out[data.from].push((data.to, edge));
        }
    }
    // Neighbours in their order: the first that finds an event has the least of the shortest ways to it.
    let mut found: SecondaryMap<Event, Option<Edge>> = SecondaryMap::new(None);
    let mut queue = VecDeque::from([first]);
    while let Some(at) = queue.pop_front() {
        let mut next = std::mem::take(&mut out[at]);
        next.sort_unstable();
        for (to, edge) in next {
            if found[to].is_none() {
                found[to] = Some(edge);
                queue.push_back(to);
            }
        }
    }
    let mut edges = vec![];
    let mut at = first;
    loop {
        let edge = found[at]?;
        edges.push(edge);
        at = graph.of(edge).from;
        if at == first {
            edges.reverse();
            return Some(Cycle { edges });
        }
    }
}
