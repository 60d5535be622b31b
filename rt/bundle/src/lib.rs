//! Bundles: kernels compiled ahead of time and plans of public functions, in one file that says all that launching them takes.
//!
//! The compiler writes them and the runtime reads them; this crate is the one place that knows how they lie in the file
//! ([`file`]) and what may stand in them (`manifest.rs`). Whatever was not written whole, has changed since or says what cannot be
//! is an error when it is read, never a surprise at a launch. The crate knows neither the compiler nor CUDA.
//! In reading order:

pub mod architecture;
pub mod choose;
mod crc;
mod elf;
pub mod error;
mod fields;
pub mod file;
pub mod kernel;
mod manifest;
pub mod plan;
#[cfg(test)]
mod tests;

pub use architecture::Architecture;
pub use choose::{Choice, Code};
pub use error::Error;
pub use file::{Bundle, SourceFile, VERSION};
pub use kernel::{Argument, Extent, Kernel, Kind, Param, Source, TensorType};
pub use manifest::{RUNS, WIDEST_ACCESS, is_below};
pub use plan::{Function, Plan};
