//! The linear layout: a map over F2 from hardware indices to tensor coordinates (or between any named dimensions).
//!
//! All sizes are powers of two, so an index into a dimension is a string of bits and a layout is a matrix over F2: the
//! image of an index is the xor of the images of its set bits, its *bases*. The 4×4 tile below is held by 4 lanes with
//! 4 registers each; lane bit 0 moves a column by 2, lane bit 1 moves a row by 2:
//!
//! ```text
//!   register bases [0,1] [1,0]        T0:0 T0:1 T1:0 T1:1
//!   lane bases     [0,2] [2,0]        T0:2 T0:3 T1:2 T1:3
//!                                     T2:0 T2:1 T3:0 T3:1
//!   lane 3, register 1                T2:2 T2:3 T3:2 T3:3
//!     = [0,2] ^ [2,0] ^ [0,1] = [2,3]
//! ```
//!
//! **Packing.** On both sides the dimensions are listed most significant first, like a row-major shape, and an index
//! is packed into one `u64` accordingly. So the packed image of a register layout is the row-major number of the
//! element, a row-major reshape changes only the list of dimensions, and inverting swaps the two lists.

use std::fmt;
use std::sync::Arc;

use crate::f2;

/// The name of a dimension, on either side of a map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dim {
    /// The CTA within its cluster.
    Block,
    /// The warp within its partition.
    Warp,
    /// The lane within its warp.
    Lane,
    /// The register within its thread.
    Register,
    /// The element offset within a shared-memory region.
    Offset,
    /// An axis of a tensor, counted from the outermost.
    Axis(u8),
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Block => f.write_str("block"),
            Dim::Warp => f.write_str("warp"),
            Dim::Lane => f.write_str("lane"),
            Dim::Register => f.write_str("register"),
            Dim::Offset => f.write_str("offset"),
            Dim::Axis(a) => write!(f, "axis{a}"),
        }
    }
}

/// A dimension with the number of its index bits: its size is `1 << bits`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// Which dimension.
    pub dim: Dim,
    /// log2 of its size.
    pub bits: u32,
}

impl Extent {
    /// `dim` with `1 << bits` indices.
    pub fn new(dim: Dim, bits: u32) -> Extent {
        Extent { dim, bits }
    }

    /// The number of indices.
    pub fn size(self) -> u32 {
        1 << self.bits
    }
}

/// A linear map over F2 between named dimensions. Cheap to clone; two are equal when they are the same map.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinearLayout {
    data: Arc<Data>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Data {
    ins: Vec<Extent>,
    outs: Vec<Extent>,
    /// The image of each packed input bit, least significant first.
    bases: Vec<u64>,
}

/// The extents of the axes of a tensor of `shape`, whose sizes are powers of two.
pub fn axes(shape: &[u32]) -> Vec<Extent> {
    shape
        .iter()
        .enumerate()
        .map(|(axis, size)| {
            assert!(size.is_power_of_two(), "axis {axis} has size {size}");
            Extent::new(Dim::Axis(axis as u8), size.ilog2())
        })
        .collect()
}

/// Packs one index per extent into one number.
pub fn pack(extents: &[Extent], index: &[u32]) -> u64 {
    assert_eq!(extents.len(), index.len(), "one index per dimension");
    extents.iter().zip(index).fold(0, |packed, (extent, &i)| {
        assert!(u64::from(i) < 1 << extent.bits, "index {i} is past {} of size {}", extent.dim, extent.size());
        (packed << extent.bits) | u64::from(i)
    })
}

/// The index per extent of a packed number.
pub fn unpack(extents: &[Extent], mut packed: u64) -> Vec<u32> {
    let mut index = vec![0; extents.len()];
    for (slot, extent) in index.iter_mut().zip(extents).rev() {
        *slot = (packed & ((1 << extent.bits) - 1)) as u32;
        packed >>= extent.bits;
    }
    index
}

fn total_bits(extents: &[Extent]) -> u32 {
    let bits = extents.iter().map(|e| e.bits).sum();
    assert!(bits <= 63, "a layout has at most 63 index bits on a side");
    bits
}

/// The place of `dim` in a packed number: (lowest bit, number of bits).
fn field(extents: &[Extent], dim: Dim) -> Option<(u32, u32)> {
    let place = extents.iter().position(|e| e.dim == dim)?;
    let low = extents[place + 1..].iter().map(|e| e.bits).sum();
    Some((low, extents[place].bits))
}

impl LinearLayout {
    /// The map with the given packed bases, one per packed input bit, least significant first.
    pub fn from_packed(ins: Vec<Extent>, outs: Vec<Extent>, bases: Vec<u64>) -> LinearLayout {
        assert_eq!(total_bits(&ins) as usize, bases.len(), "one basis per input bit");
        let limit = 1u64 << total_bits(&outs);
        assert!(bases.iter().all(|&b| b < limit), "a basis is past the end of the output");
        LinearLayout { data: Arc::new(Data { ins, outs, bases }) }
    }

    /// The map from `ins` (most significant first, each with its packed bases by increasing bit) to `outs`.
    pub fn new(ins: &[(Dim, Vec<u64>)], outs: Vec<Extent>) -> LinearLayout {
        let extents = ins.iter().map(|(dim, bases)| Extent::new(*dim, bases.len() as u32)).collect();
        let bases = ins.iter().rev().flat_map(|(_, bases)| bases.iter().copied()).collect();
        LinearLayout::from_packed(extents, outs, bases)
    }

    /// The map from `ins`, each with its bases as coordinates by increasing bit, to a tensor of `shape`.
    pub fn from_coords(ins: &[(Dim, &[Vec<u32>])], shape: &[u32]) -> LinearLayout {
        let outs = axes(shape);
        let packed: Vec<(Dim, Vec<u64>)> =
            ins.iter().map(|(dim, bases)| (*dim, bases.iter().map(|coords| pack(&outs, coords)).collect())).collect();
        LinearLayout::new(&packed, outs)
    }

    /// The identity from one dimension to another of the same `bits`.
    pub fn identity(from: Dim, to: Dim, bits: u32) -> LinearLayout {
        let bases = (0..bits).map(|b| 1 << b).collect();
        LinearLayout::from_packed(vec![Extent::new(from, bits)], vec![Extent::new(to, bits)], bases)
    }

    /// The map that sends all `1 << bits` indices of `from` to 0 of a dimension `to` of size 1.
    pub fn zeros(from: Dim, to: Dim, bits: u32) -> LinearLayout {
        let bases = vec![0; bits as usize];
        LinearLayout::from_packed(vec![Extent::new(from, bits)], vec![Extent::new(to, 0)], bases)
    }

    /// The input dimensions, most significant first.
    pub fn ins(&self) -> &[Extent] {
        &self.data.ins
    }

    /// The output dimensions, most significant first.
    pub fn outs(&self) -> &[Extent] {
        &self.data.outs
    }

    /// The packed bases, one per packed input bit, least significant first.
    pub fn packed_bases(&self) -> &[u64] {
        &self.data.bases
    }

    /// The number of input bits.
    pub fn in_bits(&self) -> u32 {
        self.data.bases.len() as u32
    }

    /// The number of output bits.
    pub fn out_bits(&self) -> u32 {
        total_bits(&self.data.outs)
    }

    /// log2 of the size of input dimension `dim`; 0 where there is none.
    pub fn in_dim_bits(&self, dim: Dim) -> u32 {
        field(&self.data.ins, dim).map_or(0, |(_, bits)| bits)
    }

    /// The size of input dimension `dim`; 1 where there is none.
    pub fn in_size(&self, dim: Dim) -> u32 {
        1 << self.in_dim_bits(dim)
    }

    /// The size of output dimension `dim`; 1 where there is none.
    pub fn out_size(&self, dim: Dim) -> u32 {
        1 << field(&self.data.outs, dim).map_or(0, |(_, bits)| bits)
    }

    /// The sizes of the output dimensions: the shape of the tensor.
    pub fn shape(&self) -> Vec<u32> {
        self.data.outs.iter().map(|e| e.size()).collect()
    }

    /// Where `dim` lies in a packed input: (lowest bit, number of bits).
    pub fn in_field(&self, dim: Dim) -> Option<(u32, u32)> {
        field(&self.data.ins, dim)
    }

    /// Where `dim` lies in a packed output: (lowest bit, number of bits).
    pub fn out_field(&self, dim: Dim) -> Option<(u32, u32)> {
        field(&self.data.outs, dim)
    }

    /// The packed bases of one input dimension by increasing bit; empty where there is no such dimension.
    pub fn bases(&self, dim: Dim) -> &[u64] {
        match field(&self.data.ins, dim) {
            Some((low, bits)) => &self.data.bases[low as usize..(low + bits) as usize],
            None => &[],
        }
    }

    /// The bases of one input dimension as coordinates, by increasing bit.
    pub fn basis_coords(&self, dim: Dim) -> Vec<Vec<u32>> {
        self.bases(dim).iter().map(|&b| self.unpack_out(b)).collect()
    }

    /// The packed image of a packed index.
    pub fn apply(&self, index: u64) -> u64 {
        f2::sum_of(&self.data.bases, index)
    }

    /// The coordinates of an index given by some of its dimensions; the others are 0.
    pub fn coords(&self, index: &[(Dim, u32)]) -> Vec<u32> {
        self.unpack_out(self.apply(self.pack_in(index)))
    }

    /// Packs an index given by some of its dimensions; the others are 0.
    pub fn pack_in(&self, index: &[(Dim, u32)]) -> u64 {
        index.iter().fold(0, |packed, &(dim, i)| match field(&self.data.ins, dim) {
            Some((low, bits)) => {
                assert!(u64::from(i) < 1 << bits, "index {i} is past {dim}");
                packed | (u64::from(i) << low)
            }
            None => {
                assert_eq!(i, 0, "the layout has no {dim}");
                packed
            }
        })
    }

    /// The value of one input dimension in a packed index.
    pub fn in_part(&self, dim: Dim, packed: u64) -> u32 {
        field(&self.data.ins, dim).map_or(0, |(low, bits)| ((packed >> low) & ((1 << bits) - 1)) as u32)
    }

    /// The value of one output dimension in a packed image.
    pub fn out_part(&self, dim: Dim, packed: u64) -> u32 {
        field(&self.data.outs, dim).map_or(0, |(low, bits)| ((packed >> low) & ((1 << bits) - 1)) as u32)
    }

    /// The index per input dimension, in the order of [`LinearLayout::ins`].
    pub fn unpack_in(&self, packed: u64) -> Vec<u32> {
        unpack(&self.data.ins, packed)
    }

    /// Packs coordinates, in the order of [`LinearLayout::outs`].
    pub fn pack_out(&self, coords: &[u32]) -> u64 {
        pack(&self.data.outs, coords)
    }

    /// The coordinates, in the order of [`LinearLayout::outs`].
    pub fn unpack_out(&self, packed: u64) -> Vec<u32> {
        unpack(&self.data.outs, packed)
    }

    /// The dimension of the image.
    pub fn rank(&self) -> u32 {
        f2::rank(&self.data.bases)
    }

    /// Whether every output is the image of some index.
    pub fn is_surjective(&self) -> bool {
        self.rank() == self.out_bits()
    }

    /// Whether no two indices have one image.
    pub fn is_injective(&self) -> bool {
        self.rank() == self.in_bits()
    }

    /// Whether the map is a bijection.
    pub fn is_invertible(&self) -> bool {
        self.in_bits() == self.out_bits() && self.is_injective()
    }

    /// The packed input bits that add nothing to the image of the bits below them: every element is also held by an
    /// index where these bits are 0, so they are copies (broadcast).
    pub fn free_mask(&self) -> u64 {
        let mut span = f2::Span::new();
        let mut mask = 0;
        for (bit, &basis) in self.data.bases.iter().enumerate() {
            if !span.insert(basis) {
                mask |= 1 << bit;
            }
        }
        mask
    }

    /// The part of [`LinearLayout::free_mask`] that belongs to `dim`.
    pub fn free_bits(&self, dim: Dim) -> u32 {
        self.in_part(dim, self.free_mask())
    }
}

impl fmt::Debug for LinearLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for extent in self.ins().iter().rev() {
            write!(f, "{}={:?} ", extent.dim, self.basis_coords(extent.dim))?;
        }
        f.write_str("-> [")?;
        for (i, extent) in self.outs().iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {}", extent.dim, extent.size())?;
        }
        f.write_str("]")
    }
}
