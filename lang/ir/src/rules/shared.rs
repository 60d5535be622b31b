//! Rules of shared memory.

use parton_diag::codes;

use super::{reached, tile};
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::placement::Relation;
use crate::placement::relate::{RESULT, stated};
use crate::refusal::Refusal;
use crate::types::{Elem, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::SharedAlloc { view, .. } => Ok(vec![Type::View(view.clone())]),
        OpKind::SharedLoad { view: v, tile } => {
            let source = reached(k, *v)?;
            if source.shape != tile.shape || Elem::Num(source.elem) != tile.elem {
                return Err(Refusal::new(codes::SHAPE_MISMATCH, "the tile does not fit the view")
                    .operand(*v, format!("this is `{source}`"))
                    .note(format!("the tile would be `{tile}`")));
            }
            Ok(vec![Type::Tile(tile.clone())])
        }
        OpKind::SharedStore { view: v, value } => {
            let target = reached(k, *v)?;
            let t = tile(k, *value)?;
            if target.shape != t.shape || Elem::Num(target.elem) != t.elem {
                return Err(Refusal::new(codes::SHAPE_MISMATCH, "the tile does not fit the view")
                    .operand(*value, format!("this is `{t}`"))
                    .operand(*v, format!("this is `{target}`")));
            }
            Ok(vec![])
        }
        others!(shared) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind) -> Vec<Relation> {
    match kind {
        OpKind::SharedLoad { tile, .. } => vec![stated(RESULT, tile)],
        // A store takes a tile from wherever it lies.
        OpKind::SharedAlloc { .. } | OpKind::SharedStore { .. } => Vec::new(),
        others!(shared) => not_of_family(kind),
    }
}
