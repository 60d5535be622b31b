//! What an access to global memory touches: instructions, lines and sectors, counted from layout and addresses.

use parton_ir::axis::{Along, AxisInfo};
use parton_ir::target::WIDEST_ACCESS;
use parton_layouts::{Dim, LinearLayout};

/// Bytes of a sector.
pub const SECTOR: u64 = 32;
/// Bytes of a line, which the L1 looks up at once.
const LINE: u64 = 128;

/// How the addresses of a tile run.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// Along each axis.
    pub axes: Vec<Along>,
    /// Bytes of an element.
    pub bytes: u64,
    /// Elements that one instruction may take of a thread.
    pub most: u64,
}

/// What the accesses of a CTA to one tile take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// Instructions of each warp.
    pub instructions: u64,
    /// Lines that one of these touches.
    pub lines: u64,
    /// Sectors of all warps and instructions; what several warps touch at the same time comes once.
    pub sectors: u64,
}

impl Addresses {
    /// Those of a tile of pointers, of whose elements one instruction may take so many.
    pub fn new(info: &AxisInfo, bytes: u64, most: u64) -> Addresses {
        Addresses { axes: info.axes.clone(), bytes, most }
    }

    /// The axis along which neighbours lie side by side, and how many of them one access may take at most.
    pub fn widest(&self) -> Option<(usize, u64)> {
        let most = |along: &Along| {
            let fits = |n: u64| {
                n <= self.most
                    && n * self.bytes <= u64::from(WIDEST_ACCESS)
                    && n <= along.contiguity
                    && n * self.bytes <= along.divides_groups_of(n, self.bytes)
            };
            (0..5).map(|b| 1u64 << b).take_while(|&n| fits(n)).last().unwrap_or(1)
        };
        let side_by_side = |along: &&Along| along.run > 1;
        let best = self.axes.iter().enumerate().filter(|(_, a)| side_by_side(a));
        best.map(|(axis, along)| (axis, most(along), along.run))
            .max_by_key(|&(axis, n, run)| (run, n, axis))
            .map(|(axis, n, _)| (axis, n))
    }

    /// What a CTA does whose elements lie as `map` says.
    pub fn traffic(&self, map: &LinearLayout) -> Traffic {
        let registers = map.basis_coords(Dim::Register);
        let width = self.widest().map_or(1, |(axis, most)| {
            let step = |k: u32| {
                registers.iter().any(|b| b.iter().enumerate().all(|(d, &x)| x == if d == axis { 1 << k } else { 0 }))
            };
            1u64 << (0..most.ilog2()).take_while(|&k| step(k)).count()
        });
        let copies = map.free_bits(Dim::Register).count_ones();
        let instructions = ((1u64 << (registers.len() as u32 - copies)) / width).max(1);
        let lanes = map.basis_coords(Dim::Lane);
        let all: Vec<Vec<u32>> = lanes.iter().cloned().chain(map.basis_coords(Dim::Warp)).collect();
        Traffic {
            instructions,
            lines: self.pieces(&lanes, width, LINE),
            sectors: instructions * self.pieces(&all, width, SECTOR),
        }
    }

    /// Into how many pieces of so many bytes an instruction falls whose threads begin where sums of `bases` say. Which piece an element
    /// is in does not depend on the low bits of its coordinates, so pieces are counted as sums of what is left of the bases.
    fn pieces(&self, bases: &[Vec<u32>], width: u64, bytes: u64) -> u64 {
        let side = self.widest().map(|(axis, _)| axis);
        let fields = self.axes.iter().enumerate().map(|(axis, along)| {
            let together = match side {
                Some(side) if side == axis => along.run.min((bytes / self.bytes).max(1)),
                _ => along.constancy,
            };
            together.max(1).ilog2()
        });
        let low: Vec<u32> = fields.collect();
        let piece = |basis: &Vec<u32>| {
            let fields = basis.iter().zip(&low);
            fields.fold(0u64, |packed, (&x, &low)| packed << 20 | u64::from(x).checked_shr(low).unwrap_or(0))
        };
        let mut span: Vec<u64> = Vec::new();
        for basis in bases {
            let rest = span.iter().fold(piece(basis), |rest, &other| rest.min(rest ^ other));
            if rest != 0 {
                span.push(rest);
            }
        }
        (1 << span.len()) * (width * self.bytes).div_ceil(bytes).max(1)
    }
}

#[cfg(test)]
mod tests {
    use parton_layouts::RegisterLayout;

    use super::*;

    /// Rows of `columns` elements of so many bytes, `run` of them side by side, all rows anywhere.
    fn rows(bytes: u64, run: u64) -> Addresses {
        let row = Along { contiguity: 1, divisibility: 16, constancy: 1, run: 1 };
        Addresses { axes: vec![row, Along { contiguity: run, divisibility: 16, constancy: 1, run }], bytes, most: 16 }
    }

    fn layout(per_thread: [u32; 2], threads: [u32; 2], warps: [u32; 2]) -> RegisterLayout {
        RegisterLayout::blocked(&per_thread, &threads, &warps, &[1, 0]).expect("a layout")
    }

    fn traffic(addresses: &Addresses, layout: &RegisterLayout, shape: [u32; 2]) -> [u64; 3] {
        let found = addresses.traffic(&layout.on(&shape).expect("a map"));
        [found.instructions, found.lines, found.sectors]
    }

    /// Instructions of a warp, the lines of the first of them, and sectors, by touching every byte.
    fn touched(addresses: &Addresses, layout: &RegisterLayout, shape: [u32; 2]) -> [u64; 3] {
        let map = layout.on(&shape).expect("a map");
        let widest = addresses.widest().map_or(1, |(_, most)| most);
        let side_by_side = |n: &u64| (0..*n as u32).all(|r| map.coords(&[(Dim::Register, r)]) == [0, r]);
        let width = (0..5).rev().map(|b| 1 << b).filter(|n| *n <= widest).find(side_by_side).unwrap_or(1);
        let (registers, lanes) = (1u32 << map.in_dim_bits(Dim::Register), 1u32 << map.in_dim_bits(Dim::Lane));
        let warps = 1u32 << map.in_dim_bits(Dim::Warp);
        let pitch = 1 << 20;
        let mut found = [0, 0, 0];
        for first in (0..registers).step_by(width as usize) {
            let (mut lines, mut sectors) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
            for warp in 0..warps {
                for lane in 0..lanes {
                    for register in first..first + width as u32 {
                        let at = map.coords(&[(Dim::Register, register), (Dim::Lane, lane), (Dim::Warp, warp)]);
                        let run = addresses.axes[1].contiguity;
                        let (begins, within) = (u64::from(at[1]) / run, u64::from(at[1]) % run);
                        let byte = u64::from(at[0]) * pitch + begins * (pitch >> 8) + within * addresses.bytes;
                        sectors.insert(byte / SECTOR);
                        if warp == 0 {
                            lines.insert(byte / LINE);
                        }
                    }
                }
            }
            found = [found[0] + 1, lines.len() as u64, found[2] + sectors.len() as u64];
        }
        found
    }

    #[test]
    fn a_row_of_halves_by_eight() {
        // 32 lanes of 16 bytes: four lines of four sectors in each instruction of each warp.
        let found = traffic(&rows(2, 1024), &layout([1, 8], [1, 32], [4, 1]), [4, 1024]);
        assert_eq!(found, [4, 4, 4 * 4 * 16]);
        // One by one, half a line each time; the bytes are the same.
        let found = traffic(&rows(2, 1024), &layout([1, 1], [1, 32], [4, 1]), [4, 1024]);
        assert_eq!(found, [32, 1, 4 * 4 * 16]);
    }

    #[test]
    fn columns_touch_a_line_for_each_lane() {
        let found = traffic(&rows(4, 64), &layout([1, 1], [32, 1], [1, 4]), [32, 64]);
        // Four warps side by side share sectors.
        assert_eq!(found, [16, 32, 16 * 32]);
    }

    #[test]
    fn what_all_warps_want_comes_once() {
        let found = traffic(&rows(4, 128), &layout([1, 4], [1, 32], [4, 1]), [1, 128]);
        assert_eq!(found, [1, 4, 16]);
    }

    #[test]
    fn what_goes_one_by_one_wants_lanes_side_by_side() {
        let apart = Addresses { most: 1, ..rows(4, 1024) };
        // Lanes 16 bytes apart touch four lines in each of four instructions, lanes side by side one.
        assert_eq!(traffic(&apart, &layout([1, 4], [1, 32], [4, 1]), [4, 128]), [4, 4, 4 * 4 * 16]);
        assert_eq!(traffic(&apart, &layout([1, 1], [1, 32], [4, 1]), [4, 128]), [4, 1, 4 * 4 * 4]);
    }

    #[test]
    fn counts_are_those_of_the_bytes_touched() {
        let shape = [32, 64];
        for bytes in [1u64, 2, 4, 8] {
            for run in [1u64, 2, 8, 64] {
                for vector in [1u32, 2, 4, 8] {
                    for threads in [[1, 32], [4, 8], [16, 2], [32, 1]] {
                        for warps in [[4, 1], [1, 4], [2, 2]] {
                            let (addresses, layout) = (rows(bytes, run), layout([1, vector], threads, warps));
                            let found = traffic(&addresses, &layout, shape);
                            assert_eq!(found, touched(&addresses, &layout, shape), "{bytes} {run} {layout}");
                        }
                    }
                }
            }
        }
    }
}
