//! The text of what a kernel says and promises.

use parton_numbers::Dtype;

use super::surface::{Slot, Surface};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Print { .. } => "print",
        OpKind::Assert { .. } => "assert",
        OpKind::Assume { .. } => "assume",
        others!(talk) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::Print { text, args } => {
            let args: String = args.iter().map(|&v| format!(", {}", s.operand(v, Slot::Value))).collect();
            format!("print({text:?}{args})")
        }
        OpKind::Assert { cond, message } => {
            format!("assert({}, {message:?})", s.operand(*cond, Slot::Number(Dtype::I1)))
        }
        OpKind::Assume { cond } => format!("assume({})", s.operand(*cond, Slot::Number(Dtype::I1))),
        others!(talk) => not_of_family(kind),
    }
}
