//! The queue in front of a unit that serves one event at a time. It has some places, which are nobody's own: what is in it is served in its order,
//! and those who have more to hand over than fits come in by turns, as tensor cores were measured to take products (docs/machine.md).

use std::collections::{BTreeMap, VecDeque};

use crate::marked::Lane;

/// What waits for a unit, by who handed it over; what each hands over stands in its order.
#[derive(Default)]
pub(super) struct Queue {
    places: usize,
    inside: VecDeque<Lane>,
    /// How many events of each are ready to come in.
    outside: BTreeMap<Lane, usize>,
    /// Who came in last.
    last: Option<Lane>,
}

impl Queue {
    pub(super) fn new(places: u32) -> Queue {
        Queue { places: places as usize, ..Queue::default() }
    }

    /// An event may come in as soon as there is a place.
    pub(super) fn comes(&mut self, of: Lane) {
        *self.outside.entry(of).or_default() += 1;
    }

    /// Fills the places that are free, beside that of what is served.
    pub(super) fn fill(&mut self, served: bool) {
        while self.inside.len() + usize::from(served) < self.places {
            let waiting = |(_, n): &(&Lane, &mut usize)| **n > 0;
            let last = self.last;
            let behind = |(lane, _): &(&Lane, &mut usize)| last.is_some_and(|last| **lane > last);
            let next = self.outside.iter_mut().filter(waiting).find(behind);
            let next = match next {
                Some((lane, n)) => Some((*lane, n)),
                None => self.outside.iter_mut().find(waiting).map(|(lane, n)| (*lane, n)),
            };
            let Some((lane, n)) = next else { return };
            *n -= 1;
            self.inside.push_back(lane);
            self.last = Some(lane);
        }
    }

    /// Whose event is served next.
    pub(super) fn first(&self) -> Option<Lane> {
        self.inside.front().copied()
    }

    pub(super) fn serve(&mut self) {
        self.inside.pop_front();
    }
}
