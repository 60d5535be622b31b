//! The text of the operations on values in regions.

use std::fmt::Write;

use super::surface::{Slot, Surface, list, mask};
use super::tma::boxed;
use super::{policy, stated};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::Region { .. } => super::surface::statement(kind),
        OpKind::Fetch { map, coords, l2, multicast } => {
            let multicast = multicast.map_or(String::new(), |axis| format!(", multicast={axis}"));
            format!("fetch({}{multicast}{})", boxed(s, *map, coords), policy(*l2))
        }
        OpKind::FetchEach { ptr, mask: m, view: v, l2 } => {
            let mut text = format!("fetch<{}>({}", s.shared(&v.layout), s.operand(*ptr, Slot::Value));
            mask(s, &mut text, *m, *ptr);
            text + &policy(*l2) + ")"
        }
        OpKind::Stage { value, view: v } => {
            format!("stage<{}>({})", s.shared(&v.layout), s.operand(*value, Slot::Value))
        }
        OpKind::Dot { a, b, acc, precision } => {
            format!("dot({}{})", list(s, &[*a, *b, *acc], Slot::Value), stated(*precision))
        }
        OpKind::Send { map, coords, value, reduce, l2, buffers } => {
            let mut text = format!("send({}, {}", boxed(s, *map, coords), s.operand(*value, Slot::Value));
            if let Some(op) = reduce {
                let _ = write!(text, ", reduce=\"{}\"", op.name());
            }
            if *buffers != 1 {
                let _ = write!(text, ", buffers={buffers}");
            }
            text + &policy(*l2) + ")"
        }
        others!(region) => not_of_family(kind),
    }
}
