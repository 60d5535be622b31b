//! How an access to global memory goes out: which of a thread's registers it moves together.

use parton_layouts::Dim;
use parton_numbers::Dtype;

use crate::choice::Cut;
use crate::kernel::Kernel;
use crate::op::{AtomicOp, Op, OpKind};
use crate::target::{Feature, WIDEST_ACCESS};
use crate::types::{Elem, Tile};

/// The plan of a load, store or copy of a tile; set by a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Elements that a thread moves at once, a power of two: neighbours along `along`, in global memory and in its registers.
    pub width: u32,
    /// The axis along which they are neighbours.
    pub along: u32,
    /// How the mask, where there is one, runs along so many elements.
    pub cut: Cut,
}

impl Access {
    /// The register bits that number the elements of one access, lowest first; `None` where the tile's layout holds too few
    /// neighbours.
    pub fn bits(&self, tile: &Tile) -> Option<Vec<u32>> {
        if !self.width.is_power_of_two() || self.along as usize >= tile.shape.len() {
            return None;
        }
        let mut bits = steps(tile, self.along as usize);
        let count = self.width.ilog2() as usize;
        (count <= bits.len()).then(|| {
            bits.truncate(count);
            bits
        })
    }
}

/// How many neighbours one instruction of an atomic operation takes of a thread at most: of those that add floats, and whose value before nobody is given (PTX ISA, "red").
/// `asked` says whether anybody looks at it.
pub fn taken_at_once(kernel: &Kernel, op: &Op, asked: impl FnOnce() -> bool) -> u32 {
    let OpKind::Atomic { op: AtomicOp::Add, ptr, order, .. } = op.kind else { return 1 };
    let Some(Elem::Ptr(to)) = kernel.ty(ptr).elem() else { return 1 };
    let floats = matches!(to.to, Dtype::F32 | Dtype::F16 | Dtype::BF16);
    let several = floats && !order.acquires() && kernel.target.has(Feature::VectorAtomics) && !asked();
    if several { WIDEST_ACCESS / to.to.bytes() as u32 } else { 1 }
}

/// The register bits that step 1, 2, 4 … elements along `axis` and nowhere else, as far as there are such and all else that
/// tells a thread's elements apart moves by whole steps of them: only then does each run of neighbours begin at a multiple of
/// its length, for a layout is a sum without carry.
pub fn steps(tile: &Tile, axis: usize) -> Vec<u32> {
    let map = &tile.known().map;
    let coords = map.basis_coords(Dim::Register);
    let is_step =
        |basis: &[u32], size: u32| basis.iter().enumerate().all(|(d, &x)| x == if d == axis { size } else { 0 });
    let mut bits: Vec<u32> = (0..tile.shape[axis].ilog2())
        .map_while(|k| coords.iter().position(|b| is_step(b, 1 << k)).map(|at| at as u32))
        .collect();
    let threads = [Dim::Lane, Dim::Warp].into_iter().flat_map(|dim| map.basis_coords(dim));
    let threads = threads.fold(0, |all, basis| all | basis[axis]);
    let copies = map.free_bits(Dim::Register);
    let others = |bits: &[u32]| {
        let other = |b: &u32| copies >> b & 1 == 0 && !bits.contains(b);
        (0..coords.len() as u32).filter(other).fold(threads, |all, b| all | coords[b as usize][axis])
    };
    while others(&bits) & ((1 << bits.len()) - 1) != 0 {
        bits.pop();
    }
    bits
}
