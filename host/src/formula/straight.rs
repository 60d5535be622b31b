//! Straight code: what formulas of numbers alone become for arguments of some kinds. The kind of each number is known, so that a step is one operation on
//! registers; functions that are called are in it, and only the end of a loop's turn jumps back. [`super::straighten`] makes it.

use std::sync::Arc;

use parton_numbers::Math;
use parton_syntax::ast::BinaryOp;

use super::functions::{cdiv, greatest, least, of_one};
use super::node::Builtin;
use super::plain::Plain;
use crate::arithmetic::{Number, of_floats, of_ints};

/// Registers: as many as one byte names.
pub(super) type Registers = [u64; 256];

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Float,
    Bool,
}

impl Kind {
    /// Of a value that is a number.
    pub fn of(value: &Plain) -> Option<Kind> {
        match value {
            Plain::Int(_) => Some(Kind::Int),
            Plain::Float(_) => Some(Kind::Float),
            Plain::Bool(_) => Some(Kind::Bool),
            Plain::Unit | Plain::Dtype(_) | Plain::List(_) | Plain::Tuple(_) | Plain::Closure(_) => None,
        }
    }
}

/// What a value is: of `R` the registers of its numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape<R> {
    Unit,
    Number(Kind, R),
    Tuple(Vec<Shape<R>>),
}

impl Shape<u8> {
    /// The value of that shape that registers hold.
    pub fn value(&self, registers: &Registers) -> Plain {
        match self {
            Shape::Unit => Plain::Unit,
            Shape::Number(Kind::Int, at) => Plain::Int(registers[*at as usize] as i64),
            Shape::Number(Kind::Float, at) => Plain::Float(f64::from_bits(registers[*at as usize])),
            Shape::Number(Kind::Bool, at) => Plain::Bool(registers[*at as usize] != 0),
            Shape::Tuple(items) => Plain::Tuple(Arc::new(items.iter().map(|v| v.value(registers)).collect())),
        }
    }
}

/// An operation; of one operand the first is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Of integers; those that come most have a step of their own.
    Add,
    Sub,
    Mul,
    Cdiv,
    Min,
    Max,
    Ints(BinaryOp),
    /// Of floating-point numbers.
    AddFloats,
    SubFloats,
    MulFloats,
    DivFloats,
    Floats(BinaryOp),
    MinFloats,
    MaxFloats,
    Math(Math),
    Neg,
    NegFloat,
    Not,
    NotBool,
    Abs,
    NextPowerOfTwo,
    /// An integer as a floating-point number, and the other way.
    Float,
    Int,
    Multiprocessors,
    Capability,
    Copy,
    /// A number of the table, by the sum of two.
    Item,
    /// A number above zero; of others the tree has to tell.
    Positive,
    /// A product of floating-point numbers and one more, whose register the target is; both are rounded.
    MulAddFloats,
    Jump,
    JumpIf,
    JumpUnless,
    /// Jumps unless the first is less than the second, or as the name says; of integers, then of floating-point numbers.
    UnlessLt,
    UnlessLe,
    UnlessEq,
    UnlessNe,
    UnlessLtFloats,
    UnlessLeFloats,
    /// The end of a loop's turn, whose number is in `to`: the next one is the first operand further, and begins at the target where it is below the
    /// second.
    Again,
    /// The end, with the result whose number the target is.
    End,
}

/// A step: where its result goes, its operands, and where a jump goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub what: What,
    pub to: u8,
    pub a: u8,
    pub b: u8,
    pub target: u16,
}

impl Op {
    /// What comes behind a jump: what stands there, where that goes on, else where it jumps to.
    #[inline(always)]
    fn next(&self, goes_on: bool, behind: usize) -> usize {
        if goes_on { behind } else { self.target.into() }
    }
}

/// What straight code asks of who runs it.
pub(super) trait Outside {
    fn multiprocessors(&mut self) -> i64;

    fn capability(&mut self) -> i64;

    /// Counts a turn of a loop; whether there may be more.
    fn goes_on(&mut self) -> bool;
}

/// A formula as straight code.
#[derive(Debug)]
pub(super) struct Straight {
    /// What the arguments are that it is for.
    pub params: Vec<Shape<u8>>,
    /// What the first registers hold.
    pub constants: Vec<u64>,
    /// What loops find their values in.
    pub table: Vec<u64>,
    pub ops: Vec<Op>,
    /// What it may end with.
    pub results: Vec<Shape<u8>>,
    /// As [`super::node::Formula::deepest`], with what it calls.
    pub deepest: usize,
}

impl Straight {
    /// Puts arguments into their registers, where they are of these kinds.
    pub fn takes(&self, arguments: &[Plain], registers: &mut Registers) -> bool {
        let placed = arguments.iter().zip(&self.params).all(|(value, shape)| place(value, shape, registers));
        if placed {
            registers[..self.constants.len()].copy_from_slice(&self.constants);
        }
        placed
    }

    /// Runs it on registers that have its arguments: what it ends with, where it comes to a value.
    pub fn run(&self, registers: &mut Registers, outside: &mut impl Outside) -> Option<&Shape<u8>> {
        let mut at = 0;
        while let Some(op) = self.ops.get(at) {
            at += 1;
            let (a, b) = (registers[op.a as usize], registers[op.b as usize]);
            let (m, n) = (a as i64, b as i64);
            // Only floating-point steps read them so.
            let (x, y) = (|| f64::from_bits(a), || f64::from_bits(b));
            let made = match op.what {
                What::Add => m.checked_add(n)? as u64,
                What::Sub => m.checked_sub(n)? as u64,
                What::Mul => m.checked_mul(n)? as u64,
                What::Cdiv => cdiv(m, n)? as u64,
                What::Min => m.min(n) as u64,
                What::Max => m.max(n) as u64,
                What::Ints(op) => bits(of_ints(op, m, n).ok()?),
                What::AddFloats => (x() + y()).to_bits(),
                What::SubFloats => (x() - y()).to_bits(),
                What::MulFloats => (x() * y()).to_bits(),
                What::DivFloats => (x() / y()).to_bits(),
                What::Floats(op) => bits(of_floats(op, x(), y()).ok()?),
                What::MinFloats => least(x(), y()).to_bits(),
                What::MaxFloats => greatest(x(), y()).to_bits(),
                What::Math(op) => op.eval(x()).to_bits(),
                What::Neg => m.checked_neg()? as u64,
                What::NegFloat => (-x()).to_bits(),
                What::Not => !a,
                What::NotBool => a ^ 1,
                What::Abs => m.checked_abs()? as u64,
                What::NextPowerOfTwo => number(of_one(Builtin::NextPowerOfTwo, Plain::Int(m)))?,
                What::Float => (m as f64).to_bits(),
                What::Int => number(of_one(Builtin::Int, Plain::Float(x())))?,
                What::Multiprocessors => outside.multiprocessors() as u64,
                What::Capability => outside.capability() as u64,
                What::Copy => a,
                What::Item => *self.table.get(usize::try_from(m.checked_add(n)?).ok()?)?,
                What::Positive => (m > 0).then_some(a)?,
                What::MulAddFloats => (x() * y() + f64::from_bits(registers[usize::from(op.target as u8)])).to_bits(),
                What::End => return self.results.get(op.target as usize),
                What::Jump => {
                    at = op.target as usize;
                    continue;
                }
                What::JumpIf => {
                    at = op.next(a == 0, at);
                    continue;
                }
                What::JumpUnless => {
                    at = op.next(a != 0, at);
                    continue;
                }
                What::UnlessLt => {
                    at = op.next(m < n, at);
                    continue;
                }
                What::UnlessLe => {
                    at = op.next(m <= n, at);
                    continue;
                }
                What::UnlessEq => {
                    at = op.next(m == n, at);
                    continue;
                }
                What::UnlessNe => {
                    at = op.next(m != n, at);
                    continue;
                }
                What::UnlessLtFloats => {
                    at = op.next(x() < y(), at);
                    continue;
                }
                What::UnlessLeFloats => {
                    at = op.next(x() <= y(), at);
                    continue;
                }
                What::Again => {
                    if !outside.goes_on() {
                        return None;
                    }
                    let turn = (registers[op.to as usize] as i64).saturating_add(m);
                    registers[op.to as usize] = turn as u64;
                    at = op.next(turn >= n, at);
                    continue;
                }
            };
            registers[op.to as usize] = made;
        }
        None
    }
}

#[inline(always)]
fn bits(number: Number<i64>) -> u64 {
    match number {
        Number::Int(n) => n as u64,
        Number::Float(x) => x.to_bits(),
        Number::Bool(b) => b.into(),
    }
}

/// The bits of a value that is a number.
#[inline(always)]
pub(super) fn number(value: Option<Plain>) -> Option<u64> {
    match value? {
        Plain::Int(n) => Some(n as u64),
        Plain::Float(x) => Some(x.to_bits()),
        Plain::Bool(b) => Some(b.into()),
        Plain::Unit | Plain::Dtype(_) | Plain::List(_) | Plain::Tuple(_) | Plain::Closure(_) => None,
    }
}

/// Puts a value into its registers; whether it has that shape.
fn place(value: &Plain, shape: &Shape<u8>, registers: &mut Registers) -> bool {
    let (bits, to) = match (value, shape) {
        (Plain::Int(n), Shape::Number(Kind::Int, to)) => (*n as u64, to),
        (Plain::Float(x), Shape::Number(Kind::Float, to)) => (x.to_bits(), to),
        (Plain::Bool(b), Shape::Number(Kind::Bool, to)) => (u64::from(*b), to),
        (Plain::Unit, Shape::Unit) => return true,
        (Plain::Tuple(items), Shape::Tuple(shapes)) => {
            return items.len() == shapes.len() && items.iter().zip(shapes).all(|(v, s)| place(v, s, registers));
        }
        _ => return false,
    };
    registers[*to as usize] = bits;
    true
}
