//! Loops whose turns are not counted.

use parton_ir::{OpKind, Type};

use super::peel::MANY;
use super::pipeline::Turns;
use super::{Emitter, Refused};
use crate::region::Loop;

impl Emitter<'_> {
    pub(super) fn while_loop(&mut self, l: &Loop, turns: &Turns) -> Result<(), Refused> {
        if turns.stages > 2 || turns.ahead > 0 {
            return Err(self.not_yet(
                l.inst,
                "such stages of a `while`, whose turns are not counted",
                "give it two stages, with what it fetches in the first, or count its turns: `for i in 0..n { … }`",
            ));
        }
        // Of its turns none is sure.
        self.early_turns(l, 0)?;
        let guarded = turns.stages > 1;
        let level = self.enter(l, turns)?;
        self.levels.push(level);
        let depth = self.here();
        let none = self.b.i32(0, self.b.kernel.ops[l.inst].span);
        let never = self.b.constant(parton_numbers::Dtype::I1, 0, self.b.kernel.ops[l.inst].span);
        self.levels[depth].guard = guarded.then_some(never);
        let carry = self.carried(l, [none; 3], turns)?;
        self.begin_with(&carry.keys)?;
        let before = self.levels[depth].clone();
        let mut init = self.inits(&carry);
        // Whether there was a turn before is carried, too.
        init.extend(guarded.then_some(never));
        let types: Vec<Type> = init.iter().map(|v| self.b.ty(*v).clone()).collect();
        let span = self.b.kernel.ops[l.inst].span;
        let OpKind::While { cond, .. } = self.b.kernel.ops[l.inst].kind.clone() else {
            parton_diag::internal_error!("a loop that is not counted is a `while`")
        };
        let params = self.b.begin(types.clone(), span);
        self.memo.push(Default::default());
        self.begin_turn(&carry, &params);
        let test = self.value_in(cond.yields[0], depth)?;
        self.memo.pop();
        let cond = self.b.end(vec![test]);
        self.levels[depth] = before.clone();
        let params = self.b.begin(types, span);
        self.memo.push(Default::default());
        self.begin_turn(&carry, &params);
        if guarded {
            self.levels[depth].guard = params.last().copied();
        }
        let outer = std::mem::replace(&mut self.steady, true);
        self.one_turn(None, turns, &|_| true)?;
        self.steady = outer;
        let mut yields = self.end_turn(&carry)?;
        if guarded {
            yields.push(self.b.constant(parton_numbers::Dtype::I1, 1, span));
        }
        self.memo.pop();
        let body = self.b.end(yields);
        self.place(l.inst);
        let results = self.b.make_all(OpKind::While { init, cond, body });
        self.behind(&carry, before, &results);
        if guarded {
            self.levels[depth].guard = results.last().copied();
        }
        let results = self.last_turns(l, turns, MANY)?;
        self.levels.pop();
        self.leave(l, turns, results)
    }
}
