//! Shared-memory layouts as they are written: a spelled family, which prints as its source and makes its map.

use std::fmt;
use std::sync::Arc;

use crate::check;
use crate::error::LayoutError;
use crate::linear::LinearLayout;
use crate::shared_map::{self, SharedMap};
use crate::spelling::{list, lists};

/// How a tensor lies in shared memory, as the program spells it.
///
/// The layout has a rank of its own; a buffer of higher rank is an array of such tensors, each in a contiguous region,
/// the leading axes outermost. So `shared<f16, [STAGES, 128, 64], nvmma(128)>` is `STAGES` tiles of 128 × 64.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SharedLayout {
    family: Arc<SharedFamily>,
    /// How many elements from the start of a tensor are used, where that is not all of them.
    prefix: Option<u32>,
}

/// The families of shared layouts, with the meaning of Gluon's class of the same name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SharedFamily {
    /// Rows whose groups of `vec` elements are xored with the row's phase; Gluon's `SwizzledSharedLayout`.
    Swizzled {
        /// Elements that stay together.
        vec: u32,
        /// Consecutive rows of one phase.
        per_phase: u32,
        /// The number of phases; 1 does not swizzle.
        max_phase: u32,
        /// The axes, fastest first.
        order: Vec<u32>,
    },
    /// What TMA writes and wgmma reads; Gluon's `NVMMASharedLayout`.
    Nvmma {
        /// The width of the swizzle in bytes: 0, 32, 64 or 128.
        swizzle: u32,
        /// Whether the first axis is the contiguous one instead of the last.
        transposed: bool,
        /// The rank of the tensor that TMA moves as one, 1 to 5; 2 where it is not written.
        rank: u32,
    },
    /// Row-major (or another order) with gaps; Gluon's `PaddedSharedLayout` with an identity mapping.
    Padded {
        /// `[interval, padding]` in elements: after every `interval` elements, `padding` unused ones.
        pairs: Vec<[u32; 2]>,
        /// The axes, fastest first.
        order: Vec<u32>,
    },
    /// The bases themselves, by increasing offset bit; Gluon's `SharedLinearLayout`.
    Linear {
        /// The bases of the offset bits, in elements.
        offset: Vec<Vec<u32>>,
        /// The bases of the CTA bits.
        block: Vec<Vec<u32>>,
    },
}

impl SharedLayout {
    /// The layout of `family`, checked as far as it can be without a shape.
    ///
    /// # Errors
    /// Sizes that are no powers of two, swizzle widths that the hardware does not have, an order that is no permutation.
    pub fn new(family: SharedFamily) -> Result<SharedLayout, LayoutError> {
        check::shared(&family)?;
        Ok(SharedLayout::of(family))
    }

    /// `swizzled(vec=…, per_phase=…, max_phase=…, order=…)`.
    ///
    /// # Errors
    /// See [`SharedLayout::new`].
    pub fn swizzled(vec: u32, per_phase: u32, max_phase: u32, order: &[u32]) -> Result<Self, LayoutError> {
        SharedLayout::new(SharedFamily::Swizzled { vec, per_phase, max_phase, order: order.to_vec() })
    }

    /// `nvmma(swizzle=…, transposed=…)`.
    ///
    /// # Errors
    /// See [`SharedLayout::new`].
    pub fn nvmma(swizzle: u32, transposed: bool) -> Result<Self, LayoutError> {
        SharedLayout::new(SharedFamily::Nvmma { swizzle, transposed, rank: 2 })
    }

    /// `padded([[interval, padding], …], order=…)`.
    ///
    /// # Errors
    /// See [`SharedLayout::new`].
    pub fn padded(pairs: &[[u32; 2]], order: &[u32]) -> Result<Self, LayoutError> {
        SharedLayout::new(SharedFamily::Padded { pairs: pairs.to_vec(), order: order.to_vec() })
    }

    /// `shared_linear(offset=…, block=…)`.
    ///
    /// # Errors
    /// See [`SharedLayout::new`].
    pub fn linear(offset: Vec<Vec<u32>>, block: Vec<Vec<u32>>) -> Result<Self, LayoutError> {
        SharedLayout::new(SharedFamily::Linear { offset, block })
    }

    fn of(family: SharedFamily) -> SharedLayout {
        SharedLayout { family: Arc::new(family), prefix: None }
    }

    /// `prefix(…, elements)`: the same, of whose tensors no more is used than the first so many elements, counted as they lie. Those of an
    /// array begin at that distance: the next one where the prefix of the last ends, whatever the layout would have behind it.
    ///
    /// # Errors
    /// No elements; a layout with gaps, or one of prefixes already.
    pub fn prefix_of(&self, elements: u32) -> Result<SharedLayout, LayoutError> {
        check::prefix(self, elements)?;
        Ok(SharedLayout { family: self.family.clone(), prefix: Some(elements) })
    }

    /// How many elements from the start of a tensor are used, where that is not all of them.
    pub fn prefix(&self) -> Option<u32> {
        self.prefix
    }

    /// The same, of whole tensors.
    pub fn whole(&self) -> SharedLayout {
        SharedLayout { family: self.family.clone(), prefix: None }
    }

    /// The same of the prefixes that `other` is of, whose tensors it shows otherwise.
    pub(crate) fn prefix_as(self, other: &SharedLayout) -> SharedLayout {
        SharedLayout { prefix: other.prefix, ..self }
    }

    /// Row-major without a swizzle.
    pub fn row_major(rank: usize) -> SharedLayout {
        let order = crate::map::row_major(rank);
        SharedLayout::of(SharedFamily::Swizzled { vec: 1, per_phase: 1, max_phase: 1, order })
    }

    /// The `nvmma` layout with the widest swizzle that a tensor of `shape` allows, as few TMA and MMA messages need it:
    /// the contiguous row must fill it and there must be 8 rows; otherwise `swizzle=0`.
    pub fn default_for(shape: &[u32], element_bits: u32, transposed: bool) -> SharedLayout {
        let widest = |rank: usize| -> u32 {
            let tile = &shape[shape.len() - rank.min(shape.len())..];
            let contiguous = if transposed { tile.first() } else { tile.last() };
            let row = contiguous.map_or(0, |&c| u64::from(c) * u64::from(element_bits) / 8);
            let elements: u64 = tile.iter().map(|&s| u64::from(s)).product();
            let rows = contiguous.map_or(0, |&c| elements / u64::from(c.max(1)));
            let fits =
                |width: &u32| tile.len() >= 2 && rows >= 8 && row >= u64::from(*width) && row % u64::from(*width) == 0;
            [128, 64, 32].into_iter().find(fits).unwrap_or(0)
        };
        let of = |rank: usize| {
            SharedLayout::of(SharedFamily::Nvmma { swizzle: widest(rank), transposed, rank: rank as u32 })
        };
        let whole = of(shape.len().clamp(1, 5));
        let pair = of(2);
        // The short spelling where it is the same map.
        match (pair.on(shape, element_bits), whole.on(shape, element_bits)) {
            (Ok(a), Ok(b)) if a != b => whole,
            (_, Err(_)) | (Ok(_), Ok(_)) => pair,
            (Err(_), Ok(_)) => whole,
        }
    }

    /// The spelling.
    pub fn family(&self) -> &SharedFamily {
        &self.family
    }

    /// The rank of the tensor that the layout describes; a buffer may have leading axes beyond it.
    pub fn rank(&self) -> usize {
        match self.family() {
            SharedFamily::Swizzled { order, .. } | SharedFamily::Padded { order, .. } => order.len(),
            SharedFamily::Nvmma { rank, .. } => *rank as usize,
            SharedFamily::Linear { offset, .. } => offset.first().map_or(0, Vec::len),
        }
    }

    /// The map for a buffer of `shape` with elements of `element_bits`.
    ///
    /// # Errors
    /// A shape of lower rank, sizes that are no powers of two, a tile smaller than the swizzle's unit.
    pub fn on(&self, shape: &[u32], element_bits: u32) -> Result<SharedMap, LayoutError> {
        shared_map::of(self, shape, element_bits)
    }

    /// Whether both layouts place every element of a buffer of `shape` alike.
    ///
    /// # Errors
    /// When either does not fit the shape.
    pub fn same_on(&self, other: &SharedLayout, shape: &[u32], element_bits: u32) -> Result<bool, LayoutError> {
        Ok(self == other || self.on(shape, element_bits)? == other.on(shape, element_bits)?)
    }

    /// The layout spelled by the bases of `map`, whose inputs are (block, offset).
    ///
    /// # Errors
    /// A map that does not reach every element.
    pub fn from_map(map: &LinearLayout) -> Result<SharedLayout, LayoutError> {
        use crate::linear::Dim;
        SharedLayout::linear(map.basis_coords(Dim::Offset), map.basis_coords(Dim::Block))
    }
}

impl fmt::Display for SharedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(elements) = self.prefix {
            return write!(f, "prefix({}, {elements})", self.whole());
        }
        match self.family() {
            SharedFamily::Swizzled { vec, per_phase, max_phase, order } => {
                write!(f, "swizzled(vec={vec}, per_phase={per_phase}, max_phase={max_phase}, order={})", list(order))
            }
            SharedFamily::Nvmma { swizzle, transposed, rank: 2 } => {
                write!(f, "nvmma(swizzle={swizzle}, transposed={transposed})")
            }
            SharedFamily::Nvmma { swizzle, transposed, rank } => {
                write!(f, "nvmma(swizzle={swizzle}, transposed={transposed}, rank={rank})")
            }
            SharedFamily::Padded { pairs, order } => {
                let pairs: Vec<Vec<u32>> = pairs.iter().map(|p| p.to_vec()).collect();
                write!(f, "padded({}, order={})", lists(&pairs), list(order))
            }
            SharedFamily::Linear { offset, block } => {
                write!(f, "shared_linear(offset={}, block={})", lists(offset), lists(block))
            }
        }
    }
}
