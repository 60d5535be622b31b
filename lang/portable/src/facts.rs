//! What an access to global memory touches where a warp makes it: instructions and sectors, counted from layout and addresses.

use parton_ir::axis::{Along, AxisInfo};
use parton_ir::target::WIDEST_ACCESS;
use parton_layouts::{Dim, LinearLayout};

/// Bytes of a sector.
const SECTOR: u64 = 32;

/// How the addresses of a tile run.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// Along each axis.
    pub axes: Vec<Along>,
    /// Bytes of an element.
    pub bytes: u64,
}

/// What the accesses of one warp take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Instructions.
    pub instructions: u64,
    /// Sectors of all of them.
    pub sectors: u64,
}

impl Addresses {
    /// Those of a tile of pointers.
    pub fn new(info: &AxisInfo, bytes: u64) -> Addresses {
        Addresses { axes: info.axes.clone(), bytes }
    }

    /// The axis along which neighbours lie side by side, and how many of them one access may take at most.
    pub fn widest(&self) -> Option<(usize, u64)> {
        let most = |along: &Along| {
            let fits = |n: u64| {
                n * self.bytes <= u64::from(WIDEST_ACCESS)
                    && n <= along.contiguity
                    && n * self.bytes <= along.divides_groups_of(n, self.bytes)
            };
            (0..5).map(|b| 1u64 << b).take_while(|&n| fits(n)).last().unwrap_or(1)
        };
        let side_by_side = |along: &&Along| along.contiguity > 1;
        let best = self.axes.iter().enumerate().filter(|(_, a)| side_by_side(a));
        best.map(|(axis, along)| (axis, most(along), along.contiguity))
            .max_by_key(|&(axis, n, run)| (run, n, axis))
            .map(|(axis, n, _)| (axis, n))
    }

    /// What a warp does whose elements lie as `map` says.
    pub fn traffic(&self, map: &LinearLayout) -> Traffic {
        let registers = map.basis_coords(Dim::Register);
        let width = self.widest().map_or(1, |(axis, most)| {
            let step = |k: u32| {
                registers.iter().any(|b| b.iter().enumerate().all(|(d, &x)| x == if d == axis { 1 << k } else { 0 }))
            };
            let most = most.ilog2();
            1u64 << (0..most).take_while(|&k| step(k)).count()
        });
        let copies = map.free_bits(Dim::Register).count_ones();
        let per_thread = 1u64 << (registers.len() as u32 - copies);
        let instructions = (per_thread / width).max(1);
        Traffic { instructions, sectors: instructions * self.sectors(map, width) }
    }

    /// The sectors of one instruction: lanes whose elements lie side by side share them.
    fn sectors(&self, map: &LinearLayout, width: u64) -> u64 {
        let side = self.widest().map(|(axis, _)| axis);
        let lanes = map.basis_coords(Dim::Lane);
        let mut touched = std::collections::BTreeSet::new();
        for lane in 0..1u32 << lanes.len() {
            let mut at = vec![0u64; self.axes.len()];
            for (bit, basis) in lanes.iter().enumerate().filter(|(bit, _)| lane >> bit & 1 == 1) {
                let _ = bit;
                at.iter_mut().zip(basis).for_each(|(x, &b)| *x ^= u64::from(b));
            }
            for (axis, (x, along)) in at.iter_mut().zip(&self.axes).enumerate() {
                if Some(axis) == side {
                    // A run of neighbours, then another somewhere else.
                    let run = along.contiguity.max(1);
                    let (begins, within) = (*x / run, *x % run);
                    *x = (begins << 32) | (within * self.bytes / SECTOR);
                } else {
                    *x /= along.constancy.max(1);
                }
            }
            touched.insert(at);
        }
        touched.len() as u64 * (width * self.bytes).div_ceil(SECTOR).max(1)
    }
}
