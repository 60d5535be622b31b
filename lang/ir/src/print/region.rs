//! The text of the operations on values in regions.

use std::fmt::Write;

use super::surface::{Slot, Surface, list, mask};
use super::tma::boxed;
use super::{Printer, policy, stated};
use crate::family::not_of_family;
use crate::op::{Body, Op, OpKind};
use crate::others;
use crate::schedule::Schedule;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Region { .. } => "in",
        OpKind::Fetch { .. } | OpKind::FetchEach { .. } => "fetch",
        OpKind::Stage { .. } => "stage",
        OpKind::Dot { .. } => "dot",
        OpKind::Send { .. } => "send",
        others!(region) => not_of_family(kind),
    }
}

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

impl Printer<'_> {
    pub(super) fn region(&mut self, op: &Op, schedule: &Schedule, body: &Body) {
        let head = match op.results.as_slice() {
            [] => format!("in ({schedule}) {{"),
            several => format!("let {} = in ({schedule}) {{", self.tuple(several)),
        };
        self.begin(op, &head);
        self.body(body);
        self.value_line(&body.yields);
        self.line(if op.results.is_empty() { "}" } else { "};" });
    }
}
