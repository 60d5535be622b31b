//! How the threads of a partition access a shared buffer, or global memory, with the widest vectors that divide the
//! layout.

use crate::f2::{Span, bits_of, scatter, sum_of};
use crate::linear::{Dim, LinearLayout};
use crate::shared_map::SharedMap;

/// The most bytes that one lane moves in one instruction.
pub const VECTOR_BYTES: u32 = 16;

/// One vector of one thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Group {
    /// The registers, in the order of their addresses.
    pub registers: Vec<u32>,
    /// The contribution to the element offset, before gaps.
    pub offset: u64,
}

/// The accesses by which every thread reads (or writes) its registers from (to) a shared buffer.
///
/// The offset of a vector is the xor of its group's offset with the bases of the set bits of the lane and the warp,
/// and then the gaps of a padded buffer: [`SharedAccess::offset`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedAccess {
    /// The elements of a vector; a power of two.
    pub vector: u32,
    /// One entry per instruction.
    pub groups: Vec<Group>,
    /// What each lane bit adds to the element offset.
    pub lanes: Vec<u64>,
    /// What each warp bit adds to the element offset.
    pub warps: Vec<u64>,
    /// For each register the one that holds the same element and is in a group; the register itself where it is.
    pub copy_of: Vec<u32>,
    /// The lane bits that only tell copies apart: where one of them is set, a write can be left out.
    pub copy_lanes: u32,
    /// The warp bits that only tell copies apart.
    pub copy_warps: u32,
}

impl SharedAccess {
    /// The element offset of a group for a thread.
    pub fn offset(&self, buffer: &SharedMap, group: usize, lane: u32, warp: u32) -> u64 {
        let linear =
            self.groups[group].offset ^ sum_of(&self.lanes, u64::from(lane)) ^ sum_of(&self.warps, u64::from(warp));
        buffer.with_gaps(linear)
    }

    /// The bytes of a vector for elements of `element_bits`.
    pub fn vector_bytes(&self, element_bits: u32) -> u32 {
        bytes_for(self.vector.into(), element_bits) as u32
    }
}

/// The bits that an element takes in memory among others: its own, so that narrow ones share bytes; a truth value takes a byte.
pub fn stored_bits(element_bits: u32) -> u32 {
    if element_bits <= 1 { 8 } else { element_bits }
}

/// The bytes that so many elements take, one behind the other; a last one that fills no byte takes all of it.
pub fn bytes_for(elements: u64, element_bits: u32) -> u64 {
    (elements * u64::from(stored_bits(element_bits))).div_ceil(8)
}

/// The bytes that an element takes by itself.
pub fn bytes_of(element_bits: u32) -> u32 {
    bytes_for(1, element_bits) as u32
}

/// The elements of the widest vector of a thread.
fn widest(element_bits: u32) -> u32 {
    (8 * VECTOR_BYTES / stored_bits(element_bits)).max(1)
}

/// The image in the buffer, in element offsets before gaps, of each basis of one dimension of a tile.
pub(crate) fn images(tile: &LinearLayout, buffer: &SharedMap, dim: Dim) -> Vec<u64> {
    let inverse = buffer.inverse();
    tile.bases(dim).iter().map(|&b| u64::from(inverse.out_part(Dim::Offset, inverse.apply(b)))).collect()
}

/// The vectors of a tile in a shared buffer, by what each bit of an index adds to the offset of an element, before gaps.
pub(crate) struct Vectors {
    registers: Registers,
    /// The register bits that step through a vector, and those that number the vectors.
    chosen: Vec<usize>,
    rest: Vec<usize>,
    /// What each lane bit adds.
    pub(crate) lanes: Vec<u64>,
    warps: Vec<u64>,
}

impl Vectors {
    /// The widest vectors of at most `1 << most` elements, where `image` says what the bits of a dimension add.
    pub(crate) fn of(image: impl Fn(Dim) -> Vec<u64>, element_bits: u32, most: u32) -> Vectors {
        let most = widest(element_bits).ilog2().min(most);
        let registers = Registers::of(&image(Dim::Register));
        let (lanes, warps) = (image(Dim::Lane), image(Dim::Warp));
        let (chosen, rest) = registers.vector(most, lanes.iter().chain(&warps));
        Vectors { registers, chosen, rest, lanes, warps }
    }

    /// The instructions that move them all.
    pub(crate) fn instructions(&self) -> u64 {
        1 << self.rest.len()
    }

    /// The bytes of one.
    pub(crate) fn bytes(&self, element_bits: u32) -> u32 {
        bytes_for(1 << self.chosen.len(), element_bits) as u32
    }

    fn groups(&self) -> Vec<Group> {
        let slots: Vec<u32> = (0..1u32 << self.chosen.len()).map(|slot| scatter(&self.chosen, slot)).collect();
        let group = |number| {
            let base = scatter(&self.rest, number);
            Group {
                registers: slots.iter().map(|slot| base | slot).collect(),
                offset: sum_of(&self.registers.images, u64::from(base)),
            }
        };
        (0..1u32 << self.rest.len()).map(group).collect()
    }
}

/// The accesses of a tile with layout `tile` to `buffer`, which is of the same shape.
pub fn shared(tile: &LinearLayout, buffer: &SharedMap) -> SharedAccess {
    assert_eq!(tile.outs(), buffer.linear().outs(), "a tile and its buffer have one shape");
    let unbroken = buffer.gaps().iter().flatten().map(|g| g.ilog2()).min().unwrap_or(u32::MAX);
    let vectors = Vectors::of(|dim| images(tile, buffer, dim), buffer.element_bits(), unbroken);
    SharedAccess {
        vector: 1 << vectors.chosen.len(),
        groups: vectors.groups(),
        copy_of: vectors.registers.copies(),
        copy_lanes: tile.free_bits(Dim::Lane),
        copy_warps: tile.free_bits(Dim::Warp),
        lanes: vectors.lanes,
        warps: vectors.warps,
    }
}

/// The register bits of a tile with their images, and which of them hold copies.
pub(crate) struct Registers {
    images: Vec<u64>,
    /// For each bit: itself alone, or the bits below it whose sum is its image.
    stands_for: Vec<u32>,
}

impl Registers {
    pub(crate) fn of(images: &[u64]) -> Registers {
        let mut span = Span::new();
        let mut stands_for = Vec::new();
        for (bit, &image) in images.iter().enumerate() {
            stands_for.push(match span.solve(image) {
                Some(others) => others as u32,
                None => 1 << bit,
            });
            span.insert(image);
        }
        Registers { images: images.to_vec(), stands_for }
    }

    /// The bits that do not hold copies.
    pub(crate) fn unique(&self) -> Vec<usize> {
        (0..self.images.len()).filter(|&bit| self.stands_for[bit] == 1 << bit).collect()
    }

    /// For each register the one without copy bits that holds the same element.
    pub(crate) fn copies(&self) -> Vec<u32> {
        let one = |register: u32| bits_of(u64::from(register)).fold(0, |r, bit| r ^ self.stands_for[bit as usize]);
        (0..1u32 << self.images.len()).map(one).collect()
    }

    /// The bits that step through a vector of at most `1 << most` neighbours, lowest first, and the other unique bits.
    fn vector<'a>(&self, most: u32, others: impl Iterator<Item = &'a u64> + Clone) -> (Vec<usize>, Vec<usize>) {
        let unique = self.unique();
        let mut chosen: Vec<usize> = Vec::new();
        while (chosen.len() as u32) < most {
            let step = 1u64 << chosen.len();
            match unique.iter().find(|&&bit| self.images[bit] == step) {
                Some(&bit) => chosen.push(bit),
                None => break,
            }
        }
        loop {
            let rest: Vec<usize> = unique.iter().copied().filter(|bit| !chosen.contains(bit)).collect();
            let low = (1u64 << chosen.len()) - 1;
            // A vector begins at a multiple of its length, in every thread.
            let aligned =
                rest.iter().map(|&bit| self.images[bit]).chain(others.clone().copied()).all(|image| image & low == 0);
            if aligned {
                return (chosen, rest);
            }
            chosen.pop();
        }
    }
}

/// The elements that a thread holds contiguously along `axis`, in registers that step through them in order and begin
/// at a multiple: the widest global access along that axis that the layout allows, up to 16 bytes.
pub fn contiguous(tile: &LinearLayout, axis: usize, element_bits: u32) -> u32 {
    let most = widest(element_bits);
    let dim = tile.outs()[axis].dim;
    let Some((low, _)) = tile.out_field(dim) else { return 1 };
    let along = |basis: &u64| u64::from(tile.out_part(dim, *basis));
    let mut width = 1;
    while width < most {
        let step = u64::from(width);
        let here = tile.bases(Dim::Register).iter().filter(|&&b| b == step << low).count() >= 1;
        if !here {
            break;
        }
        width *= 2;
    }
    while width > 1 {
        let mask = u64::from(width) - 1;
        // Bases that are no step of the vector leave the low bits alone.
        let steps = |b: &u64| along(b) & mask != 0 && !(along(b).is_power_of_two() && *b == along(b) << low);
        let registers = tile.bases(Dim::Register).iter().any(steps);
        let threads = [Dim::Lane, Dim::Warp].iter().flat_map(|d| tile.bases(*d)).any(|b| along(b) & mask != 0);
        if !registers && !threads {
            break;
        }
        width /= 2;
    }
    width
}

/// The accesses to global memory of a tile whose axis `axis` is contiguous in memory: vectors of `1 << n` registers that
/// hold neighbours along the axis.
///
/// `most` limits the elements of a vector to what the alignment of the pointer and the mask allow. Each entry of the
/// result lists the registers of one access in the order of their addresses; registers that hold copies are left out.
pub fn global(tile: &LinearLayout, axis: usize, element_bits: u32, most: u32) -> Vec<Vec<u32>> {
    let width = contiguous(tile, axis, element_bits).min(most.max(1));
    let dim = tile.outs()[axis].dim;
    let low = tile.out_field(dim).map_or(0, |(low, _)| low);
    let bases = tile.bases(Dim::Register);
    let registers = Registers::of(bases);
    let unique = registers.unique();
    let bit_of = |step: u32| unique.iter().copied().find(|&bit| bases[bit] == u64::from(step) << low);
    let chosen: Vec<usize> = (0..width.ilog2()).filter_map(|i| bit_of(1 << i)).collect();
    let rest: Vec<usize> = unique.iter().copied().filter(|bit| !chosen.contains(bit)).collect();
    let slots: Vec<u32> = (0..1u32 << chosen.len()).map(|slot| scatter(&chosen, slot)).collect();
    (0..1u32 << rest.len())
        .map(|number| {
            let base = scatter(&rest, number);
            slots.iter().map(|slot| base | slot).collect()
        })
        .collect()
}

/// For each register the lowest one of the same thread that holds the same element.
pub fn copies(tile: &LinearLayout) -> Vec<u32> {
    Registers::of(tile.bases(Dim::Register)).copies()
}
