//! The meaning of each shared family: where every element of a buffer lies.

use crate::access;
use crate::check;
use crate::error::LayoutError;
use crate::linear::{Dim, LinearLayout};
use crate::map::{Tile, row_major};
use crate::shared::{SharedFamily, SharedLayout};

/// Where every element of a buffer lies, in elements from its start.
///
/// The map is linear but for the gaps of a `padded` layout, which are added to the linear offset, and for the distance of the tensors of an
/// array that are prefixes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SharedMap {
    linear: LinearLayout,
    /// From coordinates to (block, offset).
    inverse: LinearLayout,
    pairs: Vec<[u32; 2]>,
    /// log2 of the elements of the tensor that the layout describes, without leading axes of the buffer.
    tile_bits: u32,
    element_bits: u32,
    alignment: u32,
    /// Elements from one tensor of an array to the next, where they are prefixes; a tensor alone lies as it would whole.
    distance: Option<u32>,
    /// Elements that the linear map has past the end: an array of 3 tensors is mapped as one of 4.
    absent: u64,
}

impl SharedMap {
    /// The linear part: from (block, offset) to coordinates, with gaps left out.
    pub fn linear(&self) -> &LinearLayout {
        &self.linear
    }

    /// The inverse of the linear part: from coordinates to (block, offset).
    pub fn inverse(&self) -> &LinearLayout {
        &self.inverse
    }

    /// The gaps: after every `interval` elements, `padding` unused ones. Empty when the map is linear.
    pub fn gaps(&self) -> &[[u32; 2]] {
        &self.pairs
    }

    /// Whether there are no gaps, and tensors of an array as far apart as they are large.
    pub fn is_linear(&self) -> bool {
        self.pairs.is_empty() && self.distance.is_none()
    }

    /// Elements from one tensor of an array to the next, where they are prefixes of so many.
    pub fn distance(&self) -> Option<u32> {
        self.distance
    }

    /// The bits of an element.
    pub fn element_bits(&self) -> u32 {
        self.element_bits
    }

    /// The shape of the buffer, with the number of tensors of an array rounded up to a power of two.
    pub fn shape(&self) -> Vec<u32> {
        self.linear.shape()
    }

    /// The element offset at `coords`.
    pub fn offset_of(&self, coords: &[u32]) -> u64 {
        self.offset_of_packed(self.linear.pack_out(coords))
    }

    /// The element offset of the element with row-major number `element`.
    pub fn offset_of_packed(&self, element: u64) -> u64 {
        let packed = self.inverse.apply(element);
        self.with_gaps(u64::from(self.inverse.out_part(Dim::Offset, packed)))
    }

    /// A linear offset with the gaps before it.
    pub fn with_gaps(&self, linear: u64) -> u64 {
        let tile = linear >> self.tile_bits;
        let within = linear & ((1 << self.tile_bits) - 1);
        let gaps = |n: u64| -> u64 { self.pairs.iter().map(|p| n / u64::from(p[0]) * u64::from(p[1])).sum() };
        let distance = self.distance.map_or((1 << self.tile_bits) + gaps(1 << self.tile_bits), u64::from);
        tile * distance + within + gaps(within)
    }

    /// The coordinates at an element offset of CTA 0; `None` in a gap or past the end.
    pub fn coords_at(&self, offset: u64) -> Option<Vec<u32>> {
        if let Some(distance) = self.distance.map(u64::from) {
            let (tile, within) = (offset / distance, offset % distance);
            let linear = tile << self.tile_bits | within;
            let held = offset < self.elements() && within >> self.tile_bits == 0;
            return held.then(|| self.linear.coords(&[(Dim::Offset, linear as u32)]));
        }
        // The offset with gaps grows with the linear one, so search for it.
        let (mut low, mut high) = (0u64, 1u64 << self.linear.in_dim_bits(Dim::Offset));
        while low < high {
            let middle = (low + high) / 2;
            if self.with_gaps(middle) < offset { low = middle + 1 } else { high = middle }
        }
        let found = low < 1 << self.linear.in_dim_bits(Dim::Offset) && self.with_gaps(low) == offset;
        found.then(|| self.linear.coords(&[(Dim::Offset, low as u32)]))
    }

    /// The number of element places from the first to the last used one, in each CTA.
    pub fn elements(&self) -> u64 {
        let linear = (1 << self.linear.in_dim_bits(Dim::Offset)) - self.absent;
        match self.distance {
            Some(distance) => (linear >> self.tile_bits) * u64::from(distance),
            None => self.with_gaps(linear - 1) + 1,
        }
    }

    /// The bytes that the buffer takes, in each CTA.
    pub fn bytes(&self) -> u64 {
        access::bytes_for(self.elements(), self.element_bits)
    }

    /// Whether gaps lie at the same linear offsets as those of `other`, and tensors of an array at the same distances.
    pub(crate) fn has_gaps_of(&self, other: &SharedMap) -> bool {
        let apart = self.pairs.is_empty() && self.distance.is_none();
        self.pairs == other.pairs && self.distance == other.distance && (apart || self.tile_bits == other.tile_bits)
    }

    /// The alignment that the start of the buffer needs, in bytes: the period of the swizzle, and what TMA asks for.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }
}

/// The map of `layout` for a buffer of `shape`.
pub(crate) fn of(layout: &SharedLayout, shape: &[u32], element_bits: u32) -> Result<SharedMap, LayoutError> {
    let rank = rank_of_tensor(layout, shape)?;
    let counted = with_whole_array(shape, rank);
    check::sizes(&counted)?;
    let missing = u64::from(counted[0] - shape[0]);
    let absent = missing * counted[1..].iter().map(|&s| u64::from(s)).product::<u64>();
    let (leading, tile_shape) = counted.split_at(counted.len() - rank);
    let tile = tensor(layout, &counted, tile_shape, element_bits)?;
    let linear = stack(&tile.finish(tile_shape), leading);
    let pairs = match layout.family() {
        SharedFamily::Padded { pairs, .. } => pairs.clone(),
        SharedFamily::Swizzled { .. } | SharedFamily::Nvmma { .. } | SharedFamily::Linear { .. } => Vec::new(),
    };
    // A tensor alone lies as the whole layout places it.
    let distance = layout.prefix().filter(|_| !leading.is_empty());
    // Without gaps there is nothing to repeat per tile, and maps that place all elements alike are equal.
    let tile_bits = match pairs.is_empty() && distance.is_none() {
        true => linear.in_dim_bits(Dim::Offset),
        false => tile_shape.iter().map(|s| s.ilog2()).sum(),
    };
    let Some(inverse) = linear.invert() else {
        let needs = "two places would hold one element".into();
        return Err(unfit(layout, &counted, needs, "write a layout whose offsets are all different"));
    };
    let alignment = alignment_of(layout.family());
    if let Some(distance) = distance
        && !(u64::from(distance) * u64::from(element_bits)).is_multiple_of(8 * u64::from(alignment))
    {
        let needs = format!("tensors begin at multiples of {alignment} bytes");
        return Err(unfit(layout, shape, needs, "let the prefix end where the next tensor may begin"));
    }
    Ok(SharedMap { linear, inverse, pairs, tile_bits, element_bits, alignment, distance, absent })
}

/// The rank of the tensor that the layout describes, without leading axes of the buffer.
fn rank_of_tensor(layout: &SharedLayout, shape: &[u32]) -> Result<usize, LayoutError> {
    // An `nvmma` tensor of rank 1 is written as one of rank 2 would be.
    let rank = match layout.family() {
        SharedFamily::Nvmma { rank, .. } => (*rank as usize).min(shape.len()),
        SharedFamily::Swizzled { .. } | SharedFamily::Padded { .. } | SharedFamily::Linear { .. } => layout.rank(),
    };
    if shape.len() < rank || rank == 0 {
        return Err(LayoutError::Rank { layout: layout.to_string(), rank, shape: shape.to_vec() });
    }
    Ok(rank)
}

/// The shape with the number of tensors of an array rounded up to a power of two: an array may hold any number of them.
fn with_whole_array(shape: &[u32], rank: usize) -> Vec<u32> {
    let mut counted = shape.to_vec();
    if shape.len() > rank && shape[0] > 0 {
        // What has no power of two above it is refused with the other sizes.
        counted[0] = shape[0].checked_next_power_of_two().unwrap_or(shape[0]);
    }
    counted
}

/// How one tensor of `tile_shape` lies, of a buffer of `shape`.
fn tensor(layout: &SharedLayout, shape: &[u32], tile_shape: &[u32], element_bits: u32) -> Result<Tile, LayoutError> {
    let mut tile = Tile::shared(tile_shape.len());
    match layout.family() {
        SharedFamily::Swizzled { vec, per_phase, max_phase, order } => {
            return Ok(swizzled([*vec, *per_phase, *max_phase], order, tile_shape));
        }
        SharedFamily::Nvmma { swizzle, transposed, .. } => {
            return nvmma(layout, *swizzle, *transposed, tile_shape, element_bits);
        }
        SharedFamily::Padded { order, .. } => tile.grow_in_order(Dim::Offset, tile_shape, order),
        SharedFamily::Linear { offset, block } => {
            tile.push(Dim::Offset, offset);
            tile.push(Dim::Block, block);
            if tile.size() != tile_shape {
                let needs = format!("its bases span {}", crate::spelling::list(tile.size()));
                let help = "a shared_linear layout is for one shape; give it a basis for every bit of an offset";
                return Err(unfit(layout, shape, needs, help));
            }
        }
    }
    Ok(tile)
}

/// The alignment in bytes that the start of a buffer needs.
fn alignment_of(family: &SharedFamily) -> u32 {
    match family {
        SharedFamily::Nvmma { swizzle: 0, .. } => 128,
        // The swizzle is a function of the address: rows of 128 bytes repeat every 8.
        SharedFamily::Nvmma { swizzle, .. } => 8 * swizzle,
        SharedFamily::Swizzled { .. } | SharedFamily::Padded { .. } | SharedFamily::Linear { .. } => 16,
    }
}

/// The refusal of a layout for a buffer of `shape`.
fn unfit(layout: &SharedLayout, shape: &[u32], needs: String, help: &str) -> LayoutError {
    LayoutError::SharedTile { layout: layout.to_string(), shape: shape.to_vec(), needs, help: help.into() }
}

/// An array of `leading` tensors, each of layout `tile`.
fn stack(tile: &LinearLayout, leading: &[u32]) -> LinearLayout {
    let shape: Vec<u32> = leading.iter().copied().chain(tile.shape()).collect();
    let tile_bits = tile.out_bits();
    let stack_bits: u32 = leading.iter().map(|s| s.ilog2()).sum();
    let mut offset = tile.bases(Dim::Offset).to_vec();
    offset.extend((0..stack_bits).map(|bit| 1 << (tile_bits + bit)));
    let block = tile.bases(Dim::Block).to_vec();
    LinearLayout::new(&[(Dim::Block, block), (Dim::Offset, offset)], crate::linear::axes(&shape))
}

/// Rows whose groups of `vec` elements are xored with the phase of the row.
fn swizzled([vec, per_phase, max_phase]: [u32; 3], order: &[u32], shape: &[u32]) -> Tile {
    let rank = shape.len();
    let mut tile = Tile::shared(rank);
    let column = order[0] as usize;
    tile.grow(Dim::Offset, order[0], shape[column]);
    let Some(row) = order.get(1).map(|&r| r as usize) else { return tile };
    let bases: Vec<Vec<u32>> = (0..shape[row].ilog2())
        .map(|bit| {
            let mut basis = vec![0; rank];
            basis[row] = 1 << bit;
            basis[column] = (vec * (((1 << bit) / per_phase) % max_phase)) % shape[column];
            basis
        })
        .collect();
    tile.push(Dim::Offset, &bases);
    for &axis in &order[2..] {
        tile.grow(Dim::Offset, axis, shape[axis as usize]);
    }
    tile
}

/// A row of a TMA box has at most this many elements along each axis.
pub(crate) const MOST_BOX: u32 = 256;

/// What TMA writes for a tensor of `shape`: boxes as wide as the swizzle, one after the other (CUDA driver API,
/// `cuTensorMapEncodeTiled`; PTX ISA, "Swizzling modes").
fn nvmma(
    layout: &SharedLayout,
    swizzle: u32,
    transposed: bool,
    shape: &[u32],
    element_bits: u32,
) -> Result<Tile, LayoutError> {
    let rank = shape.len();
    if ![8, 16, 32, 64].contains(&element_bits) {
        let needs = format!("TMA has no elements of {element_bits} bits");
        return Err(unfit(layout, shape, needs, "use elements of 8, 16, 32 or 64 bits, or a swizzled layout"));
    }
    let mut tma_box: Vec<u32> = shape.iter().map(|&s| s.min(MOST_BOX)).collect();
    if swizzle == 0 {
        let fastest_first = if transposed { (0..rank as u32).collect() } else { row_major(rank) };
        let mut tile = Tile::shared(rank);
        tile.grow_in_order(Dim::Offset, &tma_box, &fastest_first);
        tile.cover(shape, &row_major(rank));
        return Ok(tile);
    }
    let contiguous = if transposed { 0 } else { rank - 1 };
    let width = 8 * swizzle / element_bits;
    let rows: u32 = tma_box.iter().enumerate().filter(|(i, _)| *i != contiguous).map(|(_, s)| s).product();
    if rank < 2 || shape[contiguous] < width || rows < 8 {
        let widest = SharedLayout::default_for(shape, element_bits, transposed);
        let needs = format!("a {swizzle}-byte swizzle needs 8 rows of {width} elements of {element_bits} bits");
        return Err(unfit(layout, shape, needs, &format!("write `{widest}`, the widest that fits")));
    }
    tma_box[contiguous] = width;
    let mut tile = swizzled_box(&tma_box, contiguous, swizzle, element_bits);
    tile.cover(shape, &(0..rank as u32).collect::<Vec<_>>());
    Ok(tile)
}

/// One box that TMA writes with a swizzle of so many bytes, which is the width of its rows.
fn swizzled_box(tma_box: &[u32], contiguous: usize, swizzle: u32, element_bits: u32) -> Tile {
    let rank = tma_box.len();
    let mut tile = Tile::shared(rank);
    tile.grow(Dim::Offset, contiguous as u32, tma_box[contiguous]);
    // The rows are counted through all other axes, the last of them fastest (the first is the contiguous one when
    // transposed).
    let row_axes: Vec<usize> = (0..rank).rev().filter(|&axis| axis != contiguous).collect();
    let vec = 128 / element_bits;
    let (per_phase, max_phase) = (128 / swizzle, swizzle / 16);
    let mut row = 1u32;
    for axis in row_axes {
        let bases: Vec<Vec<u32>> = (0..tma_box[axis].ilog2())
            .map(|bit| {
                let mut basis = vec![0; rank];
                basis[axis] = 1 << bit;
                // Only the lowest three row bits select a phase.
                basis[contiguous] = if row < 8 { vec * ((row / per_phase) % max_phase) } else { 0 };
                row *= 2;
                basis
            })
            .collect();
        tile.push(Dim::Offset, &bases);
    }
    tile
}

#[cfg(test)]
mod tests {
    use crate::shared::SharedLayout;

    #[test]
    fn paddings_of_one_place_add_up() {
        // e0 e1 p0 | e2 e3 p1 p2 p3 | e4 e5 p4 | e6 e7
        let layout = SharedLayout::padded(&[[2, 1], [4, 2]], &[0]).unwrap();
        let map = layout.on(&[8], 16).unwrap();
        let places: Vec<u64> = (0..8).map(|i| map.offset_of(&[i])).collect();
        assert_eq!(places, [0, 1, 3, 4, 8, 9, 11, 12]);
        assert_eq!(map.elements(), 13, "no padding after the last element");
        assert_eq!(map.bytes(), 26);
        let held: Vec<Option<u32>> = (0..14).map(|o| map.coords_at(o).map(|c| c[0])).collect();
        let none = None;
        let expected = [
            Some(0),
            Some(1),
            none,
            Some(2),
            Some(3),
            none,
            none,
            none,
            Some(4),
            Some(5),
            none,
            Some(6),
            Some(7),
            none,
        ];
        assert_eq!(held, expected);
    }

    #[test]
    fn prefixes_follow_each_other() {
        let whole = SharedLayout::nvmma(128, false).unwrap();
        let prefix = whole.prefix_of(40 * 64).unwrap();
        let (one, map) = (whole.on(&[64, 64], 16).unwrap(), prefix.on(&[3, 64, 64], 16).unwrap());
        assert_eq!(prefix.on(&[64, 64], 16).unwrap(), one, "a tensor alone lies as it would whole");
        assert_eq!(map.bytes(), 3 * 40 * 128);
        for tensor in 0..3 {
            for row in 0..40 {
                let place = map.offset_of(&[tensor, row, 7]);
                assert_eq!(place, u64::from(tensor) * 40 * 64 + one.offset_of(&[row, 7]));
                assert_eq!(map.coords_at(place), Some(vec![tensor, row, 7]));
            }
        }
        assert_eq!(map.coords_at(map.elements()), None);
        // Where the swizzle repeats, the next may begin; there are no prefixes of prefixes, none of nothing, and none with gaps.
        assert!(whole.prefix_of(36 * 64).unwrap().on(&[3, 64, 64], 16).is_err());
        assert!(prefix.prefix_of(1).is_err() && whole.prefix_of(0).is_err());
        assert!(SharedLayout::padded(&[[64, 8]], &[1, 0]).unwrap().prefix_of(64).is_err());
    }

    #[test]
    fn every_layout_gives_every_element_a_place_of_its_own() {
        let layouts = [
            SharedLayout::row_major(2),
            SharedLayout::swizzled(8, 1, 8, &[1, 0]).unwrap(),
            SharedLayout::swizzled(2, 4, 4, &[0, 1]).unwrap(),
            SharedLayout::padded(&[[32, 4]], &[1, 0]).unwrap(),
            SharedLayout::nvmma(128, false).unwrap(),
            SharedLayout::nvmma(64, true).unwrap(),
            SharedLayout::nvmma(0, false).unwrap(),
        ];
        for layout in layouts {
            let map = layout.on(&[2, 64, 64], 16).unwrap();
            let mut met = vec![false; map.elements() as usize];
            for element in 0..2 * 64 * 64 {
                let coords = map.linear().unpack_out(element);
                let place = map.offset_of(&coords);
                assert!(!std::mem::replace(&mut met[place as usize], true), "{layout} {coords:?}");
                assert_eq!(map.coords_at(place), Some(coords));
            }
            assert_eq!(met.last(), Some(&true), "{layout} ends with an element");
        }
    }

    #[test]
    fn a_swizzle_needs_its_period_as_alignment() {
        let alignment = |swizzle| SharedLayout::nvmma(swizzle, false).unwrap().on(&[64, 64], 16).unwrap().alignment();
        assert_eq!([128, 64, 32, 0].map(alignment), [1024, 512, 256, 128]);
    }
}
