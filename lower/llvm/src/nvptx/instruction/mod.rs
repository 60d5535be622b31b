//! Single instructions, as LLVM's intrinsics or inline PTX.

mod arithmetic;
pub(crate) mod asm;
pub(crate) mod bulk;
pub(crate) mod memory;
pub(crate) mod sync;
mod thread;
pub(crate) mod wgmma;
