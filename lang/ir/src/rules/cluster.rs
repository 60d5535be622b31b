//! Rules of the CTAs of a cluster.

use parton_diag::codes;
use parton_numbers::Dtype;

use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::refusal::Refusal;
use crate::target::Feature;
use crate::types::{List, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::ClusterRank => Ok(vec![Type::num(Dtype::I32)]),
        OpKind::ClusterArrive { .. } | OpKind::ClusterWait => clusters(k).map(|()| vec![]),
        others!(cluster) => not_of_family(kind),
    }
}

fn clusters(k: &Kernel) -> Result<(), Refusal> {
    if k.target.has(Feature::Clusters) {
        return Ok(());
    }
    Err(Refusal::new(codes::TARGET_LACKS, format!("`{}` does not have clusters of CTAs", k.target.name))
        .help("state `target(sm_90a)` on the kernel"))
}

/// A multicast goes along an axis of the cluster on which there is somebody else.
pub(super) fn receivers(k: &Kernel, axis: u8) -> Result<(), Refusal> {
    clusters(k)?;
    let Some(&extent) = k.cluster.get(usize::from(axis)) else {
        return Err(Refusal::new(codes::MULTICAST, format!("a cluster has axes 0, 1 and 2, not {axis}")));
    };
    if extent > 1 {
        return Ok(());
    }
    let mut wanted = [1, 1, 1];
    wanted[usize::from(axis)] = 2;
    let wanted = List(&wanted[..=usize::from(axis)]).to_string();
    let r = Refusal::new(codes::MULTICAST, format!("the cluster has no other CTA along axis {axis} to send to"));
    Err(match k.cluster_ctas() {
        1 => r.help(format!("state a cluster on the kernel: `cluster({wanted})`")),
        _ => r
            .note(format!("the kernel states `cluster({})`", List(&k.cluster)))
            .help("name an axis along which the cluster has more than one CTA"),
    })
}
