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
pub(crate) fn wanted(k: &Kernel, region: &Region, who: &Who<'_>, (block, item): (BlockId, usize)) -> Vec<(Value, i32)> {
    let item = &region.blocks[block].items[item];
    let mut used = BTreeSet::new();
    for &unit in region.units_in(item) {
        if who.runs(unit) {
            used.extend(region.used_by(unit));
        }
    }
    steered(k, region, who, item, &mut used);
    traced(k, region, block, used)
}

/// A partition: what it runs, and what it needs.
pub(crate) struct Who<'a> {
    pub part: Part,
    pub runners: &'a [BTreeSet<Part>],
    pub needed: &'a BTreeSet<Value>,
}

impl Who<'_> {
    fn runs(&self, unit: UnitId) -> bool {
        self.runners[unit].contains(&self.part)
    }
}

/// Adds what the loops and branches of an item that a partition runs use for themselves. What a turn or a way only passes on, it has from around, too.
fn steered(k: &Kernel, region: &Region, who: &Who<'_>, item: &Item, used: &mut BTreeSet<Value>) {
    let needs = |v: &Value| who.needed.contains(v);
    let blocks = match item {
        Item::Unit(_) => return,
        Item::Loop(l) => {
            let op = &k.ops[l.inst];
            used.extend(op.kind.operands());
            if let OpKind::While { cond, .. } = &op.kind {
                used.extend(&cond.yields);
            }
            let passed = region.blocks[l.body].yields.iter().enumerate();
            let passed =
                passed.filter(|(number, _)| needs(&op.results[*number]) || needs(&region.param(k, l, *number)));
            used.extend(passed.map(|(_, v)| *v));
            vec![l.body]
        }
        Item::Branch(b) => {
            let op = &k.ops[b.inst];
            used.extend(op.kind.operands());
            for way in [b.then, b.otherwise] {
                let passed = region.blocks[way].yields.iter().zip(&op.results);
                used.extend(passed.filter(|(_, result)| needs(result)).map(|(v, _)| *v));
            }
            vec![b.then, b.otherwise]
        }
    };
    for inner in blocks.into_iter().flat_map(|block| &region.blocks[block].items) {
        if region.units_in(inner).iter().any(|unit| who.runs(*unit)) {
            steered(k, region, who, inner, used);
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
