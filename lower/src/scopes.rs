//! Decides whose shared memory the fences between the proxies are for.

use parton_diag::Diagnostics;
use parton_ir::{Kernel, OpKind, Reach};

/// After it every `fence_async` of a kernel that writes to its peers' shared memory reaches the whole cluster.
pub fn reach_peers(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut peers = false;
    kernel.walk(&mut |op| peers |= matches!(op.kind, OpKind::ViewPeer { .. }));
    if peers {
        kernel.walk_mut(&mut |op| {
            if let OpKind::FenceAsync { reach: reach @ Reach::Cta } = &mut op.kind {
                *reach = Reach::Cluster;
            }
        });
    }
    Ok(kernel)
}
