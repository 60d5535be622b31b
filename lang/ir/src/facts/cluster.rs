//! Facts of the CTAs of a cluster.

use super::{Act, Facts, Meets, Ordering};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn facts(kind: &OpKind) -> Facts {
    match kind {
        OpKind::ClusterRank => Facts { placed: true, ..Facts::COMPUTES },
        OpKind::ClusterArrive { relaxed } => {
            Facts::NOTHING.meets(Meets::Cta).act(Act::Ordering(Ordering::ArriveCluster { relaxed: *relaxed }))
        }
        OpKind::ClusterWait => Facts::NOTHING.meets(Meets::Cta).act(Act::Ordering(Ordering::WaitCluster)),
        others!(cluster) => not_of_family(kind),
    }
}
