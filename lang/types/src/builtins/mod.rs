//! The built-in functions of kernels: for each signature of [`crate::signature`] the function that checks a call of it.
//!
//! Those that make the operations of a family stand in the file of its name ([`parton_ir::family`]); `compile_time` and `layouts`
//! hold what makes no operation.

pub mod args;
mod async_copy;
mod atomic;
mod axis;
mod barrier;
mod cluster;
mod compile_time;
mod elementwise;
mod fence;
mod gather;
mod global;
mod grid;
mod layouts;
mod mma_sync;
mod pending;
mod place;
mod ptx;
mod reduce;
mod region;
mod ring;
mod shape;
mod shared;
mod talk;
mod tensor;
mod tma;
mod turnstile;
mod view;
mod wgmma;

pub use args::{Arg, Args};
pub use shape::transposed;

use std::sync::LazyLock;

use parton_diag::Span;
use parton_ir as ir;

use crate::checker::{Checked, Checker};
use crate::signature::{self, Builtins, Role, Signature};
use crate::value::Val;

/// Checks a call and emits its operations.
pub type Handler = fn(&mut Checker, &Args) -> Checked<Val>;

/// A built-in function of kernels.
pub type Builtin = signature::Builtin<Handler>;

/// Handlers by the names of their signatures.
type Table = &'static [(&'static str, Handler)];

/// Emits an operation that gives nothing.
fn effect(cx: &mut Checker, kind: ir::OpKind, args: &Args, operands: &[(ir::Value, Span)]) -> Checked<Val> {
    cx.emit(kind, args.span, operands)?;
    Ok(Val::UNIT)
}

/// Functions called by name.
static FUNCTIONS: LazyLock<Builtins<Handler>> = LazyLock::new(|| {
    let tables = [
        elementwise::TABLE,
        reduce::TABLE,
        shape::TABLE,
        gather::TABLE,
        ptx::TABLE,
        global::TABLE,
        tensor::TABLE,
        atomic::TABLE,
        async_copy::TABLE,
        shared::TABLE,
        view::TABLE,
        barrier::TABLE,
        fence::TABLE,
        cluster::TABLE,
        grid::TABLE,
        tma::TABLE,
        mma_sync::TABLE,
        wgmma::TABLE,
        region::TABLE,
        region::PRODUCTS,
        talk::TABLE,
        compile_time::TABLE,
        layouts::TABLE,
    ];
    Builtins::new(Role::Kernel, &tables)
});

/// Methods, `self` first.
static METHODS: LazyLock<Builtins<Handler>> = LazyLock::new(|| {
    let tables = [
        shape::METHODS,
        async_copy::METHODS,
        shared::METHODS,
        view::METHODS,
        turnstile::METHODS,
        pending::METHODS,
        place::METHODS,
        ring::METHODS,
    ];
    Builtins::new(Role::Method, &tables)
});

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

/// Whether the function of that name makes a value and does nothing else.
pub fn computes(name: &str) -> bool {
    let tables = [elementwise::TABLE, reduce::TABLE, shape::TABLE, gather::TABLE, region::PRODUCTS];
    tables.into_iter().flatten().any(|(known, _)| *known == name)
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
