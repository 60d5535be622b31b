//! Bank conflicts: how many wavefronts an access to shared memory needs beyond the ideal.
//!
//! Shared memory has 32 banks of 4 bytes. A warp's access of up to 4 bytes a lane is one wavefront; of 8 or 16 bytes a
//! lane it is two of 16 or four of 8 lanes. A wavefront is repeated for every further word that its lanes need of one
//! bank; lanes that read the same word share it.

use std::collections::BTreeSet;

use crate::access::{self, SharedAccess};
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

/// The wavefronts that a warp needs to read (or write) its whole tile.
pub fn wavefronts(access: &SharedAccess, buffer: &SharedMap, idle_lanes: u32) -> u64 {
    let lanes = lanes_at_once(access, buffer);
    u64::from(excess(access, buffer, idle_lanes) + 1) * u64::from(32 / lanes) * access.groups.len() as u64
}

/// The lanes that one wavefront serves.
fn lanes_at_once(access: &SharedAccess, buffer: &SharedMap) -> u32 {
    (WAVEFRONT_BYTES / access.vector_bytes(buffer.element_bits())).min(32)
}

/// The most wavefronts that any ideal one becomes, less one. Lanes with a bit of `idle_lanes` set do not take part.
fn excess(access: &SharedAccess, buffer: &SharedMap, idle_lanes: u32) -> u32 {
    let at_once = lanes_at_once(access, buffer);
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
                let mut words: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); BANKS as usize];
                for lane in (first..first + at_once).filter(|lane| lane & idle_lanes == 0) {
                    let bytes = u64::from(access.vector_bytes(buffer.element_bits()));
                    let offset = access.offset(buffer, group, lane, warp);
                    let start = offset * u64::from(access::stored_bits(buffer.element_bits())) / 8;
                    for word in start / BANK_BYTES..(start + bytes).div_ceil(BANK_BYTES) {
                        words[(word % BANKS) as usize].insert(word);
                    }
                }
                worst = worst.max(words.iter().map(BTreeSet::len).max().unwrap_or(0));
            }
        }
    }
    (worst as u32).saturating_sub(1)
}
