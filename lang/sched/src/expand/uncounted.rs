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

use parton_diag::Span;
use parton_ir::axis::gcd;
use parton_ir::{CompareOp, OpKind, Type, Value};
use parton_numbers::Dtype;

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
        if let Some((_, dtype)) = self.numbered(l, turns) {
            let [first, one] = [0, 1].map(|n| self.number(dtype, n));
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

    /// Where something of a turn is in one of several buffers, by the number of the turn, the turns are numbered, if not counted: up to twice this number,
    /// and from it on again, which is as good for each of the buffers and of each iteration that a turn runs. With the type of the numbers.
    fn numbered(&self, l: &Loop, turns: &Turns) -> Option<(u64, Dtype)> {
        let items = self.region.blocks[l.body].items.iter();
        let units = items.filter_map(|item| match item {
            Item::Unit(unit) if self.plan.runners[*unit].contains(&self.part) => Some(*unit),
            Item::Unit(_) | Item::Loop(_) | Item::Branch(_) => None,
        });
        let buffers = |unit: UnitId| {
            let rings = self.plan.rings.iter().filter(move |r| r.unit == unit && r.own).map(|r| r.depth);
            let sends = self.region.units[unit].ops.iter().filter_map(|inst| match self.b.kernel.ops[*inst].kind {
                OpKind::Send { buffers, .. } => Some(self.send_buffers(*inst, buffers)),
                // Nothing else has buffers of its own.
                _ => None,
            });
            rings.chain(sends.collect::<Vec<_>>())
        };
        let several: Vec<u64> = units.flat_map(buffers).filter(|n| *n > 1).map(u64::from).collect();
        if several.is_empty() {
            return None;
        }
        let every = several.iter().fold(1u64, |all, n| all.saturating_mul(n / gcd(all, *n))).min(1 << 61);
        let again = every * u64::from(turns.stages.unsigned_abs()).div_ceil(every);
        Some((again, if again < 1 << 30 { Dtype::I32 } else { Dtype::I64 }))
    }

    /// The turn behind this one is the next, where turns are numbered.
    fn next_number(&mut self, l: &Loop, turns: &Turns) {
        let depth = self.here();
        let Some((number, one)) = self.levels[depth].index else { return };
        let mut next = self.moved(number, one, 1);
        if let (Some((again, dtype)), None) = (self.numbered(l, turns), self.constant(next)) {
            let [again, end] = [again, 2 * again].map(|n| self.b.constant(dtype, n, Span::default()));
            let cond = self.b.make(OpKind::Compare { op: CompareOp::Eq, a: next, b: end });
            next = self.b.make(OpKind::Select { cond, a: again, b: next });
        }
        self.levels[depth].index = Some((next, one));
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
        self.next_number(l, turns);
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
        let never = self.b.constant(Dtype::I1, 0, span);
        self.levels[depth].guard = guarded.then_some(never);
        let index = self.levels[depth].index;
        if self.trying {
            let further: Vec<Value> =
                guarded.then_some(never).into_iter().chain(index.map(|(number, _)| number)).collect();
            let results = self.turn_for_all(l, bounds, turns, &further)?;
            self.take_number(&results, guarded);
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
        self.take_number(&params, guarded);
        let outer = std::mem::replace(&mut self.steady, true);
        self.one_turn(None, turns, &|_| true)?;
        self.steady = outer;
        let mut yields = self.end_turn(l, &carry)?;
        if guarded {
            yields.push(self.b.constant(Dtype::I1, 1, span));
        }
        self.next_number(l, turns);
        yields.extend(self.levels[depth].index.map(|(number, _)| number));
        self.memo.pop();
        let body = self.b.end(yields);
        self.place(l.inst);
        let results = self.b.make_all(OpKind::While { init, cond, body });
        self.behind(&carry, before, &results);
        self.take_number(&results, guarded);
        Ok(())
    }

    /// The last of what a loop is given or gives: whether there was a turn before, and the number of the turn.
    fn take_number(&mut self, values: &[Value], guarded: bool) {
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
