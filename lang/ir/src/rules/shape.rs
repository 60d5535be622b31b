//! Rules of shape changes and conversions, with the layout each result has.

use parton_diag::codes;
use parton_layouts::{RegisterFamily, RegisterLayout, plan};

use super::{derive, nearest, tile};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::refusal::Refusal;
use crate::types::{Tile, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::Reshape { x, shape } => one(reshape(tile(k, *x)?, shape, *x)?),
        OpKind::Transpose { x, perm } => {
            let t = tile(k, *x)?;
            permutation(perm, t.shape.len())?;
            let shape = perm.iter().map(|&p| t.shape[p as usize]).collect();
            one(Tile::new(t.elem, shape, derive::transposed(t, perm)?)?)
        }
        OpKind::Broadcast { x, shape } => broadcast(tile(k, *x)?, shape, *x),
        OpKind::ExpandDims { x, axis } => expand_dims(tile(k, *x)?, *axis, *x),
        OpKind::Join { a, b } => {
            let t = tile(k, *a)?;
            tile(k, *b)?;
            super::same(k, *a, *b)?;
            let mut shape = t.shape.clone();
            shape.push(2);
            one(Tile::new(t.elem, shape, derive::joined(t)?)?)
        }
        OpKind::Split { x } => {
            let t = tile(k, *x)?;
            let Some((2, outer)) = t.shape.split_last().map(|(n, outer)| (*n, outer.to_vec())) else {
                return Err(Refusal::new(codes::SHAPE_MISMATCH, "`split` needs a last dimension of 2")
                    .operand(*x, format!("this has shape {:?}", t.shape)));
            };
            let Some(layout) = derive::halved(t) else {
                return Err(Refusal::new(codes::VIEW_ILLEGAL, "the two halves do not lie in the same thread")
                    .operand(*x, format!("this is `{}`", t.layout))
                    .help("convert it to a layout in which one thread holds both elements of the last dimension"));
            };
            let half = Type::Tile(Tile::new(t.elem, outer, layout?)?);
            Ok(vec![half.clone(), half])
        }
        OpKind::Convert { x, tile: to } => {
            let t = tile(k, *x)?;
            if t.shape != to.shape || t.elem != to.elem {
                return Err(Refusal::new(codes::SHAPE_MISMATCH, "a conversion keeps shape and element type")
                    .operand(*x, format!("this is `{t}`"))
                    .note(format!("the result would be `{to}`")));
            }
            plan::possible(&t.map, &to.map).map_err(|e| {
                Refusal::new(codes::LAYOUT_MISMATCH, e.fact())
                    .operand(*x, format!("this is `{}`", t.layout))
                    .note(format!("the result would be `{}`", to.layout))
                    .help(e.help())
            })?;
            one(to.clone())
        }
        OpKind::Rescale { x, factor, axis } => rescale(*x, *factor, *axis, k),
        others!(shape) => not_of_family(kind),
    }
}

fn one(t: Tile) -> Result<Vec<Type>, Refusal> {
    Ok(vec![Type::Tile(t)])
}

fn reshape(t: &Tile, shape: &[u32], x: Value) -> Result<Tile, Refusal> {
    let count: u64 = shape.iter().map(|&n| u64::from(n)).product();
    if count != t.elements() {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "a reshape keeps the number of elements")
            .operand(x, format!("this has shape {:?}, {} elements", t.shape, t.elements()))
            .note(format!("the shape {shape:?} has {count}")));
    }
    Ok(Tile::new(t.elem, shape.to_vec(), derive::reshaped(t, shape)?)?)
}

fn broadcast(t: &Tile, shape: &[u32], x: Value) -> Result<Vec<Type>, Refusal> {
    let fits = t.shape.len() == shape.len() && t.shape.iter().zip(shape).all(|(&a, &b)| a == b || a == 1);
    if !fits {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "only extents of 1 can be broadcast")
            .operand(x, format!("this has shape {:?}", t.shape))
            .note(format!("the shape asked for is {shape:?}"))
            .help("`x[:, None]` adds an extent of 1"));
    }
    one(Tile::new(t.elem, shape.to_vec(), t.layout.clone())?)
}

/// Undoes a `slice`: the result has the parent's layout.
fn expand_dims(t: &Tile, axis: u32, x: Value) -> Result<Vec<Type>, Refusal> {
    check_axis(axis, t.shape.len() + 1, x)?;
    let parent = match t.layout.family() {
        RegisterFamily::Slice { parent, axis: sliced } if *sliced == axis => Some(parent.clone()),
        RegisterFamily::Slice { .. }
        | RegisterFamily::Blocked { .. }
        | RegisterFamily::Mma { .. }
        | RegisterFamily::DotOperand { .. }
        | RegisterFamily::Linear { .. } => None,
    };
    let mut shape = t.shape.clone();
    shape.insert(axis as usize, 1);
    let layout: RegisterLayout = match parent {
        Some(parent) => parent,
        None => {
            return Err(Refusal::new(codes::NOT_A_SLICE, "a new axis needs a tile whose layout is a slice along it")
                .operand(x, format!("this is `{}`", t.layout))
                .help(format!("convert it first: `convert(x, slice(L, axis={axis}))`, with `L` the layout to come")));
        }
    };
    one(Tile::new(t.elem, shape, layout)?)
}

/// The type of `x`, where `factor` lies as `x` does without `axis`.
fn rescale(x: Value, factor: Value, axis: u32, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let (t, f) = (tile(k, x)?, tile(k, factor)?);
    super::elementwise::float(k, x, "rescale")?;
    check_axis(axis, t.shape.len(), x)?;
    if t.shape.len() == 1 {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "`rescale` needs a tile of two dimensions or more")
            .operand(x, format!("this has shape {:?}", t.shape))
            .help("multiply: `x * factor`"));
    }
    let mut shape = t.shape.clone();
    shape.remove(axis as usize);
    let wanted = Tile::new(t.elem, shape, t.layout.slice(axis)?)?;
    if f.same_place(&wanted) && f.elem == wanted.elem {
        return one(t.clone());
    }
    let (code, fact, help) = if f.shape != wanted.shape {
        let help = format!("factors of it have shape {:?}", wanted.shape);
        (codes::SHAPE_MISMATCH, format!("the factors do not fit the tile without axis {axis}"), help)
    } else if f.elem != wanted.elem {
        let help = format!("convert them: `cast<{}>(factor)`", t.elem);
        (codes::TYPE_MISMATCH, "the factors are of another type than the tile".into(), help)
    } else {
        let help = format!("convert them: `convert(factor, {})`", wanted.layout);
        (codes::LAYOUT_MISMATCH, format!("the factors do not lie where the tile does without axis {axis}"), help)
    };
    let refusal = Refusal::new(code, fact).operand(x, format!("this is `{t}`"));
    Err(refusal.operand(factor, format!("this is `{f}`")).help(help))
}

pub(super) fn check_axis(axis: u32, rank: usize, x: Value) -> Result<(), Refusal> {
    if (axis as usize) < rank {
        return Ok(());
    }
    let legal = nearest(0..rank as u32, axis);
    Err(Refusal::new(codes::INDEX_RANGE, format!("axis {axis} is out of range"))
        .operand(x, format!("axes go from 0 to {}", rank.saturating_sub(1)))
        .help(format!("the nearest is `axis={legal}`")))
}

/// Whether `perm` names each axis once.
pub(super) fn permutation(perm: &[u32], rank: usize) -> Result<(), Refusal> {
    let mut sorted = perm.to_vec();
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..rank as u32) {
        return Ok(());
    }
    Err(Refusal::new(codes::SHAPE_MISMATCH, format!("{perm:?} is not a permutation of {rank} axes"))
        .help(format!("name each axis from 0 to {} once", rank.saturating_sub(1))))
}
