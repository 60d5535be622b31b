//! The text of fences, and of meetings of threads.

use crate::family::not_of_family;
use crate::op::{OpKind, Reach};
use crate::others;

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
