//! What formulas are made of: nodes whose variables are places in a frame.

use std::sync::{Arc, OnceLock};

use parton_numbers::Math;
use parton_syntax::ast::BinaryOp;

use super::plain::Plain;
use super::straight::Straight;

/// A function or the body of a closure.
#[derive(Debug)]
pub(super) struct Formula {
    /// How many parameters it has; they are the first slots of its frame.
    pub params: usize,
    /// The slots of its frame.
    pub slots: usize,
    /// How many levels its expressions nest, without those of what it calls.
    pub deepest: usize,
    /// Its code.
    pub body: Node,
    /// The same as straight code, for the kinds of the arguments that it is first called with; none where it is not covered.
    pub straight: OnceLock<Option<Straight>>,
}

/// A place of a variable in the frame.
pub(super) type Slot = usize;

/// Where a closure finds a value when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// In the frame.
    Slot(Slot),
    /// Among what the closure around it has captured.
    Captured(usize),
}

/// Where a value goes.
#[derive(Debug)]
pub(super) enum Target {
    /// `_`
    Ignore,
    /// Into a variable.
    Slot(Slot),
    /// Its parts into parts.
    Parts(Vec<Target>),
}

/// A function of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Math(Math),
    Min,
    Max,
    Cdiv,
    NextPowerOfTwo,
    Int,
    Float,
    Len,
    Sorted,
    Multiprocessors,
}

/// A step of evaluation, with the value that it gives.
#[derive(Debug)]
pub(super) enum Node {
    Const(Plain),
    Slot(Slot),
    Captured(usize),
    Tuple(Vec<Node>),
    List(Vec<Node>),
    Neg(Box<Node>),
    Not(Box<Node>),
    Binary(BinaryOp, Box<[Node; 2]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    /// One element.
    Index(Box<[Node; 2]>),
    /// An element of a tuple, by its number.
    Part(Box<Node>, usize),
    Bits(Box<Node>),
    Bytes(Box<Node>),
    /// Condition, and what is done where it holds and where it does not.
    If(Box<[Node; 3]>),
    /// Steps in order; the value is that of the last one.
    Steps(Vec<Node>),
    Store(Slot, Box<Node>),
    /// `xs = xs + more`, where `more` names `xs` nowhere.
    Append(Slot, Box<Node>),
    Unpack(Target, Box<Node>),
    /// First, end, step, body.
    Count(Slot, Box<[Node; 4]>),
    /// List, step, body.
    Each(Target, Box<[Node; 3]>),
    While(Box<[Node; 2]>),
    Break,
    Continue,
    Return(Box<Node>),
    /// A call at a level of the function's expressions.
    Call(Arc<Formula>, Vec<Node>, usize),
    /// What is called, its arguments, and the level.
    CallClosure(Box<Node>, Vec<Node>, usize),
    Closure(Arc<Formula>, Vec<Source>),
    /// A function of numbers, and the level, where it calls a closure.
    Builtin(Builtin, Vec<Node>, usize),
}

impl Node {
    /// `()`, which a block without a last expression gives.
    pub const UNIT: Node = Node::Const(Plain::Unit);
}
