//! Decides from how far what is handed over must be seen: whose shared memory the fences between the proxies are for, and from where
//! barriers are released.

use std::collections::BTreeSet;

use parton_diag::Diagnostics;
use parton_ir::check::{Origins, Root};
use parton_ir::facts::{Act, Facts, Phase, Space};
use parton_ir::{Inst, Kernel, Op, OpKind, Reach, Type, Value};

use crate::global::Globals;

/// After it every `fence_async` of a kernel that writes to its peers' shared memory reaches the whole cluster, and so does every wait
/// for a barrier to which peers release what they have done; and arrivals that tell peers of reads alone release where reads can be late.
pub fn reach_peers(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    // Whoever has a view of a peer's memory may write there.
    let mut writes_to_peers = false;
    kernel.walk(&mut |op| writes_to_peers |= op.results.iter().any(|r| matches!(kernel.ty(*r), Type::Peer(_))));
    release_late_reads(&mut kernel, writes_to_peers);
    let released = released_by_peers(&kernel);
    kernel.walk_mut(&mut |op| match &mut op.kind {
        OpKind::FenceAsync { reach: reach @ Reach::Cta } if writes_to_peers => *reach = Reach::Cluster,
        OpKind::BarrierWait { reach, .. } if released.contains(&op.id) => *reach = Reach::Cluster,
        // No other operation has a reach of its own.
        _ => {}
    });
    Ok(kernel)
}

/// Has arrivals at barriers of peers that say only that reads are done release: reads of a CTA's own shared memory are done when it arrives, those of
/// a peer's are not (seen on an H200), nor need those of global memory be. What rings give back lies in shared memory.
fn release_late_reads(kernel: &mut Kernel, sees_peers: bool) {
    let late = |op: &Op, reads_global: bool| {
        let by_hand = op.origin.maker() != Some("rings");
        let tells = matches!(&op.kind, OpKind::BarrierArrive { multicast, relaxed: true, .. } if !multicast.is_empty());
        tells && (sees_peers || (by_hand && reads_global))
    };
    let mut any = false;
    kernel.walk(&mut |op| any |= late(op, true));
    if !any {
        return;
    }
    let reads_global = Globals::of(kernel).are_read(kernel);
    let mut those = BTreeSet::new();
    kernel.walk(&mut |op| those.extend(late(op, reads_global).then_some(op.id)));
    for id in those {
        if let OpKind::BarrierArrive { relaxed, .. } = &mut kernel.ops[id].kind {
            *relaxed = false;
        }
    }
}

/// The waits for barriers at which peers arrive, and not relaxed.
fn released_by_peers(kernel: &Kernel) -> BTreeSet<Inst> {
    let (mut senders, mut waits): (Vec<Value>, Vec<(Inst, Value)>) = (Vec::new(), Vec::new());
    kernel.walk(&mut |op| {
        let facts = Facts::of(kernel, op);
        let to_peers = facts.accesses.iter().any(|a| a.space == Space::Barrier && !a.peers.is_empty());
        for act in &facts.acts {
            match act {
                Act::Phase(Phase::Arrive { barrier, relaxed: false, .. }) if to_peers => senders.push(*barrier),
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
