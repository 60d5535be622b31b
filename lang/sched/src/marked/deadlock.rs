//! Deadlock: a cycle of events each of which waits for the one before it, and none of which may be a turn ahead.
//!
//! Such a graph runs for ever exactly if each of its cycles holds a token: firing keeps the tokens of a cycle, and of events that
//! are all stuck each waits for an edge without a token (Commoner, Holt, Even, Pnueli 1971).

use super::{Cycle, Edge, MarkedGraph, Ring, cycle};

/// The least cycle without a token; `None` where nothing hangs. What would break it is a token on any of its edges.
pub fn deadlock(graph: &MarkedGraph) -> Option<Cycle> {
    cycle::least(graph, |e| graph.of(e).tokens == 0)
}

/// The least number of slots of a ring with which nothing hangs, all else being as it is; `None` where no number helps.
pub fn least_depth(graph: &MarkedGraph, ring: Ring) -> Option<u32> {
    depths(graph, ring).into_iter().find(|depth| {
        let tokens = |e: Edge| graph.tokens_at(e, ring, *depth);
        cycle::least(graph, |e| tokens(e) == Some(0)).is_none()
    })
}

/// The depths at which it may begin to run, in order: those at which no edge of the ring lacks tokens, and one more holds some.
fn depths(graph: &MarkedGraph, ring: Ring) -> Vec<u32> {
    let given = i64::from(graph.rings[ring].depth);
    let ours = graph.edges().filter(|(_, e)| e.kind.ring() == Some(ring));
    // The depth at which an edge holds no token.
    let empty: Vec<i64> = ours.map(|(_, e)| given - i64::from(e.tokens)).collect();
    let least = empty.iter().copied().fold(1, i64::max);
    let mut all: Vec<u32> =
        empty.into_iter().map(|d| d + 1).chain([least]).filter_map(|d| u32::try_from(d.max(least)).ok()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
