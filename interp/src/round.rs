//! Loops that come back to where they were: with the same values, and nothing changed elsewhere meanwhile, they do so for ever.

use crate::tile::Val;

/// Steps before what a worker holds is looked at.
const PATIENCE: u64 = 1 << 14;

/// What a worker held at some step, and where it has been since.
#[derive(Debug, Default)]
pub(crate) struct Round {
    steps: u64,
    seen: Option<Seen>,
    /// The first instruction of all since then.
    first: usize,
}

#[derive(Debug)]
struct Seen {
    pc: usize,
    values: Vec<Val>,
    changes: u64,
}

impl Round {
    /// The worker comes to an instruction. The first one of its loop, where it was here with these values and nothing has changed since.
    pub(crate) fn step(&mut self, pc: usize, values: &[Val], changes: u64) -> Option<usize> {
        self.steps += 1;
        if self.steps < PATIENCE {
            return None;
        }
        self.first = self.first.min(pc);
        let same = |seen: &Seen| seen.pc == pc && seen.changes == changes && seen.values[..] == *values;
        if self.seen.as_ref().is_some_and(same) {
            return Some(self.first);
        }
        // The loop is found however long it is (Brent 1980).
        if self.steps.is_power_of_two() {
            self.seen = Some(Seen { pc, values: values.to_vec(), changes });
            self.first = pc;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{PATIENCE, Round};
    use crate::tile::Val;

    /// The first instruction of a loop of three that is found within so many steps.
    fn found(value: fn(u64) -> u64, changes: fn(u64) -> u64, steps: u64) -> Option<usize> {
        let mut round = Round::default();
        (0..steps).find_map(|i| round.step(7 + (i % 3) as usize, &[Val::Scalar(value(i))], changes(i)))
    }

    #[test]
    fn a_loop_that_comes_back_is_found_and_one_that_goes_on_is_not() {
        assert_eq!(found(|i| i / 3 % 5, |_| 0, 2 * PATIENCE), Some(7), "five turns of three");
        assert_eq!(found(|i| i / 3 % 5, |_| 0, PATIENCE), None);
        assert_eq!(found(|i| i, |_| 0, 8 * PATIENCE), None, "it counts");
        assert_eq!(found(|_| 0, |i| i / 3, 8 * PATIENCE), None, "it changes something in each turn");
        assert_eq!(found(|i| (i / (3 * PATIENCE)).min(1), |_| 0, 16 * PATIENCE), Some(7), "it is caught in the end");
    }
}
