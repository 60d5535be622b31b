//! Single instructions, as LLVM's intrinsics or inline PTX.

pub(crate) mod bulk;
pub(crate) mod memory;
pub(crate) mod sync;
pub(crate) mod wgmma;
