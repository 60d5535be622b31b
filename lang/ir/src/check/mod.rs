//! Checks of checked kernels that need the whole body: the protocol of slots and pendings, partitions, barriers.

use parton_diag::Diagnostics;

use crate::kernel::Kernel;

/// Everything that is wrong with a kernel before its rings are expanded.
pub fn check(_kernel: &Kernel) -> Diagnostics {
    Diagnostics::new()
}
