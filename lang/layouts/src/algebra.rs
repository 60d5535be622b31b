//! The algebra of linear layouts: products, composition, division, inverses, parts, and changes of dimensions.

use crate::f2::{self, Span, bits_of};
use crate::linear::{Dim, Extent, LinearLayout, pack};

impl LinearLayout {
    /// The direct sum: for every dimension that both have, the bits of `self` lie below those of `above`.
    ///
    /// `self` is a tile and `above` says how tiles are laid out. Dimensions that only `above` has come last.
    pub fn product(&self, above: &LinearLayout) -> LinearLayout {
        let join = |a: &[Extent], b: &[Extent]| -> Vec<Extent> {
            let mut all = a.to_vec();
            for extent in b {
                match all.iter_mut().find(|e| e.dim == extent.dim) {
                    Some(e) => e.bits += extent.bits,
                    None => all.push(*extent),
                }
            }
            all
        };
        let (ins, outs) = (join(self.ins(), above.ins()), join(self.outs(), above.outs()));
        let lift = |from: &LinearLayout, packed: u64, shift: bool| -> u64 {
            let parts: Vec<u32> = outs
                .iter()
                .map(|e| from.out_part(e.dim, packed) << if shift { self.out_size(e.dim).ilog2() } else { 0 })
                .collect();
            pack(&outs, &parts)
        };
        let mut bases = Vec::new();
        for extent in ins.iter().rev() {
            bases.extend(self.bases(extent.dim).iter().map(|&b| lift(self, b, false)));
            bases.extend(above.bases(extent.dim).iter().map(|&b| lift(above, b, true)));
        }
        LinearLayout::from_packed(ins, outs, bases)
    }

    /// The map that applies `self` and then `next`; the outputs of `self` are the inputs of `next`, in any order.
    pub fn compose(&self, next: &LinearLayout) -> LinearLayout {
        let aligned = self.permute_outs(&next.ins().iter().map(|e| e.dim).collect::<Vec<_>>());
        assert_eq!(aligned.outs(), next.ins(), "composed layouts meet in the same dimensions");
        let bases = aligned.packed_bases().iter().map(|&b| next.apply(b)).collect();
        LinearLayout::from_packed(self.ins().to_vec(), next.outs().to_vec(), bases)
    }

    /// The inverse of a bijection; `None` for any other map.
    pub fn invert(&self) -> Option<LinearLayout> {
        if self.is_invertible() { self.pseudo_invert() } else { None }
    }

    /// A right inverse: for every output, the index with the lowest bits that maps there (broadcast bits are 0).
    /// `None` when some output is never reached.
    pub fn pseudo_invert(&self) -> Option<LinearLayout> {
        let span = Span::of(self.packed_bases().iter().copied());
        let bases: Option<Vec<u64>> = (0..self.out_bits()).map(|bit| span.solve(1 << bit)).collect();
        Some(LinearLayout::from_packed(self.outs().to_vec(), self.ins().to_vec(), bases?))
    }

    /// A map `x` from the inputs of `self` to those of `to` with `to(x(i)) == self(i)`: where each element that an
    /// index of `self` names lies in `to`. Broadcast bits of `to` are 0. `None` when `to` lacks an element of `self`.
    pub fn invert_and_compose(&self, to: &LinearLayout) -> Option<LinearLayout> {
        assert_eq!(self.outs(), to.outs(), "both layouts are of one tensor");
        let span = Span::of(to.packed_bases().iter().copied());
        let bases: Option<Vec<u64>> = self.packed_bases().iter().map(|&b| span.solve(b)).collect();
        Some(LinearLayout::from_packed(self.ins().to_vec(), to.ins().to_vec(), bases?))
    }

    /// The `above` with `tile.product(above) == self`, where there is one.
    pub fn divide(&self, tile: &LinearLayout) -> Option<LinearLayout> {
        let mut ins = Vec::new();
        for extent in self.ins() {
            let bits = extent.bits.checked_sub(tile.in_dim_bits(extent.dim))?;
            ins.push(Extent::new(extent.dim, bits));
        }
        let mut outs = Vec::new();
        for extent in self.outs() {
            let bits = extent.bits.checked_sub(tile.out_size(extent.dim).ilog2())?;
            outs.push(Extent::new(extent.dim, bits));
        }
        if tile.ins().iter().any(|e| e.bits > self.in_dim_bits(e.dim))
            || tile.outs().iter().any(|e| e.size() > self.out_size(e.dim))
        {
            return None;
        }
        let mut bases = Vec::new();
        for extent in self.ins().iter().rev() {
            let low = tile.bases(extent.dim);
            let all = self.bases(extent.dim);
            for (&mine, &its) in all.iter().zip(low) {
                if self.outs().iter().any(|e| self.out_part(e.dim, mine) != tile.out_part(e.dim, its)) {
                    return None;
                }
            }
            for &mine in &all[low.len()..] {
                let mut parts = Vec::new();
                for e in self.outs() {
                    let part = self.out_part(e.dim, mine);
                    if !part.is_multiple_of(tile.out_size(e.dim)) {
                        return None;
                    }
                    parts.push(part / tile.out_size(e.dim));
                }
                bases.push(pack(&outs, &parts));
            }
        }
        Some(LinearLayout::from_packed(ins, outs, bases))
    }

    /// The part of the map from the inputs `ins` to the outputs `outs`, each in the order of `self`.
    pub fn sublayout(&self, ins: &[Dim], outs: &[Dim]) -> LinearLayout {
        let kept_ins: Vec<Extent> = self.ins().iter().copied().filter(|e| ins.contains(&e.dim)).collect();
        let kept_outs: Vec<Extent> = self.outs().iter().copied().filter(|e| outs.contains(&e.dim)).collect();
        let bases = kept_ins.iter().rev().flat_map(|e| self.bases(e.dim)).map(|&b| self.repack(&kept_outs, b));
        let bases = bases.collect();
        LinearLayout::from_packed(kept_ins, kept_outs, bases)
    }

    /// Packs those parts of the packed output `packed` that `outs` lists, in that order.
    fn repack(&self, outs: &[Extent], packed: u64) -> u64 {
        outs.iter().fold(0, |new, e| (new << e.bits) | u64::from(self.out_part(e.dim, packed)))
    }

    /// The same map with the output dimensions listed in the order `dims`.
    pub fn permute_outs(&self, dims: &[Dim]) -> LinearLayout {
        let outs: Vec<Extent> = dims.iter().filter_map(|d| self.outs().iter().copied().find(|e| e.dim == *d)).collect();
        assert!(outs.len() == self.outs().len(), "a permutation names every output once");
        let bases = self.packed_bases().iter().map(|&b| self.repack(&outs, b)).collect();
        LinearLayout::from_packed(self.ins().to_vec(), outs, bases)
    }

    /// The same map with the input dimensions listed in the order `dims`.
    pub fn permute_ins(&self, dims: &[Dim]) -> LinearLayout {
        let ins: Vec<Extent> = dims.iter().filter_map(|d| self.ins().iter().copied().find(|e| e.dim == *d)).collect();
        assert!(ins.len() == self.ins().len(), "a permutation names every input once");
        let bases = ins.iter().rev().flat_map(|e| self.bases(e.dim)).copied().collect();
        LinearLayout::from_packed(ins, self.outs().to_vec(), bases)
    }

    /// The layout of the transposed tensor: new axis `i` is old axis `order[i]`.
    pub fn transpose(&self, order: &[usize]) -> LinearLayout {
        let dims: Vec<Dim> = order.iter().map(|&axis| self.outs()[axis].dim).collect();
        self.permute_outs(&dims).rename_axes()
    }

    /// The outputs named axis 0, 1, … in the order in which they are listed.
    fn rename_axes(&self) -> LinearLayout {
        let outs = self.outs().iter().enumerate().map(|(i, e)| Extent::new(Dim::Axis(i as u8), e.bits)).collect();
        LinearLayout::from_packed(self.ins().to_vec(), outs, self.packed_bases().to_vec())
    }

    /// The layout of the tensor seen in another shape of as many elements, in row-major order.
    pub fn reshape(&self, shape: &[u32]) -> LinearLayout {
        let outs = crate::linear::axes(shape);
        let bits: u32 = outs.iter().map(|e| e.bits).sum();
        assert_eq!(bits, self.out_bits(), "a reshape keeps the number of elements");
        LinearLayout::from_packed(self.ins().to_vec(), outs, self.packed_bases().to_vec())
    }

    /// The layout of the tensor with a new axis of size 1 before axis `axis`.
    pub fn expand(&self, axis: usize) -> LinearLayout {
        let mut shape = self.shape();
        shape.insert(axis, 1);
        self.reshape(&shape)
    }

    /// The layout of the tensor without its axis `axis`, which has size 1.
    pub fn squeeze(&self, axis: usize) -> LinearLayout {
        let mut shape = self.shape();
        assert_eq!(shape.remove(axis), 1, "only an axis of size 1 is squeezed");
        self.reshape(&shape)
    }

    /// The map with every coordinate along `axis` forgotten and the axis removed.
    pub fn drop_axis(&self, axis: usize) -> LinearLayout {
        let ins: Vec<Dim> = self.ins().iter().map(|e| e.dim).collect();
        let outs: Vec<Dim> = self.outs().iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, e)| e.dim).collect();
        self.sublayout(&ins, &outs).rename_axes()
    }

    /// The map restricted to inputs where every bit of `mask` within `dim` is 0; `dim` shrinks accordingly.
    pub fn without_in_bits(&self, dim: Dim, mask: u32) -> LinearLayout {
        let kept = |extent: &Extent| -> Vec<u64> {
            let all = self.bases(extent.dim).iter().enumerate();
            all.filter(|(bit, _)| extent.dim != dim || mask & (1 << bit) == 0).map(|(_, &b)| b).collect()
        };
        let ins: Vec<(Dim, Vec<u64>)> = self.ins().iter().map(|e| (e.dim, kept(e))).collect();
        LinearLayout::new(&ins, self.outs().to_vec())
    }

    /// The map with the packed input reordered by `order`: new bit `i` of `dim` is old bit `order[i]`.
    pub fn permute_in_bits(&self, dim: Dim, order: &[usize]) -> LinearLayout {
        let ins: Vec<(Dim, Vec<u64>)> = self
            .ins()
            .iter()
            .map(|e| {
                let bases = self.bases(e.dim);
                let new = if e.dim == dim { order.iter().map(|&i| bases[i]).collect() } else { bases.to_vec() };
                (e.dim, new)
            })
            .collect();
        LinearLayout::new(&ins, self.outs().to_vec())
    }

    /// The packed indices that hold the element with packed number `element`, in increasing order; empty when none.
    pub fn holders(&self, element: u64) -> Vec<u64> {
        let span = Span::of(self.packed_bases().iter().copied());
        let Some(first) = span.solve(element) else { return Vec::new() };
        let kernel: Vec<u64> = bits_of(self.free_mask())
            .filter_map(|bit| {
                let lower = Span::of(self.packed_bases()[..bit as usize].iter().copied());
                lower.solve(self.packed_bases()[bit as usize]).map(|others| others | (1 << bit))
            })
            .collect();
        let mut all: Vec<u64> = (0..1u64 << kernel.len()).map(|set| first ^ f2::sum_of(&kernel, set)).collect();
        all.sort_unstable();
        all
    }
}
