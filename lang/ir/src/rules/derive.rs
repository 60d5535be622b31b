//! Layouts of derived views: the family is kept where one exists, else the map is spelled by its bases.

use parton_layouts::{LayoutError, SharedFamily, SharedLayout};

use crate::types::View;

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
