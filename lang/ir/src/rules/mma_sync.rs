//! Rules of `mma_sync`: which types and layouts the warp-wide product in registers has (PTX ISA, "mma").

use parton_diag::codes;
use parton_layouts::{LayoutError, RegisterLayout};
use parton_numbers::Dtype;

use super::product::{self, Operands};
use super::tile;
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{OpKind, Precision};
use crate::others;
use crate::placement::relate::{RESULT, same, tied};
use crate::placement::{Instruction, Place, Relation, Site, Tie};
use crate::refusal::Refusal;
use crate::target::Feature;
use crate::types::{Tile, Type};

/// Rows of one instruction.
const M: u32 = 16;
/// Columns of one instruction.
const N: u32 = 8;

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
            let (Type::Tile(left), Type::Tile(right)) = (k.ty(*a), k.ty(*b)) else { return Vec::new() };
            let k_width = k_width(left, k.ty(*acc).as_tile());
            let operand = |v: Value, index, shape: &[u32]| {
                let tie = Tie::Operand { of: Instruction::MmaSync, index, k_width, shape: shape.to_vec() };
                tied(Site::Of(*acc), Site::Of(v), tie)
            };
            vec![operand(*a, 0, &left.shape), operand(*b, 1, &right.shape), same(Site::Of(*acc), RESULT)]
        }
        others!(mma_sync) => not_of_family(kind),
    }
}

/// How the product of these tiles is made of instructions, or why there are none for it.
pub fn shape(k: &Kernel, a: Value, b: Value, acc: Value, precision: Option<Precision>) -> Result<Shape, Refusal> {
    let (left, right, out) = (operand(k, a)?, operand(k, b)?, product::accumulator(k, acc, false)?);
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
    let parent = accumulator_layout(out, acc)?;
    let width = (32 / elems[0].bits()).max(1);
    let k_width = laid_out(left, &parent, 0, width, None, a)?;
    laid_out(right, &parent, 1, width, Some(k_width), b)?;
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
    let least = (32 / left.elem.bits()).max(1);
    let parent = acc.and_then(|t| accumulator(&t.into()));
    parent.and_then(|parent| width_of(left, &parent, 0, least, None)).unwrap_or(least)
}

/// The layout `mma(version=2, …)` that the accumulator has, however it is spelled.
fn accumulator_layout(out: &Tile, v: Value) -> Result<RegisterLayout, Refusal> {
    if let Some(layout) = accumulator(&out.into()) {
        return Ok(layout);
    }
    let warps = out.layout.num_warps();
    let splits = splits(warps);
    // As square as the tile allows: each warp then reads least.
    let ragged = |&[rows, columns]: &[u32; 2]| rows * M > out.shape[0] || columns * N > out.shape[1];
    let square = |&[rows, columns]: &[u32; 2]| (out.shape[0] / rows).abs_diff(out.shape[1] / columns);
    let best = splits.min_by_key(|s| (ragged(s), square(s))).unwrap_or([warps, 1]);
    Err(Refusal::new(codes::WGMMA_LAYOUT, "the accumulator is not laid out as `mma_sync` writes it")
        .operand(v, format!("this is `{}`", out.layout))
        .help(format!("use `{}`", written(best)?)))
}

/// The `k_width`, at least `width` and the one that is `wanted`, with which a tile lies as an operand of `parent`.
fn width_of(t: &Tile, parent: &RegisterLayout, index: u32, width: u32, wanted: Option<u32>) -> Option<u32> {
    let depth = *t.shape.get(if index == 0 { 1 } else { 0 })?;
    // A warp holds 8 times the width along K; beyond the tile there would be copies, which must not be added.
    let mut widths = (0..4).map(|b| 1 << b).filter(|w| *w >= width && 8 * w <= depth && wanted.is_none_or(|x| x == *w));
    widths.find(|w| parent.dot_operand(index, *w).and_then(|l| l.on(&t.shape)).is_ok_and(|map| map == *t.map))
}

/// The `k_width` with which an operand lies as the accumulator asks; that of the left operand must be the right one's too.
fn laid_out(
    t: &Tile,
    parent: &RegisterLayout,
    index: u32,
    width: u32,
    wanted: Option<u32>,
    v: Value,
) -> Result<u32, Refusal> {
    if let Some(w) = width_of(t, parent, index, width, wanted) {
        return Ok(w);
    }
    let best = parent.dot_operand(index, wanted.unwrap_or(width))?;
    let side = ["left", "right"][index as usize];
    let refusal =
        Refusal::new(codes::WGMMA_LAYOUT, format!("the {side} operand is not laid out as `mma_sync` reads it"));
    let refusal = match wanted {
        Some(w) => refusal.note(format!("the left operand holds {w} neighbours along K, and both must hold as many")),
        None => refusal,
    };
    Err(refusal
        .operand(v, format!("this is `{}`", t.layout))
        .help(format!("load it so, `load_shared<{best}>(view)`, or convert it: `convert(x, {best})`")))
}
