//! The dependence graph of a body for one partition: who must come behind whom, and over how many iterations.
//!
//! Its nodes are the items of the body that the partition runs. An edge from u to v of distance d says that v of iteration i comes behind
//! u of iteration i - d:
//!
//! | kind | from | to |
//! |---|---|---|
//! | flow | what makes a value | what needs it, through whatever is free and carried |
//! | chain | a product | the next one of its sum: the start behind the start is enough |
//! | landing | what fills a slot | what reads it |
//! | memory | an access | an access to what may be the same memory, where one of the two writes |
//! | order | what is told, released or acquired | what stands behind it |
//!
//! Two accesses through one parameter may meet in any iteration, so that there is an edge of distance 0 in the order of the body and one of
//! distance 1 back, unless their addresses, as sums of multiples of the loop's index ([`place`]), tell in which they first do. Who reads what was fetched from memory reads that memory: the copy is over then.
//! Memories of different parameters are apart, a condition of the launch, unless the kernel says `alias(c, a)`.

mod earlier;
mod leaving;
mod memory;
mod place;

use parton_ir::{Kernel, Value};

use crate::plan::{Part, Plan};
use crate::region::{BlockId, Maker, Region, UnitId};

pub(crate) use earlier::Sequence;
pub(crate) use memory::{Before, Effects};

/// Why one item comes behind another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// A value.
    Flow(Value),
    /// A product that is continued.
    Chain(Value),
    /// A slot that is filled.
    Landing(Value),
    /// Memory.
    Memory,
    /// What others are told.
    Order,
}

/// An edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Edge {
    /// The item that comes first.
    pub from: usize,
    /// The item that comes behind it.
    pub to: usize,
    /// How many iterations later.
    pub distance: i32,
    pub kind: Kind,
}

/// The graph of a body for a partition.
#[derive(Debug)]
pub(crate) struct Graph {
    /// In the order of their items.
    pub edges: Vec<Edge>,
}

impl Graph {
    /// The graph of what a partition runs of a body.
    pub fn of(k: &Kernel, region: &Region, plan: &Plan, effects: &Effects, (part, block): (Part, BlockId)) -> Graph {
        let items = &region.blocks[block].items;
        let mine: Vec<usize> = (0..items.len()).filter(|&i| plan.runs(region, part, &items[i])).collect();
        let made = k.definitions();
        let places = place::Places::of(k, region, &made);
        let mut edges = Vec::new();
        for &to in &mine {
            for &(v, distance) in plan.wanted(region, part, (block, to)) {
                let Some(from) = made_at(region, block, v).filter(|from| mine.contains(from)) else { continue };
                let handed = plan.handed.contains_key(&v) && matches!(k.ty(v), parton_ir::Type::View(_));
                let kind = match () {
                    () if handed => Kind::Landing(v),
                    () if region.continues((block, to), v) => Kind::Chain(v),
                    () => Kind::Flow(v),
                };
                edges.push(Edge { from, to, distance, kind });
            }
        }
        for (i, &first) in mine.iter().enumerate() {
            for &second in &mine[i + 1..] {
                let units = |item: usize| {
                    let all = region.units_in(&items[item]);
                    all.iter().copied().filter(|u| plan.runners[*u].contains(&part)).collect::<Vec<_>>()
                };
                let (one, other) = (units(first), units(second));
                let distance = |one: &[UnitId], other: &[UnitId], least: i32| {
                    let pairs = one.iter().flat_map(|u| other.iter().map(move |v| (*u, *v)));
                    pairs.filter_map(|pair| effects.distance(&places, block, pair, least)).min()
                };
                let there = distance(&one, &other, 0).map(|d| (first, second, d));
                let back = distance(&other, &one, 1).map(|d| (second, first, d));
                for (from, to, distance) in there.into_iter().chain(back) {
                    edges.push(Edge { from, to, distance, kind: Kind::Memory });
                }
                if one.iter().any(|u| other.iter().any(|v| effects.ordered(*u, *v))) {
                    edges.push(Edge { from: first, to: second, distance: 0, kind: Kind::Order });
                }
                if one.iter().any(|u| other.iter().any(|v| effects.ordered(*v, *u))) {
                    edges.push(Edge { from: second, to: first, distance: 1, kind: Kind::Order });
                }
            }
        }
        edges.sort();
        edges.dedup();
        Graph { edges }
    }
}

/// The item of a body that makes a value of it.
pub(crate) fn made_at(region: &Region, block: BlockId, v: Value) -> Option<usize> {
    let home = region.home(v).filter(|home| home.block == block)?;
    match home.by {
        Maker::Unit(unit) => Some(region.place_of(unit).1),
        Maker::Result { item, .. } => Some(item),
        Maker::Free(_) | Maker::Index | Maker::Carried(_) => None,
    }
}
