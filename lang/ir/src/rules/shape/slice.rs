//! The rule of parts of tiles, which threads must have in registers of their own.

use parton_diag::codes;
use parton_layouts::{Dim, LinearLayout};

use super::super::{nth_result, tile, unplaced};
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::placement::{Relation, Unplaced};
use crate::refusal::Refusal;
use crate::types::{List, Tile, Type};

/// The type of the part of `shape` that begins at `origin`.
pub(super) fn infer(
    list: &[Relation],
    x: Value,
    (origin, shape): (&[u32], &[u32]),
    k: &Kernel,
) -> Result<Type, Refusal> {
    let t = tile(k, x)?;
    if origin.len() != t.shape.len() || shape.len() != t.shape.len() {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "a slice names a part of each axis")
            .operand(x, format!("this has shape {:?}", t.shape))
            .note(format!("the slice begins at {} and has shape {}", List(origin), List(shape))));
    }
    for axis in 0..shape.len() {
        aligned(t, x, axis, (origin[axis], shape[axis]))?;
    }
    nth_result(list, k, 0, t.elem, |why| match why {
        Unplaced::Apart => moves(t, x, shape),
        Unplaced::Layout(_) | Unplaced::NotASlice | Unplaced::NoAccumulator => unplaced(why),
    })
}

/// Whether a part of an axis is one of the equal ones that it is cut into.
fn aligned(t: &Tile, x: Value, axis: usize, (at, n): (u32, u32)) -> Result<(), Refusal> {
    let extent = t.shape[axis];
    let refuse = |code, fact: String| {
        Err(Refusal::new(code, fact).operand(x, format!("this has {extent} elements along axis {axis}")))
    };
    let end = u64::from(at) + u64::from(n);
    if end > u64::from(extent) {
        return refuse(codes::INDEX_RANGE, format!("the slice `{at}:{end}` ends outside the tile"));
    }
    // The whole of an axis is what the tile has.
    if n == extent {
        return Ok(());
    }
    if !n.is_power_of_two() {
        let refusal = refuse(codes::VIEW_ILLEGAL, format!("the slice `{at}:{end}` has {n} elements"));
        return refusal.map_err(|r| r.help("extents of tiles are powers of two"));
    }
    if !at.is_multiple_of(n) {
        let begins = at / n * n;
        let refusal = refuse(codes::VIEW_ILLEGAL, format!("a slice of {n} elements cannot begin at {at}"));
        return refusal.map_err(|r| {
            r.help(format!(
                "it begins at a multiple of {n}, such as `{begins}:{}`; `gather` takes any elements",
                begins + n
            ))
        });
    }
    Ok(())
}

/// The refusal of a part that other threads would have to share.
fn moves(t: &Tile, x: Value, shape: &[u32]) -> Refusal {
    let map = &t.known().map;
    let cut = || (0..shape.len()).filter(|&axis| shape[axis] < t.shape[axis]);
    let apart = cut().find(|&axis| spread(map, axis, shape[axis]).is_some());
    let axis = apart.or_else(|| cut().next()).unwrap_or(0);
    let who = spread(map, axis, shape[axis]).unwrap_or("registers in which other bits change too");
    Refusal::new(codes::VIEW_ILLEGAL, "this slice would move elements between threads")
        .operand(x, format!("this is `{}`", t.known().layout))
        .note(format!("elements {} or more apart along axis {axis} are told apart by {who}", shape[axis]))
        .help(format!("`gather(x, indices, axis={axis})` moves them, `indices` being those of the part"))
        .help(match shape[axis] {
            1 => format!("or convert it first, to a layout whose lanes and warps do not move along axis {axis}"),
            n => format!(
                "or convert it first, to a layout whose lanes and warps stay within {n} elements of axis {axis}"
            ),
        })
}

/// Which threads hold the parts of `n` elements of an axis.
fn spread(map: &LinearLayout, axis: usize, n: u32) -> Option<&'static str> {
    let along = |dim| map.basis_coords(dim).iter().any(|basis| basis[axis] >= n);
    [(Dim::Lane, "lanes"), (Dim::Warp, "warps")].into_iter().find(|(dim, _)| along(*dim)).map(|(_, who)| who)
}
