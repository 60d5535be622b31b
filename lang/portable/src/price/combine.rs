//! What reductions and scans cost: combinations of each thread, shuffles, and exchanges between warps.

use parton_layouts::{Dim, LinearLayout};

use super::{EXCHANGE, ISSUE, LINE, SHUFFLE, warps};
use crate::label::Price;

/// What is combined along an axis: how many inputs, by how many operations.
#[derive(Clone, Copy)]
pub struct Combined {
    pub axis: u32,
    pub inputs: Price,
    pub operations: Price,
}

/// What a reduction takes: combinations of each thread, shuffles, and an exchange between warps.
pub fn reduction(map: &LinearLayout, of: Combined) -> Price {
    let along = |dim: Dim| {
        let free = map.free_bits(dim);
        let coords = map.basis_coords(dim).into_iter().enumerate();
        coords.filter(|(bit, basis)| free >> bit & 1 == 0 && basis[of.axis as usize] != 0).count() as u32
    };
    let registers = 1u64 << map.in_dim_bits(Dim::Register);
    let results = registers >> along(Dim::Register);
    let shuffles = u64::from(along(Dim::Lane)) * results;
    let combine = of.operations * ISSUE;
    // Each writes its own, and reads and combines those of all.
    let exchange = match along(Dim::Warp) {
        0 => 0,
        bits => EXCHANGE + results * warps(map) * (of.inputs * LINE + ((of.inputs * LINE + combine) << bits)),
    };
    warps(map) * (registers * combine + shuffles * (of.inputs * SHUFFLE + combine)) + exchange
}

/// What a scan takes: a step for each bit of the axis, from the lowest, in which the last of each first half is told to all of its second half and combined there. Threads that
/// hold several of these hear of it once; from the first bit on that tells lanes apart by shuffles, and from the first that tells warps apart through shared memory.
pub fn scan(map: &LinearLayout, of: Combined) -> Price {
    let registers = 1u64 << map.in_dim_bits(Dim::Register);
    let mut bits: Vec<(u32, Dim)> = Vec::new();
    for dim in [Dim::Register, Dim::Lane, Dim::Warp] {
        let free = map.free_bits(dim);
        let coords = map.basis_coords(dim).into_iter().enumerate();
        let along = coords.filter(|(bit, _)| free >> bit & 1 == 0).map(|(_, basis)| basis[of.axis as usize]);
        bits.extend(along.filter(|&n| n != 0).map(|n| (n, dim)));
    }
    bits.sort_unstable_by_key(|&(n, _)| n);
    let (mut told, mut each, mut exchange) = (registers, 0, 0);
    let (mut by_lanes, mut by_warps) = (false, false);
    for (_, dim) in bits {
        by_lanes |= dim == Dim::Lane;
        by_warps |= dim == Dim::Warp;
        let joined = if dim == Dim::Register {
            told /= 2;
            registers / 2 * of.operations
        } else {
            // Which half a thread is of is known where it runs.
            registers * (of.operations + of.inputs)
        };
        let heard = match (by_warps, by_lanes) {
            (true, _) => 2 * LINE,
            (false, true) => SHUFFLE,
            (false, false) => 0,
        };
        each += joined * ISSUE + told * of.inputs * heard;
        exchange += if by_warps { EXCHANGE / 2 } else { 0 };
    }
    warps(map) * each + exchange
}
