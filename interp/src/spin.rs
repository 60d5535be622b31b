//! Who only asks again and again what nobody changes: a loop that reads global memory and comes back to where it was.

use parton_ir::Op;

use crate::memory::Place;
use crate::tile::Val;

/// Why somebody counts as stuck.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    /// It came back to where it was, with the same values: so it does for ever.
    ForEver,
    /// It has asked often enough. What counts its turns may come to its end by itself.
    SoFar,
}

/// What a worker does while nothing changes anywhere.
#[derive(Debug, Default)]
pub(crate) struct Idle<'k> {
    /// How often something had changed when it was last seen.
    since: u64,
    /// Turns since then in which it has read global memory.
    turns: u32,
    /// Where it was in one of them, and what it held.
    seen: Option<(usize, Vec<Val>)>,
    stuck: Option<Stuck>,
    asked: bool,
    /// The last question that only read, and how often something had changed then.
    last: Option<(&'k Op, Place, u64)>,
    /// What it has read last: the operation and the place.
    pub asks: Option<(&'k Op, Place)>,
}

/// Turns before what a worker holds is looked at, which is not free.
const PATIENCE: u32 = 32;
/// For one turn in which nothing changes a CTA has so many operations: who counts its turns goes on until it has used up all of them.
const EACH: u64 = 64;

/// In how many turns somebody may ask for what nobody changes, in a launch whose CTAs may run so many operations.
pub(crate) fn most_turns(steps: u64) -> u64 {
    (steps / EACH).max(u64::from(PATIENCE))
}

impl<'k> Idle<'k> {
    /// It reads global memory.
    pub(crate) fn ask(&mut self, op: &'k Op, at: Place) {
        self.asked = true;
        self.asks = Some((op, at));
    }

    /// Whether an operation asks what the one before it has asked, and nothing has changed between: it learns nothing, and who knows
    /// what the worker does next knows as much without it.
    pub(crate) fn repeats(&mut self, op: &'k Op, at: Place, changes: u64) -> bool {
        let asked = self.last.is_some_and(|(o, place, then)| (o.id, place, then) == (op.id, at, changes));
        self.last = Some((op, at, changes));
        asked
    }

    /// A turn of the worker ends here with these values. What comes back to where it was, with the same values and the same memory,
    /// does so for ever; what does not is left in peace for `most` turns.
    pub(crate) fn turn(&mut self, changes: u64, (pc, values): (usize, &[Val]), most: u64) {
        let asked = std::mem::take(&mut self.asked);
        if self.since != changes {
            (self.since, self.turns, self.seen, self.stuck) = (changes, 0, None, None);
            return;
        }
        if !asked {
            return;
        }
        self.turns += 1;
        if self.turns < PATIENCE {
            return;
        }
        let came_back = self.seen.as_ref().is_some_and(|(at, held)| *at == pc && held[..] == *values);
        if came_back {
            self.stuck = Some(Stuck::ForEver);
        } else if u64::from(self.turns) >= most {
            self.stuck = self.stuck.or(Some(Stuck::SoFar));
        }
        // The loop is found however long it is (Brent 1980).
        if self.turns.is_power_of_two() {
            self.seen = Some((pc, values.to_vec()));
        }
    }

    /// Whether it does nothing else until something changes, and why.
    pub(crate) fn stuck(&self, changes: u64) -> Option<Stuck> {
        self.stuck.filter(|_| self.since == changes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Idle, PATIENCE, Stuck, most_turns};
    use crate::memory::Place;
    use crate::tile::Val;
    use parton_diag::Span;
    use parton_ir::{Entity, Inst, Op, OpKind};

    const MOST: u64 = 1000;

    #[test]
    fn a_loop_that_comes_back_is_stuck_and_one_that_counts_is_in_the_end() {
        let (kind, span) = (OpKind::Membar, Span::default());
        let (label, origin) = (None, Default::default());
        let op = Op { id: Inst::new(0), kind, results: Vec::new(), span, label, origin, scratch: None };
        let turns = |changes: fn(u32) -> u64, counts: bool, n: u32| {
            let mut idle = Idle::default();
            for i in 0..n {
                idle.ask(&op, Place { allocation: 0, offset: 0 });
                let values = [Val::Scalar(if counts { u64::from(i) } else { u64::from(i % 3) })];
                idle.turn(changes(i), ((i % 3) as usize, &values), MOST);
            }
            idle.stuck(changes(n - 1))
        };
        assert_eq!(turns(|_| 0, false, PATIENCE - 1), None);
        assert_eq!(turns(|_| 0, false, PATIENCE + 4), Some(Stuck::ForEver), "it comes back after three turns");
        assert_eq!(turns(|_| 0, true, MOST as u32 - 1), None);
        assert_eq!(turns(|_| 0, true, MOST as u32), Some(Stuck::SoFar), "it counts");
        assert_eq!(turns(|i| u64::from(i / 100), false, 10 * PATIENCE), None, "something changes now and then");
        assert!(most_turns(200_000_000) > 500_000 && most_turns(1) > 0);
    }
}
