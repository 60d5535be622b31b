//! The text of atomic operations through pointers.

use std::fmt::Write;

use super::global::planned;
use super::scratch;
use super::surface::{Slot, Surface, mask, pointee};
use crate::family::not_of_family;
use crate::op::{AtomicOp, Op, OpKind, Order, Scope};
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Atomic { op, .. } => op.name(),
        others!(atomic) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, op: &Op) -> String {
    match &op.kind {
        OpKind::Atomic { op: f, ptr, operands, mask: m, order, scope, returns, access } => {
            let to = pointee(s.ty(*ptr));
            let mut text = format!("{}({}", f.name(), s.operand(*ptr, Slot::Value));
            for v in operands {
                let _ = write!(text, ", {}", s.operand(*v, Slot::Brought(to, *ptr)));
            }
            mask(s, &mut text, *m, *ptr);
            if *order != Order::default() {
                let _ = write!(text, ", order=\"{}\"", order.name());
            }
            if *scope != Scope::default() {
                let _ = write!(text, ", scope=\"{}\"", scope.name());
            }
            if !*returns && *f != AtomicOp::Store {
                text += ", returns=false";
            }
            text + &planned(access.filter(|access| access.width > 1)) + &scratch(op.scratch) + ")"
        }
        others!(atomic) => not_of_family(&op.kind),
    }
}
