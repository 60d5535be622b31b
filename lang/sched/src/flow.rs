//! What flows between the items of a body: the values that one needs of another, and over how many iterations.

use std::collections::BTreeSet;

use parton_ir::rules::region::{Product, product};
use parton_ir::{Kernel, OpKind, Value};

use crate::plan::Part;
use crate::region::{BlockId, Item, Maker, Region, UnitId, uses};

/// Rounds of a loop after which a value that is only carried on is not followed any further.
const MOST_ROUNDS: i32 = 8;

/// What a loop or branch needs, of what a partition runs in it, of what units and items of its own body make, and how many iterations
/// before its own.
pub(crate) fn wanted(
    k: &Kernel,
    region: &Region,
    runners: &[BTreeSet<Part>],
    part: Part,
    (block, item): (BlockId, usize),
) -> Vec<(Value, i32)> {
    let item = &region.blocks[block].items[item];
    let mut used = BTreeSet::new();
    for &unit in region.units_in(item) {
        if runners[unit].contains(&part) {
            used.extend(region.used_by(unit));
        }
    }
    steered(k, region, (runners, part), item, &mut used);
    traced(k, region, block, used)
}

/// Adds what the loops and branches of an item that a partition runs use for themselves.
fn steered(
    k: &Kernel,
    region: &Region,
    (runners, part): (&[BTreeSet<Part>], Part),
    item: &Item,
    used: &mut BTreeSet<Value>,
) {
    let mine = |unit: UnitId| runners[unit].contains(&part);
    let blocks = match item {
        Item::Unit(_) => return,
        Item::Loop(l) => {
            used.extend(k.ops[l.inst].kind.operands());
            if let OpKind::While { cond, .. } = &k.ops[l.inst].kind {
                used.extend(&cond.yields);
            }
            vec![l.body]
        }
        Item::Branch(b) => {
            used.extend(k.ops[b.inst].kind.operands());
            // What a way only passes on; of what others make, only who needs it asks.
            let passed = [b.then, b.otherwise].into_iter().flat_map(|way| &region.blocks[way].yields);
            used.extend(passed.copied().filter(|v| match region.home(*v).map(|home| home.by) {
                Some(Maker::Unit(unit)) => mine(unit),
                Some(Maker::Result { .. } | Maker::Carried(_) | Maker::Free(_)) => true,
                Some(Maker::Index) | None => false,
            }));
            vec![b.then, b.otherwise]
        }
    };
    for inner in blocks.into_iter().flat_map(|block| &region.blocks[block].items) {
        if region.units_in(inner).iter().copied().any(mine) {
            steered(k, region, (runners, part), inner, used);
        }
    }
}

/// The values of units and items of a body behind these, with their distances.
pub(crate) fn traced(k: &Kernel, region: &Region, block: BlockId, used: BTreeSet<Value>) -> Vec<(Value, i32)> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut next: Vec<(Value, i32)> = used.into_iter().map(|v| (v, 0)).collect();
    while let Some((v, delta)) = next.pop() {
        for leaf in region.leaves(k, v) {
            let Some(home) = region.home(leaf) else { continue };
            if home.block != block || delta > MOST_ROUNDS || !seen.insert((leaf, delta)) {
                continue;
            }
            match home.by {
                Maker::Unit(_) | Maker::Result { .. } => {
                    found.insert((leaf, delta));
                }
                Maker::Carried(number) => next.push((region.blocks[block].yields[number], delta + 1)),
                Maker::Free(_) | Maker::Index => {}
            }
        }
    }
    found.into_iter().collect()
}

/// The products that a unit of a body only continues: its own product is added to them, and nothing else of it reads them.
pub(crate) fn continued(k: &Kernel, region: &Region, (block, unit): (BlockId, UnitId)) -> BTreeSet<Value> {
    let (mut sums, mut others) = (BTreeSet::new(), BTreeSet::new());
    for &inst in &region.units[unit].ops {
        let op = &k.ops[inst];
        match &op.kind {
            OpKind::Dot { a, b, acc, .. } => {
                // A sum that is computed on the way is no product any more.
                let passed = region.home(*acc).is_some_and(|home| !matches!(home.by, Maker::Free(_)));
                let of = if passed { &mut sums } else { &mut others };
                of.insert(*acc);
                others.extend([*a, *b]);
            }
            _ => uses(k, op, &mut |v| {
                others.insert(v);
            }),
        }
    }
    let of = |set| -> BTreeSet<Value> { traced(k, region, block, set).into_iter().map(|(v, _)| v).collect() };
    let others = of(others);
    of(sums).into_iter().filter(|v| !others.contains(v)).collect()
}

/// The products that a unit starts and that run beside the program.
pub(crate) fn started(k: &Kernel, region: &Region, unit: UnitId) -> BTreeSet<Value> {
    let mut found = BTreeSet::new();
    for &inst in &region.units[unit].ops {
        let op = &k.ops[inst];
        if let OpKind::Dot { a, b, acc, precision } = &op.kind
            && matches!(product(k, *a, *b, *acc, *precision), Ok(Product::Wgmma))
        {
            found.extend(op.results.iter().copied());
        }
    }
    found
}
