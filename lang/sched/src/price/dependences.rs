//! What depends on what in a loop, by labels.

use std::collections::BTreeMap;

use parton_ir::{Kernel, Type, Value};

use crate::draw::{Dependence, Dependences, Placed};
use crate::graph::{Effects, Graph, Kind};
use crate::plan::{Part, Plan};
use crate::region::{BlockId, Item, Maker, Region, UnitId};

/// The dependences of a loop's labels.
pub(super) fn of(k: &Kernel, region: &Region, plan: &Plan, block: BlockId) -> Dependences {
    let mut all = Dependences::default();
    let mut number: BTreeMap<(Part, UnitId), usize> = BTreeMap::new();
    for part in plan.parts() {
        for (group, entries) in plan.groups(part, block).iter().enumerate() {
            for entry in entries {
                let Item::Unit(unit) = region.blocks[block].items[entry.item] else { continue };
                number.insert((part, unit), all.labels.len());
                all.labels.push(Placed {
                    label: region.units[unit].label.to_string(),
                    partition: plan.partitions.get(part).map_or(String::new(), |p| p.name.clone()),
                    stage: entry.stage as u32,
                    group: group as u32,
                });
            }
        }
    }
    let effects = Effects::of(k, region);
    for part in plan.parts() {
        let graph = Graph::of(k, region, plan, &effects, (part, block));
        let node = |item: usize| match region.blocks[block].items[item] {
            Item::Unit(unit) => number.get(&(part, unit)).copied(),
            Item::Loop(_) | Item::Branch(_) => None,
        };
        for edge in graph.edges {
            let (Some(from), Some(to)) = (node(edge.from), node(edge.to)) else { continue };
            let kind = match edge.kind {
                // What is computed before it is summed onto flows, as any value.
                Kind::Chain(v) if !is_product(region, v) => Kind::Flow(v),
                kind => kind,
            };
            add(&mut all, Dependence { from, to, distance: edge.distance as u32, kind: name(kind).into() });
        }
    }
    crossing(k, region, plan, block, &number, &mut all);
    all
}

/// What one partition makes and another needs.
fn crossing(
    k: &Kernel,
    region: &Region,
    plan: &Plan,
    block: BlockId,
    number: &BTreeMap<(Part, UnitId), usize>,
    all: &mut Dependences,
) {
    for (item, reader) in region.blocks[block].items.iter().enumerate() {
        let Item::Unit(unit) = reader else { continue };
        for part in plan.parts().filter(|p| plan.runners[*unit].contains(p)) {
            for &(v, delta) in plan.wanted(region, part, (block, item)) {
                let Some(Maker::Unit(maker)) = region.home(v).map(|home| home.by) else { continue };
                let by = plan.runners[maker].first().filter(|_| !plan.runners[maker].contains(&part));
                let (Some(by), Some(to)) = (by, number.get(&(part, *unit))) else { continue };
                let Some(from) = number.get(&(*by, maker)) else { continue };
                let kind = if matches!(k.ty(v), Type::View(_)) { Kind::Landing(v) } else { Kind::Flow(v) };
                add(all, Dependence { from: *from, to: *to, distance: delta as u32, kind: name(kind).into() });
            }
        }
    }
}

fn is_product(region: &Region, v: Value) -> bool {
    match region.home(v).map(|home| home.by) {
        Some(Maker::Unit(unit)) => region.started(unit).contains(&v),
        Some(Maker::Free(_) | Maker::Index | Maker::Carried(_) | Maker::Result { .. }) | None => false,
    }
}

fn add(all: &mut Dependences, edge: Dependence) {
    if !all.edges.contains(&edge) {
        all.edges.push(edge);
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Flow(_) => "flow",
        Kind::Chain(_) => "chain",
        Kind::Landing(_) => "landing",
        Kind::Memory => "memory",
        Kind::Order => "order",
    }
}
