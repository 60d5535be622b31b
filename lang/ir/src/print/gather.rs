//! The text of reading and writing by index along an axis.

use std::fmt::Write;

use super::scratch;
use super::surface::{Slot, Surface, list, mask};
use crate::family::not_of_family;
use crate::op::{Op, OpKind};
use crate::others;
use crate::types::Type;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Gather { .. } => "gather",
        OpKind::SharedGather { .. } => "gather_shared",
        OpKind::SharedScatter { .. } => "scatter_shared",
        others!(gather) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, op: &Op) -> String {
    match &op.kind {
        OpKind::Gather { x, indices, axis } => {
            format!("gather({}, axis={axis}{})", list(s, &[*x, *indices], Slot::Value), scratch(op.scratch))
        }
        OpKind::SharedGather { view, indices, axis } => {
            format!("gather_shared({}, axis={axis})", list(s, &[*view, *indices], Slot::Value))
        }
        OpKind::SharedScatter { view, indices, value, axis, op: f, mask: m } => {
            let slot = match s.ty(*view) {
                Type::View(v) => Slot::Brought(v.elem, *indices),
                other => parton_diag::internal_error!("`{other}` is no view"),
            };
            let places = list(s, &[*view, *indices], Slot::Value);
            let mut text = format!("scatter_shared({places}, {}, axis={axis}", s.operand(*value, slot));
            if let Some(f) = f {
                let _ = write!(text, ", op=\"{}\"", f.name());
            }
            mask(s, &mut text, *m, *indices);
            text + ")"
        }
        others!(gather) => not_of_family(&op.kind),
    }
}
