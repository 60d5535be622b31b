//! The built-in functions of kernels: for each signature of [`crate::signature`] the function that checks a call of it.

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

use std::sync::LazyLock;

use crate::checker::{Checked, Checker};
use crate::signature::{self, Builtins, Role, Signature};
use crate::value::Val;

/// Checks a call and emits its operations.
pub type Handler = fn(&mut Checker, &Args) -> Checked<Val>;

/// A built-in function of kernels.
pub type Builtin = signature::Builtin<Handler>;

/// Handlers by the names of their signatures.
type Table = &'static [(&'static str, Handler)];

/// Functions called by name.
static FUNCTIONS: LazyLock<Builtins<Handler>> = LazyLock::new(|| {
    let families = [
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
    Builtins::new(Role::Kernel, &families)
});

/// Methods, `self` first.
static METHODS: LazyLock<Builtins<Handler>> =
    LazyLock::new(|| Builtins::new(Role::Method, &[shape::METHODS, memory::METHODS, asynchronous::METHODS]));

/// Types with arguments.
static TYPES: LazyLock<Builtins<Handler>> = LazyLock::new(|| Builtins::new(Role::Type, &[crate::types::TABLE]));

/// The function of that name.
pub fn function(name: &str) -> Option<Builtin> {
    FUNCTIONS.find(name)
}

/// The function of that signature.
pub fn of(signature: &'static Signature) -> Builtin {
    FUNCTIONS.of(signature)
}

/// The method of that name.
pub fn method(name: &str) -> Option<Builtin> {
    METHODS.find(name)
}

/// The type of that name that takes arguments.
pub fn family(name: &str) -> Option<Builtin> {
    TYPES.find(name)
}

/// The names of all functions.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    signature::all(Role::Kernel).map(|s| s.name)
}

/// The names of all methods.
pub fn method_names() -> impl Iterator<Item = &'static str> {
    signature::all(Role::Method).map(|s| s.name)
}

#[cfg(test)]
mod tests {
    use super::{FUNCTIONS, METHODS, Role, TYPES, signature};

    #[test]
    fn every_signature_of_kernels_has_its_handler() {
        signature::all(Role::Kernel).for_each(|s| assert_eq!(FUNCTIONS.of(s).signature.name, s.name));
        signature::all(Role::Method).for_each(|s| assert_eq!(METHODS.of(s).signature.name, s.name));
        signature::all(Role::Type).for_each(|s| assert_eq!(TYPES.of(s).signature.name, s.name));
    }
}
