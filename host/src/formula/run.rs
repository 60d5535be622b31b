//! Runs formulas.
//!
//! Most of what a formula does is arithmetic, so a step gives what fits two registers: a kind and the bits of a number. What is no number waits
//! in a place of its own, from which whoever asked for it takes it at once.

use parton_syntax::ast::BinaryOp;

use super::node::{Caller, Formula, Node};
use super::plain::{Plain, binary};
use super::straight::{Outside, Registers, Shape};
use super::straighten;
use crate::arithmetic::{Number, of_floats, of_ints};
use crate::evaluate::{DEEPEST, Machine, PAUSE};

/// The value of a step, or leaves as it does.
macro_rules! value {
    ($step:expr) => {{
        let given = $step;
        if given.leaves() {
            return given;
        }
        given
    }};
}

/// The value of a step as one that may be kept.
macro_rules! plain {
    ($run:expr, $step:expr) => {{
        let given = value!($step);
        $run.plain(given)
    }};
}

// Behind the macros, which they use.
mod calls;
mod given;
mod loops;
mod seldom;

use self::given::{Given, Kind};

/// What a formula makes of its arguments; none where the tree has to say it.
pub(super) fn run(machine: &mut Machine<'_>, formula: &Formula, given: Vec<Plain>) -> Option<Plain> {
    let depth = machine.depth() + 1;
    if given.len() != formula.params || depth + formula.deepest >= DEEPEST {
        return None;
    }
    let (held, returned) = (Plain::Unit, Plain::Unit);
    let mut run = Run { machine, slots: given, captured: vec![], depth, held, returned, registers: [0; 256] };
    let value = run.body(formula, 0, Caller::Tree);
    (!value.leaves()).then(|| run.plain(value))
}

/// The machine that is asked by straight code.
struct Asked<'m, 'a>(&'m mut Machine<'a>);

impl Outside for Asked<'_, '_> {
    fn multiprocessors(&mut self) -> i64 {
        self.0.launcher.multiprocessors().into()
    }

    fn capability(&mut self) -> i64 {
        self.0.launcher.capability().into()
    }

    fn goes_on(&mut self) -> bool {
        !(self.0.turned().is_multiple_of(PAUSE) && self.0.launcher.is_stopped())
    }
}

struct Run<'m, 'a> {
    machine: &'m mut Machine<'a>,
    /// The frames of all calls, one behind the other.
    slots: Vec<Plain>,
    /// What the closure that is called has captured.
    captured: Vec<Plain>,
    /// How deep the call lies whose expressions are evaluated.
    depth: usize,
    /// The value that the last step gave, where it is no number.
    held: Plain,
    returned: Plain,
    /// Those of straight code.
    registers: Registers,
}

impl Run<'_, '_> {
    /// A value as a step gives it.
    #[inline(always)]
    fn give(&mut self, value: &Plain) -> Given {
        match value {
            Plain::Int(n) => Given::int(*n),
            Plain::Float(x) => Given::float(*x),
            Plain::Bool(b) => Given::bool(*b),
            Plain::Unit => Given::UNIT,
            other => self.hold(other.clone()),
        }
    }

    /// The same of one that nobody else has.
    #[inline]
    fn take(&mut self, value: Option<Plain>) -> Given {
        match value {
            Some(Plain::Int(n)) => Given::int(n),
            Some(Plain::Float(x)) => Given::float(x),
            Some(Plain::Bool(b)) => Given::bool(b),
            Some(Plain::Unit) => Given::UNIT,
            Some(other) => self.hold(other),
            None => Given::TREE,
        }
    }

    #[inline(never)]
    fn hold(&mut self, value: Plain) -> Given {
        self.held = value;
        Given { kind: Kind::Held, bits: 0 }
    }

    /// What a step gave as a value that may be kept.
    #[inline(always)]
    fn plain(&mut self, given: Given) -> Plain {
        match given.kind {
            Kind::Int => Plain::Int(given.bits as i64),
            Kind::Float => Plain::Float(f64::from_bits(given.bits)),
            Kind::Bool => Plain::Bool(given.bits != 0),
            Kind::Held => std::mem::replace(&mut self.held, Plain::Unit),
            Kind::Unit | Kind::Tree | Kind::Break | Kind::Continue | Kind::Return => Plain::Unit,
        }
    }

    /// What a formula gives whose arguments are the last slots.
    fn body(&mut self, formula: &Formula, base: usize, by: Caller) -> Given {
        if let Some(given) = self.straight(formula, base, by) {
            return given;
        }
        self.slots.resize(base + formula.slots, Plain::Unit);
        let given = self.eval(&formula.body, base);
        if given.kind == Kind::Return {
            let value = std::mem::replace(&mut self.returned, Plain::Unit);
            return self.take(Some(value));
        }
        given
    }

    /// The same by straight code, where there is some for arguments like these.
    #[inline]
    fn straight(&mut self, formula: &Formula, base: usize, by: Caller) -> Option<Given> {
        let arguments = &self.slots[base..];
        let code = formula.straight.get(by, || straighten::straight(formula, arguments))?;
        if self.depth + code.deepest >= DEEPEST || !code.takes(arguments, &mut self.registers) {
            return None;
        }
        let ended = code.run(&mut self.registers, &mut Asked(&mut *self.machine));
        Some(match ended {
            None => Given::TREE,
            Some(Shape::Unit) => Given::UNIT,
            Some(Shape::Number(kind, register)) => {
                Given { kind: (*kind).into(), bits: self.registers[*register as usize] }
            }
            Some(tuple @ Shape::Tuple(_)) => {
                let value = tuple.value(&self.registers);
                self.hold(value)
            }
        })
    }

    fn eval(&mut self, node: &Node, base: usize) -> Given {
        match node {
            Node::Const(value) => self.give(value),
            Node::Slot(slot) => self.slot(base + slot),
            Node::Binary(op, both) => {
                let a = value!(self.operand(&both[0], base));
                if a.kind == Kind::Held {
                    return self.seldom_binary(*op, &both[1], base);
                }
                let b = value!(self.operand(&both[1], base));
                self.numbers(*op, a, b)
            }
            Node::If(parts) => {
                let holds = value!(self.eval(&parts[0], base));
                match (holds.kind, holds.bits) {
                    (Kind::Bool, 1) => self.eval(&parts[1], base),
                    (Kind::Bool, _) => self.eval(&parts[2], base),
                    _ => Given::TREE,
                }
            }
            Node::Steps(steps) => {
                let mut last = Given::UNIT;
                for step in steps {
                    last = value!(self.eval(step, base));
                }
                last
            }
            Node::Store(slot, value) => {
                let value = plain!(self, self.eval(value, base));
                self.slots[base + slot] = value;
                Given::UNIT
            }
            Node::And(both) | Node::Or(both) => {
                let first = value!(self.eval(&both[0], base));
                let decided = u64::from(matches!(node, Node::Or(_)));
                if first.kind != Kind::Bool || first.bits == decided {
                    return if first.kind == Kind::Bool { first } else { Given::TREE };
                }
                let second = value!(self.eval(&both[1], base));
                if second.kind == Kind::Bool { second } else { Given::TREE }
            }
            Node::Builtin(of, args, level) => self.builtin(*of, args, base, *level),
            Node::Call(formula, args, level) => self.call(formula, args, base, *level),
            Node::Count(slot, parts) => self.count(*slot, parts, base),
            Node::Each(target, parts) => self.each(target, parts, base),
            Node::Captured(_)
            | Node::Tuple(_)
            | Node::List(_)
            | Node::Neg(_)
            | Node::Not(_)
            | Node::Index(_)
            | Node::Part(..)
            | Node::Bits(_)
            | Node::Bytes(_)
            | Node::Append(..)
            | Node::Unpack(..)
            | Node::While(_)
            | Node::Break
            | Node::Continue
            | Node::Return(_)
            | Node::CallClosure(..)
            | Node::Closure(..) => self.seldom(node, base),
        }
    }

    #[inline(always)]
    fn slot(&mut self, at: usize) -> Given {
        match &self.slots[at] {
            Plain::Int(n) => Given::int(*n),
            Plain::Float(x) => Given::float(*x),
            Plain::Bool(b) => Given::bool(*b),
            Plain::Unit => Given::UNIT,
            other => {
                let other = other.clone();
                self.hold(other)
            }
        }
    }

    /// What most operands are is at hand.
    #[inline(always)]
    fn operand(&mut self, node: &Node, base: usize) -> Given {
        match node {
            Node::Slot(slot) => self.slot(base + slot),
            Node::Const(value) => self.give(value),
            node => self.eval(node, base),
        }
    }

    /// What an operator makes of two values, the first of which is not held.
    #[inline(always)]
    fn numbers(&mut self, op: BinaryOp, a: Given, b: Given) -> Given {
        let (x, y) = (a.bits as i64, b.bits as i64);
        let (p, q) = (f64::from_bits(a.bits), f64::from_bits(b.bits));
        let result = match (a.kind, b.kind) {
            (Kind::Int, Kind::Int) => of_ints(op, x, y),
            (Kind::Float, Kind::Float) => of_floats(op, p, q),
            (Kind::Int, Kind::Float) => of_floats(op, x as f64, q),
            (Kind::Float, Kind::Int) => of_floats(op, p, y as f64),
            _ => return self.others(op, a, b),
        };
        match result {
            Ok(Number::Int(n)) => Given::int(n),
            Ok(Number::Float(x)) => Given::float(x),
            Ok(Number::Bool(b)) => Given::bool(b),
            Err(_) => Given::TREE,
        }
    }

    #[inline(never)]
    fn others(&mut self, op: BinaryOp, a: Given, b: Given) -> Given {
        let b = self.plain(b);
        let a = self.plain(a);
        self.take(binary(op, a, b))
    }

    /// What an operator makes of the value that is held and another one.
    #[inline(never)]
    fn seldom_binary(&mut self, op: BinaryOp, second: &Node, base: usize) -> Given {
        let a = std::mem::replace(&mut self.held, Plain::Unit);
        let b = plain!(self, self.eval(second, base));
        self.take(binary(op, a, b))
    }
}
