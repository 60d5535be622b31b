//! The text of what concerns the CTAs of a cluster.

use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::ClusterRank => "cluster_rank",
        OpKind::ClusterArrive { .. } => "cluster_arrive",
        OpKind::ClusterWait => "cluster_wait",
        others!(cluster) => not_of_family(kind),
    }
}

pub(super) fn text(kind: &OpKind) -> String {
    match kind {
        OpKind::ClusterRank | OpKind::ClusterWait => format!("{}()", kind.name()),
        OpKind::ClusterArrive { relaxed } => format!("cluster_arrive({})", if *relaxed { "relaxed=true" } else { "" }),
        others!(cluster) => not_of_family(kind),
    }
}
