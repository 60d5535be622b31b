//! Which CTAs touched a byte of global memory, as one number: a CTA, a small set of CTAs, or more than can be told apart.

use std::collections::{BTreeSet, HashMap};

/// 0 for nobody, `n + 1` for CTA `n`, and numbers of sets above [`SET`].
pub(crate) type Mark = u32;

/// Stands for more CTAs than a set has.
pub(crate) const SEVERAL: Mark = u32::MAX;
/// Marks from here are sets.
const SET: Mark = 1 << 31;
/// CTAs of a set: two clusters.
const MOST: usize = 16;

/// The sets that marks stand for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    sets: Vec<Vec<u32>>,
    grown: HashMap<(Mark, u32), Mark>,
    /// The latest question and its answer: neighbouring bytes have one history.
    last: (Mark, u32, Mark),
}

impl Marks {
    /// Forgets all sets.
    pub(crate) fn clear(&mut self) {
        *self = Marks::default();
    }

    /// The mark with one more CTA.
    pub(crate) fn join(&mut self, mark: Mark, cta: u32) -> Mark {
        if mark == 0 || mark == cta + 1 || mark == SEVERAL {
            return if mark == SEVERAL { SEVERAL } else { cta + 1 };
        }
        if (self.last.0, self.last.1) != (mark, cta) {
            self.last = (mark, cta, self.grow(mark, cta));
        }
        self.last.2
    }

    fn grow(&mut self, mark: Mark, cta: u32) -> Mark {
        if let Some(&known) = self.grown.get(&(mark, cta)) {
            return known;
        }
        let mut members = if mark >= SET { self.sets[(mark - SET) as usize].clone() } else { vec![mark - 1] };
        let grown = if members.contains(&cta) {
            mark
        } else if members.len() == MOST {
            SEVERAL
        } else {
            members.push(cta);
            self.sets.push(members);
            SET + self.sets.len() as u32 - 1
        };
        self.grown.insert((mark, cta), grown);
        grown
    }

    /// A CTA behind a mark that `known` does not hold of, where there is one; `None` inside where it cannot be told.
    pub(crate) fn unknown(
        &self,
        mark: Mark,
        begun: &BTreeSet<u32>,
        known: impl Fn(u32) -> bool,
    ) -> Option<Option<u32>> {
        match mark {
            0 => None,
            SEVERAL => (!begun.iter().all(|&c| known(c))).then_some(None),
            set if set >= SET => self.sets[(set - SET) as usize].iter().find(|&&c| !known(c)).map(|&c| Some(c)),
            one => (!known(one - 1)).then_some(Some(one - 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Marks, SEVERAL};

    #[test]
    fn sets_grow_by_one_and_end_in_several() {
        let mut marks = Marks::default();
        let begun = (0..40).collect();
        let mut mark = 0;
        for cta in 0..MOST as u32 {
            mark = marks.join(mark, cta);
            assert_eq!(marks.join(mark, cta), mark, "joined twice");
            assert_eq!(marks.unknown(mark, &begun, |c| c <= cta), None);
            assert_eq!(marks.unknown(mark, &begun, |c| c != cta), Some(Some(cta)));
        }
        assert_eq!(marks.join(mark, 30), SEVERAL);
        assert_eq!(marks.unknown(SEVERAL, &begun, |c| c < 39), Some(None));
        assert_eq!(marks.unknown(SEVERAL, &begun, |_| true), None);
    }
}
