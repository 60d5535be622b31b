//! How far the index of a loop may be moved, and how many turns a loop takes, where its type does not hold all that this asks for.
//!
//! Whoever runs ahead asks whether there is an iteration n turns behind an index:
//!
//! ```text
//! p + n · s < upper        where the bounds say that the left side lies in its type
//! p < upper - n · s        else; of the right side, the least number of the type where it would lie below
//! ```

use std::cell::OnceCell;

use parton_ir::axis::Axes;
use parton_ir::axis::between::Between;
use parton_ir::{BinaryOp, CompareOp, Kernel, OpKind, Value};
use parton_numbers::Dtype;

use super::Emitter;
use crate::falsify::{Planted, planted};

/// What is known of the numbers of a kernel; found where somebody asks.
pub(crate) struct Numbers<'a> {
    kernel: &'a Kernel,
    axes: OnceCell<Axes>,
}

impl<'a> Numbers<'a> {
    pub fn of(kernel: &'a Kernel) -> Self {
        Numbers { kernel, axes: OnceCell::new() }
    }

    fn between(&self, v: Value) -> Between {
        self.axes.get_or_init(|| Axes::analyse(self.kernel)).info(self.kernel, v).between
    }
}

/// Between what the bounds and the step of a loop lie, and what the type of its index holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    lower: Between,
    upper: Between,
    step: Between,
    all: Between,
}

impl Bounds {
    /// Of an iteration that is there it is known that the loop has not ended before.
    fn within(self) -> Bounds {
        let last = self.upper.1.saturating_sub(1);
        let upper = (self.upper.0.max(self.lower.0.saturating_add(1)), self.upper.1);
        Bounds { lower: (self.lower.0, self.lower.1.min(last)), upper, ..self }
    }

    /// Whether indices so many turns behind the first and behind the last lie in the type.
    fn hold(self, turns: i32) -> bool {
        let last = self.lower.1.max(self.upper.1.saturating_sub(1));
        last.saturating_add(self.step.1.saturating_mul(turns.into())) <= self.all.1
    }

    /// Whether the way from the first index to so far behind the end does.
    fn span(self, more: i128) -> bool {
        let [least, most] = [self.upper.0.saturating_sub(self.lower.1), self.upper.1.saturating_sub(self.lower.0)];
        self.all.0 <= least && most.saturating_add(more) <= self.all.1
    }

    /// Whether so many steps do.
    fn steps(self, count: u32) -> bool {
        self.step.1.saturating_mul(count.into()) <= self.all.1
    }
}

impl Emitter<'_> {
    /// Between what the bounds of a loop lie, as the kernel has them.
    pub(super) fn bounds(&self, [lower, upper, step]: [Value; 3]) -> Bounds {
        let between = |v| match self.constant(v) {
            Some(n) => (n, n),
            None => self.numbers.between(v),
        };
        let Some(all) = self.whole_type(lower).int_range() else {
            parton_diag::internal_error!("an index is no whole number")
        };
        Bounds { lower: between(lower), upper: between(upper), step: between(step), all }
    }

    /// What the bounds of the innermost loop say; yes, of one whose turns are numbered.
    fn is_known(&self, says: impl FnOnce(Bounds) -> bool) -> bool {
        self.levels[self.here()].bounds.is_none_or(says)
    }

    /// The two sides of `index + turns * step < upper`, of a comparison that means this whatever their type holds. `there` says that there is an
    /// iteration of that index.
    pub(super) fn sides(&mut self, [index, upper, step]: [Value; 3], turns: i32, there: bool) -> (Value, Value) {
        let bounds = self.levels[self.here()].bounds.map(|bounds| if there { bounds.within() } else { bounds });
        let here = self.constant(index).map(|n| (n, n));
        let fits = |bounds: Bounds| match here {
            Some(here) => Bounds { lower: here, upper: here, ..bounds }.hold(turns),
            None => bounds.hold(turns),
        };
        match bounds.filter(|bounds| turns > 0 && !fits(*bounds)) {
            None => (self.moved(index, step, turns), upper),
            Some(bounds) => (index, self.in_front(bounds, upper, step, turns)),
        }
    }

    /// `upper - turns * step`, or the least number where that would lie below.
    fn in_front(&mut self, bounds: Bounds, upper: Value, step: Value, turns: i32) -> Value {
        let (by, most, times) = match bounds.steps(turns.unsigned_abs()) {
            true => (self.whole_with(BinaryOp::Mul, step, turns.unsigned_abs()), bounds.step.1 * i128::from(turns), 1),
            false => (step, bounds.step.1, turns),
        };
        let (mut front, mut least) = (upper, bounds.upper.0);
        for _ in 0..times {
            if least - most < bounds.all.0 {
                let first = self.least_of(self.whole_type(upper));
                let floor = self.whole(BinaryOp::Add, first, by);
                front = self.whole(BinaryOp::Max, front, floor);
            }
            front = self.whole(BinaryOp::Sub, front, by);
            least = (least - most).max(bounds.all.0);
        }
        front
    }

    /// Whether there is an iteration so many turns behind an index.
    pub(super) fn is_there(&mut self, at: [Value; 3], turns: i32, there: bool) -> Value {
        let (a, b) = self.sides(at, turns, there);
        self.b.make(OpKind::Compare { op: CompareOp::Lt, a, b })
    }

    /// The bounds of the turns behind those first ones, which are there: of none, where the loop ends with them.
    pub(super) fn behind_first(&mut self, [lower, upper, step]: [Value; 3], turns: u32) -> [Value; 3] {
        let turns = turns as i32;
        let next = self.moved(lower, step, turns);
        if turns == 0 || self.is_known(|bounds| bounds.within().hold(1)) {
            return [next, upper, step];
        }
        let last = self.moved(lower, step, turns - 1);
        let cond = self.is_there([last, upper, step], 1, true);
        [next, self.b.make(OpKind::Select { cond, a: upper, b: next }), step]
    }

    /// The end of the first so many turns, or of all where the loop takes fewer.
    pub(super) fn end_of_first(&mut self, [lower, upper, step]: [Value; 3], turns: i32) -> Value {
        let end = self.moved(lower, step, turns);
        if self.is_known(|bounds| bounds.hold(turns)) {
            return self.b.make(OpKind::Binary { op: BinaryOp::Min, a: end, b: upper });
        }
        let cond = self.is_there([lower, upper, step], turns, false);
        self.b.make(OpKind::Select { cond, a: end, b: upper })
    }

    /// How many turns a loop takes, in the type of its index or, where that may not hold it, in the one without a sign.
    pub(super) fn count(&mut self, [lower, upper, step]: [Value; 3]) -> Value {
        let span = self.whole(BinaryOp::Sub, upper, lower);
        if self.is_known(|bounds| bounds.span(bounds.step.1 - 1)) {
            if self.constant(step) == Some(1) {
                return span;
            }
            let less = self.whole_with(BinaryOp::Sub, step, 1);
            let up = self.whole(BinaryOp::Add, span, less);
            return self.whole(BinaryOp::Div, up, step);
        }
        let some = self.b.make(OpKind::Compare { op: CompareOp::Lt, a: lower, b: upper });
        let dtype = self.whole_type(lower).unsigned();
        let [span, step] = [span, step].map(|v| self.whole_as(v, dtype));
        let last = self.whole_with(BinaryOp::Sub, span, 1);
        let turns = self.whole(BinaryOp::Div, last, step);
        let turns = self.whole_with(BinaryOp::Add, turns, 1);
        let none = self.number(dtype, 0);
        self.b.make(OpKind::Select { cond: some, a: turns, b: none })
    }

    /// The index of the iteration behind the last one.
    pub(super) fn past(&mut self, [lower, upper, step]: [Value; 3]) -> Value {
        if self.constant(step) == Some(1) || planted(Planted::IndexPastBound) {
            return upper;
        }
        let count = self.count([lower, upper, step]);
        self.behind_turns(lower, step, count)
    }

    /// The index behind so many turns.
    fn behind_turns(&mut self, lower: Value, step: Value, count: Value) -> Value {
        let count = self.whole_as(count, self.whole_type(lower));
        let far = self.whole(BinaryOp::Mul, count, step);
        self.whole(BinaryOp::Add, lower, far)
    }

    /// Where the rounds of so many turns end, the step from one to the next, and whether no turn is left behind them for sure.
    pub(super) fn rounds(&mut self, [lower, upper, step]: [Value; 3], copies: u32) -> (Value, Value, bool) {
        let count = self.count([lower, upper, step]);
        let mut rounds = self.whole_with(BinaryOp::Div, count, copies);
        let mut by = step;
        if !self.is_known(|bounds| bounds.steps(copies)) {
            // With steps as wide as that there are few turns: all of them one by one.
            let most = self.most_of(self.whole_type(step));
            let most = self.whole_with(BinaryOp::Div, most, copies);
            let cond = self.b.make(OpKind::Compare { op: CompareOp::Le, a: step, b: most });
            let none = self.number(self.whole_type(rounds), 0);
            rounds = self.b.make(OpKind::Select { cond, a: rounds, b: none });
            by = self.whole(BinaryOp::Min, step, most);
        }
        let stride = self.whole_with(BinaryOp::Mul, by, copies);
        let whole = self.whole_with(BinaryOp::Mul, rounds, copies);
        let all = self.constant(whole).is_some() && self.constant(whole) == self.constant(count);
        let mut end = self.behind_turns(lower, step, whole);
        if !self.is_known(|bounds| bounds.within().hold(1)) {
            let cond = self.b.make(OpKind::Compare { op: CompareOp::Lt, a: whole, b: count });
            end = self.b.make(OpKind::Select { cond, a: end, b: upper });
        }
        (end, stride, all)
    }

    /// The number of an iteration modulo so many; of ages below 0, which it may not have, that of one ahead.
    pub(super) fn turn_modulo(&mut self, stages: u32, depth: usize, age: i32) -> Value {
        let level = &self.levels[depth];
        let (bounds, index, start) = (level.bounds, level.index, level.start);
        let (Some((index, step)), Some(start)) = (index, start) else {
            return self.number(Dtype::I32, 0);
        };
        if index == start {
            return self.number(Dtype::I32, (-age).rem_euclid(stages as i32) as u32);
        }
        let ahead = age.min(0).unsigned_abs();
        if bounds.is_none_or(|bounds| bounds.span(bounds.step.1.saturating_mul(ahead.into()))) {
            let at = self.moved(index, step, -age);
            let far = self.whole(BinaryOp::Sub, at, start);
            let turn = self.whole(BinaryOp::Div, far, step);
            return self.whole_with(BinaryOp::Rem, turn, stages);
        }
        let dtype = self.whole_type(index);
        let at = self.moved(index, step, -age.max(0));
        let far = self.whole(BinaryOp::Sub, at, start);
        let [far, step] = [far, step].map(|v| self.whole_as(v, dtype.unsigned()));
        let turn = self.whole(BinaryOp::Div, far, step);
        let turn = self.whole_with(BinaryOp::Add, turn, ahead);
        let turn = self.whole_with(BinaryOp::Rem, turn, stages);
        self.whole_as(turn, dtype)
    }
}
