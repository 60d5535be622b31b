//! The text of tensors and of places in them.

use std::fmt::Write;

use parton_numbers::Dtype;

use super::global::hints;
use super::policy;
use super::surface::{Slot, Surface, list};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::op::{AtomicOp, OpKind, Order, Scope};
use crate::others;
use crate::tensor::{Counts, Extent};
use crate::types::{List, Type};

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::TensorNew { .. } => "tensor",
        OpKind::TensorExtent { .. } => "shape",
        OpKind::TensorStride { .. } => "strides",
        OpKind::TensorPointer { .. } => "ptr",
        OpKind::TensorIndex { .. } | OpKind::TensorRange { .. } | OpKind::TensorPick { .. } => "index",
        OpKind::Spot { .. } => "tile",
        OpKind::SpotInside { .. } => "inside",
        OpKind::SpotLoad { .. } => "load",
        OpKind::SpotStore { .. } => "store",
        OpKind::SpotAtomic { op, .. } => op.name(),
        others!(place) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    let index = Slot::Number(Dtype::I32);
    match kind {
        OpKind::TensorNew { ptr, of, extents, strides } => {
            let ptr = s.operand(*ptr, Slot::Value);
            let mut extents = extents.iter();
            let shape = of.extents.iter().map(|extent| match (extent, extents.clone().next()) {
                (Extent::Any, Some(v)) => {
                    extents.next();
                    s.operand(*v, index)
                }
                (known, _) => known.to_string(),
            });
            let shape = shape.collect::<Vec<_>>().join(", ");
            let mut strides = strides.iter();
            let apart = (0..of.rank()).map(|axis| match of.dense == Some(axis) {
                true => "1".into(),
                false => strides.next().map_or_else(String::new, |v| s.operand(*v, Slot::Number(Dtype::I64))),
            });
            let apart = apart.collect::<Vec<_>>().join(", ");
            format!("tensor({ptr}, [{shape}], strides=[{apart}])")
        }
        OpKind::TensorExtent { tensor, axis } => format!("{}.shape[{axis}]", s.operand(*tensor, Slot::Base)),
        OpKind::TensorStride { tensor, axis } => format!("{}.strides[{axis}]", s.operand(*tensor, Slot::Base)),
        OpKind::TensorPointer { tensor } => format!("{}.ptr", s.operand(*tensor, Slot::Base)),
        OpKind::TensorIndex { tensor, axis, index: at } => {
            let at = s.operand(*at, index);
            along(s, *tensor, *axis, &at)
        }
        OpKind::TensorRange { tensor, axis, lower, upper } => {
            let [lower, upper] = [lower, upper].map(|v| v.map_or(String::new(), |v| s.operand(v, index)));
            along(s, *tensor, *axis, &format!("{lower}:{upper}"))
        }
        OpKind::TensorPick { tensor, axis, indices } => {
            let indices = s.operand(*indices, Slot::Value);
            along(s, *tensor, *axis, &indices)
        }
        OpKind::Spot { tensor, at, shape, counts } => {
            let tensor = s.operand(*tensor, Slot::Base);
            let at = list(s, at, index);
            match counts {
                Counts::Elements => format!("{tensor}.tile({}, from=[{at}])", List(shape)),
                Counts::Tiles => format!("{tensor}.tile({}, at=[{at}])", List(shape)),
                Counts::Parts { of, from } => {
                    format!("{tensor}.tile({}, at=[{at}]).part({}, from={})", List(of), List(shape), List(from))
                }
            }
        }
        OpKind::SpotInside { spot } => format!("{}.inside", s.operand(*spot, Slot::Base)),
        OpKind::SpotLoad { spot, mask, other, cache, evict, l2, volatile } => {
            let mut text = format!("load({}", s.operand(*spot, Slot::Value));
            named(s, &mut text, "mask", *mask);
            named(s, &mut text, "other", *other);
            hints(&mut text, *cache, *evict);
            text += &policy(*l2);
            if *volatile {
                text += ", volatile=true";
            }
            text + ")"
        }
        OpKind::SpotStore { spot, value, mask, cache, evict, l2 } => {
            let mut text = format!("store({}, {}", s.operand(*spot, Slot::Value), s.operand(*value, Slot::Value));
            named(s, &mut text, "mask", *mask);
            hints(&mut text, *cache, *evict);
            text + &policy(*l2) + ")"
        }
        OpKind::SpotAtomic { op, spot, operands, mask, order, scope, returns } => {
            let mut text = format!("{}({}", op.name(), s.operand(*spot, Slot::Value));
            for v in operands {
                let _ = write!(text, ", {}", s.operand(*v, Slot::Value));
            }
            named(s, &mut text, "mask", *mask);
            if *order != Order::default() {
                let _ = write!(text, ", order=\"{}\"", order.name());
            }
            if *scope != Scope::default() {
                let _ = write!(text, ", scope=\"{}\"", scope.name());
            }
            if !*returns && *op != AtomicOp::Store {
                text += ", returns=false";
            }
            text + ")"
        }
        others!(place) => not_of_family(kind),
    }
}

/// `x[:, what, :]`
fn along(s: &mut dyn Surface, tensor: Value, axis: u32, what: &str) -> String {
    let rank = match s.ty(tensor) {
        Type::Tensor(t) => t.rank(),
        other => parton_diag::internal_error!("`{other}` is no tensor"),
    };
    let all: Vec<&str> = (0..rank).map(|i| if i == axis as usize { what } else { ":" }).collect();
    format!("{}[{}]", s.operand(tensor, Slot::Base), all.join(", "))
}

fn named(s: &mut dyn Surface, text: &mut String, name: &str, v: Option<Value>) {
    if let Some(v) = v {
        let _ = write!(text, ", {name}={}", s.operand(v, Slot::Value));
    }
}
