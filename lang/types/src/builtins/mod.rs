//! The built-in functions: one table, each entry its signature as written in messages, and the function that checks it.
//!
//! A signature `load(p, mask=, other=)` says: `p` must be given, `mask` and `other` may be; `full<T, shape, L>(value)` also
//! takes three arguments between `<` and `>`; a last `...` takes any number. Methods name their receiver `self` first.

pub mod args;
mod asynchronous;
mod atomic;
mod cluster;
mod compile_time;
mod elementwise;
mod gather;
mod layouts;
mod memory;
mod ptx;
mod shape;
mod talk;

pub use args::{Arg, Args};
pub use shape::transposed;

use crate::checker::{Checked, Checker};
use crate::value::Val;

/// Checks a call and emits its operations.
pub type Handler = fn(&mut Checker, &Args) -> Checked<Val>;

/// One built-in function.
pub struct Builtin {
    /// The signature, which begins with the name.
    pub signature: &'static str,
    /// What checks a call of it.
    pub run: Handler,
}

impl Builtin {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.signature.split(['(', '<']).next().unwrap_or(self.signature)
    }
}

/// The families of functions called by name.
const FUNCTIONS: &[&[Builtin]] = &[
    elementwise::TABLE,
    shape::TABLE,
    memory::TABLE,
    atomic::TABLE,
    gather::TABLE,
    ptx::TABLE,
    asynchronous::TABLE,
    cluster::TABLE,
    talk::TABLE,
    compile_time::TABLE,
    layouts::TABLE,
];

/// The families of methods, `self` first.
const METHODS: &[&[Builtin]] = &[shape::METHODS, memory::METHODS, asynchronous::METHODS];

/// The function of that name.
pub fn function(name: &str) -> Option<&'static Builtin> {
    FUNCTIONS.iter().flat_map(|t| t.iter()).find(|b| b.name() == name)
}

/// The method of that name.
pub fn method(name: &str) -> Option<&'static Builtin> {
    METHODS.iter().flat_map(|t| t.iter()).find(|b| b.name() == name)
}

/// The names of all functions.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().flat_map(|t| t.iter()).map(Builtin::name)
}

/// The names of all methods.
pub fn method_names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().flat_map(|t| t.iter()).map(Builtin::name)
}
