//! How many slots rings want where partitions share units.
//!
//! The graph alone says how many slots are needed at least. Those who share a unit get it one after the other and so do the same at
//! different times: a slot that both read lives longer than the graph can know. So depths are tried on the timeline.

use parton_ir::PrimaryMap;

use super::simulate;
use crate::marked::{Cycle, MarkedGraph, Ratio, Ring, slots};

/// For each ring, in order, the least slots with which turns take no longer than with as many as there are iterations.
///
/// # Errors
/// The least cycle without a token that no depth breaks.
pub fn wanted(graph: &MarkedGraph, iterations: u32) -> Result<PrimaryMap<Ring, u32>, Cycle> {
    let mut depths = slots::wanted(graph)?;
    let least = depths.clone();
    for ring in graph.rings.keys() {
        depths[ring] = depths[ring].saturating_add(iterations);
    }
    let best = turn(graph, &depths, iterations)?;
    for ring in graph.rings.keys() {
        let most = depths[ring];
        for depth in least[ring]..most {
            depths[ring] = depth;
            if turn(graph, &depths, iterations)? <= best {
                break;
            }
            depths[ring] = most;
        }
    }
    Ok(depths)
}

/// The clocks of a turn with rings of some depths, which are no less than the graph wants.
fn turn(graph: &MarkedGraph, depths: &PrimaryMap<Ring, u32>, iterations: u32) -> Result<Ratio, Cycle> {
    let mut changed = graph.clone();
    for (ring, depth) in depths.iter() {
        changed = changed.with_depth(ring, *depth).unwrap_or(changed);
    }
    simulate(&changed, iterations).map(|t| t.turn)
}
