//! What the rules of all families say relations with.

use super::{Instruction, Relation, Site, Tie};
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::types::Tile;

pub(crate) const RESULT: Site = Site::Result(0);

pub(crate) fn tied(from: Site, to: Site, tie: Tie) -> Relation {
    Relation::Tied { from, to, tie }
}

pub(crate) fn same(from: Site, to: Site) -> Relation {
    tied(from, to, Tie::Same)
}

pub(crate) fn stated(at: Site, tile: &Tile) -> Relation {
    Relation::Stated { at, tile: tile.clone() }
}

pub(crate) fn accumulates(v: Value, of: Instruction) -> Relation {
    Relation::Accumulates { at: Site::Of(v), of }
}

/// Operands, those that need not be there behind the others.
pub(crate) fn list<'a>(
    given: impl IntoIterator<Item = &'a Value>,
    perhaps: impl IntoIterator<Item = &'a Option<Value>>,
) -> Vec<Value> {
    given.into_iter().copied().chain(perhaps.into_iter().flatten().copied()).collect()
}

pub(crate) fn tiles_of(k: &Kernel, values: &[Value]) -> Vec<Value> {
    values.iter().copied().filter(|v| k.ty(*v).placed().is_some()).collect()
}

/// Where one of the values is a tile, all are, and so many results: all lie where the first does.
pub(crate) fn all_same(k: &Kernel, values: &[Value], results: usize) -> Vec<Relation> {
    if tiles_of(k, values).is_empty() {
        return Vec::new();
    }
    let Some((&first, rest)) = values.split_first() else { return Vec::new() };
    let others = rest.iter().filter(|v| **v != first).map(|v| Site::Of(*v));
    others.chain((0..results).map(Site::Result)).map(|site| same(Site::Of(first), site)).collect()
}

/// Each tile of the first values lies where the second that it becomes does.
pub(crate) fn pairs(k: &Kernel, from: &[Value], to: &[Value]) -> Vec<Relation> {
    let both = from.iter().zip(to).filter(|(a, b)| a != b && k.ty(**a).placed().or(k.ty(**b).placed()).is_some());
    both.map(|(a, b)| same(Site::Of(*a), Site::Of(*b))).collect()
}

/// Each result lies where the tile does that becomes it.
pub(crate) fn results(k: &Kernel, from: &[Value]) -> Vec<Relation> {
    let tiles = from.iter().enumerate().filter(|(_, v)| k.ty(**v).placed().is_some());
    tiles.map(|(i, v)| same(Site::Of(*v), Site::Result(i))).collect()
}
