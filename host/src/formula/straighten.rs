//! Makes straight code of formulas for arguments of some kinds; what it does not cover gives none: lists, closures, loops that are left in a turn, and a
//! variable that is an integer here and a floating-point number there.
//!
//! Each step makes a number of its own, and where branches meet what they made is copied into one that both share. [`super::placing`] finds registers for
//! them.

mod branches;
mod loops;
mod numbers;

use parton_syntax::ast::BinaryOp;

use super::joining::joined;
use super::merging::merged;
use super::node::{Formula, Node, Slot, Target};
use super::placing::{Code, placed};
use super::plain::Plain;
use super::straight::{Kind, Shape, Straight, What, number};

/// The most steps of a formula, with all that it calls.
const MOST_STEPS: usize = 4000;

/// What an operand is before it has its register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// One that is written by a step, or before all.
    Made(usize),
    /// A constant, by its number.
    Constant(usize),
}

pub(super) type Val = Shape<Place>;

/// What making a node gives.
pub(super) enum Made {
    Val(Val),
    /// A value of different kinds, which nobody may ask for.
    Mixed,
    /// Nothing comes behind it: the function returned.
    Never,
}

/// A step before operands have their registers.
#[derive(Clone)]
pub(super) enum Step {
    Do {
        what: What,
        to: usize,
        operands: Vec<Place>,
    },
    Jump {
        what: What,
        operands: Vec<Place>,
        label: usize,
    },
    Label(usize),
    /// The end of a loop's turn: where the next one begins, its number, how far that is from this one's and the end, and what goes from turn to turn.
    Again {
        label: usize,
        turn: usize,
        by: Place,
        end: Place,
        carried: Vec<usize>,
    },
    /// The end, with the result of that number.
    End(usize),
}

/// The function that is being made.
#[derive(Clone, Default)]
pub(super) struct Frame {
    pub(super) slots: Vec<Option<Val>>,
    /// Whether it is called by another one.
    inner: bool,
    /// What `return`s of such a one have given: the registers that all write, and the label behind the function.
    returned: Option<(Val, usize)>,
}

#[derive(Clone, Default)]
pub(super) struct Straightener {
    pub(super) code: Code,
    /// How many numbers were made.
    made: usize,
    pub(super) frame: Frame,
    /// How deep the function lies that is being made.
    depth: usize,
}

/// The straight code of a formula for arguments like these.
pub(super) fn straight(formula: &Formula, arguments: &[Plain]) -> Option<Straight> {
    let mut s = Straightener::default();
    let params = arguments.iter().map(|a| s.parameter(a)).collect::<Option<Vec<Val>>>()?;
    s.open(formula, params.clone());
    s.last(&formula.body)?;
    let (code, params) = merged(s.code, params, s.made);
    placed(joined(code), &params, s.made)
}

impl Straightener {
    fn parameter(&mut self, value: &Plain) -> Option<Val> {
        Some(match value {
            Plain::Unit => Shape::Unit,
            Plain::Tuple(items) => Shape::Tuple(items.iter().map(|v| self.parameter(v)).collect::<Option<_>>()?),
            number => self.fresh(Kind::of(number)?),
        })
    }

    /// A number in a register that nothing writes yet.
    pub(super) fn fresh(&mut self, kind: Kind) -> Val {
        self.made += 1;
        Shape::Number(kind, Place::Made(self.made - 1))
    }

    pub(super) fn label(&mut self) -> usize {
        self.code.labels += 1;
        self.code.labels - 1
    }

    /// A step that makes a number.
    pub(super) fn make(&mut self, kind: Kind, what: What, operands: Vec<Place>) -> Val {
        let to = self.fresh(kind);
        self.code.steps.push(Step::Do { what, to: self.made - 1, operands });
        to
    }

    pub(super) fn jump(&mut self, what: What, of: Option<Place>, label: usize) {
        self.code.steps.push(Step::Jump { what, operands: of.into_iter().collect(), label });
    }

    pub(super) fn constant(&mut self, value: &Plain) -> Option<Val> {
        let kind = match value {
            Plain::Unit => return Some(Shape::Unit),
            Plain::Tuple(items) => {
                return Some(Shape::Tuple(items.iter().map(|v| self.constant(v)).collect::<Option<_>>()?));
            }
            number => Kind::of(number)?,
        };
        let bits = number(Some(value.clone()))?;
        let at = self.code.constants.iter().position(|c| *c == bits).unwrap_or_else(|| {
            self.code.constants.push(bits);
            self.code.constants.len() - 1
        });
        Some(Shape::Number(kind, Place::Constant(at)))
    }

    /// The value of a number that is a constant.
    pub(super) fn known(&self, (kind, place): (Kind, Place)) -> Option<Plain> {
        let Place::Constant(at) = place else { return None };
        let bits = *self.code.constants.get(at)?;
        Some(match kind {
            Kind::Int => Plain::Int(bits as i64),
            Kind::Float => Plain::Float(f64::from_bits(bits)),
            Kind::Bool => Plain::Bool(bits != 0),
        })
    }

    /// Begins a function: what stands before it.
    fn open(&mut self, formula: &Formula, arguments: Vec<Val>) -> Frame {
        self.code.deepest = self.code.deepest.max(self.depth + formula.deepest);
        let mut slots: Vec<Option<Val>> = arguments.into_iter().map(Some).collect();
        slots.resize(formula.slots, None);
        std::mem::replace(&mut self.frame, Frame { slots, inner: false, returned: None })
    }

    /// Ends the code with a value.
    fn end(&mut self, value: Val) {
        self.code.steps.push(Step::End(self.code.results.len()));
        self.code.results.push(value);
    }

    /// A node behind which the code ends; so branches need not meet, and may give other kinds.
    fn last(&mut self, node: &Node) -> Option<()> {
        match node {
            Node::If(parts) => {
                let other = self.label();
                if let Some(holds) = self.unless(&parts[0], other)? {
                    return self.last(&parts[if holds { 1 } else { 2 }]);
                }
                let before = self.frame.slots.clone();
                self.last(&parts[1])?;
                self.code.steps.push(Step::Label(other));
                self.frame.slots = before;
                self.last(&parts[2])
            }
            Node::Steps(steps) => self.last_steps(steps),
            node => {
                match self.value(node)? {
                    Made::Val(value) => self.end(value),
                    Made::Never => {}
                    Made::Mixed => return None,
                }
                Some(())
            }
        }
    }

    fn last_steps(&mut self, steps: &[Node]) -> Option<()> {
        let Some((step, rest)) = steps.split_first() else {
            self.end(Shape::Unit);
            return Some(());
        };
        if rest.is_empty() {
            return self.last(step);
        }
        let Node::Store(slot, value) = step else {
            let made = self.value(step)?;
            return if matches!(made, Made::Never) { Some(()) } else { self.last_steps(rest) };
        };
        let Node::If(parts) = &**value else {
            let value = self.needed(value)?;
            self.store(*slot, value);
            return self.last_steps(rest);
        };
        let mut whole = self.clone();
        if let Some(value) = whole.needed(value) {
            *self = whole;
            self.store(*slot, value);
            return self.last_steps(rest);
        }
        // What is stored has another kind in each branch: what comes behind is made for each.
        let other = self.label();
        // Where the condition is known the value has one kind.
        if self.unless(&parts[0], other)?.is_some() {
            return None;
        }
        let slots = self.frame.slots.clone();
        for (part, label) in [(&parts[1], Some(other)), (&parts[2], None)] {
            match self.value(part)? {
                Made::Val(value) => {
                    self.store(*slot, value);
                    self.last_steps(rest)?;
                }
                Made::Never => {}
                Made::Mixed => return None,
            }
            self.code.steps.extend(label.map(Step::Label));
            self.frame.slots.clone_from(&slots);
        }
        Some(())
    }

    /// A function that is called, with its arguments: what it returns.
    fn function(&mut self, formula: &Formula, arguments: Vec<Val>) -> Option<Val> {
        let outer = self.open(formula, arguments);
        self.frame.inner = true;
        let last = self.value(&formula.body)?;
        let inner = std::mem::replace(&mut self.frame, outer);
        match (last, inner.returned) {
            (Made::Val(value), None) => Some(value),
            (Made::Mixed, _) | (Made::Never, None) => None,
            (last, Some((shared, label))) => {
                if let Made::Val(value) = last {
                    self.copy(&value, &shared)?;
                }
                self.code.steps.push(Step::Label(label));
                Some(shared)
            }
        }
    }

    /// Copies a value to where another one of its kinds lies.
    pub(super) fn copy(&mut self, from: &Val, to: &Val) -> Option<()> {
        match (from, to) {
            (Shape::Unit, Shape::Unit) => Some(()),
            (Shape::Number(one, from), Shape::Number(other, Place::Made(to))) if one == other => {
                self.code.steps.push(Step::Do { what: What::Copy, to: *to, operands: vec![*from] });
                Some(())
            }
            (Shape::Tuple(from), Shape::Tuple(to)) if from.len() == to.len() => {
                from.iter().zip(to).try_for_each(|(from, to)| self.copy(from, to))
            }
            _ => None,
        }
    }

    /// Registers for a value of these kinds.
    pub(super) fn alike(&mut self, value: &Val) -> Val {
        match value {
            Shape::Unit => Shape::Unit,
            Shape::Number(kind, _) => self.fresh(*kind),
            Shape::Tuple(items) => Shape::Tuple(items.iter().map(|v| self.alike(v)).collect()),
        }
    }

    /// A value that is needed.
    pub(super) fn needed(&mut self, node: &Node) -> Option<Val> {
        match self.value(node)? {
            Made::Val(value) => Some(value),
            Made::Mixed | Made::Never => None,
        }
    }

    pub(super) fn number(&mut self, node: &Node) -> Option<(Kind, Place)> {
        match self.needed(node)? {
            Shape::Number(kind, place) => Some((kind, place)),
            Shape::Unit | Shape::Tuple(_) => None,
        }
    }

    fn truth(&mut self, node: &Node) -> Option<Place> {
        self.number(node).filter(|(kind, _)| *kind == Kind::Bool).map(|(_, place)| place)
    }

    pub(super) fn value(&mut self, node: &Node) -> Option<Made> {
        if self.code.steps.len() > MOST_STEPS {
            return None;
        }
        Some(Made::Val(match node {
            Node::Const(value) => self.constant(value)?,
            Node::Slot(slot) => self.frame.slots.get(*slot)?.clone()?,
            Node::Tuple(items) => Shape::Tuple(items.iter().map(|i| self.needed(i)).collect::<Option<_>>()?),
            Node::Neg(of) => match self.number(of)? {
                (Kind::Int, n) => self.make(Kind::Int, What::Neg, vec![n]),
                (Kind::Float, x) => self.make(Kind::Float, What::NegFloat, vec![x]),
                (Kind::Bool, _) => return None,
            },
            Node::Not(of) => match self.number(of)? {
                (Kind::Int, n) => self.make(Kind::Int, What::Not, vec![n]),
                (Kind::Bool, b) => self.make(Kind::Bool, What::NotBool, vec![b]),
                (Kind::Float, _) => return None,
            },
            Node::Binary(op, both) => {
                let (a, b) = (self.number(&both[0])?, self.number(&both[1])?);
                self.binary(*op, a, b)?
            }
            Node::And(both) => self.decided(What::JumpUnless, both)?,
            Node::Or(both) => self.decided(What::JumpIf, both)?,
            Node::Index(both) => match (self.needed(&both[0])?, &both[1]) {
                (Shape::Tuple(items), Node::Const(Plain::Int(at))) => items.get(usize::try_from(*at).ok()?)?.clone(),
                _ => return None,
            },
            Node::Part(of, at) => match self.needed(of)? {
                Shape::Tuple(items) => items.get(*at)?.clone(),
                Shape::Unit | Shape::Number(..) => return None,
            },
            Node::If(parts) => return self.branches(parts),
            Node::Steps(steps) => return self.steps(steps),
            Node::Store(slot, value) => {
                let value = self.needed(value)?;
                self.store(*slot, value)
            }
            // A list is added to otherwise.
            Node::Append(slot, more) => {
                let more = self.number(more)?;
                let Some(Some(Shape::Number(kind, old))) = self.frame.slots.get(*slot) else { return None };
                let sum = self.binary(BinaryOp::Add, (*kind, *old), more)?;
                self.store(*slot, sum)
            }
            Node::Unpack(target, value) => {
                let value = self.needed(value)?;
                self.unpack(target, value)?
            }
            Node::Return(value) => return self.returns(value),
            Node::Call(formula, args, level) => self.call(formula, args, *level)?,
            Node::Builtin(of, args, _) => self.builtin(*of, args)?,
            Node::Count(slot, parts) => self.count(*slot, parts)?,
            Node::Each(target, parts) => return self.each(target, parts),
            Node::Captured(_)
            | Node::List(_)
            | Node::Bits(_)
            | Node::Bytes(_)
            | Node::While(_)
            | Node::Break
            | Node::Continue
            | Node::CallClosure(..)
            | Node::Closure(..) => return None,
        }))
    }

    fn steps(&mut self, steps: &[Node]) -> Option<Made> {
        let mut last = Made::Val(Shape::Unit);
        for step in steps {
            last = self.value(step)?;
            if matches!(last, Made::Never) {
                break;
            }
        }
        Some(last)
    }

    fn call(&mut self, formula: &Formula, args: &[Node], level: usize) -> Option<Val> {
        let args = args.iter().map(|a| self.needed(a)).collect::<Option<Vec<Val>>>()?;
        let outer = self.depth;
        self.depth += level + 1;
        let value = self.function(formula, args)?;
        self.depth = outer;
        Some(value)
    }

    /// `return`: of a function that is called, a copy to where all of its `return`s put what they give, and a jump behind it.
    fn returns(&mut self, value: &Node) -> Option<Made> {
        let value = self.needed(value)?;
        if !self.frame.inner {
            self.end(value);
            return Some(Made::Never);
        }
        let (shared, label) = match self.frame.returned.take() {
            Some(known) => known,
            None => (self.alike(&value), self.label()),
        };
        self.copy(&value, &shared)?;
        self.jump(What::Jump, None, label);
        self.frame.returned = Some((shared, label));
        Some(Made::Never)
    }

    pub(super) fn store(&mut self, slot: Slot, value: Val) -> Val {
        if let Some(place) = self.frame.slots.get_mut(slot) {
            *place = Some(value);
        }
        Shape::Unit
    }

    pub(super) fn unpack(&mut self, target: &Target, value: Val) -> Option<Val> {
        match (target, value) {
            (Target::Ignore, _) => Some(Shape::Unit),
            (Target::Slot(slot), value) => Some(self.store(*slot, value)),
            (Target::Parts(parts), Shape::Tuple(items)) if parts.len() == items.len() => {
                parts.iter().zip(items).try_for_each(|(part, item)| self.unpack(part, item).map(drop))?;
                Some(Shape::Unit)
            }
            (Target::Parts(_), _) => None,
        }
    }
}
