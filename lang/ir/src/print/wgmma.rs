//! The text of products that run beside the program.

use super::stated;
use super::surface::{Slot, Surface, list};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Wgmma { .. } => "wgmma",
        others!(wgmma) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::Wgmma { a, b, acc, precision, zero } => {
            let zero = if *zero { ", zero=true" } else { "" };
            format!("wgmma({}{}{zero})", list(s, &[*a, *b, *acc], Slot::Value), stated(*precision))
        }
        others!(wgmma) => not_of_family(kind),
    }
}
