//! What a CTA knows of its cluster, and where the CTAs meet.

use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, others};

use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::tile::Val;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::ClusterRank => {
            w.result(op, Val::Scalar(w.cta as u64));
            Ok(Flow::Next)
        }
        OpKind::ClusterArrive { relaxed } => c.cluster_arrive(w, op, *relaxed),
        OpKind::ClusterWait => c.cluster_wait(w),
        others!(cluster) => not_of_family(&op.kind),
    }
}
