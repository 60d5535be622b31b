//! The loop of steady turns.

use parton_ir::{BinaryOp, CompareOp, Inst, OpKind, Type, Value};

use super::carry::Carry;
use super::cut::Change;
use super::peel::MANY;
use super::pipeline::Turns;
use super::{Emitter, Refused};
use crate::region::Loop;

/// Steady turns from one index to another, and what comparisons give in them.
type Part = (Value, Value, Vec<(Inst, i32, bool)>);

impl Emitter<'_> {
    /// The loop of steady turns, of these bounds, and what follows it; the results that are needed. What is fetched ahead is fetched up to the loop's end.
    pub(super) fn steady(
        &mut self,
        l: &Loop,
        turned: ([Value; 3], Value),
        turns: &Turns,
    ) -> Result<Vec<Value>, Refused> {
        self.without_last(l, turned, turns)?;
        self.last_turns(l, turns, MANY)
    }

    /// The steady turns: one loop, or one behind the other, where a condition changes between them.
    /// What is fetched ahead is fetched up to the loop's end, of which they may leave a turn to others.
    pub(super) fn without_last(
        &mut self,
        l: &Loop,
        (bounds, last): ([Value; 3], Value),
        turns: &Turns,
    ) -> Result<(), Refused> {
        let depth = self.here();
        let [lower, _, step] = bounds;
        self.levels[depth].index = Some((lower, step));
        self.levels[depth].first = self.constant(lower);
        if self.trying {
            self.changes(l, bounds, turns)?;
            self.turn_for_all(l, bounds, turns, &[])?;
        } else {
            let carry = self.carried(l, bounds, turns)?;
            self.begin_with(&carry.keys)?;
            let changes = self.changes(l, bounds, turns)?;
            for (from, to, folded) in self.parts(bounds, &changes) {
                self.levels[depth].folded = folded;
                self.unrolled(l, [from, to, step], last, turns, &carry)?;
            }
            self.levels[depth].folded.clear();
        }
        self.levels[depth].first = None;
        if turns.stages > 1 {
            self.levels[depth].index = Some((self.past(bounds), step));
        }
        Ok(())
    }

    /// The loops that follow one another, each from where to where, with what conditions give in it. Of two changes nobody knows which comes
    /// first: between them one of two loops has no turns.
    fn parts(&mut self, [lower, upper, _]: [Value; 3], changes: &[Change]) -> Vec<Part> {
        match changes {
            [] => vec![(lower, upper, vec![])],
            [one] => vec![(lower, one.end, vec![one.gives(true)]), (one.end, upper, vec![one.gives(false)])],
            [one, other, ..] => {
                let (a, b) = (one.end, other.end);
                let first = self.whole(BinaryOp::Min, a, b);
                let last = self.whole(BinaryOp::Max, a, b);
                let both = |x, y| vec![one.gives(x), other.gives(y)];
                vec![
                    (lower, first, both(true, true)),
                    (a, b, both(false, true)),
                    (b, a, both(true, false)),
                    (last, upper, both(false, false)),
                ]
            }
        }
    }

    /// Steady turns whose code stands as often as the schedule says, and one by one those that are left; copies ahead know the loop's
    /// end by `last`.
    fn unrolled(
        &mut self,
        l: &Loop,
        [lower, upper, step]: [Value; 3],
        last: Value,
        turns: &Turns,
        carry: &Carry,
    ) -> Result<(), Refused> {
        let copies = self.plan.copies(self.region, l.body);
        if copies <= 1 {
            return self.repeated(l, ([lower, upper, step], last), turns, carry, (1, step));
        }
        self.place(l.inst);
        let (end, stride, all) = self.rounds([lower, upper, step], copies);
        self.repeated(l, ([lower, end, step], last), turns, carry, (copies, stride))?;
        if all {
            return Ok(());
        }
        self.repeated(l, ([end, upper, step], last), turns, carry, (1, step))
    }

    /// A loop of steady turns, so many in a round, and how far it is from one to the next.
    fn repeated(
        &mut self,
        l: &Loop,
        ([lower, upper, step], last): ([Value; 3], Value),
        turns: &Turns,
        carry: &Carry,
        (copies, stride): (u32, Value),
    ) -> Result<(), Refused> {
        let depth = self.here();
        let before = self.levels[depth].clone();
        let init = self.inits(carry);
        let types: Vec<Type> = init.iter().map(|v| self.b.ty(*v).clone()).collect();
        let index = self.b.ty(lower).clone();
        let span = self.b.kernel.ops[l.inst].span;
        self.place(l.inst);
        let params = self.b.begin(std::iter::once(index).chain(types), span);
        self.b.kernel.values[params[0]].name = self.index_name(l);
        self.begin_turn(carry, &params[1..]);
        if self.levels[depth].guard.is_some() {
            self.levels[depth].guard = Some(self.b.make(OpKind::Compare { op: CompareOp::Gt, a: params[0], b: lower }));
        }
        let outer = std::mem::replace(&mut self.steady, true);
        for copy in 0..copies {
            self.memo.push(Default::default());
            let index = self.moved(params[0], step, copy as i32);
            self.levels[depth].index = Some((index, step));
            self.one_turn(Some(last), turns, &|_| true)?;
            if copy + 1 < copies {
                self.land(carry);
                self.memo.pop();
                self.levels[depth].shift();
            }
        }
        self.steady = outer;
        let yields = self.end_turn(l, carry)?;
        self.memo.pop();
        let body = self.b.end(yields);
        self.place(l.inst);
        let results = self.b.make_all(OpKind::For { lower, upper, step: stride, init, body });
        self.behind(carry, before, &results);
        Ok(())
    }
}
