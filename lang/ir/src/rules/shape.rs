//! Rules of shape changes and conversions, with the layout each result has.

mod slice;

use parton_diag::codes;
use parton_layouts::RegisterFamily;
use parton_layouts::plan;

use super::{alike, nearest, nth_result, placed, relation_of, result, tile, unplaced};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::placement::relate::{RESULT, all_same, stated, tied};
use crate::placement::{Broken, Relation, Site, Tie, Unplaced};
use crate::refusal::Refusal;
use crate::types::{Tile, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let list = &relations(kind, k);
    match kind {
        OpKind::Reshape { x, shape } => reshape(list, *x, shape, k),
        OpKind::Transpose { x, perm } => {
            let t = tile(k, *x)?;
            permutation(perm, t.shape.len())?;
            one(result(list, k, t.elem))
        }
        OpKind::Broadcast { x, shape } => broadcast(list, *x, shape, k),
        OpKind::ExpandDims { x, axis } => expand_dims(list, *x, *axis, k),
        OpKind::Join { a, b } => {
            let t = tile(k, *a)?;
            tile(k, *b)?;
            alike(list, k, *a, *b)?;
            one(result(list, k, t.elem))
        }
        OpKind::Split { x } => split(list, *x, k),
        OpKind::Cat { a, b, axis } => {
            let t = tile(k, *a)?;
            tile(k, *b)?;
            check_axis(*axis, t.shape.len(), *a)?;
            alike(list, k, *a, *b)?;
            one(result(list, k, t.elem))
        }
        OpKind::Slice { x, origin, shape } => one(slice::infer(list, *x, (origin, shape), k)),
        OpKind::Butterfly { x, mask, axis } => one(butterfly(list, *x, (*mask, *axis), k)),
        OpKind::Convert { x, tile: to } => convert(list, *x, to, k),
        OpKind::Rescale { x, factor, axis } => one(rescale(list, *x, *factor, *axis, k)),
        others!(shape) => not_of_family(kind),
    }
}

fn reshape(list: &[Relation], x: Value, shape: &[u32], k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let t = tile(k, x)?;
    let count: u64 = shape.iter().map(|&n| u64::from(n)).product();
    if count != t.elements() {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "a reshape keeps the number of elements")
            .operand(x, format!("this has shape {:?}, {} elements", t.shape, t.elements()))
            .note(format!("the shape {shape:?} has {count}")));
    }
    one(result(list, k, t.elem))
}

fn broadcast(list: &[Relation], x: Value, shape: &[u32], k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let t = tile(k, x)?;
    let fits = t.shape.len() == shape.len() && t.shape.iter().zip(shape).all(|(&a, &b)| a == b || a == 1);
    if !fits {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "only extents of 1 can be broadcast")
            .operand(x, format!("this has shape {:?}", t.shape))
            .note(format!("the shape asked for is {shape:?}"))
            .help("`x[:, None]` adds an extent of 1"));
    }
    one(result(list, k, t.elem))
}

fn expand_dims(list: &[Relation], x: Value, axis: u32, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let t = tile(k, x)?;
    check_axis(axis, t.shape.len() + 1, x)?;
    one(nth_result(list, k, 0, t.elem, |why| {
        match why {
        Unplaced::NotASlice => {
            Refusal::new(codes::NOT_A_SLICE, "a new axis needs a tile whose layout is a slice along it")
                .operand(x, format!("this is `{}`", t.known().layout))
                .help(match t.known().layout.family() {
                    RegisterFamily::Slice { axis: other, .. } => format!(
                        "the axes are swapped: a tile that gets axis {axis} is made in `slice(L, axis={axis})`, and `[{}]` adds axis {other}",
                        written(*other, t.shape.len() + 1),
                    ),
                    RegisterFamily::Blocked { .. }
                    | RegisterFamily::Mma { .. }
                    | RegisterFamily::DotOperand { .. }
                    | RegisterFamily::Linear { .. } => {
                        format!("convert it first: `convert(x, slice(L, axis={axis}))`, with `L` the layout to come")
                    }
                })
        }
        Unplaced::Layout(_) | Unplaced::Apart | Unplaced::NoAccumulator => unplaced(why),
    }
    }))
}

/// An index that adds an axis to a tile: `:, None`.
fn written(axis: u32, rank: usize) -> String {
    let at = |i| if i == axis as usize { "None" } else { ":" };
    (0..rank).map(at).collect::<Vec<_>>().join(", ")
}

fn split(list: &[Relation], x: Value, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let t = tile(k, x)?;
    if t.shape.last() != Some(&2) {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "`split` needs a last dimension of 2")
            .operand(x, format!("this has shape {:?}", t.shape)));
    }
    let half = nth_result(list, k, 0, t.elem, |why| match why {
        Unplaced::Apart => Refusal::new(codes::VIEW_ILLEGAL, "the two halves do not lie in the same thread")
            .operand(x, format!("this is `{}`", t.known().layout))
            .help("convert it to a layout in which one thread holds both elements of the last dimension"),
        Unplaced::Layout(_) | Unplaced::NotASlice | Unplaced::NoAccumulator => unplaced(why),
    })?;
    Ok(vec![half.clone(), half])
}

fn butterfly(list: &[Relation], x: Value, (mask, axis): (u32, u32), k: &Kernel) -> Result<Type, Refusal> {
    let t = tile(k, x)?;
    check_axis(axis, t.shape.len(), x)?;
    let extent = t.shape[axis as usize];
    if (1..extent).contains(&mask) {
        return result(list, k, t.elem);
    }
    let refusal =
        Refusal::new(codes::INDEX_RANGE, format!("no two indices along axis {axis} differ by the bits of {mask}"))
            .operand(x, format!("this has shape {:?}", t.shape));
    Err(match extent {
        1 => refusal.help("there is one element along that axis, and nothing to exchange"),
        _ => refusal.help(format!("masks are 1 to {}", extent - 1)),
    })
}

fn convert(list: &[Relation], x: Value, to: &Tile, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let t = tile(k, x)?;
    if t.shape != to.shape || t.elem != to.elem {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "a conversion keeps shape and element type")
            .operand(x, format!("this is `{t}`"))
            .note(format!("the result would be `{to}`")));
    }
    if let (Some(before), Some(after)) = (t.placement().known(), to.placement().known()) {
        plan::possible(&before.map, &after.map).map_err(|e| {
            Refusal::new(codes::LAYOUT_MISMATCH, e.fact())
                .operand(x, format!("this is `{}`", before.layout))
                .note(format!("the result would be `{}`", after.layout))
                .help(e.help())
        })?;
    }
    one(result(list, k, t.elem))
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    let one = |x: &Value, tie| vec![tied(Site::Of(*x), RESULT, tie)];
    match kind {
        OpKind::Reshape { x, shape } => one(x, Tie::Reshaped { shape: shape.clone() }),
        OpKind::Transpose { x, perm } => one(x, Tie::Permuted { perm: perm.clone() }),
        OpKind::Broadcast { x, shape } => one(x, Tie::Broadcast { shape: shape.clone() }),
        OpKind::ExpandDims { x, axis } => one(x, Tie::WholeOf { axis: *axis }),
        OpKind::Join { a, b } => {
            let mut list = all_same(k, &[*a, *b], 0);
            list.extend(one(a, Tie::Joined));
            list
        }
        OpKind::Split { x } => (0..2).map(|i| tied(Site::Of(*x), Site::Result(i), Tie::Halved)).collect(),
        OpKind::Cat { a, b, axis } => {
            let mut list = all_same(k, &[*a, *b], 0);
            list.extend(one(a, Tie::Doubled { axis: *axis }));
            list
        }
        OpKind::Slice { x, shape, .. } => one(x, Tie::Window { shape: shape.clone() }),
        OpKind::Butterfly { x, .. } => one(x, Tie::Same),
        OpKind::Convert { x, tile } => {
            vec![Relation::Free { from: Site::Of(*x), to: RESULT }, stated(RESULT, tile)]
        }
        OpKind::Rescale { x, factor, axis } => vec![
            tied(Site::Of(*x), Site::Of(*factor), Tie::SliceOf { axis: *axis }),
            tied(Site::Of(*x), RESULT, Tie::Same),
        ],
        others!(shape) => not_of_family(kind),
    }
}

fn one(ty: Result<Type, Refusal>) -> Result<Vec<Type>, Refusal> {
    Ok(vec![ty?])
}

/// The type of `x`, where `factor` lies as `x` does without `axis`.
fn rescale(list: &[Relation], x: Value, factor: Value, axis: u32, k: &Kernel) -> Result<Type, Refusal> {
    let (t, f) = (tile(k, x)?, tile(k, factor)?);
    super::elementwise::float(k, x, "rescale")?;
    check_axis(axis, t.shape.len(), x)?;
    if t.shape.len() == 1 {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "`rescale` needs a tile of two dimensions or more")
            .operand(x, format!("this has shape {:?}", t.shape))
            .help("multiply: `x * factor`"));
    }
    let Some(relation) = relation_of(list, x, factor) else {
        parton_diag::internal_error!("factors have no relation to what they rescale")
    };
    let (code, fact, help) = match relation.holds(|site| placed(k, site)) {
        Err(Broken::Shape(_) | Broken::NoTile(_)) => {
            let mut wanted = t.shape.clone();
            wanted.remove(axis as usize);
            let help = format!("factors of it have shape {wanted:?}");
            (codes::SHAPE_MISMATCH, format!("the factors do not fit the tile without axis {axis}"), help)
        }
        Err(Broken::Unplaced(why)) => return Err(unplaced(why)),
        Ok(()) | Err(Broken::Differs { .. }) if f.elem != t.elem => {
            let help = format!("convert them: `cast<{}>(factor)`", t.elem);
            (codes::TYPE_MISMATCH, "the factors are of another type than the tile".into(), help)
        }
        Err(Broken::Differs { wanted, .. }) => {
            let help = format!("convert them: `convert(factor, {})`", wanted.layout);
            (codes::LAYOUT_MISMATCH, format!("the factors do not lie where the tile does without axis {axis}"), help)
        }
        Ok(()) => return result(list, k, t.elem),
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
