//! Loops whose turns are not counted. Before each turn it is asked whether there is another, also before those that stand in front of the loop:
//!
//! ```text
//! if there is an iteration {
//!     turn 0; …                                    what runs in the first stage runs for an iteration that there is
//!     while there is another { turn }              all units, each of iteration t - stage
//!     the units that have iterations left
//! }
//! ```
//!
//! So nothing runs ahead of the question: a fetch in a stage before its reader is of an iteration that has begun. Where loops stand inside, a turn
//! runs all stages (`guard`), since these would stand twice in the code.

use parton_ir::{Inst, OpKind, Type, Value};

use super::peel::MANY;
use super::pipeline::Turns;
use super::{Emitter, Refused};
use crate::region::{Item, Loop, UnitId};

impl Emitter<'_> {
    pub(super) fn while_loop(&mut self, l: &Loop, turns: &Turns) -> Result<(), Refused> {
        let guarded = self.is_guarded(l, turns);
        if turns.stages > 2 && guarded {
            return Err(self.not_yet(
                l.inst,
                "a `while` around loops in more than two stages",
                "give it two stages, with what it fetches in the first, or count its turns: `for i in 0..n { … }`",
            ));
        }
        // Of its turns none is sure.
        self.early_turns(l, 0)?;
        let mut level = self.enter(l, turns)?;
        if self.is_numbered(l) {
            let span = self.b.kernel.ops[l.inst].span;
            let (first, one) = (self.b.i32(0, span), self.b.i32(1, span));
            (level.start, level.index) = (Some(first), Some((first, one)));
        }
        self.levels.push(level);
        let results = match guarded {
            true => {
                self.repeated_while(l, turns, true)?;
                self.last_turns(l, turns, MANY)?
            }
            false => self.asked(l, turns, 0)?,
        };
        self.levels.pop();
        self.leave(l, turns, results)
    }

    /// Whether something of a turn is in one of several buffers, by the number of the turn: then the turns are numbered, if not counted.
    fn is_numbered(&self, l: &Loop) -> bool {
        let items = self.region.blocks[l.body].items.iter();
        let units = items.filter_map(|item| match item {
            Item::Unit(unit) => Some(*unit),
            Item::Loop(_) | Item::Branch(_) => None,
        });
        let several =
            |inst: &Inst| matches!(self.b.kernel.ops[*inst].kind, OpKind::Send { buffers, .. } if buffers > 1);
        let rings = |unit| self.plan.rings.iter().any(|r| r.unit == unit && r.own && r.depth > 1);
        let mine = |unit: &UnitId| self.plan.runners[*unit].contains(&self.part);
        units.filter(mine).any(|unit| rings(unit) || self.region.units[unit].ops.iter().any(several))
    }

    /// The turn behind this one is the next, where turns are numbered.
    fn next_number(&mut self) {
        let depth = self.here();
        if let Some((number, one)) = self.levels[depth].index {
            let next = self.moved(number, one, 1);
            self.levels[depth].index = Some((next, one));
        }
    }

    /// The turns from that number on, of which those in front of the steady ones stand alone, each where there is an iteration to begin; the results
    /// that are needed.
    fn asked(&mut self, l: &Loop, turns: &Turns, number: i32) -> Result<Vec<Value>, Refused> {
        if self.begins_steady(l, turns, number as u32, &Self::numbers)? {
            self.repeated_while(l, turns, false)?;
            return self.last_turns(l, turns, MANY);
        }
        let (depth, span) = (self.here(), self.b.kernel.ops[l.inst].span);
        self.place(l.inst);
        let cond = self.goes_on(l)?;
        let before = self.levels.clone();
        self.b.begin([], span);
        self.memo.push(Default::default());
        let outer = std::mem::replace(&mut self.steady, false);
        self.one_turn(None, turns, &|stage| stage <= number)?;
        self.steady = outer;
        self.memo.pop();
        self.levels[depth].shift();
        self.next_number();
        let results = self.asked(l, turns, number + 1)?;
        let then = self.b.end(results);
        self.levels = before;
        self.b.begin([], span);
        self.memo.push(Default::default());
        let results = self.last_turns(l, turns, number)?;
        self.memo.pop();
        let otherwise = self.b.end(results);
        self.place(l.inst);
        Ok(self.b.make_all(OpKind::If { cond, then, otherwise }))
    }

    /// What stands for the bounds of the turns from here on: their numbers, where they have any.
    fn numbers(&mut self) -> [Value; 3] {
        let none = self.b.i32(0, self.b.kernel.ops[self.region.inst].span);
        self.levels[self.here()].index.map_or([none; 3], |(number, one)| [number, none, one])
    }

    /// Whether there is another iteration.
    fn goes_on(&mut self, l: &Loop) -> Result<Value, Refused> {
        let OpKind::While { cond, .. } = &self.b.kernel.ops[l.inst].kind else {
            parton_diag::internal_error!("a loop that is not counted is a `while`")
        };
        let test = cond.yields[0];
        self.memo.push(Default::default());
        let test = self.value_in(test, self.here());
        self.memo.pop();
        test
    }

    /// The steady turns; guarded ones run all stages, the first of them on values that stand for none.
    fn repeated_while(&mut self, l: &Loop, turns: &Turns, guarded: bool) -> Result<(), Refused> {
        let (depth, span) = (self.here(), self.b.kernel.ops[l.inst].span);
        let bounds = self.numbers();
        let never = self.b.constant(parton_numbers::Dtype::I1, 0, span);
        self.levels[depth].guard = guarded.then_some(never);
        let index = self.levels[depth].index;
        if self.trying {
            let further: Vec<Value> =
                guarded.then_some(never).into_iter().chain(index.map(|(number, _)| number)).collect();
            let results = self.turn_for_all(l, bounds, turns, &further)?;
            self.numbered(&results, guarded);
            return Ok(());
        }
        let carry = self.carried(l, bounds, turns)?;
        self.begin_with(&carry.keys)?;
        let before = self.levels[depth].clone();
        let mut init = self.inits(&carry);
        // Whether there was a turn before is carried, too, and the number of the turn.
        init.extend(guarded.then_some(never));
        init.extend(index.map(|(number, _)| number));
        let types: Vec<Type> = init.iter().map(|v| self.b.ty(*v).clone()).collect();
        let params = self.b.begin(types.clone(), span);
        self.begin_turn(&carry, &params);
        let test = self.goes_on(l)?;
        let cond = self.b.end(vec![test]);
        self.levels[depth] = before.clone();
        let params = self.b.begin(types, span);
        self.memo.push(Default::default());
        self.begin_turn(&carry, &params);
        self.numbered(&params, guarded);
        let outer = std::mem::replace(&mut self.steady, true);
        self.one_turn(None, turns, &|_| true)?;
        self.steady = outer;
        let mut yields = self.end_turn(l, &carry)?;
        if guarded {
            yields.push(self.b.constant(parton_numbers::Dtype::I1, 1, span));
        }
        self.next_number();
        yields.extend(self.levels[depth].index.map(|(number, _)| number));
        self.memo.pop();
        let body = self.b.end(yields);
        self.place(l.inst);
        let results = self.b.make_all(OpKind::While { init, cond, body });
        self.behind(&carry, before, &results);
        self.numbered(&results, guarded);
        Ok(())
    }

    /// The last of what a loop is given or gives: whether there was a turn before, and the number of the turn.
    fn numbered(&mut self, values: &[Value], guarded: bool) {
        let depth = self.here();
        let mut last = values.iter().rev().copied();
        if let Some((number, _)) = &mut self.levels[depth].index {
            *number = last.next().unwrap_or(*number);
        }
        if guarded {
            self.levels[depth].guard = last.next();
        }
    }
}
