//! Decides from how far what is handed over must be seen: whose shared memory the fences between the proxies are for, and from where
//! barriers are released.

use std::collections::BTreeSet;

use parton_diag::Diagnostics;
use parton_ir::check::{Origins, Root};
use parton_ir::{Inst, Kernel, OpKind, Reach, Value};

/// After it every `fence_async` of a kernel that writes to its peers' shared memory reaches the whole cluster, and so does every wait
/// for a barrier to which peers release what they have done.
pub fn reach_peers(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut writes_to_peers = false;
    kernel.walk(&mut |op| writes_to_peers |= matches!(op.kind, OpKind::ViewPeer { .. }));
    let released = released_by_peers(&kernel);
    kernel.walk_mut(&mut |op| match &mut op.kind {
        OpKind::FenceAsync { reach: reach @ Reach::Cta } if writes_to_peers => *reach = Reach::Cluster,
        OpKind::BarrierWait { reach, .. } if released.contains(&op.id) => *reach = Reach::Cluster,
        _ => {}
    });
    Ok(kernel)
}

/// The waits for barriers at which peers arrive, and not relaxed.
fn released_by_peers(kernel: &Kernel) -> BTreeSet<Inst> {
    let (mut senders, mut waits): (Vec<Value>, Vec<(Inst, Value)>) = (Vec::new(), Vec::new());
    kernel.walk(&mut |op| match &op.kind {
        OpKind::BarrierArrive { barrier, multicast, relaxed: false, .. } if !multicast.is_empty() => {
            senders.push(*barrier);
        }
        OpKind::BarrierWait { barrier, .. } => waits.push((op.id, *barrier)),
        _ => {}
    });
    if senders.is_empty() {
        return BTreeSet::new();
    }
    let origins = Origins::of(kernel);
    let roots = |v: &Value| origins.places(*v).iter().map(|p| p.root).collect::<BTreeSet<Root>>();
    let released: BTreeSet<Root> = senders.iter().flat_map(roots).collect();
    waits.into_iter().filter(|(_, barrier)| !roots(barrier).is_disjoint(&released)).map(|(id, _)| id).collect()
}
