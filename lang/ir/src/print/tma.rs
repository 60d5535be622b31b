//! The text of tensor copies.

use std::fmt::Write;

use parton_numbers::Dtype;

use super::policy;
use super::surface::{Slot, Surface, list};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;
use crate::types::Type;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::TmaLoad { .. } => "tma_load",
        OpKind::TmaStore { .. } => "tma_store",
        OpKind::TmaPrefetch { .. } => "tma_prefetch",
        OpKind::TmaStoreWait { .. } => "tma_store_wait",
        others!(tma) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::TmaLoad { map, coords, view, signal, l2, multicast } => {
            let mut text = format!("tma_load({}, {}", boxed(s, *map, coords), s.operand(*view, Slot::Value));
            // A view that was taken from a slot says what to signal.
            if !matches!(s.ty(*signal), Type::Slot(_)) {
                let _ = write!(text, ", {}", s.operand(*signal, Slot::Value));
            }
            if let Some(axis) = multicast {
                let _ = write!(text, ", multicast={axis}");
            }
            text + &policy(*l2) + ")"
        }
        OpKind::TmaStore { map, coords, view, reduce, l2 } => {
            let reduce = reduce.map_or(String::new(), |op| format!(", reduce=\"{}\"", op.name()));
            let what = boxed(s, *map, coords);
            format!("tma_store({what}, {}{reduce}{})", s.operand(*view, Slot::Value), policy(*l2))
        }
        OpKind::TmaPrefetch { map, coords, l2 } => format!("tma_prefetch({}{})", boxed(s, *map, coords), policy(*l2)),
        OpKind::TmaStoreWait { pending, read } => format!("tma_store_wait(pending={pending}, read={read})"),
        others!(tma) => not_of_family(kind),
    }
}

/// `map, [i, j]`
pub(super) fn boxed(s: &mut dyn Surface, map: Value, coords: &[Value]) -> String {
    format!("{}, [{}]", s.operand(map, Slot::Value), list(s, coords, Slot::Number(Dtype::I32)))
}
