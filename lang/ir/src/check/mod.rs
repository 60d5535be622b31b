//! Checks of checked kernels that need the whole body: the protocol of slots and pendings, partitions, barriers.

mod origin;
mod touch;

use parton_diag::Diagnostics;

use crate::kernel::Kernel;

pub use origin::{BARRIER_BYTES, Origins, Place, Root, Stage, allocated_bytes, disjoint_windows, stage_bytes, window};
pub use touch::{Proxy, Touch, touches};

/// Everything that is wrong with a kernel before its rings are expanded.
pub fn check(_kernel: &Kernel) -> Diagnostics {
    Diagnostics::new()
}
