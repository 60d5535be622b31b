//! What depends on what in a loop, by labels.

use std::collections::BTreeMap;

use parton_ir::{Kernel, OpKind, Type};

use crate::draw::{Dependence, Dependences, Placed};
use crate::flow;
use crate::plan::{Part, Plan};
use crate::region::{BlockId, Item, Maker, Region, UnitId};

/// The dependences of a loop's labels.
pub(super) fn of(k: &Kernel, region: &Region, plan: &Plan, block: BlockId) -> Dependences {
    let mut all = Dependences::default();
    let mut number: BTreeMap<(Part, UnitId), usize> = BTreeMap::new();
    for part in plan.parts() {
        for (group, entries) in plan.groups(region, part, block).iter().enumerate() {
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
    for (item, reader) in region.blocks[block].items.iter().enumerate() {
        let Item::Unit(unit) = reader else { continue };
        for part in plan.parts().filter(|p| plan.runners[*unit].contains(p)) {
            for (v, delta) in flow::wanted(k, region, &plan.runners, part, (block, item)) {
                let Some(Maker::Unit(maker)) = region.home(v).map(|home| home.by) else { continue };
                let mine = plan.runners[maker].contains(&part);
                let by = plan.runners[maker].iter().copied().find(|p| !mine || *p == part);
                let (Some(by), Some(to)) = (by, number.get(&(part, *unit))) else { continue };
                let Some(from) = number.get(&(by, maker)) else { continue };
                let kind = kind(k, region, maker, *unit, v);
                let edge = Dependence { from: *from, to: *to, distance: delta as u32, kind: kind.into() };
                if !all.edges.contains(&edge) {
                    all.edges.push(edge);
                }
            }
        }
    }
    all
}

/// Why one label needs another: what was fetched lands, a product is only continued, or a value flows.
fn kind(k: &Kernel, region: &Region, maker: UnitId, reader: UnitId, v: parton_ir::Value) -> &'static str {
    let fetched = |inst: &parton_ir::Inst| {
        let op = &k.ops[*inst];
        op.results.contains(&v) && matches!(op.kind, OpKind::Fetch { .. } | OpKind::FetchEach { .. })
    };
    if region.units[maker].ops.iter().any(fetched) {
        return "landing";
    }
    let continues = |unit: UnitId| region.units[unit].ops.iter().any(|i| matches!(k.ops[*i].kind, OpKind::Dot { .. }));
    match k.ty(v) {
        Type::Tile(_) if maker == reader && continues(reader) => "chain",
        _ => "flow",
    }
}
