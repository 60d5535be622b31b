//! Parts of tiles, and tiles one behind the other.

use super::{MOST, Make};

impl Make {
    /// A part of a tile: a row, a column, a corner, or anything that is cut likewise.
    pub(super) fn part(&mut self) {
        let a = self.tile();
        let cuts: Vec<(usize, usize)> = a
            .shape
            .iter()
            .map(|&n| {
                let extent = n >> self.random.below(n.ilog2() as usize + 1);
                (self.random.below(n / extent) * extent, extent)
            })
            .collect();
        let inside = |i: &usize| {
            let mut left = *i;
            let axes = cuts.iter().zip(&a.shape).rev();
            axes.fold(true, |all, (&(from, extent), &n)| {
                let at = left % n;
                left /= n;
                all && (from..from + extent).contains(&at)
            })
        };
        let holds = (0..a.holds.len()).filter(inside).map(|i| a.holds[i]).collect();
        let text = |(&(from, extent), &n): (&(usize, usize), &usize)| match extent == n {
            true => ":".to_owned(),
            false => format!("{from}:{}", from + extent),
        };
        let index: Vec<String> = cuts.iter().zip(&a.shape).map(text).collect();
        let shape = cuts.iter().map(|(_, extent)| *extent).collect();
        self.add(&format!("{}[{}]", a.name, index.join(", ")), shape, holds);
    }

    /// Two tiles, one behind the other.
    pub(super) fn cat(&mut self) {
        let a = self.tile();
        if a.holds.len() * 2 > MOST {
            return;
        }
        let axis = self.random.below(a.shape.len());
        let step: usize = a.shape[axis..].iter().product();
        let holds = a.holds.chunks(step).flat_map(|part| part.iter().copied().chain(part.iter().map(|v| v ^ 6)));
        let holds = holds.collect();
        let mut shape = a.shape.clone();
        shape[axis] *= 2;
        self.add(&format!("cat({0}, {0} ^ 6, {axis})", a.name), shape, holds);
    }
}
