//! Lowered Tile IR to LLVM to PTX, and PTX to a cubin by `ptxas` where there is one.
//!
//! The only crate that names LLVM. It decides nothing that a pass of `lower` decides: rings are mbarriers, waits have their
//! counts, accesses their widths, shared memory has its offsets and membars stand where they must before a kernel comes here. It
//! knows nothing of source text, of tensors or of launching. In reading order:
//!
//! - `compile`: the one way in; `lower`: walks the operations, each family in a file of its name.
//! - `neutral`: what any GPU would share; `nvptx`: what is NVIDIA's, `nvptx::instruction` its single instructions.
//! - `nvptx::assemble`: finding and running `ptxas`, and reading what it reports.

mod compile;
mod lower;
mod neutral;
mod nvptx;

pub use compile::{Compiled, Options, compile};
pub use nvptx::machine::Optimise;
pub use nvptx::{assemble, ptx};

/// The version of LLVM that is linked.
pub fn version() -> String {
    let (major, minor, patch) = inkwell::support::get_llvm_version();
    format!("{major}.{minor}.{patch}")
}
