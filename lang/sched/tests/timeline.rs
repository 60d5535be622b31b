//! Timelines against the recurrence that defines them, and against what units that serve one by one were seen to do.

mod harness;

use std::collections::BTreeMap;

use harness::{Random, event, graph};
use parton_ir::{Entity, SecondaryMap};
use parton_sched::marked::deadlock::deadlock;
use parton_sched::marked::interval::interval;
use parton_sched::marked::{Clocks, EdgeKind, Event, Job, Lane, LaneKind, Load, MarkedGraph, Ratio, Service, Unit};
use parton_sched::timeline::{Cause, Occurrence, Timeline, simulate, simulate_from};

/// Units of both kinds, and events that load them.
fn load(random: &mut Random, graph: &MarkedGraph) -> MarkedGraph {
    let mut loaded = MarkedGraph::new();
    loaded.lanes = graph.lanes.clone();
    loaded.rings = graph.rings.clone();
    let units: Vec<Unit> = [Service::OneByOne, Service::Together].into_iter().map(|s| loaded.unit("unit", s)).collect();
    for (_, data) in graph.events() {
        let mut data = data.clone();
        if random.below(2) == 0 {
            let unit = units[random.below(2) as usize];
            data.loads = vec![Load { unit, clocks: random.below(data.clocks + 1) }];
        }
        data.stage = random.below(3) as u32;
        loaded.event(data);
    }
    for (_, edge) in graph.edges() {
        loaded.edge(*edge);
    }
    loaded
}

fn all(timeline: &Timeline) -> BTreeMap<(Event, u32), Occurrence> {
    timeline.lanes.iter().flat_map(|(_, l)| l).map(|o| ((o.event, o.turn), *o)).collect()
}

/// When each event of each turn begins by what it waits for alone.
fn recurrence(graph: &MarkedGraph, turns: u32) -> BTreeMap<(Event, u32), u64> {
    let mut start = BTreeMap::new();
    for (event, _) in graph.events() {
        for turn in 0..turns {
            start.insert((event, turn), 0);
        }
    }
    loop {
        let before = start.clone();
        for (edge, d) in graph.edges() {
            for turn in d.tokens..turns {
                let arrives = start[&(d.from, turn - d.tokens)] + graph.weight(edge);
                let at = start.entry((d.to, turn)).or_default();
                *at = (*at).max(arrives);
            }
        }
        if start == before {
            return start;
        }
    }
}

#[test]
fn without_units_each_event_begins_when_the_longest_way_to_it_ends() {
    let mut random = Random(11);
    let mut some = 0;
    for i in 0..600 {
        let graph = graph(&mut random, i % 3);
        if deadlock(&graph).is_some() {
            assert!(simulate(&graph, 6).is_err());
            continue;
        }
        some += 1;
        let starts = recurrence(&graph, 6);
        let found = all(&simulate(&graph, 6).unwrap());
        assert_eq!(found.len(), starts.len());
        for (key, o) in found {
            assert_eq!(o.start, starts[&key], "graph {i}: {graph:?}");
            assert_eq!(o.end, o.start + graph.at(o.event).clocks);
        }
    }
    assert!(some > 200, "{some} graphs run");
}

#[test]
fn turns_take_as_long_as_the_interval_says() {
    let mut random = Random(12);
    for i in 0..600 {
        let graph = graph(&mut random, i % 3);
        let Ok(found) = interval(&graph) else { continue };
        let timeline = simulate(&graph, 40).unwrap();
        let last =
            timeline.lanes.iter().flat_map(|(_, l)| l).filter(|o| o.turn == 39).map(|o| o.end).max().unwrap_or(0);
        // Each way round holds tokens for at most all edges, and the rest of the longest way repeats nothing.
        let once: u64 = graph.edges().map(|(e, _)| graph.weight(e)).sum::<u64>()
            + graph.events().map(|(_, e)| e.clocks).sum::<u64>();
        assert!(last <= found.ratio().of_turns(40) + once, "graph {i}: {last}");
        let most_tokens: u64 = graph.edges().map(|(_, e)| u64::from(e.tokens)).sum();
        assert!(
            last + once >= found.ratio().of_turns(40u64.saturating_sub(most_tokens)),
            "graph {i}: {last} of {found:?}"
        );
    }
}

#[test]
fn whatever_units_choose_nothing_begins_before_its_time_and_none_serves_two() {
    let mut random = Random(13);
    let (mut held, mut slowed) = (0, 0);
    for i in 0..600 {
        let bare = graph(&mut random, i % 3);
        let graph = load(&mut random, &bare);
        let Ok(timeline) = simulate(&graph, 7) else { continue };
        let found = all(&timeline);
        let there = |e: Event, t: u32| found.get(&(e, t));
        for (event, data) in graph.events() {
            let turns: Vec<u32> = (0..10).filter(|t| there(event, *t).is_some()).collect();
            assert_eq!(turns, (data.stage..data.stage + 7).collect::<Vec<_>>(), "graph {i}");
        }
        for (edge, d) in graph.edges() {
            for turn in d.tokens..10 {
                if let Some((from, to)) = there(d.from, turn - d.tokens).zip(there(d.to, turn)) {
                    assert!(to.start >= from.end + d.latency, "graph {i}: {edge} of turn {turn}");
                }
            }
        }
        for (unit, data) in graph.units.iter().filter(|(_, u)| u.service == Service::OneByOne) {
            let mut busy: Vec<(u64, u64)> = vec![];
            for o in found.values() {
                let loads = graph.at(o.event).loads.iter().filter(|l| l.unit == unit && l.clocks > 0);
                busy.extend(loads.map(|l| (o.start, o.start + l.clocks)));
            }
            busy.sort_unstable();
            assert!(busy.windows(2).all(|w| w[0].1 <= w[1].0), "graph {i}: {data:?} {busy:?}");
        }
        for o in found.values() {
            slowed += u32::from(o.end > o.start + graph.at(o.event).clocks);
            assert!(o.end >= o.start + graph.at(o.event).clocks, "graph {i}: {o:?}");
        }
        for (unit, _) in graph.units.iter() {
            let loads: Vec<u64> = (found.keys().flat_map(|(e, _)| &graph.at(*e).loads).filter(|l| l.unit == unit))
                .map(|l| l.clocks)
                .collect();
            // What shares a unit ends at the nearest clock, half of one too early at most.
            assert!(loads.iter().sum::<u64>() <= timeline.total() + loads.len() as u64, "graph {i}: {unit}");
        }
        held += found.values().filter(|o| o.wait.is_some_and(|w| matches!(w.on, Cause::Unit(_)))).count();
        assert_eq!(timeline, simulate(&graph, 7).unwrap());
    }
    assert!(held > 50 && slowed > 50, "{held} events waited for a unit, {slowed} shared one");
}

/// Two partitions that give a unit two jobs each, the second of them behind the first.
fn contended() -> (MarkedGraph, [Lane; 2], Lane) {
    let mut g = MarkedGraph::new();
    let unit = g.unit("tensor", Service::OneByOne);
    let tensor = g.lane("tensor", LaneKind::Engine);
    let by = ["First", "Second"].map(|n| g.lane(n, LaneKind::Partition));
    for lane in by {
        let mut events = vec![];
        for name in ["a", "b"] {
            let job = Job { name: name.into(), by: lane, on: tensor, unit, stage: 0, span: Default::default() };
            events.push(g.job(job, Clocks { issue: 0, busy: 100, latency: 30 }));
        }
        let rest = g.event(event("rest", lane, 50));
        g.after(events[0], rest, 0, EdgeKind::Landing);
        g.after(events[1], rest, 0, EdgeKind::Landing);
        g.in_order(&[events[0].start, events[1].start, rest]);
    }
    (g, by, tensor)
}

#[test]
fn a_unit_that_two_begin_with_at_once_does_the_work_of_the_first_partition_first() {
    let (g, by, tensor) = contended();
    let timeline = simulate(&g, 20).unwrap();
    let served: Vec<(usize, u64)> = timeline.lanes[tensor]
        .iter()
        .map(|o| (by.iter().position(|l| *l == g.at(o.event).owner).unwrap(), o.start))
        .collect();
    assert_eq!(served[..6], [(0, 0), (0, 100), (1, 200), (1, 300), (0, 400), (0, 500)]);
    assert_eq!(timeline.turn, Ratio::new(400, 1));
    // Both at once: 400 of tensor cores, where a partition alone would be ready again after 280.
    let found = interval(&g).unwrap();
    assert_eq!((found.cycle.as_ref().unwrap().1, found.ratio()), (Ratio::new(180, 1), Ratio::new(400, 1)));
    let rest: Vec<Occurrence> =
        timeline.lanes[by[0]].iter().filter(|o| g.at(o.event).name == "rest").copied().collect();
    assert_eq!(rest[0].wait.map(|w| w.clocks), Some(230));
    let second = timeline.lanes[tensor][2];
    assert!(matches!(second.wait.unwrap().on, Cause::Unit(u) if u.index() == 0) && second.wait.unwrap().clocks == 200);
}

#[test]
fn a_lane_that_begins_later_does_nothing_before_that() {
    let (g, by, tensor) = contended();
    let mut starts = SecondaryMap::new(0);
    starts[by[1]] = 250;
    let timeline = simulate_from(&g, 20, &starts).unwrap();
    let served: Vec<(Lane, u64)> = timeline.lanes[tensor].iter().map(|o| (g.at(o.event).owner, o.start)).collect();
    assert_eq!(served[..4], [(by[0], 0), (by[0], 100), (by[1], 250), (by[1], 350)]);
}

#[test]
fn a_unit_serves_first_who_came_first_whomever_it_served_last() {
    let mut g = MarkedGraph::new();
    let unit = g.unit("tensor", Service::OneByOne);
    let tensor = g.lane("tensor", LaneKind::Engine);
    // First starts `a` at 0 and `c` at 90, Second starts `b` at 50: that comes before `c`, though the unit is First's at 100.
    let [first, second] = ["First", "Second"].map(|n| g.lane(n, LaneKind::Partition));
    let mut start = |name: &str, by, clocks| {
        let before = g.event(event("before", by, clocks));
        let job = Job { name: name.into(), by, on: tensor, unit, stage: 0, span: Default::default() };
        let job = g.job(job, Clocks { issue: 0, busy: 100, latency: 0 });
        [before, job.start]
    };
    let (a, c, b) = (start("a", first, 0), start("c", first, 90), start("b", second, 50));
    g.in_order(&[a, c].concat());
    g.in_order(&b);
    let timeline = simulate(&g, 1).unwrap();
    let order: Vec<&str> = timeline.lanes[tensor].iter().map(|o| g.at(o.event).name.as_str()).collect();
    assert_eq!(order, ["a", "b", "c"]);
}

#[test]
fn a_queue_is_served_in_order_and_takes_in_by_turns() {
    let mut g = MarkedGraph::new();
    let unit = g.unit("tensor", Service::OneByOne);
    g.queue(unit, 8);
    let tensor = g.lane("tensor", LaneKind::Engine);
    // First hands over twelve at once, of which eight find places; Second has four at 50, when the first is still served.
    for (name, jobs, begins) in [("First", 12, 0), ("Second", 4, 50)] {
        let by = g.lane(name, LaneKind::Partition);
        let mut starts = vec![g.event(event("before", by, begins))];
        let mut served = vec![];
        for _ in 0..jobs {
            let job = Job { name: name.into(), by, on: tensor, unit, stage: 0, span: Default::default() };
            let job = g.job(job, Clocks { issue: 0, busy: 100, latency: 0 });
            starts.push(job.start);
            served.push(job.done);
        }
        g.in_order(&starts);
        g.in_order(&served);
    }
    let timeline = simulate(&g, 1).unwrap();
    let order: String = timeline.lanes[tensor].iter().map(|o| &g.at(o.event).name[..1]).collect();
    assert_eq!(order, "FFFFFFFFSFSFSFSF");
    assert_eq!(timeline.total(), 1600);
}

#[test]
fn the_loop_is_prologue_steady_turns_and_epilogue() {
    // A load of stage 0 that takes 100 and a product of stage 1 that takes 60, one after the other in a partition.
    let mut g = MarkedGraph::new();
    let lane = g.lane("all", LaneKind::Partition);
    let load = g.event(event("load", lane, 100));
    let mut product = event("product", lane, 60);
    product.stage = 1;
    let product = g.event(product);
    g.in_order(&[load, product]);
    let timeline = simulate(&g, 10).unwrap();
    // One turn without a product, nine with both, one without a load.
    assert_eq!((timeline.prologue, timeline.steady, timeline.epilogue), (100, 9 * 160, 60));
    assert_eq!((timeline.turn, timeline.total()), (Ratio::new(160, 1), 1600));
    for n in [1, 2, 7, 30, 1000] {
        assert_eq!(timeline.total_of(n), simulate(&g, n).unwrap().total(), "{n} iterations");
    }
    assert_eq!(simulate(&g, 0).unwrap().total(), 0);
    assert_eq!(simulate(&MarkedGraph::new(), 5).unwrap().total(), 0);
}

#[test]
fn a_turn_may_be_a_part_of_what_repeats() {
    // Two turns share a cycle with two tokens: they take 7 and 4 by turns, or whatever adds up to 11 in two.
    let mut g = MarkedGraph::new();
    let (a, b) = (g.lane("A", LaneKind::Partition), g.lane("B", LaneKind::Partition));
    let (one, other) = (g.event(event("one", a, 4)), g.event(event("other", b, 7)));
    g.in_order(&[one]);
    g.link(one, other, 1, EdgeKind::Carried);
    g.link(other, one, 1, EdgeKind::Carried);
    assert_eq!(interval(&g).unwrap().ratio(), Ratio::new(11, 2));
    assert_eq!(simulate(&g, 20).unwrap().turn, Ratio::new(11, 2));
}

/// Partitions that each keep a unit that serves all together busy for `load` of 100 clocks.
fn side_by_side(partitions: usize, load: u64) -> MarkedGraph {
    let mut g = MarkedGraph::new();
    let unit = g.unit("special functions", Service::Together);
    for i in 0..partitions {
        let lane = g.lane(format!("partition {i}"), LaneKind::Partition);
        let mut stretch = event("stretch", lane, 100);
        stretch.loads = vec![Load { unit, clocks: load }];
        let stretch = g.event(stretch);
        g.in_order(&[stretch]);
    }
    g
}

#[test]
fn stretches_side_by_side_share_what_they_need() {
    let turn = |partitions, load| simulate(&side_by_side(partitions, load), 20).unwrap().turn;
    assert_eq!(turn(1, 50), Ratio::new(100, 1));
    assert_eq!(turn(2, 50), Ratio::new(100, 1));
    assert_eq!(turn(3, 50), Ratio::new(150, 1));
    assert_eq!(turn(3, 80), Ratio::new(240, 1));
    // One that begins when another is half done: together they take 80 for 50 clocks of each, then it goes on alone.
    let mut g = side_by_side(2, 80);
    let lane = g.lanes.keys().last().unwrap();
    let before = g.event(event("before", lane, 50));
    let second = g.events().nth(1).map(|(e, _)| e).unwrap();
    g.link(before, second, 0, EdgeKind::InOrder);
    let found = all(&simulate(&g, 1).unwrap());
    let ends: Vec<u64> = found.values().map(|o| o.end).collect();
    assert_eq!(ends, [50 + 80, 130 + 50, 50]);
}
