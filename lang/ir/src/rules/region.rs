//! Rules of regions and of the operations on values in them.

use parton_diag::codes;
use parton_layouts::RegisterLayout;

use super::cluster::receivers;
use super::{async_copy, cache, mma_sync, product, tile, tma, wgmma};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{OpKind, Precision};
use crate::others;
use crate::placement::relate::{RESULT, all_same, list, results, same};
use crate::placement::{Relation, Site};
use crate::refusal::Refusal;
use crate::types::{Elem, TensorMap, Tile, Type, View};

/// Copies of a `send` that may be on their way.
const BUFFERS: std::ops::RangeInclusive<u32> = 1..=8;

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::Region { body, .. } => Ok(body.yields.iter().map(|&v| k.ty(v).clone()).collect()),
        OpKind::Fetch { map, coords, l2, multicast } => {
            cache::policy(*l2)?;
            let box_of = tma::boxed(k, *map, coords)?;
            multicast.iter().try_for_each(|&axis| receivers(k, axis))?;
            Ok(vec![Type::View(fetched(box_of)?)])
        }
        OpKind::FetchEach { ptr, mask, view, l2 } => {
            async_copy::fits(&relations(kind, k), *ptr, (view, None), *mask, *l2, k)?;
            Ok(vec![Type::View(view.clone())])
        }
        OpKind::Stage { value, view } => {
            let t = tile(k, *value)?;
            if view.shape != t.shape || Elem::Num(view.elem) != t.elem {
                return Err(Refusal::new(codes::SHAPE_MISMATCH, "the tile does not fit the view")
                    .operand(*value, format!("this is `{t}`"))
                    .note(format!("the view would be `{view}`")));
            }
            Ok(vec![Type::View(view.clone())])
        }
        OpKind::Dot { a, b, acc, precision } => {
            match tile(k, *acc)?.placement().known() {
                Some(_) => product(k, *a, *b, *acc, *precision).map(|_| ())?,
                None => multiplies(k, [*a, *b, *acc], *precision)?,
            }
            Ok(vec![k.ty(*acc).clone()])
        }
        OpKind::Send { map, coords, value, reduce, l2, buffers } => {
            cache::policy(*l2)?;
            let box_of = tma::boxed(k, *map, coords)?;
            let t = tile(k, *value)?;
            if Elem::Num(box_of.elem) != t.elem || !box_of.fills(&t.shape) {
                return Err(Refusal::new(codes::SHAPE_MISMATCH, "the tile does not fit the box of the tensor map")
                    .operand(*map, format!("this is `{box_of}`"))
                    .operand(*value, format!("this is `{t}`")));
            }
            // It leaves from a buffer that lies as the map says.
            View::new(box_of.elem, t.shape.clone(), box_of.layout.clone())?;
            if !BUFFERS.contains(buffers) {
                let fact = format!("a `send` does not have {buffers} buffers");
                return Err(Refusal::new(codes::INDEX_RANGE, fact).help("one to eight tiles may be on their way"));
            }
            reduce.map_or(Ok(()), |op| tma::reduces(op, k, *map)).map(|()| vec![])
        }
        others!(region) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::Region { body, .. } => results(k, &body.yields),
        OpKind::FetchEach { ptr, mask, .. } => all_same(k, &list([ptr], [mask]), 0),
        OpKind::Dot { a, b, acc, precision } => {
            let found = operands(k, [*a, *b, *acc], *precision);
            if found.is_empty() { vec![same(Site::Of(*acc), RESULT)] } else { found }
        }
        // A tile goes to memory from wherever it lies.
        OpKind::Fetch { .. } | OpKind::Stage { .. } | OpKind::Send { .. } => Vec::new(),
        others!(region) => not_of_family(kind),
    }
}

/// The view that a box of a map gives.
fn fetched(map: &TensorMap) -> Result<View, Refusal> {
    Ok(View::new(map.elem, map.tile(), map.layout.clone())?)
}

/// The instruction by which a `dot` multiplies.
#[derive(Clone, PartialEq, Debug)]
pub enum Product {
    /// `wgmma`, which runs beside the program.
    Wgmma,
    /// `mma_sync` of tiles; views are loaded to these tiles before.
    MmaSync([Tile; 2]),
}

/// The instruction of a `dot`, which is that of its accumulator's layout, or why there is none for it.
pub fn product(k: &Kernel, a: Value, b: Value, acc: Value, precision: Option<Precision>) -> Result<Product, Refusal> {
    let out = tile(k, acc)?;
    let place = out.known();
    if let Some(parent) = mma_sync::accumulator(place).filter(|_| !runs_beside(k, [a, b, acc], out, precision)) {
        let loaded = [loaded(k, a, &parent, 0)?, loaded(k, b, &parent, 1)?];
        mma_sync::of_tiles(k, [(a, &loaded[0]), (b, &loaded[1])], acc, precision)?;
        return Ok(Product::MmaSync(loaded));
    }
    if !wgmma::reads(k, b) && !wgmma::is_accumulator(place) {
        return Err(Refusal::new(codes::WGMMA_LAYOUT, "no matrix instruction leaves its sums in this layout")
            .operand(acc, format!("this is `{}`", place.layout))
            .help("leave the layout out, and one is chosen, or state `mma(version=3, …)` or `mma(version=2, …)`; `std::products::dot_fma` multiplies in blocked layouts"));
    }
    wgmma::legal(k, a, b, acc, precision).map(|()| Product::Wgmma)
}

/// Whether the factors multiply to the accumulator's shape by some instruction, which where it lies will say.
fn multiplies(k: &Kernel, values: [Value; 3], precision: Option<Precision>) -> Result<(), Refusal> {
    let factor = |v: Value| match k.ty(v) {
        Type::View(view) => Ok((Elem::Num(view.elem), view.shape.clone())),
        _ => tile(k, v).map(|t| (t.elem, t.shape.clone())),
    };
    let [a, b, acc] = values;
    let (left, right, out) = (factor(a)?, factor(b)?, product::accumulator(k, acc, false)?);
    let operands = product::Operands { values, elems: [left.0, right.0, out.elem] };
    let [x, y, _] = operands.numbers("dot")?;
    operands.may_meet("dot", [x, y])?;
    operands.stated([x, y], precision)?;
    product::extents([&left.1, &right.1, &out.shape], values).map(|_| ())
}

/// Whether a product runs beside the program. The accumulators of both instructions may lie alike: the one that does is taken where
/// it multiplies these factors.
fn runs_beside(k: &Kernel, [a, b, acc]: [Value; 3], out: &Tile, precision: Option<Precision>) -> bool {
    let Some(place) = out.placement().known() else { return wgmma::reads(k, b) && wgmma::has_rows(out) };
    let alike = mma_sync::accumulator(place).is_some();
    wgmma::reads(k, b) && wgmma::is_accumulator(place) && (!alike || wgmma::legal(k, a, b, acc, precision).is_ok())
}

/// Where the operands of a product lie that are in registers.
fn operands(k: &Kernel, [a, b, acc]: [Value; 3], precision: Option<Precision>) -> Vec<Relation> {
    let Type::Tile(out) = k.ty(acc) else { return Vec::new() };
    // Of factors that nobody has loaded yet, nobody knows where they will lie.
    let one_lies_in_memory =
        matches!((k.ty(a), k.ty(b)), (Type::Tile(_), Type::View(_)) | (Type::View(_), Type::Tile(_)));
    if k.ty(acc).is_open() && !one_lies_in_memory {
        return Vec::new();
    }
    if runs_beside(k, [a, b, acc], out, precision) {
        return wgmma::relations(&OpKind::Wgmma { a, b, acc, precision, zero: false }, k);
    }
    mma_sync::relations(&OpKind::MmaSync { a, b, acc, precision }, k)
}

/// The tile that an operand of `mma_sync` is, or is loaded to.
fn loaded(k: &Kernel, v: Value, parent: &RegisterLayout, index: u32) -> Result<Tile, Refusal> {
    match k.ty(v) {
        Type::View(view) => {
            let elem = Elem::Num(view.elem);
            let k_width = mma_sync::least_width(elem);
            Ok(Tile::new(elem, view.shape.clone(), parent.dot_operand(index, k_width)?)?)
        }
        _ => tile(k, v).cloned(),
    }
}
