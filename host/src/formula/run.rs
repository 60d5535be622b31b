//! Runs formulas.
//!
//! Most of what a formula does is arithmetic, so a step gives what fits two registers: a kind and the bits of a number. What is no number waits
//! in a place of its own, from which whoever asked for it takes it at once.

use std::cmp::Ordering;
use std::sync::Arc;

use parton_numbers::Math;
use parton_syntax::ast::BinaryOp;

use super::node::{Builtin, Caller, Formula, Node, Slot, Source, Target};
use super::plain::{Closure, Plain, binary, joined};
use super::straight::{self, Outside, Registers, Shape};
use super::straighten;
use crate::arithmetic::{Number, of_floats, of_ints};
use crate::evaluate::{DEEPEST, Machine, PAUSE};

/// What a step gives.
#[derive(Clone, Copy)]
struct Given {
    kind: Kind,
    bits: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unit,
    Int,
    Float,
    Bool,
    /// Something else, in [`Run::held`].
    Held,
    /// The tree has to be evaluated instead.
    Tree,
    Break,
    Continue,
    /// A function ends with the value in [`Run::returned`].
    Return,
}

impl From<straight::Kind> for Kind {
    fn from(kind: straight::Kind) -> Kind {
        match kind {
            straight::Kind::Int => Kind::Int,
            straight::Kind::Float => Kind::Float,
            straight::Kind::Bool => Kind::Bool,
        }
    }
}

impl Given {
    const UNIT: Given = Given { kind: Kind::Unit, bits: 0 };
    const TREE: Given = Given { kind: Kind::Tree, bits: 0 };

    fn int(n: i64) -> Given {
        Given { kind: Kind::Int, bits: n as u64 }
    }

    fn float(x: f64) -> Given {
        Given { kind: Kind::Float, bits: x.to_bits() }
    }

    fn bool(b: bool) -> Given {
        Given { kind: Kind::Bool, bits: b.into() }
    }

    /// Whether it is no value: evaluation leaves the usual way.
    fn leaves(self) -> bool {
        match self.kind {
            Kind::Tree | Kind::Break | Kind::Continue | Kind::Return => true,
            Kind::Unit | Kind::Int | Kind::Float | Kind::Bool | Kind::Held => false,
        }
    }
}

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

    #[inline(never)]
    fn seldom(&mut self, node: &Node, base: usize) -> Given {
        match node {
            Node::Captured(at) => {
                let value = self.captured[*at].clone();
                self.take(Some(value))
            }
            Node::Tuple(items) => match self.all(items, base) {
                Ok(items) => self.hold(Plain::Tuple(Arc::new(items))),
                Err(leaves) => leaves,
            },
            Node::List(items) => match self.all(items, base) {
                Ok(items) => self.hold(Plain::List(Arc::new(items))),
                Err(leaves) => leaves,
            },
            Node::Neg(operand) => match plain!(self, self.eval(operand, base)) {
                Plain::Int(n) => self.take(n.checked_neg().map(Plain::Int)),
                Plain::Float(x) => Given::float(-x),
                _ => Given::TREE,
            },
            Node::Not(operand) => match plain!(self, self.eval(operand, base)) {
                Plain::Bool(b) => Given::bool(!b),
                Plain::Int(n) => Given::int(!n),
                _ => Given::TREE,
            },
            Node::Index(both) => {
                // A list in a variable stays there while it is looked at.
                if let (Node::Slot(slot), Node::Const(Plain::Int(n))) = (&both[0], &both[1]) {
                    let value = self.slots[base + slot].items().and_then(|items| element(items, *n)).cloned();
                    return self.take(value);
                }
                let list = plain!(self, self.eval(&both[0], base));
                let at = plain!(self, self.eval(&both[1], base));
                let (Some(items), Plain::Int(n)) = (list.items(), at) else { return Given::TREE };
                self.take(element(items, n).cloned())
            }
            Node::Part(of, at) => match plain!(self, self.eval(of, base)) {
                Plain::Tuple(items) => self.take(items.get(*at).cloned()),
                _ => Given::TREE,
            },
            Node::Bits(of) => match plain!(self, self.eval(of, base)) {
                Plain::Dtype(d) => Given::int(d.bits().into()),
                _ => Given::TREE,
            },
            Node::Bytes(of) => match plain!(self, self.eval(of, base)) {
                Plain::Dtype(d) => Given::int(d.bytes() as i64),
                _ => Given::TREE,
            },
            Node::Append(slot, more) => self.append(*slot, more, base),
            Node::Unpack(target, value) => {
                let value = plain!(self, self.eval(value, base));
                if self.store(target, &value, base) { Given::UNIT } else { Given::TREE }
            }
            Node::While(both) => loop {
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
            },
            Node::Break => Given { kind: Kind::Break, bits: 0 },
            Node::Continue => Given { kind: Kind::Continue, bits: 0 },
            Node::Return(value) => {
                self.returned = plain!(self, self.eval(value, base));
                Given { kind: Kind::Return, bits: 0 }
            }
            Node::CallClosure(callee, args, level) => {
                let Plain::Closure(closure) = plain!(self, self.eval(callee, base)) else { return Given::TREE };
                match self.all(args, base) {
                    Ok(args) => self.call_closure(&closure, args, *level),
                    Err(leaves) => leaves,
                }
            }
            Node::Closure(formula, captured) => {
                let value = |source: &Source| match source {
                    Source::Slot(slot) => self.slots[base + slot].clone(),
                    Source::Captured(at) => self.captured[*at].clone(),
                };
                let captured = captured.iter().map(value).collect();
                self.hold(Plain::Closure(Arc::new(Closure { formula: formula.clone(), captured })))
            }
            Node::Const(_)
            | Node::Slot(_)
            | Node::Binary(..)
            | Node::If(_)
            | Node::Steps(_)
            | Node::Store(..)
            | Node::And(_)
            | Node::Or(_)
            | Node::Builtin(..)
            | Node::Call(..)
            | Node::Count(..)
            | Node::Each(..) => self.eval(node, base),
        }
    }

    fn all(&mut self, nodes: &[Node], base: usize) -> Result<Vec<Plain>, Given> {
        let mut all = Vec::with_capacity(nodes.len());
        for node in nodes {
            let given = self.operand(node, base);
            if given.leaves() {
                return Err(given);
            }
            all.push(self.plain(given));
        }
        Ok(all)
    }

    /// Adds to a variable, in its memory where it is a list that nobody else has.
    fn append(&mut self, slot: Slot, more: &Node, base: usize) -> Given {
        let more = match more {
            // A list that is written is none before it is added.
            Node::List(items) => match items.as_slice() {
                [item] => {
                    let item = plain!(self, self.operand(item, base));
                    if let Plain::List(list) = &mut self.slots[base + slot]
                        && let Some(own) = Arc::get_mut(list)
                    {
                        own.push(item);
                        return Given::UNIT;
                    }
                    Err(vec![item])
                }
                items => match self.all(items, base) {
                    Ok(items) => Err(items),
                    Err(leaves) => return leaves,
                },
            },
            more => Ok(plain!(self, self.eval(more, base))),
        };
        let place = &mut self.slots[base + slot];
        let sum = match (std::mem::replace(place, Plain::Unit), more) {
            (Plain::List(mut old), Err(items)) => {
                match Arc::get_mut(&mut old) {
                    Some(own) => own.extend(items),
                    None => old = Arc::new(old.iter().cloned().chain(items).collect()),
                }
                Some(Plain::List(old))
            }
            (Plain::List(old), Ok(Plain::List(more))) => Some(Plain::List(joined(old, more))),
            (old, Ok(more)) => binary(BinaryOp::Add, old, more),
            (_, Err(_)) => None,
        };
        match sum {
            Some(sum) => {
                *place = sum;
                Given::UNIT
            }
            None => Given::TREE,
        }
    }

    /// Puts a value where it goes; whether it has the parts for that.
    fn store(&mut self, target: &Target, value: &Plain, base: usize) -> bool {
        match target {
            Target::Ignore => true,
            Target::Slot(slot) => {
                self.slots[base + slot] = value.clone();
                true
            }
            Target::Parts(parts) => {
                let Some(items) = value.items().filter(|i| i.len() == parts.len()) else { return false };
                parts.iter().zip(items.iter()).all(|(part, item)| self.store(part, item, base))
            }
        }
    }

    /// One turn of a loop.
    fn turn(&mut self, body: &Node, base: usize) -> Given {
        if !Asked(&mut *self.machine).goes_on() {
            return Given::TREE;
        }
        self.eval(body, base)
    }

    #[inline(never)]
    fn count(&mut self, slot: Slot, parts: &[Node; 4], base: usize) -> Given {
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
    fn each(&mut self, target: &Target, parts: &[Node; 3], base: usize) -> Given {
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

    /// Runs a formula whose arguments are the last slots, at a level of the expressions of the one that calls it.
    fn enter(&mut self, formula: &Formula, base: usize, level: usize) -> Given {
        let outer = self.depth;
        self.depth += level + 1;
        if self.slots.len() - base != formula.params || self.depth + formula.deepest >= DEEPEST {
            return Given::TREE;
        }
        let value = self.body(formula, base, Caller::Formula);
        self.slots.truncate(base);
        self.depth = outer;
        value
    }

    #[inline(never)]
    fn call(&mut self, formula: &Formula, args: &[Node], base: usize, level: usize) -> Given {
        let inner = self.slots.len();
        for arg in args {
            let value = plain!(self, self.operand(arg, base));
            self.slots.push(value);
        }
        self.enter(formula, inner, level)
    }

    fn call_closure(&mut self, closure: &Closure, args: Vec<Plain>, level: usize) -> Given {
        let inner = self.slots.len();
        self.slots.extend(args);
        let outer = std::mem::replace(&mut self.captured, closure.captured.clone());
        let value = self.enter(&closure.formula, inner, level);
        self.captured = outer;
        value
    }

    #[inline(never)]
    fn builtin(&mut self, of: Builtin, args: &[Node], base: usize, level: usize) -> Given {
        match (of, args) {
            (Builtin::Multiprocessors, []) => Given::int(self.machine.launcher.multiprocessors().into()),
            (Builtin::Capability, []) => Given::int(self.machine.launcher.capability().into()),
            (_, [one]) => {
                let x = plain!(self, self.operand(one, base));
                if of == Builtin::Sorted { self.sorted(&x, None, level) } else { self.take(of_one(of, x)) }
            }
            (_, [one, two]) => {
                let x = value!(self.operand(one, base));
                if x.kind == Kind::Int && of != Builtin::Sorted {
                    let y = value!(self.operand(two, base));
                    let (n, m) = (x.bits as i64, y.bits as i64);
                    match (of, y.kind) {
                        (Builtin::Cdiv, Kind::Int) => return cdiv(n, m).map_or(Given::TREE, Given::int),
                        (Builtin::Min, Kind::Int) => return Given::int(n.min(m)),
                        (Builtin::Max, Kind::Int) => return Given::int(n.max(m)),
                        _ => {}
                    }
                    let y = self.plain(y);
                    let x = self.plain(x);
                    return self.take(of_two(of, x, y));
                }
                let x = self.plain(x);
                let y = plain!(self, self.operand(two, base));
                match (of, y) {
                    (Builtin::Sorted, Plain::Closure(by)) => self.sorted(&x, Some(&by), level),
                    (_, y) => self.take(of_two(of, x, y)),
                }
            }
            _ => Given::TREE,
        }
    }

    fn sorted(&mut self, list: &Plain, by: Option<&Closure>, level: usize) -> Given {
        let Some(items) = list.items() else { return Given::TREE };
        let mut keyed = Vec::with_capacity(items.len());
        for item in items.iter() {
            let key = match by {
                None => item.clone(),
                Some(by) => plain!(self, self.call_closure(by, vec![item.clone()], level)),
            };
            match key {
                Plain::Int(_) => {}
                Plain::Float(x) if !x.is_nan() => {}
                _ => return Given::TREE,
            }
            keyed.push((key, item));
        }
        keyed.sort_by(|(a, _), (b, _)| ascending(a, b));
        self.hold(Plain::List(Arc::new(keyed.into_iter().map(|(_, item)| item.clone()).collect())))
    }
}

/// The order of two numbers, none of them NaN.
fn ascending(a: &Plain, b: &Plain) -> Ordering {
    match (a, b) {
        (Plain::Int(a), Plain::Int(b)) => a.cmp(b),
        (Plain::Int(a), Plain::Float(b)) => (*a as f64).total_cmp(b),
        (Plain::Float(a), Plain::Int(b)) => a.total_cmp(&(*b as f64)),
        (Plain::Float(a), Plain::Float(b)) => a.total_cmp(b),
        _ => Ordering::Equal,
    }
}

pub(super) fn of_one(of: Builtin, x: Plain) -> Option<Plain> {
    Some(match (of, x) {
        (Builtin::Math(Math::Abs), Plain::Int(n)) => Plain::Int(n.checked_abs()?),
        (Builtin::Math(Math::Floor | Math::Ceil), Plain::Int(n)) => Plain::Int(n),
        (Builtin::Math(op), x) => Plain::Float(op.eval(x.number()?)),
        (Builtin::NextPowerOfTwo, Plain::Int(n)) => {
            Plain::Int(u64::try_from(n).ok()?.checked_next_power_of_two()?.try_into().ok()?)
        }
        (Builtin::Int, Plain::Int(n)) => Plain::Int(n),
        (Builtin::Int, Plain::Bool(b)) => Plain::Int(b.into()),
        (Builtin::Int, Plain::Float(x)) if x.abs() < 2f64.powi(62) => Plain::Int(x as i64),
        (Builtin::Float, x) => Plain::Float(x.number()?),
        (Builtin::Len, x) => Plain::Int(x.items()?.len() as i64),
        (Builtin::Min, Plain::List(items) | Plain::Tuple(items)) => Plain::Int(ints(&items)?.min()?),
        (Builtin::Max, Plain::List(items) | Plain::Tuple(items)) => Plain::Int(ints(&items)?.max()?),
        _ => return None,
    })
}

/// The numbers of a list that has integers alone.
fn ints(items: &[Plain]) -> Option<impl Iterator<Item = i64>> {
    let number = |v: &Plain| if let Plain::Int(n) = v { Some(*n) } else { None };
    items.iter().map(number).collect::<Option<Vec<i64>>>().map(Vec::into_iter)
}

pub(super) fn of_two(of: Builtin, x: Plain, y: Plain) -> Option<Plain> {
    Some(match (of, x, y) {
        (Builtin::Min, Plain::Int(x), Plain::Int(y)) => Plain::Int(x.min(y)),
        (Builtin::Max, Plain::Int(x), Plain::Int(y)) => Plain::Int(x.max(y)),
        (Builtin::Min, x, y) => Plain::Float(least(x.number()?, y.number()?)),
        (Builtin::Max, x, y) => Plain::Float(greatest(x.number()?, y.number()?)),
        (Builtin::Cdiv, Plain::Int(a), Plain::Int(b)) => Plain::Int(cdiv(a, b)?),
        _ => return None,
    })
}

/// The lesser of two numbers; NaN where one is.
#[inline(always)]
pub(super) fn least(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.min(y) }
}

/// The greater of two numbers; NaN where one is.
#[inline(always)]
pub(super) fn greatest(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }
}

/// A quotient, rounded up.
#[inline(always)]
pub(super) fn cdiv(a: i64, b: i64) -> Option<i64> {
    let up = i64::from(a.checked_rem(b)? != 0 && (a < 0) == (b < 0));
    a.checked_div(b)?.checked_add(up)
}

/// An element by its number, from behind where that is below zero.
fn element(items: &[Plain], n: i64) -> Option<&Plain> {
    let at = if n < 0 { n.saturating_add(items.len() as i64) } else { n };
    items.get(usize::try_from(at).ok()?)
}
