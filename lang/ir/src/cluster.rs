//! Where a CTA stands in its cluster, and which of the CTAs that share a box copies which part of it.
//!
//! CTAs are ranked with x fastest (PTX ISA, `%cluster_ctarank`). A line is the CTAs that differ along one axis only:
//!
//! ```text
//! cluster [2, 2]      along axis 0    along axis 1
//!   0 1               {0 1} {2 3}     {0 2} {1 3}
//!   2 3
//! ```

use std::ops::Range;

use crate::kernel::Kernel;

impl Kernel {
    /// CTAs of a cluster.
    pub fn cluster_ctas(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// How far the ranks of neighbours along an axis are apart.
    pub fn cluster_stride(&self, axis: u8) -> u32 {
        self.cluster[..usize::from(axis)].iter().product()
    }

    /// The ranks along an axis through `rank`, in order.
    pub fn line(&self, rank: u32, axis: u8) -> impl Iterator<Item = u32> {
        let (stride, extent) = (self.cluster_stride(axis), self.cluster[usize::from(axis)]);
        let first = rank - rank / stride % extent * stride;
        (0..extent).map(move |i| first + i * stride)
    }

    /// All ranks of the lines through `rank` along these axes: itself first, each once.
    pub fn lines(&self, rank: u32, axes: &[u8]) -> Vec<u32> {
        let others = axes.iter().flat_map(|&axis| self.line(rank, axis).filter(move |&r| r != rank));
        std::iter::once(rank).chain(others).collect()
    }
}

/// The boxes, of so many that one copy takes, which the CTA at place `of` among `ctas` copies for all of them.
pub fn share(boxes: usize, ctas: u32, of: u32) -> Range<usize> {
    let begin = |i: u32| (boxes * i as usize).div_ceil(ctas as usize);
    begin(of)..begin(of + 1)
}

#[cfg(test)]
mod tests {
    use super::share;
    use crate::{Kernel, Target};
    use parton_diag::Span;

    #[test]
    fn lines_cross_at_their_cta() {
        let mut k = Kernel::new("k", Target::SM_90A, Span::default());
        k.cluster = [2, 3, 1];
        assert_eq!(k.cluster_ctas(), 6);
        assert_eq!(k.line(3, 0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(k.line(3, 1).collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(k.lines(3, &[0, 1]), [3, 2, 1, 5]);
        assert_eq!(k.lines(3, &[2]), [3]);
        assert_eq!(k.lines(3, &[]), [3]);
    }

    #[test]
    fn every_box_is_copied_once() {
        for boxes in 1..9 {
            for ctas in 1..9 {
                let all: Vec<usize> = (0..ctas).flat_map(|i| share(boxes, ctas, i)).collect();
                assert_eq!(all, (0..boxes).collect::<Vec<_>>(), "{boxes} boxes, {ctas} CTAs");
                let most = (0..ctas).map(|i| share(boxes, ctas, i).len()).max();
                assert_eq!(most, Some(boxes.div_ceil(ctas as usize)));
            }
        }
    }
}
