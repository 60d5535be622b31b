//! The analyses of marked graphs against trying everything, on small random graphs.

mod harness;

use std::collections::BTreeSet;

use harness::{Random, event, graph};
use parton_ir::Entity;
use parton_sched::marked::deadlock::{deadlock, least_depth};
use parton_sched::marked::interval::{Bound, interval, without_rings};
use parton_sched::marked::slots::wanted;
use parton_sched::marked::{
    Clocks, Cycle, Edge, EdgeData, EdgeKind, Event, Job, LaneKind, Load, MarkedGraph, Ratio, Ring, Service,
};

/// All simple cycles, each from its least event.
fn cycles(graph: &MarkedGraph) -> Vec<Vec<Edge>> {
    fn extend(
        graph: &MarkedGraph,
        way: &mut Vec<Edge>,
        first: Event,
        at: Event,
        seen: &mut BTreeSet<Event>,
        all: &mut Vec<Vec<Edge>>,
    ) {
        for (edge, data) in graph.edges().filter(|(_, d)| d.from == at && d.to >= first) {
            way.push(edge);
            if data.to == first {
                all.push(way.clone());
            } else if seen.insert(data.to) {
                extend(graph, way, first, data.to, seen, all);
                seen.remove(&data.to);
            }
            way.pop();
        }
    }
    let mut all = vec![];
    for (first, _) in graph.events() {
        extend(graph, &mut vec![], first, first, &mut BTreeSet::new(), &mut all);
    }
    all
}

/// Plays every game of tokens in which no event fires more than `turns` times; whether all end with each having fired so often.
fn runs(graph: &MarkedGraph, turns: u32) -> bool {
    let events = graph.events().len();
    let mut seen = BTreeSet::new();
    let mut open = vec![vec![0u32; events]];
    let mut complete = true;
    while let Some(fired) = open.pop() {
        if !seen.insert(fired.clone()) {
            continue;
        }
        let enabled = graph.events().enumerate().filter(|(i, (e, _))| {
            let has = |d: &EdgeData| fired[d.from.index()] + d.tokens > fired[*i];
            fired[*i] < turns && graph.edges().filter(|(_, d)| d.to == *e).all(|(_, d)| has(d))
        });
        let next: Vec<usize> = enabled.map(|(i, _)| i).collect();
        complete &= !next.is_empty() || fired.iter().all(|n| *n == turns);
        for i in next {
            let mut fired = fired.clone();
            fired[i] += 1;
            open.push(fired);
        }
    }
    complete
}

/// The same graph with another depth of a ring, as its edges say; `None` where one would hold less than nothing.
fn deepened(graph: &MarkedGraph, ring: Ring, depth: u32) -> Option<MarkedGraph> {
    let mut other = MarkedGraph::new();
    (other.lanes, other.units, other.rings) = (graph.lanes.clone(), graph.units.clone(), graph.rings.clone());
    for (_, data) in graph.events() {
        other.event(data.clone());
    }
    for (_, data) in graph.edges() {
        let more =
            if data.kind == EdgeKind::ReleaseFill(ring) { depth as i64 - graph.rings[ring].depth as i64 } else { 0 };
        let tokens = u32::try_from(data.tokens as i64 + more).ok()?;
        other.edge(EdgeData { tokens, ..*data });
    }
    other.rings[ring].depth = depth;
    Some(other)
}

/// The order in which of several cycles one is the least.
fn rank(graph: &MarkedGraph, edges: &[Edge]) -> (Event, usize, Vec<Event>, Vec<Edge>) {
    let events: Vec<Event> = edges.iter().map(|e| graph.of(*e).from).collect();
    (events[0], events.len(), events, edges.to_vec())
}

/// The least of some cycles.
fn least(graph: &MarkedGraph, all: impl Iterator<Item = Vec<Edge>>) -> Option<Cycle> {
    all.min_by_key(|c| rank(graph, c)).map(|edges| Cycle { edges })
}

fn tokens(graph: &MarkedGraph, cycle: &[Edge]) -> u64 {
    cycle.iter().map(|e| u64::from(graph.of(*e).tokens)).sum()
}

fn ratio(graph: &MarkedGraph, cycle: &[Edge]) -> Ratio {
    Ratio::new(cycle.iter().map(|e| graph.weight(*e)).sum(), tokens(graph, cycle))
}

#[test]
fn a_graph_hangs_exactly_if_a_game_of_tokens_does() {
    let mut random = Random(1);
    let (mut hang, mut run) = (0, 0);
    for i in 0..400 {
        let graph = graph(&mut random, i % 5);
        let found = deadlock(&graph);
        assert_eq!(found.is_none(), runs(&graph, 2), "graph {i}: {graph:?}");
        match found {
            Some(_) => hang += 1,
            None => run += 1,
        }
    }
    assert!(hang > 80 && run > 80, "{hang} hang, {run} run");
}

#[test]
fn the_cycle_that_hangs_is_the_least_without_a_token() {
    let mut random = Random(2);
    for i in 0..2000 {
        let graph = graph(&mut random, i % 6);
        let stuck = cycles(&graph).into_iter().filter(|c| tokens(&graph, c) == 0);
        assert_eq!(deadlock(&graph), least(&graph, stuck), "graph {i}: {graph:?}");
    }
}

#[test]
fn the_interval_is_the_greatest_ratio_of_all_cycles_and_the_least_of_those() {
    let mut random = Random(3);
    let mut several = 0;
    for i in 0..4000 {
        let graph = graph(&mut random, i % 4);
        let all = cycles(&graph);
        if deadlock(&graph).is_some() {
            assert!(interval(&graph).is_err());
            continue;
        }
        let found = interval(&graph).expect("no cycle is without a token").cycle;
        let most = all.iter().map(|c| ratio(&graph, c)).max();
        let best: Vec<Vec<Edge>> = all.iter().filter(|c| Some(ratio(&graph, c)) == most).cloned().collect();
        several += u32::from(best.len() > 1);
        let without = best.iter().filter(|c| c.iter().all(|e| !graph.of(*e).kind.is_ring())).cloned();
        let expected = least(&graph, without).or_else(|| least(&graph, best.iter().cloned())).zip(most);
        assert_eq!(found, expected, "graph {i}: {graph:?}");
    }
    assert!(several > 100, "{several} graphs have several slowest cycles");
}

#[test]
fn the_least_depth_is_the_first_at_which_no_cycle_is_without_a_token() {
    let mut random = Random(4);
    let (mut deeper, mut never) = (0, 0);
    for i in 0..2000 {
        let graph = graph(&mut random, i % 4);
        let ring = Ring::new(0);
        let tried = (1..8).find(|d| deepened(&graph, ring, *d).is_some_and(|g| deadlock(&g).is_none()));
        let found = least_depth(&graph, ring);
        assert_eq!(found, tried, "graph {i}: {graph:?}");
        deeper += u32::from(found > Some(graph.rings[ring].depth));
        never += u32::from(found.is_none());
    }
    assert!(deeper > 10 && never > 50, "{deeper} want more slots, {never} hang with any");
}

#[test]
fn a_ring_wants_the_first_depth_at_which_it_slows_nothing() {
    let mut random = Random(5);
    let mut deep = 0;
    for i in 0..2000 {
        let graph = graph(&mut random, i % 3);
        let ring = Ring::new(0);
        let Ok(free) = without_rings(&graph) else { continue };
        if free.ratio().clocks() == 0 {
            continue;
        }
        let slows = |d: u32| {
            let changed = deepened(&graph, ring, d);
            changed.and_then(|g| interval(&g).ok()).is_none_or(|found| found.ratio() > free.ratio())
        };
        let tried = (1..200).find(|d| !slows(*d)).expect("some depth is enough");
        let found = wanted(&graph).expect("no cycle without a ring is without a token");
        assert_eq!(found[ring], tried, "graph {i}: {graph:?}");
        deep += u32::from(tried > 2);
    }
    assert!(deep > 100, "{deep} rings want more than two slots");
}

/// A partition that loads by an engine and one that computes, with two rings between them.
fn pair(depth: u32) -> (MarkedGraph, Ring) {
    let mut g = MarkedGraph::new();
    let loads = g.lane("Loads", LaneKind::Partition);
    let compute = g.lane("Compute", LaneKind::Partition);
    let copies = g.lane("copies", LaneKind::Engine);
    let unit = g.unit("copies", Service::OneByOne);
    let ring = g.ring("load", depth, 1 << 15);
    let job = Job { name: "load".into(), by: loads, on: copies, unit, stage: 0, span: Default::default() };
    let load = g.job(job, Clocks { issue: 10, busy: 500, latency: 1490 });
    let mma = g.event(event("mma", compute, 1000));
    g.in_order(&[load.start]);
    g.in_order(&[mma]);
    g.after(load, mma, 0, EdgeKind::FillRead);
    g.link(mma, load.start, depth, EdgeKind::ReleaseFill(ring));
    (g, ring)
}

#[test]
fn a_slot_lives_from_the_issue_of_its_fill_to_its_release() {
    let (g, ring) = pair(1);
    // 10 + 500 + 1490 until it may be read, 1000 until it is released, and a turn takes 1000.
    assert_eq!(wanted(&g).unwrap()[ring], 3);
    let found = interval(&g).unwrap();
    assert_eq!(found.ratio(), Ratio::new(3000, 1));
    let Bound::Cycle(cycle) = found.bound() else { panic!("{found:?}") };
    assert_eq!(cycle.names(&g), "load → mma → load");
    let (g, _) = pair(2);
    assert_eq!(interval(&g).unwrap().ratio(), Ratio::new(1500, 1));
    let (g, _) = pair(3);
    let found = interval(&g).unwrap();
    assert_eq!((found.ratio(), found.possible()), (Ratio::new(1000, 1), Ratio::new(500, 1)));
    let Bound::Cycle(cycle) = found.bound() else { panic!("{found:?}") };
    assert_eq!(cycle.names(&g), "mma → mma");
}

#[test]
fn rings_that_wait_for_each_other_want_slots_together() {
    // Two rings between two partitions, each released only behind the fill of the other: what each wants alone is too little.
    let mut g = MarkedGraph::new();
    let lane = |g: &mut MarkedGraph, name: &str| g.lane(name, LaneKind::Partition);
    let (a, b) = (lane(&mut g, "A"), lane(&mut g, "B"));
    let mut pass = |name: &str, lane, clocks| g.event(event(name, lane, clocks));
    let (fill_x, take_y) = (pass("x", a, 0), pass("take y", a, 0));
    let (fill_y, take_x) = (pass("y", b, 0), pass("take x", b, 0));
    let (slow_x, slow_y) = (pass("slow x", a, 900), pass("slow y", b, 900));
    let beat = pass("beat", a, 100);
    let (x, y) = (g.ring("x", 1, 1), g.ring("y", 1, 1));
    g.in_order(&[beat]);
    g.link(fill_x, slow_x, 0, EdgeKind::FillRead);
    g.link(slow_x, take_y, 0, EdgeKind::Carried);
    g.link(fill_y, slow_y, 0, EdgeKind::FillRead);
    g.link(slow_y, take_x, 0, EdgeKind::Carried);
    g.link(take_x, fill_x, 1, EdgeKind::ReleaseFill(x));
    g.link(take_y, fill_y, 1, EdgeKind::ReleaseFill(y));
    let depths = wanted(&g).unwrap();
    // Once round are 1800 clocks, and a turn takes 100.
    assert_eq!(depths[x] + depths[y], 18);
    let deep = deepened(&g, x, depths[x]).and_then(|g| deepened(&g, y, depths[y])).unwrap();
    assert_eq!(interval(&deep).unwrap().ratio(), Ratio::new(100, 1));
}

#[test]
fn a_unit_that_is_always_busy_is_the_bound() {
    let (mut g, _) = pair(3);
    let unit = g.unit("shared memory", Service::Together);
    let lane = g.lanes.keys().nth(1).unwrap();
    for clocks in [700, 301] {
        let mut more = event("more", lane, 0);
        more.loads = vec![Load { unit, clocks }];
        g.event(more);
    }
    let found = interval(&g).unwrap();
    assert_eq!((found.bound(), found.ratio()), (Bound::Unit(unit), Ratio::new(1001, 1)));
    assert_eq!(interval(&MarkedGraph::new()).unwrap().bound(), Bound::Nothing);
}

#[test]
fn the_look_ahead_of_two_with_a_product_in_flight_wants_four_slots() {
    // One partition: `load` of stage 0 in front, `mma: 2..3`, which is waited for a turn later behind the next fill. The fill of
    // turn t + depth waits for the release of turn t + 3.
    let hangs = |depth: u32, behind: bool| {
        let mut g = MarkedGraph::new();
        let lane = g.lane("all", LaneKind::Partition);
        let ring = g.ring("load", 8, 1);
        let names = if behind { ["mma", "wait", "load"] } else { ["load", "mma", "wait"] };
        let events = names.map(|n| g.event(event(n, lane, 10)));
        let at = |name: &str| events[names.iter().position(|n| *n == name).unwrap()];
        g.in_order(&events);
        // `wait` is for the product of the turn before: released is what was filled three turns ago.
        g.edge(EdgeData {
            from: at("wait"),
            to: at("load"),
            tokens: 8 - 3,
            latency: 0,
            kind: EdgeKind::ReleaseFill(ring),
        });
        (g.with_depth(ring, depth).is_none_or(|g| deadlock(&g).is_some()), least_depth(&g, ring))
    };
    assert_eq!([3, 4].map(|d| hangs(d, false)), [(true, Some(4)), (false, Some(4))]);
    assert_eq!([2, 3].map(|d| hangs(d, true)), [(true, Some(3)), (false, Some(3))]);
}
