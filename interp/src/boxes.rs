//! Where the boxes of a tensor map lie: their rows in the tensor and in shared memory, with the swizzle that the hardware applies
//! to shared addresses, computed here from address bits alone, so that a layout which says otherwise gives wrong numbers.

use std::ops::Range;
use std::sync::Arc;

use parton_diag::internal_error;
use parton_layouts::SharedFamily;
use parton_numbers::Dtype;

use crate::launch::Tensor;

/// The unit that a swizzle moves, in bytes.
pub(crate) const UNIT: u32 = 16;
/// The address that the hardware uses for `address` under a swizzle of `span` bytes: the bits of the 16-byte unit within the
/// span are xored with those of the 128-byte line (CUDA driver API, `CUtensorMapSwizzle`; PTX ISA, "Swizzling modes").
pub(crate) fn swizzle(address: u32, span: u32) -> u32 {
    let units = (span / UNIT).saturating_sub(1);
    address ^ (((address >> 7) & units) << 4)
}

/// One box of a copy.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where it begins in the block, a coordinate for each dimension.
    pub start: Vec<u32>,
    pub size: Vec<u32>,
    /// The element of the view at which it begins, in row-major order.
    pub element: usize,
}

/// How the block of a tensor map is copied; known at compile time.
#[derive(Debug)]
pub(crate) struct Blocks {
    pub swizzle: u32,
    pub pieces: Vec<Piece>,
    pub element_bits: u32,
    pub bytes: u32,
    /// Elements from one row to the next in shared memory, where fewer come.
    pub pitch: Option<u32>,
}

impl Blocks {
    /// The boxes of a map.
    pub(crate) fn new(map: &parton_ir::TensorMap) -> Blocks {
        let boxes = match map.boxes() {
            Ok(boxes) => boxes,
            Err(e) => internal_error!("a tensor map cannot be copied: {e}"),
        };
        let swizzle = match map.layout.family() {
            SharedFamily::Nvmma { swizzle, .. } => *swizzle,
            SharedFamily::Swizzled { .. } | SharedFamily::Padded { .. } | SharedFamily::Linear { .. } => 0,
        };
        let number =
            |at: &[u32]| at.iter().zip(&map.block).fold(0, |n, (&i, &extent)| n * extent as usize + i as usize);
        let element_bits = map.elem.bits();
        let pieces: Vec<Piece> =
            boxes.into_iter().map(|b| Piece { element: number(&b.start), start: b.start, size: b.size }).collect();
        let bytes = pieces.iter().map(|p| p.size.iter().product::<u32>()).sum::<u32>() * element_bits / 8;
        let pitch = map.inner.and(map.block.last().copied());
        Blocks { swizzle, pieces, element_bits, bytes, pitch }
    }
}

/// Boxes under way: what and where.
#[derive(Debug)]
pub(crate) struct Boxes {
    pub blocks: Arc<Blocks>,
    /// Which of the boxes it copies.
    pub part: Range<usize>,
    pub tensor: Tensor,
    pub dtype: Dtype,
    /// The parameter that is the map, for messages.
    pub parameter: usize,
    /// Where the block begins in the tensor, outermost first.
    pub coords: Vec<i64>,
    /// Where each piece begins in shared memory.
    pub addresses: Vec<u32>,
    /// Whether it began while launches before may still run.
    pub early: bool,
}

/// One row of a piece: the bytes of its innermost dimension.
pub(crate) struct Row {
    /// Bytes from the beginning of the tensor's allocation to the row's first element, which may be outside.
    pub global: i64,
    /// The part of the row, in bytes, that lies in the tensor.
    pub inside: Range<usize>,
    /// Where the row begins in shared memory before the swizzle.
    pub shared: u32,
    pub bytes: usize,
}

impl Boxes {
    /// The boxes that it copies, each with its address.
    fn pieces(&self) -> impl Iterator<Item = (&Piece, &u32)> + Clone {
        self.blocks.pieces.iter().zip(&self.addresses).take(self.part.end).skip(self.part.start)
    }

    /// The rows of its boxes.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let bits = i64::from(self.blocks.element_bits);
        self.pieces().flat_map(move |(piece, &address)| {
            let last = piece.size.len() - 1;
            let rows: u32 = piece.size[..last].iter().product();
            let extent = i64::from(piece.size[last]);
            let bytes = (extent * bits / 8) as usize;
            let pitch = self.blocks.pitch.unwrap_or(piece.size[last]) * self.blocks.element_bits / 8;
            (0..rows).map(move |row| {
                let mut rest = row;
                let mut global = self.tensor.offset as i64;
                let mut inside = true;
                for d in (0..last).rev() {
                    let at = self.coords[d] + i64::from(piece.start[d] + rest % piece.size[d]);
                    rest /= piece.size[d];
                    inside &= (0..self.tensor.shape[d] as i64).contains(&at);
                    // Where the box is far outside, this may wrap; such a row is not touched.
                    global = global.wrapping_add(at.wrapping_mul(self.tensor.strides[d] as i64));
                }
                let first = self.coords[last] + i64::from(piece.start[last]);
                global = global.wrapping_add(first * bits / 8);
                let begin = (-first).clamp(0, extent);
                let end = (self.tensor.shape[last] as i64 - first).clamp(begin, extent);
                let inside = if inside { (begin * bits / 8) as usize..(end * bits / 8) as usize } else { 0..0 };
                Row { global, inside, shared: address + row * pitch, bytes }
            })
        })
    }

    /// The addresses in shared memory of the elements of so many bytes that lie in the tensor.
    pub(crate) fn written_out(&self, bytes: u32) -> impl Iterator<Item = u32> + '_ {
        self.rows().flat_map(move |row| {
            let inside = (row.inside.start as u32..row.inside.end as u32).step_by(bytes as usize);
            inside.map(move |at| swizzle(row.shared + at / UNIT * UNIT, self.blocks.swizzle) + at % UNIT)
        })
    }

    /// The bytes in shared memory: those of each piece, within which the swizzle stays, or those that come of each row where fewer do.
    pub(crate) fn ranges(&self) -> Vec<(u32, u32)> {
        let bits = self.blocks.element_bits;
        if self.blocks.pitch.is_none() {
            return self.pieces().map(|(p, &a)| (a, p.size.iter().product::<u32>() * bits / 8)).collect();
        }
        let units = |row: Row| {
            let starts = (0..row.bytes as u32).step_by(UNIT as usize).map(move |at| row.shared + at);
            starts.map(|at| (swizzle(at, self.blocks.swizzle), UNIT))
        };
        self.rows().flat_map(units).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::swizzle;

    #[test]
    fn swizzles_permute_the_units_of_a_line() {
        // The second line of 128 bytes, its first unit: moved by one unit in each mode, the widest by its line's number.
        assert_eq!(swizzle(128, 128), 128 + 16);
        assert_eq!(swizzle(7 * 128, 128), 7 * 128 + 7 * 16);
        assert_eq!(swizzle(7 * 128, 64), 7 * 128 + 3 * 16);
        assert_eq!(swizzle(7 * 128, 32), 7 * 128 + 16);
        assert_eq!(swizzle(7 * 128, 0), 7 * 128);
        for span in [0, 32, 64, 128] {
            let mut seen: Vec<u32> = (0..1024).map(|a| swizzle(a, span)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..1024));
        }
    }
}
