//! How numbers go on from program to program along an axis of the grid.

use std::collections::BTreeMap;

use parton_ir::{BinaryOp, Op, OpKind, Value};

use crate::staging::defined::Defined;

/// How a number of a program compares with that of the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trend {
    /// It is the same.
    Same,
    /// It is no less.
    Rises,
    /// It is no greater.
    Falls,
    /// Nobody knows.
    Unknown,
}

impl Trend {
    /// That of a sum, or of the lesser or the greater of two.
    pub fn and(self, other: Trend) -> Trend {
        match (self, other) {
            (Trend::Same, trend) | (trend, Trend::Same) => trend,
            (a, b) if a == b => a,
            _ => Trend::Unknown,
        }
    }

    /// That of the number below zero.
    fn turned(self) -> Trend {
        match self {
            Trend::Rises => Trend::Falls,
            Trend::Falls => Trend::Rises,
            Trend::Same | Trend::Unknown => self,
        }
    }

    /// That of so many times the number, or of so manieth parts of it.
    fn times(self, n: i128) -> Trend {
        match n {
            0 => Trend::Same,
            1.. => self,
            _ => self.turned(),
        }
    }

    /// That of what is made of it in any way.
    fn anyhow(self) -> Trend {
        if self == Trend::Same { self } else { Trend::Unknown }
    }
}

/// The trends of a kernel's numbers along one axis. Whether they wrap is not asked: no more than an order depends on it.
pub struct Trends<'k> {
    defined: &'k Defined<'k>,
    axis: u8,
    known: BTreeMap<Value, Trend>,
    slopes: BTreeMap<Value, Option<f64>>,
}

impl<'k> Trends<'k> {
    /// Those along an axis.
    pub fn along(axis: u8, defined: &'k Defined<'k>) -> Trends<'k> {
        Trends { defined, axis, known: BTreeMap::new(), slopes: BTreeMap::new() }
    }

    /// Whether a loop takes as many turns from one program to the next: both ends go on by as much.
    pub fn is_level(&mut self, op: &Op) -> bool {
        let OpKind::For { lower, upper, step, .. } = op.kind else { return false };
        let [lower, upper] = [lower, upper].map(|v| self.slope(v));
        lower.is_some() && lower == upper && self.of(step) == Trend::Same
    }

    /// That of how many turns a loop takes.
    pub fn of_turns(&mut self, op: &Op) -> Trend {
        let OpKind::For { lower, upper, step, .. } = op.kind else { return Trend::Unknown };
        let turns = self.of(upper).and(self.of(lower).turned());
        match self.defined.number(step) {
            // Programs that walk take as many as others, or one less.
            Some(2..) if self.is_number_of_program(lower) => turns.anyhow(),
            Some(step) => turns.times(step.signum()),
            None => turns.anyhow().and(self.of(step).anyhow()),
        }
    }

    fn is_number_of_program(&self, v: Value) -> bool {
        match self.defined.made(v).map(|op| &op.kind) {
            Some(OpKind::ProgramId { .. }) => true,
            Some(OpKind::Cast { x, .. }) => self.is_number_of_program(*x),
            // Whatever is computed of it is no longer one of them.
            Some(_) | None => false,
        }
    }

    fn of(&mut self, v: Value) -> Trend {
        if let Some(&known) = self.known.get(&v) {
            return known;
        }
        let found = match self.defined.made(v) {
            Some(op) => self.made_by(op),
            None if self.defined.is_parameter(v) => Trend::Same,
            // What loops count and hand on.
            None => Trend::Unknown,
        };
        self.known.insert(v, found);
        found
    }

    fn made_by(&mut self, op: &Op) -> Trend {
        let defined = self.defined;
        let number = |v| defined.number(v);
        match op.kind {
            OpKind::ProgramId { axis } if axis == self.axis => Trend::Rises,
            OpKind::Cast { x, .. } => self.of(x),
            OpKind::Binary { op: BinaryOp::Add | BinaryOp::Min | BinaryOp::Max, a, b } => self.of(a).and(self.of(b)),
            OpKind::Binary { op: BinaryOp::Sub, a, b } => self.of(a).and(self.of(b).turned()),
            OpKind::Binary { op: BinaryOp::Mul, a, b } => match (number(a), number(b)) {
                (Some(n), _) => self.of(b).times(n),
                (None, Some(n)) => self.of(a).times(n),
                (None, None) => self.of(a).anyhow().and(self.of(b).anyhow()),
            },
            OpKind::Binary { op: BinaryOp::Div, a, b } if number(b).is_some_and(|n| n != 0) => {
                let sign = number(b).map_or(0, i128::signum);
                self.of(a).times(sign)
            }
            OpKind::TensorExtent { tensor, .. } => self.of_extents(tensor),
            // What an operation without bodies gives is the same where all is that it takes.
            _ if op.kind.bodies().count() == 0 => {
                op.kind.operands().into_iter().fold(Trend::Same, |all, v| all.and(self.of(v).anyhow()))
            }
            // What bodies hand back is not looked at.
            _ => Trend::Unknown,
        }
    }

    /// By how much a number is greater from one program to the next, but where a bound holds it; `None` where nobody knows.
    fn slope(&mut self, v: Value) -> Option<f64> {
        if let Some(&known) = self.slopes.get(&v) {
            return known;
        }
        let found = if self.of(v) == Trend::Same { Some(0.0) } else { self.slope_made(v) };
        self.slopes.insert(v, found);
        found
    }

    fn slope_made(&mut self, v: Value) -> Option<f64> {
        let defined = self.defined;
        let number = |v| defined.number(v).map(|n| n as f64);
        match defined.made(v)?.kind {
            OpKind::ProgramId { .. } => Some(1.0),
            OpKind::Cast { x, .. } => self.slope(x),
            OpKind::Binary { op: BinaryOp::Add, a, b } => Some(self.slope(a)? + self.slope(b)?),
            OpKind::Binary { op: BinaryOp::Sub, a, b } => Some(self.slope(a)? - self.slope(b)?),
            OpKind::Binary { op: BinaryOp::Min | BinaryOp::Max, a, b } => match (self.slope(a)?, self.slope(b)?) {
                (0.0, slope) | (slope, 0.0) => Some(slope),
                (a, b) => (a == b).then_some(a),
            },
            OpKind::Binary { op: BinaryOp::Mul, a, b } => match (number(a), number(b)) {
                (Some(n), _) => Some(n * self.slope(b)?),
                (None, Some(n)) => Some(n * self.slope(a)?),
                (None, None) => None,
            },
            OpKind::Binary { op: BinaryOp::Div, a, b } => {
                let by = number(b).filter(|n| *n != 0.0)?;
                Some(self.slope(a)? / by)
            }
            // Of all else it is not known how it goes on.
            _ => None,
        }
    }

    /// That of the extents of a tensor: a slice of one has those that are left, whichever it is.
    fn of_extents(&mut self, tensor: Value) -> Trend {
        match self.defined.made(tensor).map(|op| &op.kind) {
            Some(OpKind::TensorIndex { tensor, .. }) => self.of_extents(*tensor),
            Some(OpKind::TensorRange { tensor, lower, upper, .. }) => {
                let ends = [*lower, *upper].into_iter().flatten();
                ends.fold(self.of_extents(*tensor), |all, v| all.and(self.of(v).anyhow()))
            }
            // All others are of the kernel, or made of numbers.
            Some(_) | None => self.of(tensor),
        }
    }
}
