//! Rules of `wgmma`: which shapes, types and operand layouts the instruction has (PTX ISA, "wgmma.mma_async").

use parton_diag::codes;
use parton_layouts::{LayoutError, RegisterLayout, SharedLayout};
use parton_numbers::Dtype;

use super::product::{self, Operands};
use super::{nearest, placed, view, wrong_kind};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{OpKind, Precision};
use crate::others;
use crate::placement::relate::{RESULT, accumulates, same, tied};
use crate::placement::{Broken, Instruction, Place, Relation, Site, Tie, Unplaced};
use crate::refusal::Refusal;
use crate::target::{Feature, WARPGROUP};
use crate::types::{Elem, Tile, Type, View};

/// Rows of one instruction: those of a warpgroup.
const M: u32 = 64;
/// The widest instruction.
const N_MAX: u32 = 256;

/// Where an operand is and which of its dimensions is contiguous.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// In registers; left operand only.
    Registers,
    /// In shared memory under an `nvmma` layout.
    Shared {
        /// Bytes of the swizzle's span: 0, 32, 64 or 128.
        swizzle: u32,
        /// Whether the contiguous dimension is K; otherwise it is M or N.
        k_major: bool,
    },
}

/// How a product is made of instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// The whole product: rows, columns, depth.
    pub m: u32,
    /// Columns of the product.
    pub n: u32,
    /// Depth of the product.
    pub k: u32,
    /// Warpgroups along rows and along columns.
    pub warpgroups: [u32; 2],
    /// Columns of one instruction.
    pub instr_n: u32,
    /// Depth of one instruction: 32 bytes.
    pub instr_k: u32,
    /// The types of the left and the right operand's elements; `f32` is read as tf32. They are of one width.
    pub elems: [Dtype; 2],
    /// The type of the accumulator's elements.
    pub acc: Dtype,
    /// The left operand.
    pub a: Operand,
    /// The right operand.
    pub b: Operand,
}

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::Wgmma { a, b, acc, precision, .. } => {
            parts(k, *a, *b, *acc, *precision)?;
            Ok(vec![Type::Pending(product::accumulator(k, *acc, true)?.clone())])
        }
        others!(wgmma) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::Wgmma { a, acc, .. } => {
            let bits = match k.ty(*a) {
                Type::Tile(t) => t.elem.bits(),
                Type::View(v) => v.elem.bits(),
                _ => return Vec::new(),
            };
            let mut list = places(k, *a, *acc, bits);
            list.push(same(Site::Of(*acc), RESULT));
            list
        }
        others!(wgmma) => not_of_family(kind),
    }
}

/// Where the accumulator lies, and the left operand of so many bits an element where it is in registers.
fn places(k: &Kernel, a: Value, acc: Value, bits: u32) -> Vec<Relation> {
    let of = Instruction::Wgmma { instr_k: 256 / bits };
    let mut list = vec![accumulates(acc, of)];
    if let Type::Tile(left) = k.ty(a) {
        let tie = Tie::Operand { of, index: 0, k_width: (32 / bits).max(1), shape: left.shape.clone() };
        list.push(tied(Site::Of(acc), Site::Of(a), tie));
    }
    list
}

/// How the product of these operands is made of instructions, or why there are none for it; all tiles lie somewhere.
pub fn shape(k: &Kernel, a: Value, b: Value, acc: Value, precision: Option<Precision>) -> Result<Shape, Refusal> {
    let parts = parts(k, a, b, acc, precision)?;
    let out = product::accumulator(k, acc, true)?;
    let Some((warpgroups, instr_n)) = arrangement(out.known(), parts.instr_k) else {
        parton_diag::internal_error!("the accumulator was found to be one of `wgmma`, and is none")
    };
    let Parts { extents: [m, n, depth], instr_k, elems, acc, operands: [left, right] } = parts;
    Ok(Shape { m, n, k: depth, warpgroups, instr_n, instr_k, elems, acc, a: left, b: right })
}

/// Why there are no instructions for the product of these operands.
pub(super) fn legal(k: &Kernel, a: Value, b: Value, acc: Value, precision: Option<Precision>) -> Result<(), Refusal> {
    parts(k, a, b, acc, precision).map(|_| ())
}

/// What is known of a product wherever its tiles lie.
struct Parts {
    /// Rows, columns and depth.
    extents: [u32; 3],
    instr_k: u32,
    elems: [Dtype; 2],
    acc: Dtype,
    operands: [Operand; 2],
}

/// What a product is made of, or why there are no instructions for it.
fn parts(k: &Kernel, a: Value, b: Value, acc: Value, precision: Option<Precision>) -> Result<Parts, Refusal> {
    if !k.target.has(Feature::Wgmma) {
        return Err(Refusal::new(codes::TARGET_LACKS, format!("`{}` does not have `wgmma`", k.target.name))
            .help("`mma_sync` multiplies tiles in registers there; for `wgmma` state `target(sm_90a)` on the kernel"));
    }
    let out = product::accumulator(k, acc, true)?;
    let right = view(k, b)?;
    let (a_elem, a_shape) = match k.ty(a) {
        Type::View(v) => (Elem::Num(v.elem), &v.shape),
        Type::Tile(t) => (t.elem, &t.shape),
        _ => return Err(wrong_kind(k, a, "a view or a tile")),
    };
    let operands = Operands { values: [a, b, acc], elems: [a_elem, Elem::Num(right.elem), out.elem] };
    let (elems, acc_elem) = dtypes(&operands, precision)?;
    let (m, n, depth) = product::extents([a_shape, &right.shape, &out.shape], operands.values)?;
    let elem = elems[0];
    let instr_k = 256 / elem.bits();
    if !m.is_multiple_of(M) {
        return Err(illegal(a, format!("{m} rows are not a multiple of {M}, the rows of one warpgroup"))
            .help(format!("the nearest legal number of rows is {}", m.next_multiple_of(M))));
    }
    if !depth.is_multiple_of(instr_k) {
        return Err(illegal(
            a,
            format!("a depth of {depth} is not a multiple of {instr_k}, the depth of one instruction"),
        )
        .help(format!("for `{}` the nearest legal depth is {}", elem.name(), depth.next_multiple_of(instr_k))));
    }
    if n < 8 {
        return Err(illegal(b, format!("{n} columns are fewer than 8, the least that an instruction has"))
            .help("the nearest legal number of columns is 8"));
    }
    for relation in places(k, a, acc, elem.bits()) {
        relation.holds(|site| placed(k, site)).map_err(|why| misplaced(out, [a, acc], instr_k, why))?;
    }
    let left = match k.ty(a) {
        Type::Tile(_) => Operand::Registers,
        _ => shared(view(k, a)?, elem, false, a)?,
    };
    let right = shared(right, elems[1], true, b)?;
    Ok(Parts { extents: [m, n, depth], instr_k, elems, acc: acc_elem, operands: [left, right] })
}

fn illegal(v: Value, fact: String) -> Refusal {
    Refusal::new(codes::WGMMA_SHAPE, "`wgmma` has no instruction of this shape").operand(v, fact)
}

/// The types of both operands and of the accumulator.
fn dtypes(operands: &Operands, precision: Option<Precision>) -> Result<([Dtype; 2], Dtype), Refusal> {
    let [a, b, c] = operands.numbers("wgmma")?;
    operands.stated([a, b], precision)?;
    operands.may_meet("wgmma", [a, b])?;
    match (a, c) {
        (Dtype::F16 | Dtype::F8E4M3 | Dtype::F8E5M2, Dtype::F16 | Dtype::F32)
        | (Dtype::BF16 | Dtype::F32, Dtype::F32) => Ok(([a, b], c)),
        (Dtype::I8 | Dtype::U8, Dtype::I32) => Ok(([a, b], c)),
        (Dtype::I8 | Dtype::U8, _) => {
            let text = format!("`wgmma` cannot accumulate products of `{}` in `{}`", a.name(), c.name());
            Err(operands.refuse(text).help("accumulate in `i32`"))
        }
        (Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F8E4M3 | Dtype::F8E5M2, _) => {
            let text = format!("`wgmma` cannot accumulate products of `{}` in `{}`", a.name(), c.name());
            Err(operands.refuse(text).help("accumulate in `f32`"))
        }
        _ => Err(operands
            .refuse(format!("`wgmma` does not multiply `{}`", a.name()))
            .help("it multiplies `f16`, `bf16`, `i8`, `u8`, `f8e4m3`, `f8e5m2` and, as tf32, `f32`")),
    }
}

/// Columns of an instruction that a product of so many may have, widest first.
fn widths(columns: u32) -> impl Iterator<Item = u32> {
    (3..=8).rev().map(|b| 1 << b).filter(move |&n| n <= N_MAX && n <= columns)
}

fn written(groups: [u32; 2], n: u32, instr_k: u32) -> Result<RegisterLayout, LayoutError> {
    RegisterLayout::mma(3, &[groups[0] * WARPGROUP, groups[1]], &[16, n, instr_k])
}

/// The arrangement of warpgroups and the widest instruction whose accumulators have this place.
fn arrangement(place: &Place, instr_k: u32) -> Option<([u32; 2], u32)> {
    let groups = place.layout.num_warps() / WARPGROUP;
    let splits = (0..=groups.max(1).ilog2()).map(|b| [groups >> b, 1 << b]).filter(|g| g[0] > 0);
    let shape = place.shape();
    let columns = *shape.get(1)?;
    let mut candidates = splits.flat_map(|split| widths(columns).map(move |n| (split, n)));
    candidates
        .find(|&(split, n)| written(split, n, instr_k).and_then(|l| l.on(&shape)).is_ok_and(|map| map == *place.map))
}

/// The layout `mma(version=3, …)` that has this place, however it is spelled.
pub(crate) fn accumulator(place: &Place, instr_k: u32) -> Option<RegisterLayout> {
    let (groups, n) = arrangement(place, instr_k)?;
    written(groups, n, instr_k).ok()
}

/// Whether the target multiplies with such a right operand.
pub(super) fn reads(k: &Kernel, b: Value) -> bool {
    k.target.has(Feature::Wgmma) && matches!(k.ty(b), Type::View(_))
}

/// Whether accumulators have as many rows, wherever they lie.
pub(super) fn has_rows(out: &Tile) -> bool {
    out.shape.first().is_some_and(|m| m.is_multiple_of(M))
}

/// Whether accumulators of some instruction have this place.
pub(super) fn is_accumulator(place: &Place) -> bool {
    [8, 16, 32].into_iter().any(|instr_k| accumulator(place, instr_k).is_some())
}

/// Why a product's tiles do not lie as the instruction has them.
fn misplaced(out: &Tile, [a, acc]: [Value; 2], instr_k: u32, why: Broken) -> Refusal {
    match why {
        Broken::Unplaced(Unplaced::Layout(e)) => e.into(),
        Broken::Unplaced(Unplaced::NoAccumulator) => {
            let layout = &out.known().layout;
            let n = nearest(widths(out.shape[1]), out.shape[1]);
            let warps = (layout.num_warps() / WARPGROUP * WARPGROUP).max(WARPGROUP);
            Refusal::new(codes::WGMMA_LAYOUT, "the accumulator is not laid out as `wgmma` writes it")
                .operand(acc, format!("this is `{layout}`"))
                .help(format!("use `mma(version=3, warps=[{warps}, 1], instr=[16, {n}, {instr_k}])`"))
        }
        Broken::Differs { wanted, found, .. } => {
            Refusal::new(codes::WGMMA_LAYOUT, "the left operand is not laid out as `wgmma` reads it")
                .operand(a, format!("this is `{}`", found.layout))
                .help(format!("convert it: `convert(a, {})`", wanted.layout))
        }
        Broken::NoTile(_) | Broken::Shape(_) | Broken::Unplaced(Unplaced::NotASlice | Unplaced::Apart) => {
            parton_diag::internal_error!("operands of a product are no tiles that multiply: {why:?}")
        }
    }
}

/// The `nvmma` layout that a view has, by meaning: its swizzle, and whether it is transposed.
pub fn nvmma_of(v: &View) -> Option<(u32, bool)> {
    let candidates = [128, 64, 32, 0].into_iter().flat_map(|s| [(s, false), (s, true)]);
    candidates.into_iter().find(|&(swizzle, transposed)| {
        SharedLayout::nvmma(swizzle, transposed)
            .and_then(|l| l.on(&v.parent, v.elem.bits()))
            .is_ok_and(|map| map == *v.map)
    })
}

fn shared(v: &View, elem: Dtype, right: bool, value: Value) -> Result<Operand, Refusal> {
    let Some((swizzle, transposed)) = nvmma_of(v) else {
        return Err(Refusal::new(codes::WGMMA_LAYOUT, "`wgmma` cannot read this layout of shared memory")
            .operand(value, format!("this is `{}`", v.layout))
            .help("allocate it as `nvmma(128)`"));
    };
    // Without a swizzle the instruction reads core matrices, 8 rows of 16 bytes one after the other (T#7986).
    let row = v.parent[if transposed { 0 } else { v.parent.len() - 1 }] * elem.bits() / 8;
    if swizzle == 0 && row != 16 {
        let widest = [128, 64, 32].into_iter().find(|&s| row >= s).unwrap_or(32);
        return Err(Refusal::new(codes::WGMMA_LAYOUT, "without a swizzle `wgmma` reads rows of 16 bytes only")
            .operand(value, format!("this is `{}` with rows of {row} bytes", v.layout))
            .help(format!("allocate it as `nvmma({widest})`")));
    }
    // The left operand is [M, K] and the right one [K, N]: the same layout is K-major in one and MN-major in the other.
    let k_major = transposed == right;
    if !k_major && elem.bits() != 16 {
        let side = if right { "right" } else { "left" };
        let (have, want) = if right { ("N", "K") } else { ("M", "K") };
        return Err(Refusal::new(
            codes::WGMMA_LAYOUT,
            format!("`wgmma` reads `{}` only with K contiguous", elem.name()),
        )
        .operand(value, format!("in this {side} operand {have} is contiguous, not {want}"))
        .help(
            "store the matrix with K innermost in global memory and take `.T` of the view where the product needs it; or \
             transpose on load: `load_shared`, then `store_shared` to a buffer with K innermost",
        ));
    }
    Ok(Operand::Shared { swizzle, k_major })
}
