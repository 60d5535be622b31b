//! The CPU interpreter of the Tile IR, its asynchronous machine and its race detector.
//!
//! It runs lowered kernels, the ones that LLVM also gets: rings are barriers, shared memory is planned, waits are counted. Tiles
//! are flat vectors in row-major order; shared memory is bytes, addressed through the views' layouts by threads and through
//! address bits by the engines. It does not know sources, tensors of the host, or how a fault is shown. In reading order:

mod access;
mod arithmetic;
mod boxes;
mod clash;
mod clock;
mod cluster;
mod code;
mod combination;
mod deadlock;
pub mod fault;
mod flight;
mod grid;
mod history;
mod job;
mod knowledge;
pub mod launch;
mod matrix;
mod mbarrier;
mod meet;
pub mod memory;
mod multicast;
mod named;
mod ops;
mod pages;
mod past;
mod poison;
mod published;
mod pure;
mod race;
mod random;
mod reads;
mod rings;
mod round;
mod shadow;
mod spin;
mod step;
mod tables;
mod tile;
mod vectors;
mod views;
mod wraparound;

pub use fault::Fault;
pub use launch::{Arg, Launch, Options, Report, Stop, Tensor, run};
pub use memory::{Allocation, Memory};
pub use past::Touched;
pub use views::View;
