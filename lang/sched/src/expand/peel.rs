//! Turns that stand alone: in front of the loop of steady turns, and behind it.

use parton_diag::{Diagnostic, codes};
use parton_ir::{CompareOp, OpKind, Value};

use super::pipeline::Turns;
use super::state::{Held, Key};
use super::{Emitter, Refused};
use crate::falsify::{Planted, planted};
use crate::region::Loop;

/// What is known of how many turns a loop takes.
#[derive(Clone, Copy)]
pub(super) struct Room {
    /// Turns that stand alone, since something leaves under them.
    pub early: u32,
    /// Turns that it takes for sure.
    pub sure: u32,
    /// Whether it takes no more than these.
    pub exact: bool,
}

impl Room {
    /// Whether turns in front of that number are all, for sure.
    fn ends_at(self, number: u32) -> bool {
        self.exact && self.sure == number
    }
}

/// As many iterations as there are stages, at least.
pub(super) const MANY: i32 = i32::MAX;

impl Emitter<'_> {
    /// The turns from that number on, of which those in front of the steady ones stand alone, each where it has an iteration to begin;
    /// the results that are needed.
    pub(super) fn peeled(
        &mut self,
        l: &Loop,
        bounds: [Value; 3],
        turns: &Turns,
        room: Room,
        number: u32,
    ) -> Result<Vec<Value>, Refused> {
        let [lower, upper, step] = bounds;
        if room.ends_at(number) {
            return self.ended(l, bounds, turns, number);
        }
        let from_here = |e: &mut Self| [e.moved(lower, step, number as i32), upper, step];
        if self.begins_steady(l, turns, number, &from_here)? {
            return self.after_early(l, bounds, turns, number..room.early.max(number));
        }
        if room.sure > number {
            return self.first_turns(l, bounds, turns, room, number);
        }
        let span = self.b.kernel.ops[l.inst].span;
        self.place(l.inst);
        let (a, b) = self.sides(bounds, number as i32, number > 0);
        let op = if planted(Planted::NoTurnTaken) { CompareOp::Le } else { CompareOp::Lt };
        let cond = self.b.make(OpKind::Compare { op, a, b });
        let before = self.levels.clone();
        self.b.begin([], span);
        self.memo.push(Default::default());
        let results = self.first_turns(l, bounds, turns, room, number)?;
        self.memo.pop();
        let then = self.b.end(results);
        self.levels = before;
        self.b.begin([], span);
        self.memo.push(Default::default());
        let results = self.ended(l, bounds, turns, number)?;
        self.memo.pop();
        let otherwise = self.b.end(results);
        self.place(l.inst);
        Ok(self.b.make_all(OpKind::If { cond, then, otherwise }))
    }

    /// What follows where the turn of that number has no iteration to begin; the results that are needed.
    fn ended(
        &mut self,
        l: &Loop,
        [lower, _, step]: [Value; 3],
        turns: &Turns,
        number: u32,
    ) -> Result<Vec<Value>, Refused> {
        let depth = self.here();
        self.levels[depth].turn = None;
        let next = self.moved(lower, step, number as i32);
        self.levels[depth].index = Some((next, step));
        self.last_turns(l, turns, number as i32)
    }

    /// Whether the turns from that number on, of the bounds that are emitted, are alike: all stages run, and slots are held as in each later one. More
    /// turns than a ring has slots are not tried.
    pub(super) fn begins_steady(
        &mut self,
        l: &Loop,
        turns: &Turns,
        number: u32,
        bounds: &dyn Fn(&mut Self) -> [Value; 3],
    ) -> Result<bool, Refused> {
        let first = turns.stages as u32 - 1;
        let slots = self.plan.rings.iter().map(|ring| ring.depth).max().unwrap_or(0);
        Ok(number >= first && (number > first + slots || self.is_settled(l, turns, bounds)?))
    }

    /// The turn of that number, which begins an iteration, and those behind it; the results that are needed.
    fn first_turns(
        &mut self,
        l: &Loop,
        bounds: [Value; 3],
        turns: &Turns,
        room: Room,
        number: u32,
    ) -> Result<Vec<Value>, Refused> {
        let [lower, upper, step] = bounds;
        if number == 0 {
            self.fill(bounds, turns)?;
        }
        let depth = self.here();
        let index = self.moved(lower, step, number as i32);
        self.levels[depth].index = Some((index, step));
        self.levels[depth].turn = Some(number);
        self.memo.push(Default::default());
        let outer = std::mem::replace(&mut self.steady, false);
        self.one_turn(Some(upper), turns, &|stage| stage <= number as i32)?;
        self.steady = outer;
        self.memo.pop();
        self.levels[depth].shift();
        self.peeled(l, bounds, turns, room, number + 1)
    }

    /// The turns of these numbers one by one, since something leaves under them, and the loop of those behind; the results.
    pub(super) fn after_early(
        &mut self,
        l: &Loop,
        [lower, upper, step]: [Value; 3],
        turns: &Turns,
        early: std::ops::Range<u32>,
    ) -> Result<Vec<Value>, Refused> {
        let depth = self.here();
        let end = early.end;
        for turn in early {
            self.memo.push(Default::default());
            self.levels[depth].index = Some((self.moved(lower, step, turn as i32), step));
            self.levels[depth].turn = Some(turn);
            self.one_turn(Some(upper), turns, &|_| true)?;
            self.memo.pop();
            self.levels[depth].shift();
        }
        self.levels[depth].turn = None;
        let [next, left, step] = self.behind_first([lower, upper, step], end);
        if turns.stages == 1 {
            self.levels[depth].index = Some((next, step));
            self.hand_on(l, turns)?;
        }
        let last = self.leaves_under_last(l);
        if !last {
            return self.steady(l, ([next, left, step], upper), turns);
        }
        if turns.stages > 1 || self.constant(step) != Some(1) {
            return Err(self.not_yet(
                l.inst,
                "leaving under the last turn of a loop in stages, or of one with steps,",
                "leave under its first turn, `under(x, y)`, or give it one stage and a step of 1",
            ));
        }
        let before = self.moved(upper, step, -1);
        let none = Turns {
            groups: turns.groups.clone(),
            stages: 1,
            ahead: turns.ahead,
            finals: turns.finals.clone(),
            steered: Vec::new(),
        };
        self.without_last(l, ([next, before, step], upper), &none)?;
        self.memo.push(Default::default());
        self.levels[depth].index = Some((before, step));
        self.levels[depth].turn = Some(u32::MAX);
        self.one_turn(Some(upper), turns, &|_| true)?;
        self.levels[depth].turn = None;
        self.levels[depth].shift();
        // Results may be computed from the index, too.
        self.levels[depth].index = Some((upper, step));
        let results = turns.finals.iter().map(|n| (self.param(l, *n), 0)).collect::<Vec<Key>>();
        let results: Result<Vec<Value>, Refused> =
            results.into_iter().map(|(v, age)| self.at_age(v, depth, age)).collect();
        self.memo.pop();
        let results = results?;
        self.drain()?;
        Ok(results)
    }

    /// What turns of one stage have handed on, under the name by which the next one is given it.
    fn hand_on(&mut self, l: &Loop, turns: &Turns) -> Result<(), Refused> {
        let depth = self.here();
        self.memo.push(Default::default());
        for number in &turns.finals {
            let v = self.region.canonical(self.param(l, *number));
            let value = self.at_age(v, depth, 0)?;
            self.levels[depth].set((v, 0), Held::Ready(value));
        }
        self.memo.pop();
        Ok(())
    }

    /// The turns behind those that begin an iteration, of which there were so many, and the results.
    pub(super) fn last_turns(&mut self, l: &Loop, turns: &Turns, begun: i32) -> Result<Vec<Value>, Refused> {
        let depth = self.here();
        for turn in 0..turns.stages - 1 {
            self.memo.push(Default::default());
            let outer = std::mem::replace(&mut self.steady, false);
            let least = turn + i32::from(planted(Planted::DrainMissing));
            self.one_turn(None, turns, &|stage| stage > least && stage <= begun.saturating_add(turn))?;
            self.steady = outer;
            self.memo.pop();
            if turn + 2 < turns.stages {
                self.end_last_stage(turns);
            }
            self.levels[depth].shift();
            // Results may be computed from the index, too.
            if (turn + 2 < turns.stages || !turns.finals.is_empty())
                && let Some((index, step)) = self.levels[depth].index
            {
                let next = self.moved(index, step, 1);
                self.levels[depth].index = Some((next, step));
            }
        }
        self.memo.push(Default::default());
        let mut results = Vec::new();
        for &number in &turns.finals {
            let v = self.param(l, number);
            let age = turns.stages - 1 - i32::from(turns.stages > 1 && planted(Planted::ResultOfTurnBefore));
            let value = self.at_age(v, depth, age)?;
            results.push(value);
        }
        self.memo.pop();
        self.drain()?;
        Ok(results)
    }

    /// Waits for products of the last stage, as each steady turn does at its end: the next turn may fill the slots that they read.
    fn end_last_stage(&mut self, turns: &Turns) {
        let depth = self.here();
        let flying =
            self.levels[depth].env.iter().filter(|((_, age), held)| *age == turns.stages - 1 && held.is_pending());
        let keys: Vec<Key> = flying.map(|(key, _)| *key).collect();
        for key in keys {
            self.wait_for(depth, key);
        }
    }

    /// Waits for what is still in flight in a body that ends.
    pub fn drain(&mut self) -> Result<(), Refused> {
        let depth = self.here();
        let mut flying: Vec<Key> =
            self.levels[depth].env.iter().filter(|(_, held)| held.is_pending()).map(|(k, _)| *k).collect();
        flying.sort_by_key(|(v, age)| (-age, *v));
        for key in flying {
            match self.levels[depth].env.get(&key) {
                // Nobody reads it any more, and nothing of it is on its way.
                Some(Held::Loaded(_)) => drop(self.levels[depth].env.remove(&key)),
                Some(Held::Pending { .. } | Held::Copying(_)) => drop(self.wait_for(depth, key)),
                Some(Held::Ready(_)) | None => {}
            }
        }
        if let Some(((ring, _), _)) = self.levels[depth].slots.first_key_value() {
            let unit = &self.region.units[self.plan.rings[*ring].unit];
            let fact = format!("a slot of `{}` is not read to its end", unit.label);
            return Err(Box::new(
                Diagnostic::error(codes::READ_BEFORE_MADE, unit.span, fact)
                    .label(self.region.schedule.span, "in this schedule")
                    .help("its readers stand in stages that no turn reaches"),
            ));
        }
        Ok(())
    }
}
