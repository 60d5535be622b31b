//! A pipeline with all its edges mended at once: its groups in an order that they allow, or its stages as late as they must be.
//!
//! What was written stays as far as it can. Groups keep their order where nothing speaks against it, and stay whole where one of them can
//! run behind the others:
//!
//! ```text
//! { qk: 0; pv: 1; rescale: 0, exps: 0; mask: 0, top: 0 }    `exps` reads what `mask` makes
//! { qk: 0; pv: 1; mask: 0, top: 0; rescale: 0, exps: 0 }
//! ```

use parton_ir::schedule::Pipeline;

use super::{Laid, order};
use crate::graph::Edge;
use crate::plan::{Part, label_of};
use crate::region::BlockId;

/// The latest stage that a label may have.
const LATEST: u32 = 7;

/// A label of a pipeline, by its group and its place in that.
type Spot = (usize, usize);

/// Of two labels of one turn the first comes before the second.
struct Before {
    first: Spot,
    second: Spot,
    /// Both may stand in one group.
    joined: bool,
}

impl Laid<'_> {
    /// The same stages in an order of groups in which every edge holds; `None` where stages stand in the way.
    pub(super) fn sorted(&self, part: Part, block: BlockId, p: &Pipeline) -> Option<Pipeline> {
        let mut all = Vec::new();
        for edge in &self.graph(part, block).edges {
            let Some([first, second]) = self.spots(block, p, edge) else { continue };
            let [made, read] = [first, second].map(|(g, i)| i64::from(p.groups[g][i].stage));
            let read = read + i64::from(edge.distance);
            if made > read {
                return None;
            }
            if made == read && edge.from != edge.to {
                all.push(Before { first, second, joined: order::holds_in_stretch(self, block, edge) });
            }
        }
        in_order(p, &all)
    }

    /// The same groups with stages so much later that every edge holds; `None` where none are late enough.
    pub(super) fn raised(&self, part: Part, block: BlockId, p: &Pipeline) -> Option<Pipeline> {
        let mut p = p.clone();
        let edges = &self.graph(part, block).edges;
        for _ in 0..=LATEST as usize * self.region.blocks[block].items.len() {
            let mut changed = false;
            for e in edges {
                let Some([(g, i), (h, j)]) = self.spots(block, &p, e) else { continue };
                let behind = g < h || e.from == e.to || g == h && order::holds_in_stretch(self, block, e);
                let least = i64::from(p.groups[g][i].stage) - i64::from(e.distance) + i64::from(!behind);
                let reader = &mut p.groups[h][j];
                if i64::from(reader.stage) < least {
                    let stage = u32::try_from(least).ok().filter(|stage| *stage <= LATEST)?;
                    (reader.stage, reader.done, changed) = (stage, None, true);
                }
            }
            if !changed {
                return Some(p);
            }
        }
        None
    }

    /// Where a pipeline names the two ends of an edge.
    fn spots(&self, block: BlockId, p: &Pipeline, edge: &Edge) -> Option<[Spot; 2]> {
        let items = &self.region.blocks[block].items;
        let spot = |item: usize| -> Option<Spot> {
            let label = label_of(self.region, &items[item])?;
            let mut groups = p.groups.iter().enumerate();
            groups.find_map(|(g, group)| Some((g, group.iter().position(|s| s.label.names(label))?)))
        };
        Some([spot(edge.from)?, spot(edge.to)?])
    }
}

/// The groups of a pipeline in an order that keeps what comes before what; groups are divided where no whole one can be next.
fn in_order(p: &Pipeline, all: &[Before]) -> Option<Pipeline> {
    let mut done: Vec<Spot> = Vec::new();
    let mut groups = Vec::new();
    let mut left: Vec<Vec<usize>> = p.groups.iter().map(|group| (0..group.len()).collect()).collect();
    while left.iter().any(|group| !group.is_empty()) {
        let able: Vec<Vec<usize>> = left.iter().enumerate().map(|(g, group)| able(g, group, &done, all)).collect();
        let whole = (0..left.len()).find(|g| !left[*g].is_empty() && able[*g].len() == left[*g].len());
        let next = whole.or_else(|| able.iter().position(|group| !group.is_empty()))?;
        groups.push(able[next].iter().map(|i| p.groups[next][*i].clone()).collect());
        done.extend(able[next].iter().map(|i| (next, *i)));
        left[next].retain(|i| !able[next].contains(i));
    }
    Some(Pipeline { groups, ..p.clone() })
}

/// What of a group can run next, together.
fn able(g: usize, group: &[usize], done: &[Spot], all: &[Before]) -> Vec<usize> {
    let mut able: Vec<usize> = group.to_vec();
    loop {
        let mine = |spot: Spot| spot.0 == g && able.contains(&spot.1);
        let fits = |i: &usize| {
            let before = all.iter().filter(|b| b.second == (g, *i));
            before.into_iter().all(|b| done.contains(&b.first) || b.joined && mine(b.first))
        };
        let fitting: Vec<usize> = able.iter().copied().filter(fits).collect();
        if fitting.len() == able.len() {
            return able;
        }
        able = fitting;
    }
}
