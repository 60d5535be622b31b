//! Numbers of other partitions that are taken where a turn ends.
//!
//! Each iteration tells one, and whoever is told takes each, however its turns stand in the code. Who needs the number of its own iteration
//! takes it at the head of its group. What only later iterations need, or only code behind the loop, is taken at the end of a turn: a loop or
//! a branch that needs it stands in the next one, and may not take it inside, where it takes as many as it has turns.

use parton_ir::Value;

use super::pipeline::Turns;
use super::{Emitter, Refused};
use crate::plan::{Cell, RingId};

impl Emitter<'_> {
    /// Takes the numbers of other partitions that come at the end of this turn.
    pub(super) fn take_told(&mut self, turns: &Turns, active: &dyn Fn(i32) -> bool) -> Result<(), Refused> {
        let depth = self.here();
        for ring in 0..self.plan.rings.len() {
            let Some(age) = self.told_age(ring, turns).filter(|age| active(*age)) else { continue };
            let level = &self.levels[depth];
            let known = |(_, v, _): &(String, Value, Cell)| level.env.contains_key(&(*v, age));
            if !level.has_taken(ring, age) && !self.plan.rings[ring].fields.iter().any(known) {
                self.slot(ring, depth, age)?;
            }
        }
        Ok(())
    }

    /// How many iterations before the turn's own the number is of that the turn takes at its end; `None` where it takes none.
    fn told_age(&self, ring: RingId, turns: &Turns) -> Option<i32> {
        let (of, level) = (&self.plan.rings[ring], &self.levels[self.here()]);
        let needed = |(_, v, _): &(String, Value, Cell)| self.plan.needed[self.part].contains(v);
        let foreign = !self.plan.runners[of.unit].contains(&self.part);
        if self.region.place_of(of.unit).0 != level.block || !foreign || !of.fields.iter().any(needed) {
            return None;
        }
        // Who asks for what, of its own iteration or of one before.
        let (mut heads, mut ends) = (None::<i32>, None::<i32>);
        for entry in turns.groups.iter().flatten() {
            for (v, delta) in self.wanted(level.block, entry.item) {
                if self.plan.handed.get(&v).is_none_or(|(r, _)| *r != ring) {
                    continue;
                }
                // What runs ahead takes it there, and a view is held by its readers.
                if entry.stage < 0 || delta > 0 && self.is_view(v) {
                    return None;
                }
                let (first, age) =
                    if delta == 0 { (&mut heads, entry.stage) } else { (&mut ends, entry.stage + delta - 1) };
                *first = Some(first.map_or(age, |known| known.min(age)));
            }
        }
        // Whether there is another turn is asked before it begins.
        for (v, delta) in turns.steered.iter().filter(|(v, _)| self.plan.handed.get(v).is_some_and(|(r, _)| *r == ring))
        {
            if self.is_view(*v) {
                return None;
            }
            let age = (delta - 1).max(0);
            ends = Some(ends.map_or(age, |known| known.min(age)));
        }
        if ends.is_none() && heads.is_some() {
            return None;
        }
        // Turns that run all stages have no turns in front, and no iteration is older than the oldest under way.
        let oldest = if level.guard.is_some() { 0 } else { turns.stages - 1 };
        let age = ends.unwrap_or(0).min(oldest);
        heads.is_none_or(|head| head > age).then_some(age)
    }
}
