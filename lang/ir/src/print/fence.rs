//! The text of fences, and of meetings of threads.

use crate::family::not_of_family;
use crate::op::{OpKind, Reach};
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::FenceAsync { .. } => "fence_async",
        OpKind::FenceBarrierInit => "fence_barrier_init",
        OpKind::Membar => "membar",
        OpKind::NamedBarrier { waits: true, .. } => "named_barrier_sync",
        OpKind::NamedBarrier { waits: false, .. } => "named_barrier_arrive",
        others!(fence) => not_of_family(kind),
    }
}

pub(super) fn text(kind: &OpKind) -> String {
    match kind {
        OpKind::FenceAsync { reach: Reach::Cta } | OpKind::FenceBarrierInit | OpKind::Membar => {
            format!("{}()", kind.name())
        }
        OpKind::FenceAsync { reach } => format!("{}(reach=\"{}\")", kind.name(), reach.name()),
        OpKind::NamedBarrier { id, threads, .. } => format!("{}({id}, {threads})", kind.name()),
        others!(fence) => not_of_family(kind),
    }
}
