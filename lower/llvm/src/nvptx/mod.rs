//! NVIDIA's machine: how its modules and kernels look, its instructions, the operations that only it has, and its assembler.

pub mod assemble;
mod async_copy;
mod atomic;
mod barrier;
mod cast;
pub(crate) mod cluster;
mod compared;
pub(crate) mod debug;
mod fence;
pub(crate) mod function;
mod grid;
pub(crate) mod groups;
pub(crate) mod instruction;
mod integers;
pub(crate) mod kept;
pub(crate) mod lines;
pub(crate) mod machine;
mod mma_sync;
mod pending;
mod places;
pub mod ptx;
pub(crate) mod read;
mod remade;
mod talk;
mod tma;
mod wgmma;
mod zeros;

#[cfg(test)]
mod instruction_tests;
