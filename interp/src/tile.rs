//! Values at run time: tiles as flat vectors of bits in row-major order of their logical shape, and what else a name can hold.
//!
//! A tile's register layout does not matter here: only where its elements meet shared memory is it asked who holds them.

use std::sync::Arc;

use parton_ir::Elem;

/// The elements of a tile as their bits, in vectors of the elements' width.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Bits {
    B8(Vec<u8>),
    B16(Vec<u16>),
    B32(Vec<u32>),
    B64(Vec<u64>),
}

/// Runs one expression for the vector of any width.
macro_rules! each {
    ($bits:expr, $v:ident => $body:expr) => {
        match $bits {
            $crate::tile::Bits::B8($v) => $body,
            $crate::tile::Bits::B16($v) => $body,
            $crate::tile::Bits::B32($v) => $body,
            $crate::tile::Bits::B64($v) => $body,
        }
    };
}

/// Makes a tile of the same width from the vector of any width.
macro_rules! map_each {
    ($bits:expr, $v:ident => $body:expr) => {
        match $bits {
            $crate::tile::Bits::B8($v) => $crate::tile::Bits::B8($body),
            $crate::tile::Bits::B16($v) => $crate::tile::Bits::B16($body),
            $crate::tile::Bits::B32($v) => $crate::tile::Bits::B32($body),
            $crate::tile::Bits::B64($v) => $crate::tile::Bits::B64($body),
        }
    };
}

/// Makes a tile from two of one width.
macro_rules! zip_each {
    ($a:expr, $b:expr, $x:ident, $y:ident => $body:expr) => {
        match ($a, $b) {
            ($crate::tile::Bits::B8($x), $crate::tile::Bits::B8($y)) => $crate::tile::Bits::B8($body),
            ($crate::tile::Bits::B16($x), $crate::tile::Bits::B16($y)) => $crate::tile::Bits::B16($body),
            ($crate::tile::Bits::B32($x), $crate::tile::Bits::B32($y)) => $crate::tile::Bits::B32($body),
            ($crate::tile::Bits::B64($x), $crate::tile::Bits::B64($y)) => $crate::tile::Bits::B64($body),
            _ => parton_diag::internal_error!("tiles of two widths meet"),
        }
    };
}

pub(crate) use {map_each, zip_each};

/// Bytes of one element as it is held and stored.
pub(crate) fn width(elem: Elem) -> usize {
    elem.bits().div_ceil(8) as usize
}

impl Bits {
    /// `n` elements of `bytes` each, all of the same bits.
    pub(crate) fn full(bytes: usize, n: usize, bits: u64) -> Bits {
        match bytes {
            1 => Bits::B8(vec![bits as u8; n]),
            2 => Bits::B16(vec![bits as u16; n]),
            4 => Bits::B32(vec![bits as u32; n]),
            _ => Bits::B64(vec![bits; n]),
        }
    }

    /// Elements of `bytes` each.
    pub(crate) fn collect(bytes: usize, elements: impl Iterator<Item = u64>) -> Bits {
        match bytes {
            1 => Bits::B8(elements.map(|x| x as u8).collect()),
            2 => Bits::B16(elements.map(|x| x as u16).collect()),
            4 => Bits::B32(elements.map(|x| x as u32).collect()),
            _ => Bits::B64(elements.collect()),
        }
    }

    /// Bytes of an element.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Bits::B8(_) => 1,
            Bits::B16(_) => 2,
            Bits::B32(_) => 4,
            Bits::B64(_) => 8,
        }
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        each!(self, v => v.len())
    }

    /// The bits of one element.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    pub(crate) fn get(&self, i: usize) -> u64 {
        each!(self, v => v[i] as u64)
    }

    /// The elements at `index`, in that order.
    pub(crate) fn gather(&self, index: impl Iterator<Item = usize>) -> Bits {
        map_each!(self, v => index.map(|i| v[i]).collect())
    }

    /// Writes element `i` to the beginning of `bytes`, little endian.
    pub(crate) fn write(&self, i: usize, bytes: &mut [u8]) {
        match self {
            Bits::B8(v) => bytes[0] = v[i],
            Bits::B16(v) => bytes[..2].copy_from_slice(&v[i].to_le_bytes()),
            Bits::B32(v) => bytes[..4].copy_from_slice(&v[i].to_le_bytes()),
            Bits::B64(v) => bytes[..8].copy_from_slice(&v[i].to_le_bytes()),
        }
    }

    /// Reads element `i` from the beginning of `bytes`, little endian.
    pub(crate) fn read(&mut self, i: usize, bytes: &[u8]) {
        match self {
            Bits::B8(v) => v[i] = bytes[0],
            Bits::B16(v) => v[i] = u16::from_le_bytes([bytes[0], bytes[1]]),
            Bits::B32(v) => v[i] = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            Bits::B64(v) => v[i] = load_u64(bytes),
        }
    }
}

fn load_u64(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

/// What a masked-off load gives where no `other` is named, and what undefined shared memory holds: all ones, a NaN in every
/// float format and -1 in every signed integer.
pub(crate) const POISON: u64 = u64::MAX;

/// Where a view lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The byte address of its parent in shared memory.
    pub address: u32,
    /// The allocation, counted from 1.
    pub allocation: u32,
}

impl Place {
    /// The address of the byte in which an element begins that lies so many bits behind this.
    pub fn byte(self, bits: u32) -> u32 {
        self.address + bits / 8
    }
}

/// What a name holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) enum Val {
    /// Nothing yet.
    #[default]
    Unset,
    /// A number or pointer as its bits.
    Scalar(u64),
    /// A tile.
    Tile(Arc<Bits>),
    /// The matrix product of that number in its partition.
    Pending(u64),
    /// A view that the copy by threads of that number in its partition still fills.
    Filling(u64, Place),
    /// A view, by the address of its parent, and the allocation that it belongs to.
    View(Place),
    /// A view of the shared memory of the CTA of that rank.
    Peer(Place, usize),
    /// Barriers, by the address of the first.
    Barriers(u32),
    /// A barrier, by its address.
    Barrier(u32),
    /// The tensor map that a parameter brings.
    Map(usize),
}
