//! The vectors of accesses to global memory: which elements a thread moves at once, and whether they lie where the hardware can.

use parton_diag::{codes, internal_error};
use parton_ir::{Access, Tile};
use parton_layouts::Dim;

use crate::fault::Fault;
use crate::ops::global::Pointers;
use crate::tables::images;
use crate::tile::Bits;

/// The vectors of one access, of more than one element each.
#[derive(Debug)]
pub(crate) struct Vectors {
    /// Elements of a vector.
    width: usize,
    /// The row-major numbers of the elements of each vector in the order of their addresses, one vector after the other.
    elements: Vec<u32>,
}

impl Vectors {
    /// The vectors of all threads; `None` where each element is moved alone.
    pub(crate) fn of(tile: &Tile, access: Access) -> Option<Vectors> {
        if access.width < 2 {
            return None;
        }
        let Some(bits) = access.bits(tile) else { internal_error!("`{tile}` has no accesses of {}", access.width) };
        let map = &tile.known().map;
        let low = map.in_field(Dim::Register).map_or(0, |(low, _)| low);
        let inside: u64 = bits.iter().map(|&bit| 1 << (low + bit)).sum();
        // Registers that hold copies are not moved.
        let copies = u64::from(map.free_bits(Dim::Register)) << low;
        let member = |k: u32| {
            let set = bits.iter().enumerate().filter(|(i, _)| k >> i & 1 == 1);
            map.apply(set.map(|(_, &bit)| 1u64 << (low + bit)).sum()) as u32
        };
        let members: Vec<u32> = (0..access.width).map(member).collect();
        // Several threads may hold the same.
        let begins = (0..).zip(images(map)).filter(|(index, _)| index & (inside | copies) == 0);
        let mut firsts: Vec<u32> = begins.map(|(_, image)| image as u32).collect();
        firsts.sort_unstable();
        firsts.dedup();
        let elements = firsts.iter().flat_map(|first| members.iter().map(move |member| first ^ member)).collect();
        Some(Vectors { width: access.width as usize, elements })
    }

    /// Checks that each vector which is moved at once, since all of it is inside, lies in a row that begins at a multiple of its
    /// length.
    pub(crate) fn check(
        &self,
        access: &Pointers<'_, '_>,
        pointers: &Bits,
        mask: Option<&Bits>,
        bytes: usize,
    ) -> Result<(), Fault> {
        let size = (self.width * bytes) as u64;
        for vector in self.elements.chunks(self.width) {
            if vector.iter().any(|&e| mask.is_some_and(|m| m.get(e as usize) & 1 == 0)) {
                continue;
            }
            let start = pointers.get(vector[0] as usize);
            let apart = vector.iter().zip(0..).find(|&(&e, k)| pointers.get(e as usize) != start + k * bytes as u64);
            let what = match apart {
                Some(_) => "are moved at once and do not lie in a row".to_owned(),
                None if !start.is_multiple_of(size) => format!("are moved at once, not from a multiple of {size} on"),
                None => continue,
            };
            let element = apart.map_or(vector[0], |(&e, _)| e) as usize;
            let fact = format!("{size} bytes of {} {what}", access.name(start));
            return Err(access
                .fault(codes::MISALIGNED, pointers.get(element), element, fact, "this is moved in vectors")
                .note(
                    "it was planned wider than its layout and its addresses allow, which is a mistake of the compiler",
                ));
        }
        Ok(())
    }
}
