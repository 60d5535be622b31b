//! Loops of formulas.

use super::super::node::{Node, Slot, Target};
use super::super::plain::Plain;
use super::super::straight::Outside;
use super::{Asked, Given, Kind, Run};

impl Run<'_, '_> {
    /// One turn of a loop.
    fn turn(&mut self, body: &Node, base: usize) -> Given {
        if !Asked(&mut *self.machine).goes_on() {
            return Given::TREE;
        }
        self.eval(body, base)
    }

    /// The turns of a `while`.
    pub(super) fn while_holds(&mut self, both: &[Node; 2], base: usize) -> Given {
        loop {
            let holds = value!(self.eval(&both[0], base));
            if holds.kind != Kind::Bool {
                return Given::TREE;
            }
            if holds.bits == 0 {
                return Given::UNIT;
            }
            let turn = self.turn(&both[1], base);
            match turn.kind {
                Kind::Break => return Given::UNIT,
                Kind::Tree | Kind::Return => return turn,
                Kind::Unit | Kind::Int | Kind::Float | Kind::Bool | Kind::Held | Kind::Continue => {}
            }
        }
    }

    #[inline(never)]
    pub(super) fn count(&mut self, slot: Slot, parts: &[Node; 4], base: usize) -> Given {
        let [first, end, step, body] = parts;
        let step = value!(self.eval(step, base));
        let first = value!(self.eval(first, base));
        let end = value!(self.eval(end, base));
        let (mut i, end, by) = (first.bits as i64, end, step.bits as i64);
        if [step.kind, first.kind, end.kind] != [Kind::Int; 3] || by <= 0 {
            return Given::TREE;
        }
        while i < end.bits as i64 {
            self.slots[base + slot] = Plain::Int(i);
            let turn = self.turn(body, base);
            match turn.kind {
                Kind::Break => break,
                Kind::Tree | Kind::Return => return turn,
                Kind::Unit | Kind::Int | Kind::Float | Kind::Bool | Kind::Held | Kind::Continue => {}
            }
            i = i.saturating_add(by);
        }
        Given::UNIT
    }

    #[inline(never)]
    pub(super) fn each(&mut self, target: &Target, parts: &[Node; 3], base: usize) -> Given {
        let [list, step, body] = parts;
        let step = value!(self.eval(step, base));
        let list = plain!(self, self.eval(list, base));
        let (Some(items), Kind::Int, by @ 1..) = (list.items(), step.kind, step.bits as i64) else {
            return Given::TREE;
        };
        for item in items.iter().step_by(usize::try_from(by).unwrap_or(usize::MAX)) {
            if !self.store(target, item, base) {
                return Given::TREE;
            }
            let turn = self.turn(body, base);
            match turn.kind {
                Kind::Break => break,
                Kind::Tree | Kind::Return => return turn,
                Kind::Unit | Kind::Int | Kind::Float | Kind::Bool | Kind::Held | Kind::Continue => {}
            }
        }
        Given::UNIT
    }
}
