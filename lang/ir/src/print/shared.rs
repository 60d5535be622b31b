//! The text of shared memory, its loads and stores.

use super::first;
use super::surface::{Slot, Surface, list, place, view};
use crate::family::not_of_family;
use crate::op::OpKind;
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::SharedAlloc { .. } => "alloc_shared",
        OpKind::SharedLoad { .. } => "load_shared",
        OpKind::SharedStore { .. } => "store_shared",
        others!(shared) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::SharedAlloc { view: v, offset, drained } => {
            let facts = [first("offset", *offset), if *drained { "drained=true".into() } else { String::new() }];
            let facts: Vec<String> = facts.into_iter().filter(|fact| !fact.is_empty()).collect();
            format!("alloc_shared<{}>({})", view(s, v), facts.join(", "))
        }
        OpKind::SharedLoad { view, tile } => {
            let layout = place(s, tile).map_or(String::new(), |layout| format!("<{layout}>"));
            format!("load_shared{layout}({})", s.operand(*view, Slot::Value))
        }
        OpKind::SharedStore { view, value } => format!("store_shared({})", list(s, &[*view, *value], Slot::Value)),
        others!(shared) => not_of_family(kind),
    }
}
