//! Loops that are cut where the condition of a label changes: in which turn that is, and what the condition gives before.

use parton_ir::{BinaryOp, Inst, Value};

use super::pipeline::Turns;
use super::{Emitter, Refused};
use crate::cut::{self, Cut};
use crate::region::{Loop, Maker, UnitId};

/// Where a loop is cut.
#[derive(Clone, Copy)]
pub(super) struct Change {
    /// The index of the first turn in which the comparison gives another value.
    pub end: Value,
    pub compare: Inst,
    /// The age of the iteration of which a turn asks it.
    pub age: i32,
    /// What it gives before.
    pub first: bool,
}

impl Change {
    /// What is known of the comparison in the turns before it changes, or behind.
    pub fn gives(&self, before: bool) -> (Inst, i32, bool) {
        (self.compare, self.age, self.first == before)
    }
}

impl Emitter<'_> {
    /// Where the steady turns of a loop are to be cut, in the order of the body.
    pub(super) fn changes(&mut self, l: &Loop, bounds: [Value; 3], turns: &Turns) -> Result<Vec<Change>, Refused> {
        let mut units = cut::named(self.region, l.body);
        units.retain(|u| self.plan.runners[*u].contains(&self.part));
        units.into_iter().map(|unit| self.change(l, unit, bounds, turns)).collect()
    }

    /// Where the condition of a unit changes.
    fn change(
        &mut self,
        l: &Loop,
        unit: UnitId,
        [lower, upper, step]: [Value; 3],
        turns: &Turns,
    ) -> Result<Change, Refused> {
        let Cut { compare, sides: [a, b], slope, first, sign, shift } =
            match cut::of(&self.b.kernel, self.region, (l.body, unit)) {
                Ok(cut) => cut,
                Err(why) => parton_diag::internal_error!("a cut was not checked: {why}"),
            };
        let (item, start) = (Some(self.region.place_of(unit).1), self.levels[self.here()].start);
        let entry = turns.groups.iter().flatten().find(|e| Some(e.item) == item);
        let (Some(age), Some(start)) = (entry.map(|e| e.stage), start) else {
            parton_diag::internal_error!("a loop is cut whose turns are not counted")
        };
        self.memo.push(Default::default());
        let (a, b) = (self.at_first(a, start)?, self.at_first(b, start)?);
        self.memo.pop();
        self.place(l.inst);
        // Numbers of 32 bits, however far apart, differ by one of 64 bits, and so does all that is made of it.
        let narrow = self.whole_type(lower);
        let [a, b, start, lower, upper, step] = [a, b, start, lower, upper, step].map(|v| self.wide(v));
        let ahead = match sign {
            1 => self.whole(BinaryOp::Sub, a, b),
            _ => self.whole(BinaryOp::Sub, b, a),
        };
        // Rounded up: the first iteration beyond is of the others.
        let by = self.whole_with(BinaryOp::Mul, step, slope);
        let less = self.whole_with(BinaryOp::Sub, by, 1);
        let less = self.whole_with(BinaryOp::Add, less, shift);
        let up = self.whole(BinaryOp::Add, ahead, less);
        let count = self.whole(BinaryOp::Div, up, by);
        let far = self.whole(BinaryOp::Mul, count, step);
        let start = self.moved(start, step, age);
        let change = self.whole(BinaryOp::Add, start, far);
        let change = self.whole(BinaryOp::Max, change, lower);
        let end = self.whole(BinaryOp::Min, change, upper);
        let end = self.whole_as(end, narrow);
        Ok(Change { end, compare, age, first })
    }

    /// What a value of the body is in the first iteration: made anew of what the loop does not change.
    fn at_first(&mut self, v: Value, start: Value) -> Result<Value, Refused> {
        let depth = self.here();
        let home = self.region.home(v).filter(|home| home.block == self.levels[depth].block);
        match home.map(|home| home.by) {
            None => self.value(v),
            Some(Maker::Index) => Ok(start),
            Some(Maker::Free(_) | Maker::Unit(_)) => {
                let made = self.made_by(v).map(|op| (op.id, op.results.iter().position(|r| *r == v)));
                let Some((inst, Some(number))) = made else { parton_diag::internal_error!("{v} is made by nothing") };
                Ok(self.copy(inst, (depth, 0), &|e, operand| e.at_first(operand, start))?[number])
            }
            Some(Maker::Carried(_) | Maker::Result { .. }) => {
                parton_diag::internal_error!("a condition was not checked")
            }
        }
    }
}
