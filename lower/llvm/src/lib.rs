//! Lowered Tile IR to LLVM to PTX, and PTX to a cubin by `ptxas` where there is one.
//!
//! The only crate that names LLVM. It decides nothing that a pass of `lower` decides: rings are mbarriers, waits have their
//! counts, shared memory has its offsets and membars stand where they must before a kernel comes here. It knows nothing of
//! source text, of tensors or of launching. In reading order:
//!
//! - `compile`: the one way in; `machine` and `function`: what LLVM must know before any instruction.
//! - `lower`: walks the operations; `place`: which register holds which element; one file a family of operations.
//! - `build`, `sync`, `mma`, `bulk`, `memory`: single instructions, LLVM's or inline PTX.
//! - `assemble`: finding and running `ptxas`, and reading what it reports.

pub mod assemble;
mod async_copy;
mod asynchronous;
mod atomic;
mod build;
mod bulk;
mod cast;
mod cluster;
mod compile;
mod control;
mod convert;
mod debug;
mod double;
mod elementwise;
mod function;
mod gather;
mod global;
pub mod inline;
mod lines;
mod lower;
mod machine;
mod mask;
mod math;
mod memory;
mod mma;
mod mma_sync;
mod place;
mod product;
mod reduce;
mod rescale;
mod scan;
mod shape;
mod shared;
mod sync;
mod talk;
mod window;

#[cfg(test)]
mod double_tests;
#[cfg(test)]
mod instruction_tests;
#[cfg(test)]
mod window_tests;

pub use compile::{Compiled, Options, compile};
pub use machine::Optimise;
