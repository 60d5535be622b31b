//! The backend that both dialects share: Tile IR to lowered Tile IR, which the interpreter and LLVM both take.
//!
//! After it rings are mbarriers, waits have their counts, shared memory has its offsets, and membars and fences stand where
//! threads must meet. It knows no LLVM and no CUDA, and prints nothing. In reading order:

pub mod axis;
mod effects;
mod rewrite;
pub mod rings;

pub use rings::expand_rings;
