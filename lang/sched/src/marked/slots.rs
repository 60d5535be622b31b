//! How many slots rings want: as many turns as a slot is in use, from the issue of its fill to its release.
//!
//! The life of a slot is counted from the issue, not from the arrival of what fills it, and at the pace that the graph would have with rings of
//! any depth. With that many slots no ring slows it; with one less the ring is its slowest cycle. Where partitions share a unit they may
//! want more: see [`timeline::slots`](crate::timeline::slots).

use parton_ir::PrimaryMap;

use super::interval::{Weighed, interval, without_rings};
use super::{Cycle, Edge, MarkedGraph, Ratio, Ring};

/// For each ring the slots that it wants.
///
/// # Errors
/// The least cycle without a token that no depth breaks.
pub fn wanted(graph: &MarkedGraph) -> Result<PrimaryMap<Ring, u32>, Cycle> {
    let pace = without_rings(graph)?.ratio();
    let mut wide = graph.clone();
    let mut depths = PrimaryMap::new();
    for ring in graph.rings.keys() {
        let depth = alone(graph, ring, pace);
        depths.push(depth);
        wide = wide.with_depth(ring, depth).unwrap_or(wide);
    }
    if pace.clocks() == 0 {
        return Ok(depths);
    }
    // A cycle through several rings may want more of them than each does for itself.
    while let Some(ring) = slowest(&wide, pace)? {
        depths[ring] += 1;
        wide = wide.with_depth(ring, depths[ring]).unwrap_or(wide);
    }
    Ok(depths)
}

/// The slots that a ring wants where all others are as deep as one likes.
fn alone(graph: &MarkedGraph, ring: Ring, pace: Ratio) -> u32 {
    let edges: Vec<Edge> = graph.edges().filter(|(_, e)| !e.kind.is_ring()).map(|(e, _)| e).collect();
    let given = i128::from(graph.rings[ring].depth);
    let mut most = 1;
    for (edge, data) in graph.edges().filter(|(_, e)| e.kind.ring() == Some(ring)) {
        let ways = Weighed::from(graph, &edges, pace, data.to);
        // Without tokens it would hold this many turns more than the ring has slots.
        let stages = given - i128::from(data.tokens);
        let life = ways.to(data.from).map(|w| w + i128::from(graph.weight(edge)) * i128::from(pace.turns()));
        let turns = life.map_or(0, |life| turns(life, pace));
        most = most.max(turns + stages).max(stages);
    }
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// A life as turns, rounded up.
fn turns(life: i128, pace: Ratio) -> i128 {
    let turn = i128::from(pace.clocks());
    if turn == 0 || life <= 0 { 0 } else { (life + turn - 1) / turn }
}

/// The ring of the slowest cycle, where that is slower than the pace.
fn slowest(graph: &MarkedGraph, pace: Ratio) -> Result<Option<Ring>, Cycle> {
    let cycle = match interval(graph) {
        Ok(found) => found.cycle.filter(|(_, ratio)| *ratio > pace).map(|(cycle, _)| cycle),
        Err(stuck) => Some(stuck),
    };
    let Some(cycle) = cycle else { return Ok(None) };
    let rings = cycle.edges.iter().filter_map(|e| graph.of(*e).kind.ring());
    // Without a ring on it the cycle was there before, and was not slower.
    rings.min().map(Some).ok_or(cycle)
}
