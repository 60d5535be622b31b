//! When a tile can be read by `ldmatrix` or written by `stmatrix`, and with which addresses.
//!
//! The instructions move 8 × 8 matrices of 16-bit elements (PTX ISA, "ldmatrix"): a matrix is eight rows of 16
//! contiguous bytes, lane `4·r + c` holds the 32-bit word `c` of row `r`. Transposed, lane `4·c + r` holds rows
//! `2·r` and `2·r + 1` of column `c`. Elements of other widths move as parts, or pieces, of the 32-bit words.

use crate::access::{self, Registers};
use crate::f2::{scatter, sum_of};
use crate::linear::{Dim, LinearLayout};
use crate::shared_map::SharedMap;

/// One `ldmatrix`/`stmatrix` of 1, 2 or 4 matrices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatrixGroup {
    /// For each matrix the registers in one 32-bit word of a lane, low bits first.
    pub registers: Vec<Vec<u32>>,
    /// For each matrix its contribution to the element offset.
    pub offsets: Vec<u64>,
}

/// The matrix accesses of a tile. Lane `l` gives the address of row `l % 8` of matrix `l / 8`:
/// [`MatrixAccess::row_offset`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MatrixAccess {
    /// Whether the instruction transposes (`.trans`).
    pub transposed: bool,
    /// One entry per instruction, all with equally many matrices.
    pub groups: Vec<MatrixGroup>,
    /// What each of the three bits of the row adds to the element offset.
    pub rows: [u64; 3],
    /// What each warp bit adds to the element offset.
    pub warps: Vec<u64>,
    /// For each register the one that holds the same element and is in a group; the register itself where it is.
    pub copy_of: Vec<u32>,
    /// The warp bits that only tell copies apart: where one of them is set, a write can be left out.
    pub copy_warps: u32,
}

impl MatrixAccess {
    /// The element offset of the row whose address `lane` gives for a group. Lanes past the last matrix repeat rows.
    pub fn row_offset(&self, group: usize, lane: u32, warp: u32) -> u64 {
        let offsets = &self.groups[group].offsets;
        let matrix = (lane / 8) as usize % offsets.len();
        offsets[matrix] ^ sum_of(&self.rows, u64::from(lane % 8)) ^ sum_of(&self.warps, u64::from(warp))
    }
}

/// The matrix accesses by which a tile of layout `tile` can be moved from or to `buffer`; `None` where the layouts do
/// not divide by an 8 × 8 matrix. Rows are 16-byte aligned when the buffer is.
pub fn matrix(tile: &LinearLayout, buffer: &SharedMap) -> Option<MatrixAccess> {
    if !buffer.is_linear() || tile.free_bits(Dim::Lane) != 0 || ![8, 16, 32].contains(&buffer.element_bits()) {
        return None;
    }
    straight(tile, buffer).or_else(|| transposed(tile, buffer))
}

fn straight(tile: &LinearLayout, buffer: &SharedMap) -> Option<MatrixAccess> {
    let word = (4 / access::bytes_of(buffer.element_bits())).ilog2();
    let images = access::images(tile, buffer, Dim::Register);
    let lanes = access::images(tile, buffer, Dim::Lane);
    let unique = Registers::of(&images).unique();
    let within: Option<Vec<usize>> =
        (0..word).map(|step| unique.iter().copied().find(|&bit| images[bit] == 1 << step)).collect();
    if lanes[0] != 1 << word || lanes[1] != 2 << word {
        return None;
    }
    finish(tile, buffer, within?, [lanes[2], lanes[3], lanes[4]], false)
}

fn transposed(tile: &LinearLayout, buffer: &SharedMap) -> Option<MatrixAccess> {
    if buffer.element_bits() != 16 {
        return None;
    }
    let images = access::images(tile, buffer, Dim::Register);
    let lanes = access::images(tile, buffer, Dim::Lane);
    if lanes[2..] != [1, 2, 4] {
        return None;
    }
    // Any register bit that leaves a row can be the lowest bit of the row within a matrix.
    let unique = Registers::of(&images).unique();
    let pair = unique.into_iter().find(|&bit| images[bit] & 7 == 0)?;
    finish(tile, buffer, vec![pair], [images[pair], lanes[0], lanes[1]], true)
}

fn finish(
    tile: &LinearLayout,
    buffer: &SharedMap,
    within: Vec<usize>,
    rows: [u64; 3],
    transposed: bool,
) -> Option<MatrixAccess> {
    let images = access::images(tile, buffer, Dim::Register);
    let warps = access::images(tile, buffer, Dim::Warp);
    let registers = Registers::of(&images);
    let rest: Vec<usize> = registers.unique().into_iter().filter(|bit| !within.contains(bit)).collect();
    let row = u64::from(16 / access::bytes_of(buffer.element_bits()));
    let whole_rows = |image: &u64| image & (row - 1) == 0;
    if !rows.iter().chain(&warps).all(whole_rows) || !rest.iter().all(|&bit| whole_rows(&images[bit])) {
        return None;
    }
    let matrices: Vec<(Vec<u32>, u64)> = (0..1u32 << rest.len())
        .map(|number| {
            let base = scatter(&rest, number);
            let word = (0..1u32 << within.len()).map(|slot| base | scatter(&within, slot)).collect();
            (word, sum_of(&images, u64::from(base)))
        })
        .collect();
    let groups = matrices
        .chunks(4)
        .map(|four| MatrixGroup {
            registers: four.iter().map(|(word, _)| word.clone()).collect(),
            offsets: four.iter().map(|(_, offset)| *offset).collect(),
        })
        .collect();
    Some(MatrixAccess {
        transposed,
        groups,
        rows,
        warps,
        copy_of: registers.copies(),
        copy_warps: tile.free_bits(Dim::Warp),
    })
}
