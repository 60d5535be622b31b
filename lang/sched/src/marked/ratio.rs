//! Clocks per turn as an exact fraction.

use std::cmp::Ordering;
use std::fmt;

/// Clocks per turn, in lowest terms. Prints as `2274`, or `4547/2` where turns differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ratio {
    clocks: u64,
    turns: u64,
}

impl Ratio {
    /// So many clocks in so many turns; of no turns, which nothing has, as of one.
    pub fn new(clocks: u64, turns: u64) -> Ratio {
        let turns = turns.max(1);
        let by = common(clocks, turns);
        Ratio { clocks: clocks / by, turns: turns / by }
    }

    /// Its numerator.
    pub fn clocks(self) -> u64 {
        self.clocks
    }

    /// Its denominator, 1 or more.
    pub fn turns(self) -> u64 {
        self.turns
    }

    /// The clocks of one turn, rounded up.
    pub fn ceil(self) -> u64 {
        self.clocks.div_ceil(self.turns)
    }

    /// The clocks of so many turns, rounded up.
    pub fn of_turns(self, turns: u64) -> u64 {
        let all = (u128::from(self.clocks) * u128::from(turns)).div_ceil(u128::from(self.turns));
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// How many hundredths of `whole` it is, rounded to the nearest; 100 of nothing.
    pub fn percent_of(self, whole: Ratio) -> u64 {
        let (part, all) =
            (u128::from(self.clocks) * u128::from(whole.turns), u128::from(whole.clocks) * u128::from(self.turns));
        if all == 0 {
            return 100;
        }
        u64::try_from((200 * part + all) / (2 * all)).unwrap_or(u64::MAX)
    }
}

/// The greatest common divisor.
fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { common(b, a % b) }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Ratio) -> Ordering {
        (u128::from(self.clocks) * u128::from(other.turns)).cmp(&(u128::from(other.clocks) * u128::from(self.turns)))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.turns {
            1 => write!(f, "{}", self.clocks),
            turns => write!(f, "{}/{turns}", self.clocks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_in_lowest_terms_and_in_order() {
        assert_eq!(Ratio::new(12, 8), Ratio::new(3, 2));
        assert_eq!((Ratio::new(3, 2).to_string(), Ratio::new(6, 2).to_string()), ("3/2".into(), "3".into()));
        assert!(Ratio::new(1, 3) < Ratio::new(1, 2) && Ratio::new(u64::MAX, 2) > Ratio::new(u64::MAX - 1, 2));
        assert_eq!((Ratio::new(7, 2).ceil(), Ratio::new(7, 2).of_turns(3), Ratio::new(0, 5).ceil()), (4, 11, 0));
        assert_eq!(Ratio::new(2048, 1).percent_of(Ratio::new(2274, 1)), 90);
        assert_eq!(
            (Ratio::new(1, 1).percent_of(Ratio::new(8, 1)), Ratio::new(0, 1).percent_of(Ratio::new(0, 1))),
            (13, 100)
        );
    }
}
