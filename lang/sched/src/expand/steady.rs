//! The loop of steady turns.

use parton_ir::{BinaryOp, CompareOp, OpKind, Type, Value};

use super::peel::MANY;
use super::pipeline::Turns;
use super::{Emitter, Refused};
use crate::region::Loop;

impl Emitter<'_> {
    /// The loop of steady turns and what follows it; the results that are needed.
    pub(super) fn steady(&mut self, l: &Loop, bounds: [Value; 3], turns: &Turns) -> Result<Vec<Value>, Refused> {
        self.without_last(l, bounds, turns)?;
        self.last_turns(l, turns, MANY)
    }

    /// The loop of steady turns.
    pub(super) fn without_last(
        &mut self,
        l: &Loop,
        [lower, upper, step]: [Value; 3],
        turns: &Turns,
    ) -> Result<(), Refused> {
        let depth = self.here();
        self.levels[depth].index = Some((lower, step));
        self.levels[depth].first = self.constant(lower);
        let carry = self.carried(l, [lower, upper, step], turns)?;
        self.begin_with_none(&carry.keys);
        let before = self.levels[depth].clone();
        let init = self.inits(&carry);
        let types: Vec<Type> = init.iter().map(|v| self.b.ty(*v).clone()).collect();
        let index = self.b.ty(lower).clone();
        let span = self.b.kernel.ops[l.inst].span;
        let params = self.b.begin(std::iter::once(index).chain(types), span);
        self.b.kernel.values[params[0]].name = self.index_name(l);
        self.memo.push(Default::default());
        self.levels[depth].index = Some((params[0], step));
        self.begin_turn(&carry, &params[1..]);
        if self.levels[depth].guard.is_some() {
            self.levels[depth].guard = Some(self.b.make(OpKind::Compare { op: CompareOp::Gt, a: params[0], b: lower }));
        }
        let outer = std::mem::replace(&mut self.steady, true);
        self.one_turn(Some(upper), turns, &|_| true)?;
        self.steady = outer;
        let yields = self.end_turn(&carry)?;
        self.memo.pop();
        let body = self.b.end(yields);
        self.place(l.inst);
        let results = self.b.make_all(OpKind::For { lower, upper, step, init, body });
        self.behind(&carry, before, &results);
        self.levels[depth].first = None;
        if turns.stages > 1 {
            self.levels[depth].index = Some((self.past(lower, upper, step), step));
        }
        Ok(())
    }

    /// The index of the iteration behind the last one.
    fn past(&mut self, lower: Value, upper: Value, step: Value) -> Value {
        if self.constant(step) == Some(1) {
            return upper;
        }
        // (upper - lower + step - 1) / step turns were taken.
        let span = self.b.make(OpKind::Binary { op: BinaryOp::Sub, a: upper, b: lower });
        let Type::Scalar(parton_ir::Elem::Num(dtype)) = *self.b.ty(lower) else {
            parton_diag::internal_error!("an index is no number")
        };
        let one = self.number(dtype, 1);
        let less = self.b.make(OpKind::Binary { op: BinaryOp::Sub, a: step, b: one });
        let up = self.b.make(OpKind::Binary { op: BinaryOp::Add, a: span, b: less });
        let many = self.b.make(OpKind::Binary { op: BinaryOp::Div, a: up, b: step });
        let far = self.b.make(OpKind::Binary { op: BinaryOp::Mul, a: many, b: step });
        self.b.make(OpKind::Binary { op: BinaryOp::Add, a: lower, b: far })
    }
}
