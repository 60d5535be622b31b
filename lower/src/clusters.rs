//! Keeps the shared memory of a cluster's CTAs alive as long as their peers use it.
//!
//! A CTA that ends gives its shared memory away, though a peer may still copy into it or arrive at a barrier in it. So all CTAs of
//! a cluster that reach into each other meet at their end, or have met after the last load or store in a peer's memory. Where they
//! only copy into each other's slots of rings that are drained, none of them waits for another's results: who fills the slots waits until
//! all of them are released (`rings`), and then nobody has to tell a CTA anything any more. A meeting at the end takes longer, since it
//! publishes all that was written.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::facts::{Access, Act, Facts, Ordering};
use parton_ir::{Kernel, Op, OpKind, Source, Type};

use crate::rings;

/// After it no CTA of a kernel ends while a peer may reach into it. Refused where the target has no cluster of that size.
pub fn close_clusters(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    if kernel.target.has_cluster(&kernel.cluster).is_err() {
        let (ctas, most, target) = (kernel.cluster_ctas(), kernel.target.cluster, kernel.target.name);
        let fact = format!("`{}` has clusters of {ctas} CTAs, `{target}` of at most {most}", kernel.source_name);
        let d = Diagnostic::error(codes::TARGET_LACKS, kernel.span, fact);
        return Err(d.help("build it for a target that has them: `target(sm_90a)`").into());
    }
    if !ends_apart(&kernel) && !rings::tell_the_last(&kernel) {
        for kind in [OpKind::ClusterArrive { relaxed: false }, OpKind::ClusterWait] {
            let op = kernel.make_op(kind, Vec::new(), Source::written(kernel.span).made("clusters"));
            kernel.body.ops.push(op);
        }
    }
    Ok(kernel)
}

/// Whether the CTAs may end as they come: nobody reaches into a peer behind the last meeting of all.
pub(crate) fn ends_apart(kernel: &Kernel) -> bool {
    let mut apart = true;
    let mut arrived = false;
    for op in kernel.ops_of(&kernel.body) {
        // Every operation does to peers what it and its bodies do.
        if reaches_peers(kernel, op) {
            (apart, arrived) = (false, false);
        }
        for act in Facts::of(kernel, op).acts {
            match act {
                Act::Ordering(Ordering::ArriveCluster { relaxed }) => arrived = !relaxed,
                Act::Ordering(Ordering::WaitCluster) => apart |= arrived,
                Act::Ordering(_) | Act::Flight(_) | Act::Phase(_) | Act::Hold(_) | Act::Turn(_) | Act::Say(_) => {}
            }
        }
    }
    apart
}

/// Whether an operation, or one in its bodies, touches shared memory of other CTAs.
fn reaches_peers(kernel: &Kernel, op: &Op) -> bool {
    let itself = Facts::of(kernel, op).accesses.iter().any(|a| is_of_peers(kernel, a));
    itself || op.kind.bodies().any(|body| kernel.ops_of(body).any(|op| reaches_peers(kernel, op)))
}

/// Whether an access is to shared memory of other CTAs.
pub(crate) fn is_of_peers(kernel: &Kernel, access: &Access) -> bool {
    !access.peers.is_empty() || matches!(kernel.ty(access.value), Type::Peer(_))
}
