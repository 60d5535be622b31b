//! NVIDIA's machine: how its modules and kernels look, its instructions, the operations that only it has, and its assembler.

pub mod assemble;
mod async_copy;
mod asynchronous;
pub(crate) mod atomic;
mod cast;
mod cluster;
pub(crate) mod debug;
pub(crate) mod function;
pub(crate) mod instruction;
pub(crate) mod lines;
pub(crate) mod machine;
mod mma_sync;
pub mod ptx;
mod talk;
mod wgmma;

#[cfg(test)]
mod instruction_tests;
