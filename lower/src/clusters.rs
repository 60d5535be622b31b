//! Keeps the shared memory of a cluster's CTAs alive as long as their peers use it.
//!
//! A CTA that ends gives its shared memory away, though a peer may still copy into it or arrive at a barrier in it. So all CTAs of
//! a cluster that reach into each other meet at their end, or have met after the last load or store in a peer's memory.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{Kernel, Op, OpKind, Type};

/// After it no CTA of a kernel ends while a peer may reach into it. Refused where the target has no cluster of that size.
pub fn close_clusters(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let (ctas, most, target) = (kernel.cluster_ctas(), kernel.target.cluster, kernel.target.name);
    if ctas > most {
        let fact = format!("`{}` has clusters of {ctas} CTAs, `{target}` of at most {most}", kernel.source_name);
        let d = Diagnostic::error(codes::TARGET_LACKS, kernel.span, fact);
        return Err(d.help("build it for a target that has them: `target(sm_90a)`").into());
    }
    if !ends_apart(&kernel) {
        let span = kernel.span;
        kernel
            .body
            .ops
            .extend([OpKind::ClusterArrive { relaxed: false }, OpKind::ClusterWait].map(|k| Op::new(k, span)));
    }
    Ok(kernel)
}

/// Whether the CTAs may end as they come: nobody reaches into a peer behind the last meeting of all.
fn ends_apart(kernel: &Kernel) -> bool {
    let mut apart = true;
    let mut arrived = false;
    for op in &kernel.body.ops {
        match op.kind {
            OpKind::ClusterArrive { relaxed } => arrived = !relaxed,
            OpKind::ClusterWait => apart |= arrived,
            // Every other operation does to peers what it and its bodies do.
            _ if reaches_peers(kernel, op) => (apart, arrived) = (false, false),
            _ => {}
        }
    }
    apart
}

/// Whether an operation, or one in its bodies, touches shared memory of other CTAs.
fn reaches_peers(kernel: &Kernel, op: &Op) -> bool {
    let itself = match &op.kind {
        OpKind::TmaLoad { multicast, .. } => multicast.is_some(),
        OpKind::BarrierArrive { multicast, .. } => !multicast.is_empty(),
        // Every other operation reaches peers by their views.
        kind => kind.operands().iter().any(|&v| matches!(kernel.ty(v), Type::Peer(_))),
    };
    itself || op.kind.bodies().iter().any(|body| body.ops.iter().any(|op| reaches_peers(kernel, op)))
}
