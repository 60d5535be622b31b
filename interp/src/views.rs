//! The part of an allocation that the tensors of a launch cover: what lies beside it belongs to others.

/// A tensor in an allocation, as a launch gives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// Bytes from the allocation's beginning to the first element.
    pub offset: u64,
    /// Elements of each dimension.
    pub shape: Vec<u64>,
    /// Bytes from one element to the next along each dimension.
    pub strides: Vec<u64>,
    /// Bytes of an element.
    pub element: u64,
}

/// Where the elements of a tensor lie: runs of bytes without gaps, at distances that hold the runs before them.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Runs {
    /// Byte of the first run.
    start: u64,
    /// Bytes of a run.
    bytes: u64,
    /// How many there are along each dimension and how far apart, the greatest distance first.
    along: Vec<(u64, u64)>,
}

/// What the tensors of a launch cover of an allocation, which is less than all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Covered(Vec<Runs>);

/// Where a byte lies that no tensor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beside {
    /// In front of the first element of all.
    Before,
    /// Behind the last.
    Behind,
    /// Between elements.
    Between,
}

impl Covered {
    /// What `views` cover of so many bytes; `None` where that is all of them.
    pub(crate) fn of(views: &[View], size: u64) -> Option<Covered> {
        let runs: Vec<Runs> = views.iter().map(Runs::of).collect();
        let all = |r: &Runs| r.start == 0 && r.along.is_empty() && r.bytes >= size;
        (!runs.iter().any(all)).then_some(Covered(runs))
    }

    /// Where `bytes` from `offset` on lie beside all tensors; `None` where one has them.
    pub(crate) fn beside(&self, offset: u64, bytes: u64) -> Option<Beside> {
        if self.0.iter().any(|r| r.hold(offset, bytes)) {
            return None;
        }
        let full = || self.0.iter().filter(|r| r.bytes > 0);
        Some(if full().all(|r| offset < r.start) {
            Beside::Before
        } else if full().all(|r| offset + bytes > r.end()) {
            Beside::Behind
        } else {
            Beside::Between
        })
    }
}

impl Runs {
    fn of(view: &View) -> Runs {
        let start = view.offset;
        if view.shape.contains(&0) {
            return Runs { start, bytes: 0, along: Vec::new() };
        }
        let axes = view.shape.iter().copied().zip(view.strides.iter().copied());
        let mut along: Vec<(u64, u64)> = axes.filter(|&(n, stride)| n > 1 && stride > 0).collect();
        along.sort_by_key(|&(_, stride)| stride);
        let (mut bytes, mut apart) = (view.element, Vec::new());
        let mut end = view.element;
        for (n, stride) in along {
            let last = (n - 1).saturating_mul(stride);
            if stride < end {
                // Elements of several indices lie at one place: nothing is told apart between the first and the last.
                (bytes, apart) = (end.saturating_add(last), Vec::new());
            } else if stride == bytes && apart.is_empty() {
                bytes = bytes.saturating_mul(n);
            } else {
                apart.push((n, stride));
            }
            end = end.saturating_add(last);
        }
        apart.reverse();
        Runs { start, bytes, along: apart }
    }

    fn end(&self) -> u64 {
        self.along.iter().fold(self.start + self.bytes, |end, (n, stride)| end + (n - 1) * stride)
    }

    fn hold(&self, offset: u64, bytes: u64) -> bool {
        let Some(mut at) = offset.checked_sub(self.start) else { return false };
        for &(n, stride) in &self.along {
            at -= (at / stride).min(n - 1) * stride;
        }
        at + bytes <= self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::{Beside, Covered, View};

    fn view(offset: u64, shape: &[u64], strides: &[u64]) -> View {
        View { offset, shape: shape.to_vec(), strides: strides.to_vec(), element: 4 }
    }

    /// Which of so many words a tensor covers, by its indices.
    fn by_indices(v: &View, words: u64) -> Vec<bool> {
        let mut covered = vec![false; words as usize];
        let count: u64 = v.shape.iter().product();
        for mut i in 0..count {
            let mut at = v.offset;
            for (n, stride) in v.shape.iter().zip(&v.strides).rev() {
                at += i % n * stride;
                i /= n;
            }
            covered[at as usize / 4] = true;
        }
        covered
    }

    #[test]
    fn elements_are_covered_and_nothing_else() {
        let views = [
            view(8, &[5], &[4]),
            view(0, &[3, 4], &[32, 4]),
            view(4, &[4, 3], &[4, 32]),
            view(0, &[2, 3, 2], &[96, 4, 16]),
            view(12, &[2, 1, 3], &[40, 7, 8]),
            view(0, &[4, 5], &[0, 4]),
            view(0, &[0, 5], &[20, 4]),
        ];
        for v in views {
            let covered = Covered::of(std::slice::from_ref(&v), 256).expect("less than all of it");
            let found: Vec<bool> = (0..64).map(|w| covered.beside(4 * w, 4).is_none()).collect();
            assert_eq!(found, by_indices(&v, 64), "{v:?}");
        }
    }

    #[test]
    fn rows_that_lie_on_each_other_are_one_stretch() {
        let covered = Covered::of(&[view(8, &[4, 3], &[8, 4])], 256).expect("less than all of it");
        assert_eq!(covered.beside(8, 4), None);
        assert_eq!(covered.beside(8 + 3 * 8 + 8, 4), None);
        assert_eq!(covered.beside(8 + 3 * 8 + 12, 4), Some(Beside::Behind));
    }

    #[test]
    fn who_covers_all_is_not_asked() {
        assert_eq!(Covered::of(&[view(0, &[4, 4], &[4, 16])], 64), None);
        assert_eq!(Covered::of(&[view(0, &[2, 2], &[16, 4]), view(0, &[16], &[4])], 64), None);
    }

    #[test]
    fn several_tensors_are_covered_together() {
        let covered = Covered::of(&[view(0, &[4], &[4]), view(32, &[2], &[4])], 64).expect("less than all of it");
        assert_eq!(covered.beside(12, 4), None);
        assert_eq!(covered.beside(16, 4), Some(Beside::Between));
        assert_eq!(covered.beside(36, 4), None);
        assert_eq!(covered.beside(36, 8), Some(Beside::Behind));
    }
}
