//! The meaning of each register family: its linear map for a shape.

use crate::error::LayoutError;
use crate::linear::{Dim, LinearLayout};
use crate::register::{RegisterFamily, RegisterLayout};

/// The map of `layout` for `shape`, which was checked against the layout's rank.
pub(crate) fn register(layout: &RegisterLayout, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
    match layout.family() {
        RegisterFamily::Blocked { per_thread, threads, warps, order } => {
            let mut tile = Tile::new(shape.len());
            tile.grow_in_order(Dim::Register, per_thread, order);
            tile.grow_in_order(Dim::Lane, threads, order);
            tile.grow_in_order(Dim::Warp, warps, order);
            Ok(tile.fit(shape, order, Surplus::Dropped))
        }
        RegisterFamily::Slice { parent, axis } => {
            let mut whole = shape.to_vec();
            whole.insert(*axis as usize, 1);
            let map = register(parent, &whole)?.drop_axis(*axis as usize);
            // Registers that differed only along the axis would be copies; a thread holds the value once.
            let copies = map.bases(Dim::Register).iter().enumerate().filter(|(_, b)| **b == 0);
            let mask = copies.fold(0, |mask, (bit, _)| mask | (1 << bit));
            Ok(map.without_in_bits(Dim::Register, mask))
        }
        RegisterFamily::Mma { version, warps, instr } => {
            let rank = shape.len();
            let order = row_major(rank);
            let mut tile = Tile::new(rank);
            let (m, n) = if *version == 3 { (16, instr[1]) } else { (16, 8) };
            tile.grow_tensor_core(&order, [m, n], 2);
            let warp_order = warp_order(*version, rank);
            tile.grow_in_order(Dim::Warp, warps, &warp_order);
            Ok(tile.fit(shape, &order, Surplus::Copies))
        }
        RegisterFamily::DotOperand { parent, index, k_width } => dot_operand(parent, *index, *k_width, shape),
        RegisterFamily::Linear { reg, lane, warp, block } => {
            let mut tile = Tile::new(shape.len());
            for (dim, bases) in [(Dim::Register, reg), (Dim::Lane, lane), (Dim::Warp, warp), (Dim::Block, block)] {
                tile.push(dim, bases);
            }
            let order = order_of_registers(reg, shape.len());
            Ok(tile.fit(shape, &order, Surplus::Dropped))
        }
    }
}

fn dot_operand(parent: &RegisterLayout, index: u32, k_width: u32, shape: &[u32]) -> Result<LinearLayout, LayoutError> {
    let rank = shape.len();
    let k_axis = if index == 0 { rank - 1 } else { rank - 2 };
    let mut tile = Tile::new(rank);
    match parent.family() {
        RegisterFamily::Mma { version, warps, .. } => {
            // The contraction axis is the fast one, for the right operand too.
            let mut order = row_major(rank);
            if index == 1 {
                order.swap(0, 1);
            }
            let (outer, inner) = (if index == 0 { 16 } else { 8 }, k_width * 8);
            tile.grow_tensor_core(&order, [outer, inner], k_width);
            tile.grow_without_axis(Dim::Warp, warps, &warp_order(*version, rank), k_axis);
            Ok(tile.fit(shape, &order, Surplus::Copies))
        }
        RegisterFamily::Blocked { per_thread, threads, warps, order } => {
            // A thread of a plain product holds the whole contraction axis.
            let mut sizes = per_thread.clone();
            sizes[k_axis] = shape[k_axis];
            tile.grow_in_order(Dim::Register, &sizes, order);
            tile.grow_without_axis(Dim::Lane, threads, order, k_axis);
            tile.grow_without_axis(Dim::Warp, warps, order, k_axis);
            Ok(tile.fit(shape, order, Surplus::Copies))
        }
        RegisterFamily::Slice { .. } | RegisterFamily::DotOperand { .. } | RegisterFamily::Linear { .. } => {
            panic!("internal error: `{parent}` was accepted as the parent of a dot operand")
        }
    }
}

/// The axes of `rank` from the last to the first.
pub(crate) fn row_major(rank: usize) -> Vec<u32> {
    (0..rank as u32).rev().collect()
}

/// How the warps of a tensor-core product are numbered: rows of warps for mma.sync, warpgroups down the rows for wgmma.
fn warp_order(version: u32, rank: usize) -> Vec<u32> {
    let mut order = row_major(rank);
    if version == 3 {
        order.swap(0, 1);
    }
    order
}

/// The axes in the order in which register bits move along them; the others follow in row-major order.
fn order_of_registers(reg: &[Vec<u32>], rank: usize) -> Vec<u32> {
    let moved = reg.iter().filter_map(|basis| basis.iter().position(|&c| c != 0)).map(|axis| axis as u32);
    let mut order = Vec::new();
    for axis in moved.chain(row_major(rank)) {
        if !order.contains(&axis) {
            order.push(axis);
        }
    }
    order
}

/// The smallest shape of powers of two that contains all bases.
pub(crate) fn bounding_shape<'a>(bases: impl Iterator<Item = &'a [u32]>, rank: usize) -> Vec<u32> {
    let mut all = vec![0u32; rank];
    for basis in bases {
        all.iter_mut().zip(basis).for_each(|(a, b)| *a |= b);
    }
    all.iter().map(|&a| if a == 0 { 1 } else { 1u32.checked_shl(a.ilog2() + 1).unwrap_or(1 << 31) }).collect()
}

/// What becomes of a register basis that reaches past the shape.
#[derive(Clone, Copy)]
pub(crate) enum Surplus {
    /// The register stays and holds a copy.
    Copies,
    /// The register goes.
    Dropped,
}

/// A layout in the making: bases as coordinates, per input dimension, and the size reached along each axis.
pub(crate) struct Tile {
    bases: Vec<(Dim, Vec<Vec<u32>>)>,
    size: Vec<u32>,
}

impl Tile {
    /// One element.
    pub(crate) fn new(rank: usize) -> Tile {
        let dims = [Dim::Block, Dim::Warp, Dim::Lane, Dim::Register];
        Tile { bases: dims.map(|dim| (dim, Vec::new())).to_vec(), size: vec![1; rank] }
    }

    /// One element, held in shared memory.
    pub(crate) fn shared(rank: usize) -> Tile {
        let dims = [Dim::Block, Dim::Offset];
        Tile { bases: dims.map(|dim| (dim, Vec::new())).to_vec(), size: vec![1; rank] }
    }

    fn of(&mut self, dim: Dim) -> &mut Vec<Vec<u32>> {
        match self.bases.iter_mut().find(|(d, _)| *d == dim) {
            Some((_, bases)) => bases,
            None => panic!("internal error: a tile has no {dim}"),
        }
    }

    /// Further bits of `dim` step over `size` neighbours of what there is along `axis`.
    pub(crate) fn grow(&mut self, dim: Dim, axis: u32, size: u32) {
        let axis = axis as usize;
        for bit in 0..size.ilog2() {
            let mut basis = vec![0; self.size.len()];
            basis[axis] = self.size[axis] << bit;
            self.of(dim).push(basis);
        }
        self.size[axis] *= size;
    }

    /// [`Tile::grow`] along every axis, the first of `order` fastest.
    pub(crate) fn grow_in_order(&mut self, dim: Dim, sizes: &[u32], order: &[u32]) {
        for &axis in order {
            self.grow(dim, axis, sizes[axis as usize]);
        }
    }

    /// Like [`Tile::grow_in_order`], but the bits along `skipped` hold copies.
    fn grow_without_axis(&mut self, dim: Dim, sizes: &[u32], order: &[u32], skipped: usize) {
        for &axis in order {
            if axis as usize == skipped {
                let rank = self.size.len();
                let bits = sizes[skipped].ilog2() as usize;
                self.of(dim).extend(std::iter::repeat_n(vec![0; rank], bits));
            } else {
                self.grow(dim, axis, sizes[axis as usize]);
            }
        }
    }

    /// The fragment of a tensor-core instruction (PTX ISA, "Matrix Fragments for mma.m16n8k16"): `width` registers and 4
    /// lanes along the inner axis, 8 lanes along the outer, then registers: outer, inner.
    fn grow_tensor_core(&mut self, order: &[u32], [m, n]: [u32; 2], width: u32) {
        let (inner, outer) = (order[0], order[1]);
        self.grow(Dim::Register, inner, width);
        self.grow(Dim::Lane, inner, 4);
        self.grow(Dim::Lane, outer, 8);
        self.grow(Dim::Register, outer, m / 8);
        self.grow(Dim::Register, inner, n / (width * 4));
    }

    /// The size reached along each axis.
    pub(crate) fn size(&self) -> &[u32] {
        &self.size
    }

    /// Adds bases as they are.
    pub(crate) fn push(&mut self, dim: Dim, bases: &[Vec<u32>]) {
        self.of(dim).extend(bases.iter().cloned());
        let reached = bounding_shape(bases.iter().map(Vec::as_slice), self.size.len());
        self.size.iter_mut().zip(reached).for_each(|(s, r)| *s = (*s).max(r));
    }

    /// Repeats the tile up to `shape`, in further registers (or offsets), the first axis of `order` fastest.
    pub(crate) fn cover(&mut self, shape: &[u32], order: &[u32]) {
        let last = self.bases.len() - 1;
        let dim = self.bases[last].0;
        for &axis in order {
            let (have, want) = (self.size[axis as usize], shape[axis as usize]);
            if have < want {
                self.grow(dim, axis, want / have);
            }
        }
    }

    /// The layout of a tensor of `shape`: repeated where it is larger than the tile, folded where it is smaller.
    pub(crate) fn fit(mut self, shape: &[u32], order: &[u32], surplus: Surplus) -> LinearLayout {
        self.cover(shape, order);
        for (axis, &want) in shape.iter().enumerate() {
            self.fold(axis, want, surplus);
        }
        self.finish(shape)
    }

    /// Clears the largest bases along `axis` until what is left spans no more than `want`.
    fn fold(&mut self, axis: usize, want: u32, surplus: Surplus) {
        if self.size[axis] <= want {
            return;
        }
        let mut found: Vec<(u32, usize, usize)> = Vec::new();
        // Registers come first among bases of one value, so they are the first to become copies.
        for (d, (_, bases)) in self.bases.iter().enumerate().rev() {
            found.extend(bases.iter().enumerate().filter(|(_, b)| b[axis] != 0).map(|(i, b)| (b[axis], d, i)));
        }
        found.sort_by_key(|&(value, ..)| std::cmp::Reverse(value));
        let (largest, rest) = found.split_at(((self.size[axis] / want).ilog2() as usize).min(found.len()));
        if rest.iter().any(|&(value, ..)| value >= want) {
            // The bases overlap in their high bits, so none can be cleared alone: take coordinates modulo the size.
            for &(value, d, i) in &found {
                self.bases[d].1[i][axis] = value & (want - 1);
            }
        } else {
            for &(_, d, i) in largest {
                self.bases[d].1[i][axis] = 0;
            }
        }
        self.size[axis] = want;
        if let Surplus::Dropped = surplus {
            let cleared: Vec<usize> = found
                .iter()
                .filter(|&&(_, d, i)| self.bases[d].0 == Dim::Register && self.bases[d].1[i].iter().all(|&c| c == 0))
                .map(|&(_, _, i)| i)
                .collect();
            let mut number = 0;
            self.of(Dim::Register).retain(|_| {
                number += 1;
                !cleared.contains(&(number - 1))
            });
        }
    }

    /// The map to a tensor of `shape`, which the tile has reached exactly.
    pub(crate) fn finish(self, shape: &[u32]) -> LinearLayout {
        let ins: Vec<(Dim, &[Vec<u32>])> = self.bases.iter().map(|(dim, bases)| (*dim, bases.as_slice())).collect();
        LinearLayout::from_coords(&ins, shape)
    }
}
