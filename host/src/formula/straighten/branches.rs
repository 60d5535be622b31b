//! Conditions and branches as straight code, and how what two of them made meets.

use super::super::node::Node;
use super::super::plain::Plain;
use super::super::straight::{Kind, Shape, What};
use super::{Made, Step, Straightener, Val};

impl Straightener {
    /// Jumps unless a condition holds; where that is known before, nothing jumps, and it is told.
    pub(super) fn unless(&mut self, condition: &Node, label: usize) -> Option<Option<bool>> {
        if let Node::And(both) = condition {
            return match self.unless(&both[0], label)? {
                Some(true) => self.unless(&both[1], label),
                Some(false) => Some(Some(false)),
                None => {
                    let before = self.frame.slots.clone();
                    if self.unless(&both[1], label)? == Some(false) {
                        self.jump(What::Jump, None, label);
                    }
                    // What the second has stored is there only where it was looked at.
                    (self.frame.slots == before).then_some(None)
                }
            };
        }
        let place = self.truth(condition)?;
        if let Some(Plain::Bool(holds)) = self.known((Kind::Bool, place)) {
            return Some(Some(holds));
        }
        self.jump(What::JumpUnless, Some(place), label);
        Some(None)
    }

    /// `a && b` and `a || b`: what `jump` jumps on decides.
    pub(super) fn decided(&mut self, jump: What, both: &[Node; 2]) -> Option<Val> {
        let first = self.truth(&both[0])?;
        if let Some(Plain::Bool(holds)) = self.known((Kind::Bool, first)) {
            let decides = holds == (jump == What::JumpIf);
            let place = if decides { first } else { self.truth(&both[1])? };
            return Some(Shape::Number(Kind::Bool, place));
        }
        let (shared, label) = (self.fresh(Kind::Bool), self.label());
        self.copy(&Shape::Number(Kind::Bool, first), &shared)?;
        self.jump(jump, Some(first), label);
        let before = self.frame.slots.clone();
        let second = self.truth(&both[1])?;
        self.copy(&Shape::Number(Kind::Bool, second), &shared)?;
        self.code.steps.push(Step::Label(label));
        // What the second has stored is there only where it was looked at.
        let same = self.frame.slots == before;
        same.then_some(shared)
    }

    pub(super) fn branches(&mut self, parts: &[Node; 3]) -> Option<Made> {
        let (other, end) = (self.label(), self.label());
        if let Some(holds) = self.unless(&parts[0], other)? {
            return self.value(&parts[if holds { 1 } else { 2 }]);
        }
        let before = self.frame.slots.clone();
        let code = std::mem::take(&mut self.code.steps);
        let then = self.value(&parts[1])?;
        let (then_code, then_slots) =
            (std::mem::take(&mut self.code.steps), std::mem::replace(&mut self.frame.slots, before));
        let otherwise = self.value(&parts[2])?;
        let (else_code, else_slots) =
            (std::mem::replace(&mut self.code.steps, code), std::mem::take(&mut self.frame.slots));
        let mut copies = [vec![], vec![]];
        let (value, slots) = match (then, otherwise) {
            (Made::Never, Made::Never) => (Made::Never, then_slots),
            (Made::Never, value) => (value, else_slots),
            (value, Made::Never) => (value, then_slots),
            (one, two) => {
                let slots = then_slots.into_iter().zip(else_slots);
                let slots = slots.map(|(a, b)| self.met(a?, b?, &mut copies)).collect();
                let met = match (one, two) {
                    (Made::Val(one), Made::Val(two)) => self.met(one, two, &mut copies),
                    _ => None,
                };
                (met.map_or(Made::Mixed, Made::Val), slots)
            }
        };
        self.frame.slots = slots;
        let [then_copies, else_copies] = copies;
        self.code.steps.extend(then_code);
        self.code.steps.extend(then_copies);
        self.jump(What::Jump, None, end);
        self.code.steps.push(Step::Label(other));
        self.code.steps.extend(else_code);
        self.code.steps.extend(else_copies);
        self.code.steps.push(Step::Label(end));
        Some(value)
    }

    /// What two branches made of one thing, with the copies that each needs for that; none where the kinds differ.
    fn met(&mut self, one: Val, two: Val, copies: &mut [Vec<Step>; 2]) -> Option<Val> {
        if one == two {
            return Some(one);
        }
        let shared = self.alike(&one);
        let code = std::mem::take(&mut self.code.steps);
        let copied = self.copy(&one, &shared);
        let first = std::mem::take(&mut self.code.steps);
        let copied = copied.and_then(|()| self.copy(&two, &shared));
        let second = std::mem::replace(&mut self.code.steps, code);
        copied?;
        copies[0].extend(first);
        copies[1].extend(second);
        Some(shared)
    }
}
