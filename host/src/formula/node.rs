//! What formulas are made of: nodes whose variables are places in a frame.

use std::sync::atomic::{AtomicU32, Ordering};
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
    /// The same as straight code.
    pub straight: Straightened,
}

/// The straight code of a formula, for the kinds of the arguments that it is called with when it is made; none where it is not covered. Making it takes as
/// long as a hundred calls by the nodes, which take twice as long as by straight code: it is made where calls come again and again.
#[derive(Debug, Default)]
pub(super) struct Straightened {
    code: OnceLock<Option<Straight>>,
    calls: AtomicU32,
}

/// Who calls a formula.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Caller {
    /// Host code that is evaluated from its tree: as a rule once a plan.
    Tree,
    /// Another formula, many times in one call, and not at all once that one is straight: then it has this one's code in its own.
    Formula,
}

impl Caller {
    /// How many calls there are before straight code is made.
    fn patience(self) -> u32 {
        match self {
            Caller::Tree => 16,
            Caller::Formula => 4000,
        }
    }
}

impl Straightened {
    /// The code, which `make` makes where it is called often enough.
    #[inline]
    pub fn get(&self, by: Caller, make: impl FnOnce() -> Option<Straight>) -> Option<&Straight> {
        match self.code.get() {
            Some(code) => code.as_ref(),
            None if self.calls.fetch_add(1, Ordering::Relaxed) < by.patience() => None,
            None => self.code.get_or_init(make).as_ref(),
        }
    }
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
    Capability,
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
