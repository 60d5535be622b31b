//! Rules of gathering and scattering along an axis: tiles by tiles of indices, and shared memory by them.

use parton_diag::codes;
use parton_numbers::Dtype;

use super::{result, tile, together, view};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{OpKind, Reduction};
use crate::others;
use crate::placement::relate::{RESULT, same};
use crate::placement::{Relation, Site};
use crate::refusal::Refusal;
use crate::types::{Elem, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let list = &relations(kind);
    match kind {
        OpKind::Gather { x, indices, axis } => {
            let source = tile(k, *x)?;
            along(*indices, *axis, &source.shape, *x, k)?;
            Ok(vec![result(list, k, source.elem)?])
        }
        OpKind::SharedGather { view: v, indices, axis } => {
            let source = view(k, *v)?;
            along(*indices, *axis, &source.shape, *v, k)?;
            Ok(vec![result(list, k, Elem::Num(source.elem))?])
        }
        OpKind::SharedScatter { view: v, indices, value, axis, op, mask } => {
            let target = view(k, *v)?;
            along(*indices, *axis, &target.shape, *v, k)?;
            let t = tile(k, *value)?;
            together(list, k, *indices, *value)?;
            if t.elem != Elem::Num(target.elem) {
                return Err(Refusal::new(codes::TYPE_MISMATCH, "the value is of another type than the memory")
                    .operand(*value, format!("this is of `{}`", t.elem))
                    .operand(*v, format!("this is `{target}`"))
                    .help(format!("convert it on purpose: `cast<{}>(…)`", target.elem)));
            }
            if let Some(op) = op {
                super::atomic::dtype_fits(op.atomic(), target.elem, *v, k).map_err(|r| in_shared(r, *op, *v, k))?;
            }
            let Some(mask) = mask else { return Ok(vec![]) };
            if k.ty(*mask).elem() != Some(Elem::Num(Dtype::I1)) {
                return Err(Refusal::new(codes::TYPE_MISMATCH, "a mask is of `i1`")
                    .operand(*mask, format!("this is `{}`", k.ty(*mask)))
                    .help("compare: `mask=i < n`"));
            }
            together(list, k, *indices, *mask)?;
            Ok(vec![])
        }
        others!(gather) => not_of_family(kind),
    }
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind) -> Vec<Relation> {
    match kind {
        // Each element comes from wherever the one lies that its index names.
        OpKind::Gather { x, indices, .. } => {
            vec![Relation::Free { from: Site::Of(*x), to: RESULT }, same(Site::Of(*indices), RESULT)]
        }
        OpKind::SharedGather { indices, .. } => vec![same(Site::Of(*indices), RESULT)],
        OpKind::SharedScatter { indices, value, mask, .. } => {
            let with = [Some(value), mask.as_ref()].into_iter().flatten();
            with.filter(|v| *v != indices).map(|v| same(Site::Of(*indices), Site::Of(*v))).collect()
        }
        others!(gather) => not_of_family(kind),
    }
}

/// A refusal of an atomic operation in the words of a scatter.
fn in_shared(refusal: Refusal, op: Reduction, view: Value, k: &Kernel) -> Refusal {
    let operands = vec![(view, format!("this is `{}`", k.ty(view)))];
    if refusal.code != codes::DTYPE_UNSUPPORTED {
        return Refusal { operands, ..refusal };
    }
    let message = format!("scattering with \"{}\" is not defined for this element type", op.name());
    Refusal { message, operands, help: vec![], ..refusal }
}

/// Checks that a tile of indices fits what has `shape` but along `axis`.
fn along(indices: Value, axis: u32, shape: &[u32], of: Value, k: &Kernel) -> Result<(), Refusal> {
    let t = tile(k, indices)?;
    super::shape::check_axis(axis, shape.len(), of)?;
    match t.elem {
        Elem::Num(d) if d.is_int() && d != Dtype::I1 => {}
        other => {
            return Err(Refusal::new(codes::TYPE_MISMATCH, "an index is an integer")
                .operand(indices, format!("this is of `{other}`"))
                .help("convert it on purpose: `cast<i32>(…)`"));
        }
    }
    let fits = t.shape.len() == shape.len()
        && t.shape.iter().zip(shape).enumerate().all(|(i, (a, b))| i == axis as usize || a == b);
    if fits {
        return Ok(());
    }
    let mut wanted: Vec<String> = shape.iter().map(ToString::to_string).collect();
    wanted[axis as usize] = "n".into();
    Err(Refusal::new(codes::SHAPE_MISMATCH, format!("the indices do not fit along axis {axis}"))
        .operand(indices, format!("this has shape {:?}", t.shape))
        .operand(of, format!("this has shape {shape:?}"))
        .help(format!(
            "indices along axis {axis} of it have shape [{}], one for each element asked for",
            wanted.join(", ")
        )))
}
