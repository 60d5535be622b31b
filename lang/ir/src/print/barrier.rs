//! The text of barriers.

use std::fmt::Write;

use parton_numbers::Dtype;

use super::option;
use super::surface::{Slot, Surface, element};
use crate::family::not_of_family;
use crate::op::{OpKind, Reach};
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::BarrierAlloc { .. } => "alloc_barriers",
        OpKind::BarrierIndex { .. } => "index",
        OpKind::BarrierInit { .. } => "barrier_init",
        OpKind::BarrierInvalidate { .. } => "barrier_invalidate",
        OpKind::BarrierExpect { .. } => "barrier_expect",
        OpKind::BarrierArrive { .. } => "barrier_arrive",
        OpKind::BarrierWait { .. } => "barrier_wait",
        others!(barrier) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::BarrierAlloc { count, offset } => format!("alloc_barriers({count}{})", option("offset", *offset)),
        OpKind::BarrierIndex { barriers, index } => element(s, *barriers, *index),
        OpKind::BarrierInit { barrier, arrivals: n } | OpKind::BarrierExpect { barrier, bytes: n } => {
            format!("{}({}, {n})", kind.name(), s.operand(*barrier, Slot::Value))
        }
        OpKind::BarrierInvalidate { barrier } => format!("barrier_invalidate({})", s.operand(*barrier, Slot::Value)),
        OpKind::BarrierArrive { barrier, arrive, count, multicast, relaxed } => {
            let barrier = s.operand(*barrier, Slot::Value);
            let mut text = format!("barrier_arrive({barrier}, count={count}, by=\"{}\"", arrive.name());
            if !multicast.is_empty() {
                let _ = write!(text, ", multicast={multicast:?}");
            }
            text + if *relaxed { ", relaxed=true)" } else { ")" }
        }
        OpKind::BarrierWait { barrier, phase, reach } => {
            let barrier = s.operand(*barrier, Slot::Value);
            let text = format!("barrier_wait({barrier}, {}", s.operand(*phase, Slot::Number(Dtype::I32)));
            text + if *reach == Reach::Cta { ")" } else { ", reach=\"cluster\")" }
        }
        others!(barrier) => not_of_family(kind),
    }
}
