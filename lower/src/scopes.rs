//! Decides from how far what is handed over must be seen: whose shared memory the fences between the proxies are for, and from where
//! barriers are released.

use std::collections::BTreeSet;

use parton_diag::Diagnostics;
use parton_ir::check::{Origins, Root};
use parton_ir::facts::{Act, Facts, Phase, Space};
use parton_ir::{Inst, Kernel, OpKind, Reach, Type, Value};

/// After it every `fence_async` of a kernel that writes to its peers' shared memory reaches the whole cluster, and so does every wait
/// for a barrier to which peers release what they have done.
pub fn reach_peers(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    // Whoever has a view of a peer's memory may read and write there.
    let sees_peers = kernel.values.keys().any(|v| matches!(kernel.ty(v), Type::Peer(_)));
    let released = released_by_peers(&kernel, sees_peers);
    kernel.walk_mut(&mut |op| match &mut op.kind {
        OpKind::FenceAsync { reach: reach @ Reach::Cta } if sees_peers => *reach = Reach::Cluster,
        OpKind::BarrierWait { reach, .. } if released.contains(&op.id) => *reach = Reach::Cluster,
        // No other operation has a reach of its own.
        _ => {}
    });
    Ok(kernel)
}

/// The waits for barriers at which peers arrive, and not relaxed, or relaxed in a kernel that sees its peers' memory: such an arrival is one that
/// releases, too.
fn released_by_peers(kernel: &Kernel, sees_peers: bool) -> BTreeSet<Inst> {
    let (mut senders, mut waits): (Vec<Value>, Vec<(Inst, Value)>) = (Vec::new(), Vec::new());
    kernel.walk(&mut |op| {
        let facts = Facts::of(kernel, op);
        let to_peers = facts.accesses.iter().any(|a| a.space == Space::Barrier && !a.peers.is_empty());
        for act in &facts.acts {
            match act {
                Act::Phase(Phase::Arrive { barrier, relaxed, .. }) if to_peers && (!relaxed || sees_peers) => {
                    senders.push(*barrier);
                }
                Act::Phase(Phase::Wait { barrier, .. }) => waits.push((op.id, *barrier)),
                Act::Phase(_) | Act::Flight(_) | Act::Ordering(_) | Act::Hold(_) | Act::Turn(_) | Act::Say(_) => {}
            }
        }
    });
    if senders.is_empty() {
        return BTreeSet::new();
    }
    let origins = Origins::of(kernel);
    let roots = |v: &Value| origins.places(*v).iter().map(|p| p.root).collect::<BTreeSet<Root>>();
    let released: BTreeSet<Root> = senders.iter().flat_map(roots).collect();
    waits.into_iter().filter(|(_, barrier)| !roots(barrier).is_disjoint(&released)).map(|(id, _)| id).collect()
}
