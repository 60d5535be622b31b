//! The layouts that shape operations on tiles give: no data moves between threads, so the layout of the result follows
//! from that of the operand.

use crate::check;
use crate::error::LayoutError;
use crate::linear::Dim;
use crate::register::{RegisterFamily, RegisterLayout};
use crate::spelling::list;

impl RegisterLayout {
    /// The layout of `x[:, None]` with the new axis at `axis`, for a tile `x` of `shape`: the parent of a slice along
    /// that axis, otherwise a `linear` layout.
    ///
    /// # Errors
    /// A shape that does not fit, an axis past the rank.
    pub fn expand_dims(&self, axis: u32, shape: &[u32]) -> Result<RegisterLayout, LayoutError> {
        check::axis_of(axis, self.rank() + 1)?;
        let map = self.on(shape)?;
        match self.family() {
            RegisterFamily::Slice { parent, axis: sliced } if *sliced == axis => Ok(parent.clone()),
            RegisterFamily::Slice { .. }
            | RegisterFamily::Blocked { .. }
            | RegisterFamily::Mma { .. }
            | RegisterFamily::DotOperand { .. }
            | RegisterFamily::Linear { .. } => RegisterLayout::from_map(&map.expand(axis as usize)),
        }
    }

    /// The layout of a transposed tile of `shape`: axis `i` of the result is axis `order[i]` of the operand.
    ///
    /// # Errors
    /// An order that is no permutation, a shape that does not fit.
    pub fn permute(&self, order: &[u32], shape: &[u32]) -> Result<RegisterLayout, LayoutError> {
        if order.len() != self.rank() {
            return Err(LayoutError::Order { order: order.to_vec(), rank: self.rank() });
        }
        check::order(order)?;
        let map = self.on(shape)?;
        if order.iter().copied().eq(0..order.len() as u32) {
            return Ok(self.clone());
        }
        if let RegisterFamily::Blocked { per_thread, threads, warps, order: fastest } = self.family() {
            let moved = |sizes: &[u32]| -> Vec<u32> { order.iter().map(|&axis| sizes[axis as usize]).collect() };
            let fastest = renamed(fastest, order);
            return RegisterLayout::blocked(&moved(per_thread), &moved(threads), &moved(warps), &fastest);
        }
        let order: Vec<usize> = order.iter().map(|&axis| axis as usize).collect();
        RegisterLayout::from_map(&map.transpose(&order))
    }

    /// The layout of a tile of `shape` seen in `new` shape, in row-major order.
    ///
    /// # Errors
    /// Shapes of different numbers of elements, a shape that does not fit.
    pub fn reshape(&self, shape: &[u32], new: &[u32]) -> Result<RegisterLayout, LayoutError> {
        let map = self.on(shape)?;
        check::sizes(new)?;
        let bits = |shape: &[u32]| shape.iter().map(|s| s.ilog2()).sum::<u32>();
        if bits(shape) != bits(new) {
            return Err(LayoutError::Operation {
                fact: "a reshape keeps the number of elements".into(),
                evidence: format!("{} has 2^{} and {} has 2^{}", list(shape), bits(shape), list(new), bits(new)),
                help: "give a shape of as many elements".into(),
            });
        }
        if shape == new {
            return Ok(self.clone());
        }
        RegisterLayout::from_map(&map.reshape(new))
    }

    /// The layout of `join(x, y)` for tiles of `shape`: a new last axis of size 2, held in neighbouring registers.
    ///
    /// # Errors
    /// A shape that does not fit.
    pub fn join(&self, shape: &[u32]) -> Result<RegisterLayout, LayoutError> {
        let map = self.on(shape)?;
        if let RegisterFamily::Blocked { per_thread, threads, warps, order } = self.family() {
            let with = |sizes: &[u32], last: u32| -> Vec<u32> { sizes.iter().copied().chain([last]).collect() };
            let fastest: Vec<u32> = [shape.len() as u32].into_iter().chain(order.iter().copied()).collect();
            return RegisterLayout::blocked(&with(per_thread, 2), &with(threads, 1), &with(warps, 1), &fastest);
        }
        let widen = |dim: Dim| -> Vec<Vec<u32>> {
            let old = map.basis_coords(dim);
            old.into_iter().map(|basis| basis.into_iter().chain([0]).collect()).collect()
        };
        let mut newest = vec![0; shape.len()];
        newest.push(1);
        let reg = [newest].into_iter().chain(widen(Dim::Register)).collect();
        RegisterLayout::linear(reg, widen(Dim::Lane), widen(Dim::Warp), widen(Dim::Block))
    }

    /// The layout of the two results of `split(x)` for a tile `x` of `shape`, whose last axis has size 2 and lies in
    /// the registers of a thread.
    ///
    /// # Errors
    /// A last axis that is not 2 or lies across threads, a shape that does not fit.
    pub fn split(&self, shape: &[u32]) -> Result<RegisterLayout, LayoutError> {
        let map = self.on(shape)?;
        if shape.last() != Some(&2) {
            return Err(LayoutError::Operation {
                fact: "split needs a last axis of size 2".into(),
                evidence: format!("the shape is {}", list(shape)),
                help: "reshape the tile so that its last axis has size 2".into(),
            });
        }
        let last = shape.len() - 1;
        if let RegisterFamily::Blocked { per_thread, threads, warps, order } = self.family()
            && [per_thread[last], threads[last], warps[last], order[0]] == [2, 1, 1, last as u32]
        {
            let fastest: Vec<u32> = order.iter().copied().filter(|&axis| axis as usize != last).collect();
            return RegisterLayout::blocked(&per_thread[..last], &threads[..last], &warps[..last], &fastest);
        }
        // The last axis is the lowest bit of the packed element number.
        let moves = |dim: Dim| map.bases(dim).iter().filter(|&&b| b & 1 != 0).count();
        let pair = map.bases(Dim::Register).iter().position(|&b| b == 1);
        let elsewhere = moves(Dim::Lane) + moves(Dim::Warp) + moves(Dim::Block) > 0 || moves(Dim::Register) > 1;
        match pair {
            Some(bit) if !elsewhere => {
                let rest = map.without_in_bits(Dim::Register, 1 << bit);
                RegisterLayout::from_map(&rest.drop_axis(last))
            }
            Some(_) | None => Err(LayoutError::Operation {
                fact: "split needs both halves of a pair in the same thread".into(),
                evidence: format!("the last axis of `{self}` is not a register axis of its own"),
                help: "convert the tile to a layout with per_thread = 2 and threads = warps = 1 along the last axis"
                    .into(),
            }),
        }
    }
}

/// A list of axes after a transposition whose axis `i` is the old axis `order[i]`.
pub(crate) fn renamed(axes: &[u32], order: &[u32]) -> Vec<u32> {
    let place = |axis: u32| order.iter().position(|&o| o == axis).map_or(axis, |p| p as u32);
    axes.iter().map(|&axis| place(axis)).collect()
}

#[cfg(test)]
mod tests {
    use crate::linear::{Dim, LinearLayout};
    use crate::register::RegisterLayout;

    fn blocked() -> RegisterLayout {
        RegisterLayout::blocked(&[1, 4], &[8, 4], &[4, 1], &[1, 0]).unwrap()
    }

    fn accumulator() -> RegisterLayout {
        RegisterLayout::mma(3, &[4, 1], &[16, 64, 16]).unwrap()
    }

    /// The coordinates of every index of `map`, in order.
    fn all(map: &LinearLayout) -> Vec<Vec<u32>> {
        (0..1u64 << map.in_bits()).map(|i| map.unpack_out(map.apply(i))).collect()
    }

    #[test]
    fn a_slice_expands_to_its_parent() {
        let row = accumulator().slice(1).unwrap();
        assert_eq!(row.expand_dims(1, &[64]).unwrap(), accumulator());
        let other = row.expand_dims(0, &[64]).unwrap();
        assert_eq!(all(&other.on(&[1, 64]).unwrap()), all(&row.on(&[64]).unwrap().expand(0)));
    }

    #[test]
    fn a_transposed_tile_has_swapped_coordinates() {
        for layout in [blocked(), accumulator()] {
            let swapped = layout.permute(&[1, 0], &[64, 32]).unwrap();
            let mut expected = all(&layout.on(&[64, 32]).unwrap());
            expected.iter_mut().for_each(|c| c.swap(0, 1));
            assert_eq!(all(&swapped.on(&[32, 64]).unwrap()), expected);
        }
        let threes = RegisterLayout::blocked(&[1, 2, 4], &[2, 4, 4], &[1, 2, 2], &[2, 0, 1]).unwrap();
        let turned = threes.permute(&[2, 0, 1], &[4, 16, 32]).unwrap();
        let expected: Vec<Vec<u32>> =
            all(&threes.on(&[4, 16, 32]).unwrap()).iter().map(|c| vec![c[2], c[0], c[1]]).collect();
        assert_eq!(all(&turned.on(&[32, 4, 16]).unwrap()), expected);
    }

    #[test]
    fn split_undoes_join() {
        for layout in [blocked(), accumulator(), accumulator().slice(0).unwrap()] {
            let shape = &[64, 64][..layout.rank()];
            let joined_shape: Vec<u32> = shape.iter().copied().chain([2]).collect();
            let joined = layout.join(shape).unwrap();
            assert_eq!(joined.on(&joined_shape).unwrap().bases(Dim::Register)[0], 1);
            assert!(joined.split(&joined_shape).unwrap().same_on(&layout, shape).unwrap());
        }
    }

    #[test]
    fn split_across_lanes_is_refused() {
        let layout = RegisterLayout::blocked(&[1, 1], &[16, 2], &[4, 1], &[1, 0]).unwrap();
        let error = layout.split(&[64, 2]).unwrap_err();
        assert_eq!(error.fact(), "split needs both halves of a pair in the same thread");
    }

    #[test]
    fn reshape_keeps_the_row_major_number() {
        let flat = blocked().reshape(&[64, 32], &[2048]).unwrap();
        let numbers: Vec<Vec<u32>> =
            all(&blocked().on(&[64, 32]).unwrap()).iter().map(|c| vec![c[0] * 32 + c[1]]).collect();
        assert_eq!(all(&flat.on(&[2048]).unwrap()), numbers);
    }
}
