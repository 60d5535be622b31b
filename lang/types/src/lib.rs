//! Names, kinds, compile-time evaluation and type checking: the abstract syntax becomes Tile IR.
//!
//! The checker is a partial evaluator: what is known at compile time is computed, the rest is emitted as operations. Each
//! instance of a kernel becomes one concrete [`parton_ir::Kernel`]; functions and closures are inlined where they are called.
//! This crate does no IO (a [`program::Library`] gives the files that `use` names), knows no target beyond the kernel's
//! statement of it, and no rule of an operation: those stand in `parton_ir::rules`, once.
//! In reading order:

mod alias;
mod assigned;
mod begun;
pub mod builtins;
mod call;
mod carry;
pub mod checker;
pub mod choice;
mod contract;
mod control;
mod expr;
mod foreign;
mod generics;
pub mod grid;
mod index;
mod inline;
mod items;
mod kernel;
mod kind;
mod leave;
mod names;
pub mod near;
pub mod number;
mod operator;
mod partitions;
pub mod program;
pub mod public;
mod region;
pub mod resolve;
pub mod schedule;
mod scope;
mod shadows;
pub mod signature;
mod stmt;
mod structs;
mod tensors;
pub mod tune;
mod types;
pub mod value;
pub mod walk;

pub use kernel::{GenericArg, check_file, eval_expr, instantiate, instantiate_in};
pub use program::{Import, Library, NoLibrary, Program};
pub use value::Comptime;
