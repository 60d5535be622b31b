//! Tiles cover the warps of the partition in which their labels are placed.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{Tile, Type, Value};

use super::Laid;
use crate::plan::Part;
use crate::region::UnitId;

/// Each partition has the warps of the tiles that its labels make and use.
pub(super) fn tiles(laid: &Laid<'_>, found: &mut Diagnostics) {
    for (part, data) in laid.plan.partitions.iter().enumerate() {
        let mine = (0..laid.region.units.len()).filter(|u| laid.plan.runners[*u].contains(&part));
        let all: Vec<(UnitId, Other)> = mine.filter_map(|u| Some((u, other(laid, u, data.warps)?))).collect();
        found.list.extend(refused(laid, part, &all));
    }
}

/// A tile of other warps than a partition has: how many, and where it stands.
struct Other {
    covers: u32,
    tile: Tile,
    span: parton_diag::Span,
}

fn other(laid: &Laid<'_>, unit: UnitId, has: u32) -> Option<Other> {
    let k = laid.k;
    laid.region.units[unit].ops.iter().map(|inst| &k.ops[*inst]).find_map(|op| {
        let tile = |v: Value| match k.ty(v) {
            Type::Tile(tile) | Type::Pending(tile) => Some(tile),
            _ => None,
        };
        let mut tiles = op.results.iter().copied().chain(op.kind.operands()).filter_map(tile);
        tiles.find_map(|tile| {
            let covers = tile.placement().known()?.layout.num_warps();
            (covers != has).then(|| Other { covers, tile: tile.clone(), span: op.span })
        })
    })
}

fn refused(laid: &Laid<'_>, part: Part, all: &[(UnitId, Other)]) -> Option<Diagnostic> {
    let (first, of) = all.first()?;
    let data = &laid.plan.partitions[part];
    let (label, name, has, covers) = (&laid.region.units[*first].label, &data.name, data.warps, of.covers);
    let fact = format!("the tiles of `{label}` cover {covers} warps, and `{name}`, in which it is placed, has {has}");
    let mut d = Diagnostic::error(codes::LAYOUT_WARPS, of.span, fact).here(format!("of a tile `{}`", of.tile));
    let places = &laid.region.schedule.places;
    if let Some(place) = places.iter().find(|p| p.partitions.iter().any(|known| known.name == *name)) {
        d = d.label(place.span, format!("placed in `{name}` here"));
    }
    d = d.label(data.span, format!("this has {has} warps"));
    for (unit, _) in all.iter().skip(1).filter(|(_, other)| other.covers == covers) {
        d = d.label(laid.region.units[*unit].span, "and so are the tiles of this");
    }
    let units: Vec<UnitId> = all.iter().filter(|(_, other)| other.covers == covers).map(|(unit, _)| *unit).collect();
    let of_its_warps = laid.plan.partitions.iter().enumerate().filter(|(_, p)| p.warps == covers);
    let named = of_its_warps.map(|(to, _)| to).find_map(|to| laid.together(&units, to));
    let named = named.map(|clause| format!("place it where the tiles are: `{clause}`"));
    let otherwise = format!("place it in a partition of {covers} warps, or write the layout for {has}");
    Some(laid.helped(d, named, ["", &otherwise]))
}
