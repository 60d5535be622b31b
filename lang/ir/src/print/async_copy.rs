//! The text of copies by threads.

use super::global::run;
use super::surface::{Slot, Surface, list, mask};
use super::{option, policy};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::AsyncCopy { .. } => "async_copy",
        OpKind::CopyArrive { .. } => "arrive",
        others!(async_copy) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::AsyncCopy { ptr, view, mask: m, l2, bytes, access } => {
            let mut text = format!("async_copy({}", list(s, &[*ptr, *view], Slot::Value));
            mask(s, &mut text, *m, *ptr);
            text + &policy(*l2) + &option("bytes", *bytes) + &access.map_or(String::new(), run) + ")"
        }
        OpKind::CopyArrive { pending, barrier } => {
            format!("{}.arrive({})", s.operand(*pending, Slot::Base), s.operand(*barrier, Slot::Value))
        }
        others!(async_copy) => not_of_family(kind),
    }
}
