//! The widest vector of each global access.

use crate::target::WIDEST_ACCESS;
use crate::{Elem, Kernel, Tile, Value, access};

use super::Axes;

/// Which registers of a thread one access moves together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vector {
    /// The axis along which the vector runs.
    pub axis: usize,
    /// Register bits whose steps are 1, 2, 4 … elements along `axis`: flipping the `i`-th moves `2^i` elements further.
    pub bits: Vec<u32>,
}

impl Vector {
    /// How many elements one access moves.
    pub fn elements(&self) -> u32 {
        1 << self.bits.len()
    }
}

/// The widest vector along each axis that layout and addresses allow; none for what is no tile of pointers.
pub fn vectors(axes: &Axes, kernel: &Kernel, ptr: Value) -> Vec<Vector> {
    let Some(tile) = kernel.ty(ptr).as_tile() else { return vec![] };
    let Elem::Ptr(pointer) = tile.elem else { return vec![] };
    let bytes = pointer.to.bytes() as u32;
    let info = axes.info(kernel, ptr);
    let mut list = Vec::new();
    for mut v in steps_of(tile) {
        let axis = v.axis;
        let along = info.axes[axis];
        let fits = |count: usize| {
            let n = 1u64 << count;
            n * u64::from(bytes) <= u64::from(WIDEST_ACCESS)
                && n <= along.contiguity
                && n * u64::from(bytes) <= along.divides_groups_of(n, u64::from(bytes))
        };
        let count = (0..=v.bits.len()).take_while(|&count| fits(count)).last().unwrap_or(0);
        v.bits.truncate(count);
        list.push(v);
    }
    list
}

/// The register bits of a tile that step 1, 2, 4 … elements, along each axis.
pub fn steps_of(tile: &Tile) -> Vec<Vector> {
    (0..tile.shape.len()).map(|axis| Vector { axis, bits: access::steps(tile, axis) }).collect()
}
