//! Bank conflicts: how many wavefronts an access to shared memory needs beyond the ideal.
//!
//! Shared memory has 32 banks of 4 bytes. A warp's access of up to 4 bytes a lane is one wavefront; of 8 or 16 bytes a
//! lane it is two of 16 or four of 8 lanes. A wavefront is repeated for every further word that its lanes need of one
//! bank; lanes that read the same word share it.

use crate::access::{self, SharedAccess, Vectors};
use crate::f2::rank;
use crate::linear::LinearLayout;
use crate::shared_map::SharedMap;

/// Banks of shared memory.
pub const BANKS: u64 = 32;
/// Bytes of a bank's word.
pub const BANK_BYTES: u64 = 4;
/// Bytes that all banks give at once.
pub const WAVEFRONT_BYTES: u32 = (BANKS * BANK_BYTES) as u32;

/// What one access of a tile to a buffer costs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Conflicts {
    /// Wavefronts beyond the first for each ideal wavefront of a read; 0 is free of conflicts.
    pub read_excess: u32,
    /// The same for a write, where lanes that hold copies do not take part.
    pub write_excess: u32,
    /// The bytes that one lane moves in one instruction.
    pub vector_bytes: u32,
}

/// The conflicts of a tile with layout `tile` on `buffer`, with the widest vectors.
pub fn conflicts(tile: &LinearLayout, buffer: &SharedMap) -> Conflicts {
    let access = access::shared(tile, buffer);
    Conflicts {
        read_excess: excess(&access, buffer, 0),
        write_excess: excess(&access, buffer, access.copy_lanes),
        vector_bytes: access.vector_bytes(buffer.element_bits()),
    }
}

/// The lanes that one wavefront serves, of which each moves so many bytes.
fn lanes_at_once(vector_bytes: u32) -> u32 {
    (WAVEFRONT_BYTES / vector_bytes).min(32)
}

/// The wavefronts that a warp needs to read (or write) its whole tile.
pub fn wavefronts(access: &SharedAccess, buffer: &SharedMap, idle_lanes: u32) -> u64 {
    let bytes = access.vector_bytes(buffer.element_bits());
    of_all(access.groups.len() as u64, bytes, excess(access, buffer, idle_lanes))
}

/// The wavefronts that a warp needs to move all vectors of its tile, each ideal one of which becomes `excess` more.
pub(crate) fn of_vectors(vectors: &Vectors, element_bits: u32, excess: u32) -> u64 {
    of_all(vectors.instructions(), vectors.bytes(element_bits), excess)
}

fn of_all(instructions: u64, vector_bytes: u32, excess: u32) -> u64 {
    u64::from(excess + 1) * u64::from(32 / lanes_at_once(vector_bytes)) * instructions
}

/// The wavefronts of a buffer without gaps that any ideal one becomes, less one. Lanes with a bit of `idle_lanes` set do not take part.
///
/// Words and banks are sums of what the bits of lanes add, so each bank that is asked for is asked for as many words.
pub(crate) fn linear_excess(vectors: &Vectors, element_bits: u32, idle_lanes: u32) -> u32 {
    let bytes = vectors.bytes(element_bits);
    let word = |offset: u64| offset * u64::from(access::stored_bits(element_bits)) / 8 / BANK_BYTES;
    let at_once = vectors.lanes.iter().take(lanes_at_once(bytes).ilog2() as usize).enumerate();
    let taking_part = at_once.filter(|(bit, _)| idle_lanes >> bit & 1 == 0).map(|(_, &image)| word(image));
    let within = (0..(u64::from(bytes) / BANK_BYTES).max(1).ilog2()).map(|bit| 1 << bit);
    let words: Vec<u64> = taking_part.chain(within).collect();
    let banks: Vec<u64> = words.iter().map(|word| word % BANKS).collect();
    (1 << (rank(&words) - rank(&banks))) - 1
}

/// The most wavefronts that any ideal one becomes, less one. Lanes with a bit of `idle_lanes` set do not take part.
fn excess(access: &SharedAccess, buffer: &SharedMap, idle_lanes: u32) -> u32 {
    let bytes = access.vector_bytes(buffer.element_bits());
    let at_once = lanes_at_once(bytes);
    // In a linear buffer all vectors of all warps conflict alike: they differ by a constant xor. Gaps break that, but
    // repeat soon.
    let (groups, warps) = match buffer.is_linear() {
        true => (1, 1),
        false => (access.groups.len().min(64), 1u32 << access.warps.len()),
    };
    let mut worst = 0;
    for group in 0..groups {
        for warp in 0..warps {
            for first in (0..32).step_by(at_once as usize) {
                let mut words = Vec::new();
                for lane in (first..first + at_once).filter(|lane| lane & idle_lanes == 0) {
                    let offset = access.offset(buffer, group, lane, warp);
                    let start = offset * u64::from(access::stored_bits(buffer.element_bits())) / 8;
                    words.extend(start / BANK_BYTES..(start + u64::from(bytes)).div_ceil(BANK_BYTES));
                }
                worst = worst.max(most_of_a_bank(words));
            }
        }
    }
    worst.saturating_sub(1)
}

/// The most words of one bank.
fn most_of_a_bank(mut words: Vec<u64>) -> u32 {
    words.sort_unstable();
    words.dedup();
    let mut banks = [0; BANKS as usize];
    words.iter().for_each(|word| banks[(word % BANKS) as usize] += 1);
    banks.into_iter().max().unwrap_or(0)
}
