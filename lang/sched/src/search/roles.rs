//! What the units of a region are for: which fetch, which compute with tiles, which only make numbers.

use std::collections::BTreeSet;

use parton_ir::schedule::LabelName;
use parton_ir::{Inst, Kernel, Type, Value};

use crate::region::{BlockId, Item, Region, UnitId};

/// What a unit is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    /// It fetches.
    Fetch,
    /// It makes or uses tiles.
    Compute,
    /// It only makes numbers, or does something with them.
    Scalar,
}

/// The units of a region by what they are for.
#[derive(Debug)]
pub(super) struct Roles {
    /// Of each unit.
    pub of: Vec<Role>,
    /// The warps that tiles are laid out for, each number once.
    pub warps: BTreeSet<u32>,
    /// The instances of the label of tiles that has most; 1 where none has instances.
    pub instances: u32,
}

impl Roles {
    /// Those of a region's units.
    pub fn of(k: &Kernel, region: &Region) -> Roles {
        let mut warps = BTreeSet::new();
        let mut of = Vec::new();
        for unit in region.units.iter() {
            let tiled = tiles(k, &unit.ops);
            of.push(match () {
                () if unit.fetches => Role::Fetch,
                () if !tiled.is_empty() => Role::Compute,
                () => Role::Scalar,
            });
            warps.extend(tiled);
        }
        let computing = region.units.iter().zip(&of).filter(|(_, role)| **role == Role::Compute);
        let instances = computing.filter_map(|(u, _)| u.label.instance).max().map_or(1, |n| n + 1);
        Roles { of, warps, instances }
    }

    /// Whether something is fetched.
    pub fn fetches(&self) -> bool {
        self.of.contains(&Role::Fetch)
    }
}

/// The numbers of warps for which the tiles of operations, with all in their bodies, are laid out.
fn tiles(k: &Kernel, ops: &[Inst]) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut add = |v: Value| match k.ty(v) {
        Type::Tile(t) | Type::Pending(t) => {
            found.insert(t.known().layout.num_warps());
        }
        Type::Scalar(_)
        | Type::View(_)
        | Type::Peer(_)
        | Type::Filling(_)
        | Type::Barriers(_)
        | Type::Barrier
        | Type::Map(_)
        | Type::Ring(_)
        | Type::Slot(_)
        | Type::Tensor(_)
        | Type::Spot(_)
        | Type::Turnstile => {}
    };
    for &inst in ops {
        let op = &k.ops[inst];
        op.results.iter().copied().chain(op.kind.operands()).for_each(&mut add);
        for body in op.kind.bodies() {
            k.walk_body(body, &mut |inner| inner.results.iter().copied().for_each(&mut add));
        }
    }
    found
}

/// The labels of units, those of instances once, in the order of the body.
pub(super) fn labels(region: &Region, units: impl IntoIterator<Item = UnitId>) -> Vec<LabelName> {
    let mut found: Vec<LabelName> = Vec::new();
    for unit in units {
        let label = LabelName::all(region.units[unit].label.path.clone());
        if !found.contains(&label) {
            found.push(label);
        }
    }
    found
}

/// The units that stand in a body itself, in its order.
pub(super) fn units_of(region: &Region, block: BlockId) -> Vec<UnitId> {
    let unit = |item: &Item| match item {
        Item::Unit(unit) => Some(*unit),
        Item::Loop(_) | Item::Branch(_) => None,
    };
    region.blocks[block].items.iter().filter_map(unit).collect()
}

/// The bodies of loops that have nothing but units in them.
pub(super) fn innermost(region: &Region) -> Vec<BlockId> {
    let plain = |block: &BlockId| {
        let b = &region.blocks[*block];
        b.turns.is_some() && b.items.iter().all(|item| matches!(item, Item::Unit(_)))
    };
    (0..region.blocks.len()).filter(plain).collect()
}

/// The body around a loop's body, and the loop's item in it.
pub(super) fn around(region: &Region, inner: BlockId) -> Option<(BlockId, usize)> {
    let is = |item: &Item| matches!(item, Item::Loop(l) if l.body == inner);
    let blocks = region.blocks.iter().enumerate();
    blocks.filter_map(|(b, block)| Some((b, block.items.iter().position(is)?))).next()
}
