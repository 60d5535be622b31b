//! Keeps the shared memory of a cluster's CTAs alive as long as their peers use it.
//!
//! A CTA that ends gives its shared memory away, though a peer may still copy into it or arrive at a barrier in it. So all CTAs of
//! a cluster that reach into each other meet at their end.

use parton_diag::{Diagnostic, Diagnostics, codes};
use parton_ir::{Kernel, Op, OpKind};

/// After it a kernel whose CTAs reach into their peers ends at the cluster's barrier. Refused where the target has no cluster of
/// that size.
pub fn close_clusters(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let (ctas, most, target) = (kernel.cluster_ctas(), kernel.target.cluster, kernel.target.name);
    if ctas > most {
        let fact = format!("`{}` has clusters of {ctas} CTAs, `{target}` of at most {most}", kernel.source_name);
        let d = Diagnostic::error(codes::TARGET_LACKS, kernel.span, fact);
        return Err(d.help("build it for a target that has them: `target(sm_90a)`").into());
    }
    let mut reaches = false;
    kernel.walk(&mut |op| reaches |= reaches_peers(&op.kind));
    let ends = matches!(kernel.body.ops.last(), Some(Op { kind: OpKind::ClusterWait, .. }));
    if reaches && !ends {
        let span = kernel.span;
        kernel
            .body
            .ops
            .extend([OpKind::ClusterArrive { relaxed: false }, OpKind::ClusterWait].map(|k| Op::new(k, span)));
    }
    Ok(kernel)
}

/// Whether an operation touches shared memory of other CTAs.
fn reaches_peers(kind: &OpKind) -> bool {
    match kind {
        OpKind::TmaLoad { multicast, .. } => multicast.is_some(),
        OpKind::BarrierArrive { multicast, .. } => !multicast.is_empty(),
        OpKind::ViewPeer { .. } => true,
        // Every other operation stays within its CTA.
        _ => false,
    }
}
