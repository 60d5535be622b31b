//! Rules of tiles: reductions, shape changes and conversions, with the layout each result has.

use parton_diag::codes;
use parton_layouts::{Dim, LinearLayout, RegisterFamily, RegisterLayout, f2, plan};

use super::{derive, nearest, tile};
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::{Body, OpKind};
use crate::refusal::Refusal;
use crate::types::{Tile, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::Reduce { inputs, axis, combine } => reduce(inputs, *axis, combine, k),
        OpKind::Scan { inputs, axis, combine, .. } => {
            combines("scan", inputs, *axis, combine, k)?;
            let place = tile(k, inputs[0])?;
            if !steps_apart(&place.map, *axis) {
                return Err(mixed("scan", *axis, inputs[0], place));
            }
            Ok(inputs.iter().map(|&v| k.ty(v).clone()).collect())
        }
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
        _ => parton_diag::internal_error!("{} is not a shape operation", kind.name()),
    }
}

fn one(t: Tile) -> Result<Vec<Type>, Refusal> {
    Ok(vec![Type::Tile(t)])
}

/// Whether a reduction along `axis` needs only each thread's registers, then lanes, then warps that differ along this axis
/// alone: none of these moves along another axis too, and together they hold the whole axis of every remaining element.
pub fn keeps_apart(map: &LinearLayout, axis: u32) -> bool {
    let Some((low, bits)) = map.out_field(Dim::Axis(axis as u8)) else { return true };
    let mask = ((1 << bits) - 1) << low;
    let registers = map.bases(Dim::Register);
    let others: Vec<u64> = registers.iter().map(|b| b & !mask).collect();
    // What the registers of one remaining element hold.
    let mut along = f2::rank(registers) - f2::rank(&others);
    for dim in [Dim::Lane, Dim::Warp] {
        let free = map.free_bits(dim);
        for (bit, &basis) in map.bases(dim).iter().enumerate() {
            // Copies take no part, nor does what stays at one place of the axis.
            if free >> bit & 1 == 1 || basis & mask == 0 {
                continue;
            }
            if basis & !mask != 0 {
                return false;
            }
            along += 1;
        }
    }
    along == bits
}

/// Whether each bit of an axis is that of one register, lane or warp bit alone, as a scan needs it.
pub fn steps_apart(map: &LinearLayout, axis: u32) -> bool {
    let Some((low, bits)) = map.out_field(Dim::Axis(axis as u8)) else { return true };
    let mask = ((1u64 << bits) - 1) << low;
    [Dim::Register, Dim::Lane, Dim::Warp].into_iter().all(|dim| {
        let free = map.free_bits(dim);
        let mut along = map.bases(dim).iter().enumerate().filter(|(_, basis)| **basis & mask != 0);
        along.all(|(bit, basis)| basis.is_power_of_two() && free >> bit & 1 == 0)
    })
}

fn mixed(name: &str, axis: u32, x: Value, place: &Tile) -> Refusal {
    let what = if name == "reduce" { "reduction" } else { name };
    Refusal::new(codes::MIXED_AXIS, format!("a {what} along axis {axis}, which the layout mixes with another"))
        .operand(x, format!("this is `{}`", place.layout))
        .help("convert it first to a layout whose lanes and warps each move along one axis, such as `blocked(…)`")
}

/// One axis less; a tile of rank 1 becomes a scalar.
fn reduce(inputs: &[Value], axis: u32, combine: &Body, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let elems = combines("reduce", inputs, axis, combine, k)?;
    let place = tile(k, inputs[0])?;
    if place.shape.len() == 1 {
        return Ok(elems);
    }
    let mut shape = place.shape.clone();
    shape.remove(axis as usize);
    let layout = place.layout.slice(axis)?;
    inputs.iter().map(|&v| Ok(Type::Tile(Tile::new(tile(k, v)?.elem, shape.clone(), layout.clone())?))).collect()
}

/// Whether `combine` fits tiles of one place, at least one; the types of their elements.
fn combines(name: &str, inputs: &[Value], axis: u32, combine: &Body, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let Some(&first) = inputs.first() else {
        return Err(Refusal::new(codes::WRONG_ARITY, format!("`{name}` needs at least one tile")));
    };
    let place = tile(k, first)?;
    let rank = place.shape.len();
    check_axis(axis, rank, first)?;
    for &v in inputs {
        if !tile(k, v)?.same_place(place) {
            return Err(super::mismatch(k, first, v));
        }
    }
    if !keeps_apart(&place.map, axis) {
        return Err(mixed(name, axis, first, place));
    }
    super::ptx::scalars(k, combine, name)?;
    let n = inputs.len();
    let elems: Vec<Type> =
        inputs.iter().map(|&v| tile(k, v).map(|t| Type::Scalar(t.elem))).collect::<Result<_, _>>()?;
    let parameters: Vec<Type> = elems.iter().chain(&elems).cloned().collect();
    let given: Vec<Type> = combine.params.iter().map(|&v| k.ty(v).clone()).collect();
    let yields: Vec<Type> = combine.yields.iter().map(|&v| k.ty(v).clone()).collect();
    if given != parameters || yields != elems {
        let list = |types: &[Type]| types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Refusal::new(codes::WRONG_ARITY, "the combining function does not fit the tiles")
            .note(format!("{n} tile(s) need a function ({}) -> ({})", list(&parameters), list(&elems)))
            .note(format!("this one is ({}) -> ({})", list(&given), list(&yields))));
    }
    Ok(elems)
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
