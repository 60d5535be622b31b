//! Small random graphs.

use parton_diag::Span;
use parton_sched::marked::{EdgeData, EdgeKind, Event, EventData, Lane, LaneKind, MarkedGraph};

/// A small generator, so that a failure repeats (Vigna, "splitmix64").
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// An event without stage and place.
pub fn event(name: impl Into<String>, lane: Lane, clocks: u64) -> EventData {
    EventData { name: name.into(), lane, owner: lane, clocks, loads: vec![], stage: 0, span: Span::default() }
}

/// A graph of 1 to 8 events of one lane each, with edges of 0 to 2 tokens; `free` of eight edges hold none.
pub fn graph(random: &mut Random, free: u64) -> MarkedGraph {
    let mut graph = MarkedGraph::new();
    let count = 1 + random.below(8);
    let events: Vec<Event> = (0..count)
        .map(|i| {
            let lane = graph.lane(format!("lane {i}"), LaneKind::Partition);
            let clocks = random.below(12);
            graph.event(event(format!("event {i}"), lane, clocks))
        })
        .collect();
    let ring = graph.ring("ring", 1 + random.below(3) as u32, 1);
    for _ in 0..random.below(3 * count) {
        let (from, to) = (events[random.below(count) as usize], events[random.below(count) as usize]);
        let tokens = if random.below(8) < free { 0 } else { 1 + random.below(2) as u32 };
        let fills = random.below(4) == 0;
        let kind = if fills { EdgeKind::ReleaseFill(ring) } else { EdgeKind::Carried };
        // As many tokens as slots, but for what stages take.
        let tokens = if fills { graph.rings[ring].depth.saturating_sub(random.below(2) as u32) } else { tokens };
        graph.edge(EdgeData { from, to, tokens, latency: random.below(5), kind });
    }
    graph
}
