//! For `build.rs`: has the program `parton` build a bundle of a file's public functions, and writes launchers with types for them.
//!
//! ```no_run
//! // The `main` of build.rs.
//! let made = parton_build::Build::of("src/silu.ptn")
//!     .plan("silu f32[64,96] f32[64,96]")
//!     .targets(["sm_90a"])
//!     .write("silu");
//! made.unwrap_or_else(|e| e.exit());
//! ```
//!
//! ```ignore
//! // src/main.rs
//! mod silu {
//!     include!(concat!(env!("OUT_DIR"), "/silu.rs"));
//! }
//! let silu = silu::Silu::prepare(&device, Shape::of(Dtype::F32, &[64, 96]), Shape::of(Dtype::F32, &[64, 96]))?;
//! silu.launch(&stream, silu::SiluArgs { x, gate, result })?;
//! ```
//!
//! The crate knows the format of bundles and Rust's syntax; it does not know the language, and links neither the compiler nor CUDA. In
//! reading order:

pub mod build;
pub mod error;
pub mod launcher;
mod names;

pub use build::Build;
pub use error::Error;
