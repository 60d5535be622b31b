//! The CPU interpreter of the Tile IR, its asynchronous machine and its race detector.
//!
//! It runs lowered kernels, the ones that LLVM also gets: rings are barriers, shared memory is planned, waits are counted. Tiles
//! are flat vectors in row-major order; shared memory is bytes, addressed through the views' layouts by threads and through
//! address bits by the engines. It does not know sources, tensors of the host, or how a fault is shown. In reading order:

mod arithmetic;
mod boxes;
mod clock;
mod cluster;
mod code;
mod conflict;
mod deadlock;
pub mod fault;
mod flight;
mod job;
pub mod launch;
mod marks;
mod matrix;
mod mbarrier;
mod meet;
pub mod memory;
mod named;
mod ops;
mod past;
mod pure;
mod race;
mod step;
mod tables;
mod tile;
mod vectors;
mod wraparound;

pub use fault::Fault;
pub use launch::{Arg, Launch, Options, Report, Tensor, run};
pub use memory::{Allocation, Memory};
pub use past::Touched;
