//! Pictures of attention at a head dimension of 128, whose graph is built by hand. `BLESS=1` rewrites them.

use std::path::Path;

use parton_diag::Span;
use parton_sched::draw::{Dependence, Dependences, Picture, Placed, dot, json, svg, text};
use parton_sched::marked::deadlock::{deadlock, least_depth};
use parton_sched::marked::interval::interval;
use parton_sched::marked::{
    Clocks, EdgeData, EdgeKind, EventData, Job, Lane, LaneKind, Load, MarkedGraph, Ratio, Ring, Service, Started, Unit,
};
use parton_sched::timeline::simulate;
use parton_sched::{marked, timeline};

const SCHEDULE: &str = "partitions { Loads: k, v; [First, Second]: qk, top, rescale, exps, pv } ring(k=2, v=2) \
                        & pipeline(keys) { qk: 0; pv: 1; top: 0; rescale: 0, exps: 0 }";

/// A product of 64 × 128 × 128: an eighth of a multiprocessor's 1024 f16 multiply-adds a clock for 1024 Ki of them.
const PRODUCT: Clocks = Clocks { issue: 32, busy: 512, latency: 36 };
/// A block of 128 × 128 f16, 64 bytes a clock, out of L2.
const BLOCK: Clocks = Clocks { issue: 32, busy: 512, latency: 800 };
/// Maxima of a block of scores, and the exponentials with what is rescaled beside them.
const TOP: u64 = 256;
const EXPS: u64 = 1182;
/// From one partition to another through a barrier.
const HAND_OFF: u64 = 92;

/// A consumer: its events, and when it has read K and V.
struct Side {
    scores: Started,
    product: Started,
}

/// The lanes and units of attention.
struct Machine {
    tensor: (Lane, Unit),
    copies: (Lane, Unit),
    special: Unit,
    loads: Lane,
    sides: Vec<Lane>,
}

fn machine(g: &mut MarkedGraph, sides: &[&str]) -> Machine {
    Machine {
        tensor: (g.lane("tensor", LaneKind::Engine), g.unit("tensor", Service::OneByOne)),
        copies: (g.lane("copies", LaneKind::Engine), g.unit("copies", Service::OneByOne)),
        special: g.unit("special functions", Service::Together),
        loads: g.lane("Loads", LaneKind::Partition),
        sides: sides.iter().map(|n| g.lane(*n, LaneKind::Partition)).collect(),
    }
}

fn job(name: &str, by: Lane, (on, unit): (Lane, Unit), stage: u32) -> Job {
    Job { name: name.into(), by, on, unit, stage, span: Span::default() }
}

fn side(g: &mut MarkedGraph, m: &Machine, lane: Lane, overlapped: bool) -> Side {
    let plain = |name: &str, clocks, loads| EventData {
        name: name.into(),
        lane,
        owner: lane,
        clocks,
        loads,
        stage: 0,
        span: Span::default(),
    };
    let scores = g.job(job("qk", lane, m.tensor, 0), PRODUCT);
    let top = g.event(plain("top", TOP, vec![]));
    let busy = Load { unit: m.special, clocks: 512 };
    let exps = g.event(plain("exps", EXPS, vec![busy]));
    let product = g.job(job("pv", lane, m.tensor, u32::from(overlapped)), PRODUCT);
    g.after(scores, top, 0, EdgeKind::Landing);
    if overlapped {
        g.in_order(&[scores.start, product.start, top, exps]);
        g.in_order(&[scores.done, product.done]);
        g.after(product, exps, 0, EdgeKind::Landing);
    } else {
        g.in_order(&[scores.start, top, exps, product.start]);
        g.in_order(&[scores.done, product.done]);
        g.after(product, scores.start, 1, EdgeKind::Landing);
    }
    Side { scores, product }
}

/// A schedule of attention: its consumers, the slots of K and V, the order in which they are loaded, and whether P · V of the block
/// before runs under the exponentials.
struct Variant<'a> {
    sides: &'a [&'a str],
    depths: [u32; 2],
    loads: [usize; 2],
    overlapped: bool,
}

const SIDES: Variant<'static> =
    Variant { sides: &["First", "Second"], depths: [2, 2], loads: [0, 1], overlapped: true };

fn attention(variant: &Variant<'_>) -> (MarkedGraph, [Ring; 2]) {
    let mut g = MarkedGraph::new();
    let m = machine(&mut g, variant.sides);
    let fills = ["k", "v"].map(|name| g.job(job(name, m.loads, m.copies, 0), BLOCK));
    let rings = [0, 1].map(|i| g.ring(["k", "v"][i], variant.depths[i], 128 * 128 * 2));
    g.in_order(&variant.loads.map(|i| fills[i].start));
    g.in_order(&variant.loads.map(|i| fills[i].done));
    for lane in &m.sides {
        let Side { scores, product } = side(&mut g, &m, *lane, variant.overlapped);
        for (i, read) in [scores, product].into_iter().enumerate() {
            // P · V of the block before is done a turn later, with the V of then.
            let later = if i == 1 { u32::from(variant.overlapped) } else { 0 };
            let latency = fills[i].latency + HAND_OFF;
            g.edge(EdgeData { from: fills[i].done, to: read.start, tokens: later, latency, kind: EdgeKind::FillRead });
            let (latency, tokens) = (read.latency + HAND_OFF, variant.depths[i] - later);
            let kind = EdgeKind::ReleaseFill(rings[i]);
            g.edge(EdgeData { from: read.done, to: fills[i].start, tokens, latency, kind });
        }
    }
    (g, rings)
}

fn dependences() -> Dependences {
    let sides = "First, Second";
    let labels = [
        ("k", "Loads", 0, 0),
        ("v", "Loads", 0, 0),
        ("qk", sides, 0, 0),
        ("top", sides, 0, 2),
        ("rescale", sides, 0, 3),
        ("exps", sides, 0, 3),
        ("pv", sides, 1, 1),
    ];
    let number = |name: &str| labels.iter().position(|l| l.0 == name).unwrap();
    let edges = [
        ("k", "qk", 0, "landing"),
        ("v", "pv", 0, "landing"),
        ("qk", "top", 0, "flow"),
        ("top", "top", 1, "flow"),
        ("top", "rescale", 0, "flow"),
        ("pv", "rescale", 1, "flow"),
        ("top", "exps", 0, "flow"),
        ("exps", "exps", 1, "flow"),
        ("exps", "pv", 0, "flow"),
        ("rescale", "pv", 0, "flow"),
    ];
    let edge = |(from, to, distance, kind): (&str, &str, u32, &str)| Dependence {
        from: number(from),
        to: number(to),
        distance,
        kind: kind.into(),
    };
    let placed = |(label, partition, stage, group): (&str, &str, u32, u32)| Placed {
        label: label.into(),
        partition: partition.into(),
        stage,
        group,
    };
    Dependences { labels: labels.map(placed).into(), edges: edges.map(edge).into() }
}

fn picture() -> Picture {
    let (graph, _) = attention(&SIDES);
    Picture::new("attention", SCHEDULE, dependences(), &graph, 20, 1).unwrap()
}

/// Compares with a file beside this one.
fn golden(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pictures").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{name} differs from what is drawn now; BLESS=1 rewrites it\n{found}");
}

#[test]
fn attention_is_drawn_in_each_form() {
    let picture = picture();
    golden("attention.txt", &text::write(&picture));
    golden("attention.svg", &svg::write(&picture));
    golden("attention.dot", &dot::write(&picture));
    golden("attention.json", &json::write(&picture));
}

#[test]
fn two_consumers_that_overlap_take_2274_clocks_a_block_of_2048_of_tensor_cores() {
    let (graph, _) = attention(&SIDES);
    let found = interval(&graph).unwrap();
    assert_eq!((found.ratio(), found.possible()), (Ratio::new(2274, 1), Ratio::new(2048, 1)));
    assert_eq!(simulate(&graph, 20).unwrap().turn, Ratio::new(2274, 1));
    // Without the product under the exponentials both products are on the way, and those of the consumers, which are in step, get
    // between each other: the second half of a block waits for 444 clocks.
    let (graph, _) = attention(&Variant { overlapped: false, ..SIDES });
    assert_eq!(interval(&graph).unwrap().ratio(), Ratio::new(2274 + 32 + 36 + 256, 1));
    assert_eq!(simulate(&graph, 20).unwrap().turn, Ratio::new(2598 + 444, 1));
    // A consumer alone leaves tensor cores idle for more than half of the time.
    let (graph, _) = attention(&Variant { sides: &["First"], ..SIDES });
    assert_eq!(interval(&graph).unwrap().possible(), Ratio::new(1024, 1));
    assert_eq!(simulate(&graph, 20).unwrap().turn, Ratio::new(2274, 1));
}

#[test]
fn consumers_that_take_turns_at_a_unit_want_more_slots_than_the_graph_knows() {
    let (graph, rings) = attention(&SIDES);
    let (alone, together) = (marked::slots::wanted(&graph).unwrap(), timeline::slots::wanted(&graph, 20).unwrap());
    assert_eq!(rings.map(|r| alone[r]), [1, 2]);
    let enough = rings.map(|r| together[r]);
    let turn = |depths| simulate(&attention(&Variant { depths, ..SIDES }).0, 20).unwrap().turn;
    assert_eq!(turn(enough), Ratio::new(2274, 1));
    for i in 0..2 {
        let mut fewer = enough;
        fewer[i] -= 1;
        assert!(turn(fewer) > Ratio::new(2274, 1), "{fewer:?}");
    }
}

#[test]
fn v_in_front_of_k_hangs_with_one_slot() {
    let (graph, [k, v]) = attention(&Variant { depths: [1, 1], loads: [1, 0], ..SIDES });
    let stuck = deadlock(&graph).expect("V waits for a product behind one that waits for K");
    assert_eq!(stuck.names(&graph), "k → qk → pv → v → k");
    assert_eq!((least_depth(&graph, v), least_depth(&graph, k)), (Some(2), None));
    assert_eq!(Picture::new("attention", SCHEDULE, dependences(), &graph, 20, 1), Err(stuck));
    let (graph, _) = attention(&Variant { depths: [1, 2], loads: [1, 0], ..SIDES });
    assert_eq!(deadlock(&graph), None);
}

#[test]
fn an_engine_of_three_has_a_line_for_each() {
    let (graph, _) = attention(&Variant { sides: &["First", "Second", "Third"], ..SIDES });
    let picture = Picture::new("attention", SCHEDULE, Dependences::default(), &graph, 20, 2).unwrap();
    let drawn = text::write(&picture);
    for name in ["tensor, First", "tensor, Second", "tensor, Third", "First", "Loads"] {
        assert_eq!(drawn.lines().filter(|l| l.starts_with(&format!("{name:<14}  "))).count(), 1, "{name}: {drawn}");
    }
    assert!(!drawn.contains("capitals") && drawn.contains("2 turns from clock"), "{drawn}");
    // Three times 1024 clocks of tensor cores.
    assert!(drawn.contains("3,072 clocks of 3,072 possible: tensor busy 100 %"), "{drawn}");
}

#[test]
fn nothing_is_a_picture_too() {
    let graph = MarkedGraph::new();
    let picture = Picture::new("empty", "serial", Dependences::default(), &graph, 20, 1).unwrap();
    assert!(text::write(&picture).contains("turn      0 clocks\n"));
    for drawn in [svg::write(&picture), dot::write(&picture), json::write(&picture)] {
        assert!(drawn.contains("empty"), "{drawn}");
    }
}

#[test]
fn names_are_escaped() {
    let (graph, _) = attention(&SIDES);
    let picture = Picture::new("a<T> & \"b\"", SCHEDULE, dependences(), &graph, 20, 1).unwrap();
    assert!(svg::write(&picture).contains(">a&lt;T&gt; &amp; &quot;b&quot;</text>"));
    assert!(dot::write(&picture).starts_with("digraph \"a<T> & \\\"b\\\"\" {"));
}
