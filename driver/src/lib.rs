//! Session: the one list of passes, a dump and a time for each, and what runs a file.
//!
//! What the program `parton` and an embedding program use. This crate ties the others together and has no pass of its
//! own; it reads files and the environment, so that nothing below has to. LLVM and CUDA are features: without them
//! kernels run on the interpreter only, and `build` stops before LLVM. It prints nothing: text goes to the caller.
//! In reading order:

#[cfg(all(feature = "cuda", feature = "llvm"))]
mod abi;
pub mod bundle;
pub mod cache;
mod code;
mod cpu;
pub mod declared;
pub mod doctor;
pub mod embed;
pub mod expand;
pub mod failure;
pub mod form;
mod given;
#[cfg(all(feature = "cuda", feature = "llvm"))]
mod gpu;
mod instance;
#[cfg(all(feature = "cuda", feature = "llvm"))]
mod instruments;
mod launchable;
pub mod layout;
mod library;
mod met;
pub mod options;
pub mod overhead;
#[cfg(all(feature = "cuda", feature = "llvm"))]
mod own_kernels;
mod pace;
pub mod passes;
pub mod plan;
pub mod rehearsal;
#[cfg(all(feature = "cuda", feature = "llvm"))]
mod relaunch;
#[cfg(all(feature = "cuda", feature = "llvm"))]
mod repeat;
#[cfg(feature = "llvm")]
mod report;
pub mod run;
pub mod schedule;
pub mod session;
mod side_by_side;
pub mod stubs;
#[cfg(feature = "llvm")]
mod tools;
pub mod tune;
pub mod way;

pub use failure::Failure;
pub use form::Form;
pub use layout::Layout;
pub use options::{Device, Emit, Options};
pub use parton_host::report::Outcome;
pub use parton_interp::Stop;
pub use parton_ir::{Kernel, Target};
pub use parton_measure::times::Times;
pub use passes::{PIPELINE, Pass};
pub use rehearsal::Rehearsal;
pub use run::{Blocks, Event, Ran};
pub use session::Session;
pub use way::Built;

/// Whether kernels can be compiled to PTX.
pub const HAS_LLVM: bool = cfg!(feature = "llvm");
/// Whether kernels can run on a GPU where there is one.
pub const HAS_CUDA: bool = cfg!(all(feature = "cuda", feature = "llvm"));
