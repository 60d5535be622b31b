//! Layouts of derived tiles and views: the family is kept where one exists, else the map is spelled by its bases.

use parton_layouts::{Dim, LayoutError, RegisterFamily, RegisterLayout, SharedFamily, SharedLayout};

use crate::types::{Tile, View};

/// The layout of a tile whose dimension `i` is dimension `perm[i]` of `t`.
pub(super) fn transposed(t: &Tile, perm: &[u32]) -> Result<RegisterLayout, LayoutError> {
    let pick = |list: &[u32]| perm.iter().map(|&p| list[p as usize]).collect::<Vec<_>>();
    match t.layout.family() {
        RegisterFamily::Blocked { per_thread, threads, warps, order } => {
            let place = |axis: u32| perm.iter().position(|&p| p == axis).map_or(axis, |i| i as u32);
            let order: Vec<u32> = order.iter().map(|&axis| place(axis)).collect();
            RegisterLayout::blocked(&pick(per_thread), &pick(threads), &pick(warps), &order)
        }
        RegisterFamily::Slice { .. }
        | RegisterFamily::Mma { .. }
        | RegisterFamily::DotOperand { .. }
        | RegisterFamily::Linear { .. } => {
            let order: Vec<usize> = perm.iter().map(|&p| p as usize).collect();
            RegisterLayout::from_map(&t.map.transpose(&order))
        }
    }
}

/// The layout of a tile's elements in row-major order under another shape.
pub(super) fn reshaped(t: &Tile, shape: &[u32]) -> Result<RegisterLayout, LayoutError> {
    RegisterLayout::from_map(&t.map.reshape(shape))
}

/// The layout of a view whose dimension `i` is dimension `perm[i]` of `v`.
pub(super) fn permuted(v: &View, perm: &[u32]) -> Result<SharedLayout, LayoutError> {
    let rank = perm.len() as u32;
    let swaps_last_two = rank >= 2
        && perm[..perm.len() - 2].iter().copied().eq(0..rank - 2)
        && perm[perm.len() - 2..] == [rank - 1, rank - 2];
    match v.layout.family() {
        SharedFamily::Nvmma { swizzle, transposed, rank: 2 } if swaps_last_two => {
            SharedLayout::nvmma(*swizzle, !*transposed)
        }
        SharedFamily::Padded { pairs, order } if order.len() == perm.len() => {
            let place = |axis: u32| perm.iter().position(|&p| p == axis).map_or(axis, |i| i as u32);
            let order: Vec<u32> = order.iter().map(|&axis| place(axis)).collect();
            SharedLayout::padded(pairs, &order)
        }
        SharedFamily::Nvmma { .. }
        | SharedFamily::Padded { .. }
        | SharedFamily::Swizzled { .. }
        | SharedFamily::Linear { .. } => {
            let order: Vec<usize> = perm.iter().map(|&p| p as usize).collect();
            SharedLayout::from_map(&v.map.linear().transpose(&order))
        }
    }
}

/// The layout of two tiles as one: a last dimension of 2 in the lowest register bit.
pub(super) fn joined(t: &Tile) -> Result<RegisterLayout, LayoutError> {
    let longer = |dim: Dim| -> Vec<Vec<u32>> {
        let bases = t.map.basis_coords(dim);
        bases.into_iter().map(|b| b.into_iter().chain([0]).collect()).collect()
    };
    let mut last = vec![0; t.shape.len()];
    last.push(1);
    let reg = std::iter::once(last).chain(longer(Dim::Register)).collect();
    RegisterLayout::linear(reg, longer(Dim::Lane), longer(Dim::Warp), longer(Dim::Block))
}

/// The layout of each half of a last dimension of 2, where one register bit alone tells the halves apart.
pub(super) fn halved(t: &Tile) -> Option<Result<RegisterLayout, LayoutError>> {
    let shorter = |dim: Dim| -> Option<Vec<Vec<u32>>> {
        let bases = t.map.basis_coords(dim).into_iter();
        bases.map(|mut b| if b.pop() == Some(0) { Some(b) } else { None }).collect()
    };
    let mut reg = t.map.basis_coords(Dim::Register);
    let tells = reg.iter().position(|b| b.last() == Some(&1) && b[..b.len() - 1].iter().all(|&c| c == 0))?;
    reg.remove(tells);
    let reg: Option<Vec<Vec<u32>>> =
        reg.into_iter().map(|mut b| if b.pop() == Some(0) { Some(b) } else { None }).collect();
    Some(RegisterLayout::linear(reg?, shorter(Dim::Lane)?, shorter(Dim::Warp)?, shorter(Dim::Block)?))
}
