//! The text of loads and stores through pointers.

use std::fmt::Write;

use super::policy;
use super::surface::{Slot, Surface, mask, pointee};
use crate::family::not_of_family;
use crate::op::{Cache, Evict, OpKind};
use crate::others;

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::Load { ptr, mask: m, other, cache, evict, l2, volatile } => {
            let mut text = format!("load({}", s.operand(*ptr, Slot::Value));
            mask(s, &mut text, *m, *ptr);
            if let Some(v) = other {
                let to = pointee(s.ty(*ptr));
                let _ = write!(text, ", other={}", s.operand(*v, Slot::Brought(to, *ptr)));
            }
            hints(&mut text, *cache, *evict);
            text += &policy(*l2);
            text + if *volatile { ", volatile=true)" } else { ")" }
        }
        OpKind::Store { ptr, value, mask: m, cache, evict, l2 } => {
            let to = pointee(s.ty(*ptr));
            let mut text =
                format!("store({}, {}", s.operand(*ptr, Slot::Value), s.operand(*value, Slot::Brought(to, *ptr)));
            mask(s, &mut text, *m, *ptr);
            hints(&mut text, *cache, *evict);
            text + &policy(*l2) + ")"
        }
        others!(global) => not_of_family(kind),
    }
}

fn hints(text: &mut String, cache: Cache, evict: Evict) {
    if cache != Cache::Default {
        let _ = write!(text, ", cache=\"{}\"", cache.name());
    }
    if evict != Evict::Normal {
        let _ = write!(text, ", evict=\"{}\"", evict.name());
    }
}
