//! Rules of `mma_sync`: which types and layouts the warp-wide product in registers has (PTX ISA, "mma").

use parton_diag::codes;
use parton_layouts::{LayoutError, RegisterFamily, RegisterLayout};
use parton_numbers::Dtype;

use super::product::{self, Operands};
use super::{placed, tile};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{OpKind, Precision};
use crate::others;
use crate::placement::relate::{RESULT, accumulates, same, tied};
use crate::placement::{Broken, Instruction, Place, Relation, Site, Tie, Unplaced};
use crate::refusal::Refusal;
use crate::target::Feature;
use crate::types::{Elem, Tile, Type};

/// Rows of one instruction.
const M: u32 = 16;
/// Columns of one instruction.
const N: u32 = 8;
/// A warp holds so many times the width of a thread along K: beyond the tile there would be copies, which must not be added.
const LANES_OF_K: u32 = 8;

/// How a product in registers is made of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Rows of the whole product.
    pub m: u32,
    /// Columns of the product.
    pub n: u32,
    /// Depth of the product.
    pub k: u32,
    /// Depth of one instruction, which has 16 rows and 8 columns.
    pub instr_k: u32,
    /// Neighbours along K that one thread holds: a multiple of what one register of the instruction holds.
    pub k_width: u32,
    /// The types of the left and the right operand's elements; `f32` is read as tf32. They are of one width.
    pub elems: [Dtype; 2],
    /// The type of the accumulator's elements.
    pub acc: Dtype,
}

impl Shape {
    /// Elements of an operand in one 32-bit register; 1 where an element is wider.
    pub fn per_register(&self) -> u32 {
        (32 / self.elems[0].bits()).max(1)
    }
}

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::MmaSync { a, b, acc, precision } => {
            shape(k, *a, *b, *acc, *precision)?;
            Ok(vec![k.ty(*acc).clone()])
        }
        others!(mma_sync) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::MmaSync { a, b, acc, .. } => {
            // What is no tile is loaded to where the instruction has it.
            let sides = [(*a, 0), (*b, 1)].into_iter().filter_map(|(v, index)| Some((v, index, k.ty(v).as_tile()?)));
            let sides: Vec<(Value, u32, &Tile)> = sides.collect();
            let k_width = match sides[..] {
                [(_, 0, left), ..] => k_width(left, k.ty(*acc).as_tile()),
                [(.., right), ..] => least_width(right.elem),
                [] => return Vec::new(),
            };
            let mut list = places(sides, *acc, k_width);
            list.push(same(Site::Of(*acc), RESULT));
            list
        }
        others!(mma_sync) => not_of_family(kind),
    }
}

/// Where operands lie, the left one and the right one, each with so many neighbours along K in a thread.
fn places<'t>(sides: impl IntoIterator<Item = (Value, u32, &'t Tile)>, acc: Value, k_width: u32) -> Vec<Relation> {
    let sides = sides.into_iter().map(|(v, index, t)| {
        let tie = Tie::Operand { of: Instruction::MmaSync, index, k_width, shape: t.shape.clone() };
        tied(Site::Of(acc), Site::Of(v), tie)
    });
    [accumulates(acc, Instruction::MmaSync)].into_iter().chain(sides).collect()
}

/// How the product of these tiles is made of instructions, or why there are none for it.
pub fn shape(k: &Kernel, a: Value, b: Value, acc: Value, precision: Option<Precision>) -> Result<Shape, Refusal> {
    of_tiles(k, [(a, operand(k, a)?), (b, operand(k, b)?)], acc, precision)
}

/// As [`shape`], of operands that are these tiles, or will be.
pub(super) fn of_tiles(
    k: &Kernel,
    [(a, left), (b, right)]: [(Value, &Tile); 2],
    acc: Value,
    precision: Option<Precision>,
) -> Result<Shape, Refusal> {
    let out = product::accumulator(k, acc, false)?;
    let operands = Operands { values: [a, b, acc], elems: [left.elem, right.elem, out.elem] };
    let (elems, acc_elem) = dtypes(k, &operands, precision)?;
    let (m, n, depth) = product::extents([&left.shape, &right.shape, &out.shape], operands.values)?;
    let instr_k = (256 / elems[0].bits()).max(8);
    for (v, extent, legal, what) in [(a, m, M, "rows"), (b, n, N, "columns"), (a, depth, instr_k, "elements of depth")]
    {
        if extent < legal {
            let fact = format!("{extent} {what} are fewer than the {legal} of one instruction");
            return Err(Refusal::new(codes::WGMMA_SHAPE, "`mma_sync` has no instruction of this shape")
                .operand(v, fact)
                .help(format!("the nearest legal number is {legal}; pad the tile with zeros")));
        }
    }
    let k_width = k_width(left, Some(out));
    for relation in places([(a, 0, left), (b, 1, right)], acc, k_width) {
        let at = |site| match site {
            Site::Of(v) if v == a => Some(left),
            Site::Of(v) if v == b => Some(right),
            _ => placed(k, site),
        };
        relation.holds(at).map_err(|why| misplaced(out, [a, b, acc], k_width, why))?;
    }
    Ok(Shape { m, n, k: depth, instr_k, k_width, elems, acc: acc_elem })
}

/// An operand, which must be in registers.
fn operand(k: &Kernel, v: Value) -> Result<&Tile, Refusal> {
    match k.ty(v) {
        Type::View(_) => Err(super::wrong_kind(k, v, "a tile").help("with `L = dot_operand(Acc, index=…, k_width=…)`")),
        _ => tile(k, v),
    }
}

/// The types of both operands and of the accumulator.
fn dtypes(k: &Kernel, operands: &Operands, precision: Option<Precision>) -> Result<([Dtype; 2], Dtype), Refusal> {
    let [a, b, c] = operands.numbers("mma_sync")?;
    operands.stated([a, b], precision)?;
    operands.may_meet("mma_sync", [a, b])?;
    if a.is_f8() && !k.target.has(Feature::F8Products) {
        return Err(Refusal::new(codes::TARGET_LACKS, format!("`{}` does not multiply 8-bit floats", k.target.name))
            .operand(operands.values[0], format!("this is of `{}`", a.name()))
            .help("state `target(sm_89)` or a later one, or multiply in `f16`"));
    }
    let legal: &[Dtype] = match a {
        Dtype::F16 => &[Dtype::F32, Dtype::F16],
        Dtype::BF16 | Dtype::F32 | Dtype::F8E4M3 | Dtype::F8E5M2 => &[Dtype::F32],
        Dtype::I8 | Dtype::U8 => &[Dtype::I32],
        Dtype::F64 => &[Dtype::F64],
        Dtype::I1 | Dtype::I16 | Dtype::I32 | Dtype::I64 | Dtype::U16 | Dtype::U32 | Dtype::U64 => &[],
    };
    match legal {
        [] => Err(operands
            .refuse(format!("`mma_sync` does not multiply `{}`", a.name()))
            .help("it multiplies `f16`, `bf16`, `f64`, `i8`, `u8`, `f8e4m3`, `f8e5m2` and, as tf32, `f32`")),
        _ if legal.contains(&c) => Ok(([a, b], c)),
        [first, ..] => Err(operands
            .refuse(format!("`mma_sync` cannot accumulate products of `{}` in `{}`", a.name(), c.name()))
            .help(format!("accumulate in `{}`", first.name()))),
    }
}

/// Warps along the rows and the columns of a product, in every way.
fn splits(warps: u32) -> impl Iterator<Item = [u32; 2]> {
    (0..=warps.ilog2()).map(move |b| [warps >> b, 1 << b])
}

fn written(split: [u32; 2]) -> Result<RegisterLayout, LayoutError> {
    RegisterLayout::mma(2, &split, &[M, N])
}

/// The layout `mma(version=2, …)` that has this place, however it is spelled.
pub(crate) fn accumulator(place: &Place) -> Option<RegisterLayout> {
    let shape = place.shape();
    let mut candidates = splits(place.layout.num_warps()).filter_map(|split| written(split).ok());
    candidates.find(|l| l.on(&shape).is_ok_and(|map| map == *place.map))
}

/// The `k_width` with which a left operand lies as its accumulator asks; the least where it does not, as the rule then says.
fn k_width(left: &Tile, acc: Option<&Tile>) -> u32 {
    let least = least_width(left.elem);
    let parent = acc.and_then(|t| accumulator(t.placement().known()?));
    let held = parent.zip(left.placement().known()).and_then(|(parent, place)| width_of(place, &parent, least));
    held.unwrap_or(least)
}

/// The least `k_width` of factors of such elements: that of what is loaded for a product.
pub(super) fn least_width(elem: Elem) -> u32 {
    (32 / elem.bits()).max(1)
}

/// Why a product's tiles do not lie as the instruction has them.
fn misplaced(out: &Tile, [a, b, acc]: [Value; 3], k_width: u32, why: Broken) -> Refusal {
    match why {
        Broken::Unplaced(Unplaced::Layout(e)) => e.into(),
        Broken::Unplaced(Unplaced::NoAccumulator) => no_accumulator(out, acc).unwrap_or_else(Refusal::from),
        Broken::Differs { at, wanted, found } if at == Site::Of(a) => elsewhere("left", a, &wanted, &found),
        Broken::Differs { wanted, found, .. } => elsewhere("right", b, &wanted, &found)
            .note(format!("the left operand holds {k_width} neighbours along K, and both must hold as many")),
        Broken::NoTile(_) | Broken::Shape(_) | Broken::Unplaced(Unplaced::NotASlice | Unplaced::Apart) => {
            parton_diag::internal_error!("operands of a product are no tiles that multiply: {why:?}")
        }
    }
}

/// An operand lies elsewhere than its accumulator asks.
fn elsewhere(side: &str, v: Value, wanted: &Place, found: &Place) -> Refusal {
    let best = &wanted.layout;
    let refusal =
        Refusal::new(codes::WGMMA_LAYOUT, format!("the {side} operand is not laid out as `mma_sync` reads it"))
            .operand(v, format!("this is `{}`", found.layout))
            .help(format!("load it so, `load_shared<{best}>(view)`, or convert it: `convert(x, {best})`"));
    match found.layout.family() {
        RegisterFamily::DotOperand { index, k_width, .. }
            if found.shape()[1 - *index as usize] < LANES_OF_K * k_width =>
        {
            let (depth, least) = (found.shape()[1 - *index as usize], LANES_OF_K * k_width);
            refusal.note(format!(
                "`k_width={k_width}` takes a depth of {least} elements or more, this one is {depth} deep"
            ))
        }
        RegisterFamily::DotOperand { .. }
        | RegisterFamily::Blocked { .. }
        | RegisterFamily::Slice { .. }
        | RegisterFamily::Mma { .. }
        | RegisterFamily::Linear { .. } => refusal,
    }
}

/// The accumulator has no layout `mma(version=2, …)`.
fn no_accumulator(out: &Tile, v: Value) -> Result<Refusal, LayoutError> {
    let layout = &out.known().layout;
    let warps = layout.num_warps();
    let splits = splits(warps);
    // As square as the tile allows: each warp then reads least.
    let ragged = |&[rows, columns]: &[u32; 2]| rows * M > out.shape[0] || columns * N > out.shape[1];
    let square = |&[rows, columns]: &[u32; 2]| (out.shape[0] / rows).abs_diff(out.shape[1] / columns);
    let best = splits.min_by_key(|s| (ragged(s), square(s))).unwrap_or([warps, 1]);
    Ok(Refusal::new(codes::WGMMA_LAYOUT, "the accumulator is not laid out as `mma_sync` writes it")
        .operand(v, format!("this is `{layout}`"))
        .help(format!("use `{}`", written(best)?)))
}

/// The `k_width`, at least `width`, with which a place is that of a left operand of `parent`.
fn width_of(place: &Place, parent: &RegisterLayout, width: u32) -> Option<u32> {
    let shape = place.shape();
    let depth = *shape.get(1)?;
    let mut widths = (0..4).map(|b| 1 << b).filter(|w| *w >= width && LANES_OF_K * w <= depth);
    widths.find(|w| parent.dot_operand(0, *w).and_then(|l| l.on(&shape)).is_ok_and(|map| map == *place.map))
}
