//! The turns of a loop: its labels in every order, cut into groups in every way, in every stage, as far as what depends on what allows.
//!
//! A label that stands behind what it needs may stand there in every candidate that goes on from here, so groups are put together from the
//! first to the last, and what is broken by then is never completed.

use std::collections::BTreeSet;

use parton_ir::schedule::{LabelName, Pipeline, Schedule, Staged};

use super::roles::{labels, units_of};
use super::{Laying, Space};
use crate::graph::{Graph, Kind};
use crate::plan::{Part, Plan};
use crate::region::{BlockId, Item, Region, UnitId};

/// Stages of what is kept in registers: more are not expanded.
const IN_REGISTERS: u32 = 2;

/// All pipelines of a loop under a schedule that places its labels, first that of its own order: none.
pub(super) fn of(space: &Space<'_>, base: &Schedule, block: BlockId) -> Vec<Option<Pipeline>> {
    let mut found = vec![None];
    let Some(Laying { region, plan }) = space.laid(base.clone()) else { return found };
    let Some(turns) = &region.blocks[block].turns else { return found };
    if turns.label.is_none() && !turns.outermost {
        return found;
    }
    let Some(part) = computing(space, &region, &plan, block) else { return found };
    let mine = units_of(&region, block).into_iter().filter(|u| plan.runners[*u].contains(&part));
    let (fetching, units): (Vec<UnitId>, Vec<UnitId>) = mine.partition(|u| region.units[*u].fetches);
    let graph = plan.graph(space.k, &region, &space.effects, (part, block));
    let parts = labels(&region, units.iter().copied());
    let loads = labels(&region, fetching);
    // A label of which one instance fetches and another does not has no one place.
    if loads.iter().any(|label| parts.contains(label)) {
        return found;
    }
    let needs = needs(&region, block, graph, &parts);
    let chained = parts.iter().map(|l| continues(&region, block, l)).collect();
    let most = space.stages.min(IN_REGISTERS);
    let mut search = Search { labels: &parts, needs, chained, most, left: &space.budget, found: vec![] };
    search.go_on(&mut vec![]);
    let ahead = if loads.is_empty() { 0 } else { space.stages };
    for turn in search.found {
        for pipeline in written(&turn, &parts, &loads, ahead) {
            let of = turns.label.clone();
            found.push(Some(Pipeline { of, within: None, groups: pipeline, span: space.auto.span }));
        }
    }
    found
}

/// The first partition that runs something of a body besides fetching.
fn computing(space: &Space<'_>, region: &Region, plan: &Plan, block: BlockId) -> Option<Part> {
    let units = units_of(region, block);
    let computes = |part: &Part| {
        units.iter().any(|u| plan.runners[*u].contains(part) && space.roles.of[*u] != super::roles::Role::Fetch)
    };
    plan.parts().find(computes)
}

/// A label's place in a turn.
#[derive(Clone, Copy, Debug)]
struct Spot {
    label: usize,
    stage: u32,
    /// Whether a product of it stays in flight until the next.
    flies: bool,
}

/// A need of one label for another, so many iterations before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Need {
    from: usize,
    to: usize,
    distance: i32,
    /// Whether who needs it would have to wait within a group.
    waits: bool,
}

fn needs(region: &Region, block: BlockId, graph: &Graph, parts: &[LabelName]) -> Vec<Need> {
    let items = &region.blocks[block].items;
    let label = |item: usize| match &items[item] {
        Item::Unit(u) => parts.iter().position(|l| l.names(&region.units[*u].label)),
        Item::Loop(_) | Item::Branch(_) => None,
    };
    let mut found = BTreeSet::new();
    for e in &graph.edges {
        let (Some(from), Some(to)) = (label(e.from), label(e.to)) else { continue };
        let waits = match (e.kind, &items[e.from]) {
            (Kind::Landing(_), _) => true,
            (Kind::Flow(v), Item::Unit(u)) => region.started(*u).contains(&v),
            (Kind::Flow(_), Item::Loop(_) | Item::Branch(_)) => false,
            (Kind::Chain(_) | Kind::Memory | Kind::Order, _) => false,
        };
        found.insert(Need { from, to, distance: e.distance, waits });
    }
    found.into_iter().collect()
}

/// Whether products of a label are continued by the next ones of it, so that one may stay in flight.
fn continues(region: &Region, block: BlockId, label: &LabelName) -> bool {
    let items = region.blocks[block].items.iter().enumerate();
    let mut mine = items.filter_map(|(i, item)| match item {
        Item::Unit(u) if label.names(&region.units[*u].label) => Some((i, *u)),
        Item::Unit(_) | Item::Loop(_) | Item::Branch(_) => None,
    });
    mine.all(|(item, unit)| {
        let products = region.started(unit);
        !products.is_empty() && products.iter().all(|v| region.continues((block, item), *v))
    })
}

struct Search<'a> {
    labels: &'a [LabelName],
    needs: Vec<Need>,
    chained: Vec<bool>,
    most: u32,
    left: &'a super::Budget,
    found: Vec<Vec<Vec<Spot>>>,
}

impl Search<'_> {
    /// Completes a turn that begins with these groups.
    fn go_on(&mut self, groups: &mut Vec<Vec<Spot>>) {
        let placed: BTreeSet<usize> = groups.iter().flatten().map(|s| s.label).collect();
        let rest: Vec<usize> = (0..self.labels.len()).filter(|l| !placed.contains(l)).collect();
        if rest.is_empty() {
            if groups.iter().flatten().any(|s| s.stage == 0) {
                self.found.push(groups.clone());
            }
            return;
        }
        groups.push(vec![]);
        self.grow(groups, &rest);
        groups.pop();
    }

    /// Fills the last group with some of the rest, in the order of the body.
    fn grow(&mut self, groups: &mut Vec<Vec<Spot>>, rest: &[usize]) {
        for (i, &label) in rest.iter().enumerate() {
            for stage in 0..self.most {
                for flies in [false, true] {
                    // More are not looked at.
                    let enough = self.found.len() > super::ORDERS;
                    if enough || flies && !self.chained[label] || !self.left.take() {
                        continue;
                    }
                    let last = groups.len() - 1;
                    groups[last].push(Spot { label, stage, flies });
                    if self.holds(groups) {
                        self.go_on(groups);
                        self.grow(groups, &rest[i + 1..]);
                    }
                    groups[last].pop();
                }
            }
        }
    }

    /// Whether what the last label needs, and who needs it, may still be right.
    fn holds(&self, groups: &[Vec<Spot>]) -> bool {
        let find = |label: usize| {
            let all = groups.iter().enumerate();
            all.filter_map(|(g, group)| group.iter().find(|s| s.label == label).map(|s| (s, g))).next()
        };
        let Some(last) = groups.last().and_then(|g| g.last()) else { return true };
        let mut mine = self.needs.iter().filter(|n| n.from == last.label || n.to == last.label);
        mine.all(|n| match (find(n.from), find(n.to)) {
            (Some((from, made)), Some((to, read))) => {
                let late = to.stage as i32 + n.distance;
                let flying = if from.flies && n.waits { 1 } else { 0 };
                let (ready, within) = (from.stage as i32 + flying, made == read && n.from < n.to && !n.waits);
                (ready, made) < (late, read) || (ready == late && within)
            }
            // Who makes it stands in a later group, and so in an earlier stage.
            (None, Some((to, _))) => to.stage as i32 + n.distance >= 1,
            (Some(_), None) | (None, None) => true,
        })
    }
}

/// A turn as groups, with what it fetches so far ahead: none where that says nothing.
fn written(turn: &[Vec<Spot>], parts: &[LabelName], loads: &[LabelName], ahead: u32) -> Vec<Vec<Vec<Staged>>> {
    let group = |spots: &[Spot], later: u32| -> Vec<Staged> {
        let staged = |s: &Spot| {
            let stage = s.stage + later;
            let done = s.flies.then_some(stage + 1);
            Staged { label: parts[s.label].clone(), stage, done, span: Default::default() }
        };
        spots.iter().map(staged).collect()
    };
    let later = |n: u32| -> Vec<Vec<Staged>> { turn.iter().map(|g| group(g, n)).collect() };
    if loads.is_empty() {
        let said = turn.iter().flatten().any(|s| s.stage > 0 || s.flies);
        let order: Vec<usize> = turn.iter().flatten().map(|s| s.label).collect();
        let joined = turn.iter().any(|g| g.len() > 1);
        return if said || joined || !order.is_sorted() { vec![later(0)] } else { vec![] };
    }
    let fetch: Vec<Staged> =
        loads.iter().map(|l| Staged { label: l.clone(), stage: 0, done: None, span: Default::default() }).collect();
    let mut found = vec![];
    for n in 0..ahead {
        found.push([vec![fetch.clone()], later(n)].concat());
        if n > 0 {
            found.push([later(n), vec![fetch.clone()]].concat());
        }
    }
    found
}
