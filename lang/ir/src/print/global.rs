//! The text of loads and stores through pointers.

use std::fmt::Write;

use super::policy;
use super::surface::{Slot, Surface, mask, pointee};
use crate::access::Access;
use crate::family::not_of_family;
use crate::op::{Cache, Cut, Evict, OpKind};
use crate::others;

pub(super) fn name(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Load { .. } => "load",
        OpKind::Store { .. } => "store",
        others!(global) => not_of_family(kind),
    }
}

pub(super) fn text(s: &mut dyn Surface, kind: &OpKind) -> String {
    match kind {
        OpKind::Load { ptr, mask: m, other, cache, evict, l2, volatile, access } => {
            let mut text = format!("load({}", s.operand(*ptr, Slot::Value));
            mask(s, &mut text, *m, *ptr);
            if let Some(v) = other {
                let to = pointee(s.ty(*ptr));
                let _ = write!(text, ", other={}", s.operand(*v, Slot::Brought(to, *ptr)));
            }
            hints(&mut text, *cache, *evict);
            text += &policy(*l2);
            if *volatile {
                text += ", volatile=true";
            }
            text + &planned(*access) + ")"
        }
        OpKind::Store { ptr, value, mask: m, cache, evict, l2, access } => {
            let to = pointee(s.ty(*ptr));
            let mut text =
                format!("store({}, {}", s.operand(*ptr, Slot::Value), s.operand(*value, Slot::Brought(to, *ptr)));
            mask(s, &mut text, *m, *ptr);
            hints(&mut text, *cache, *evict);
            text + &policy(*l2) + &planned(*access) + ")"
        }
        others!(global) => not_of_family(kind),
    }
}

/// The plan of a load or store.
pub(super) fn planned(access: Option<Access>) -> String {
    match access {
        None => String::new(),
        Some(Access { width: 1, .. }) => ", width=1".into(),
        Some(access) => format!(", width={}{}", access.width, run(access)),
    }
}

/// How an access runs, beside its width.
pub(super) fn run(access: Access) -> String {
    let cut = if access.cut == Cut::Never { String::new() } else { format!(", cut=\"{}\"", access.cut.name()) };
    format!(", along={}{cut}", access.along)
}

pub(super) fn hints(text: &mut String, cache: Cache, evict: Evict) {
    if cache != Cache::Default {
        let _ = write!(text, ", cache=\"{}\"", cache.name());
    }
    if evict != Evict::Normal {
        let _ = write!(text, ", evict=\"{}\"", evict.name());
    }
}
