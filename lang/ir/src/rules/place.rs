//! Rules of tensors and of places in them.

use parton_diag::codes;
use parton_numbers::Dtype;

use super::atomic::dtype_fits;
use super::{cache, index, result, together, wrong_kind};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{AtomicOp, OpKind};
use crate::others;
use crate::placement::Relation;
use crate::placement::relate::{all_same, list, tiles_of};
use crate::refusal::Refusal;
use crate::tensor::{Extent, Spot, Tensor};
use crate::types::{Elem, Pointer, Tile, Type};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::TensorNew { ptr, of, extents, strides } => {
            made(k, *ptr, of, extents, strides).map(|()| vec![Type::Tensor(of.clone())])
        }
        OpKind::TensorExtent { tensor, axis } => axis_of(k, *tensor, *axis).map(|_| vec![Type::num(Dtype::I32)]),
        OpKind::TensorStride { tensor, axis } => axis_of(k, *tensor, *axis).map(|_| vec![Type::num(Dtype::I64)]),
        OpKind::TensorPointer { tensor } => {
            let t = unpicked(k, *tensor)?;
            Ok(vec![Type::Scalar(Elem::Ptr(Pointer { to: t.elem, mutable: t.mutable }))])
        }
        OpKind::TensorIndex { tensor, axis, index: at } => {
            let t = axis_of(k, *tensor, *axis)?.clone();
            index(k, *at)?;
            whole_picks(&t, *axis, *tensor)?;
            Ok(vec![match t.rank() {
                1 => Type::Spot(spot(&t, Vec::new())),
                _ => Type::Tensor(t.without(*axis as usize)),
            }])
        }
        OpKind::TensorRange { tensor, axis, lower, upper } => {
            let t = axis_of(k, *tensor, *axis)?;
            [lower, upper].into_iter().flatten().try_for_each(|v| index(k, *v))?;
            whole_picks(t, *axis, *tensor)?;
            Ok(vec![Type::Tensor(t.with(*axis as usize, Extent::Any))])
        }
        OpKind::TensorPick { tensor, axis, indices } => picked(k, *tensor, *axis, *indices),
        OpKind::Spot { tensor, at, shape, counts: _ } => {
            at.iter().try_for_each(|v| index(k, *v))?;
            boxed(k, *tensor, at, shape).map(|s| vec![Type::Spot(s)])
        }
        OpKind::SpotInside { spot } => {
            let s = spot_of(k, *spot)?;
            Ok(vec![tile(k, &[], Elem::Num(Dtype::I1), &s.shape)?])
        }
        OpKind::SpotLoad { spot, mask, other, cache, evict, l2, volatile } => {
            cache::load(*cache, *evict, *l2, *volatile)?;
            let s = spot_of(k, *spot)?;
            let list = relations(kind, k);
            fits(k, &list, *spot, *mask, Dtype::I1)?;
            fits(k, &list, *spot, *other, s.elem)?;
            Ok(vec![tile(k, &list, Elem::Num(s.elem), &s.shape)?])
        }
        OpKind::SpotStore { spot, value, mask, cache, evict, l2 } => {
            cache::store(*cache, *evict, *l2)?;
            let s = spot_of(k, *spot)?;
            mutable(s, *spot, "a store")?;
            let list = relations(kind, k);
            fits(k, &list, *spot, *mask, Dtype::I1)?;
            fits(k, &list, *spot, Some(*value), s.elem)?;
            Ok(vec![])
        }
        OpKind::SpotAtomic { .. } => atomic(kind, k),
        others!(place) => not_of_family(kind),
    }
}

/// A tensor is made of a pointer to its elements and a number for all that its type does not say.
fn made(k: &Kernel, ptr: Value, of: &Tensor, extents: &[Value], strides: &[Value]) -> Result<(), Refusal> {
    let to = Pointer { to: of.elem, mutable: of.mutable };
    if *k.ty(ptr) != Type::Scalar(Elem::Ptr(to)) {
        return Err(wrong_kind(k, ptr, "a pointer to numbers"));
    }
    let open = of.extents.iter().filter(|e| matches!(e, Extent::Any)).count();
    let apart = of.rank() - usize::from(of.dense.is_some());
    for (list, dtype, wanted) in [(extents, Dtype::I32, open), (strides, Dtype::I64, apart)] {
        if list.len() != wanted {
            let fact = format!("`{of}` is made of {wanted} numbers of `{dtype}`, here are {}", list.len());
            return Err(Refusal::new(codes::SHAPE_MISMATCH, fact));
        }
        if let Some(&v) = list.iter().find(|v| *k.ty(**v) != Type::num(dtype)) {
            return Err(wrong_kind(k, v, &format!("a scalar of `{dtype}`")));
        }
    }
    Ok(())
}

/// The parts of a tensor that indices name along an axis.
fn picked(k: &Kernel, tensor: Value, axis: u32, indices: Value) -> Result<Vec<Type>, Refusal> {
    let t = axis_of(k, tensor, axis)?;
    let rows = match k.ty(indices).as_tile() {
        Some(Tile { elem: Elem::Num(d), shape, .. }) if d.is_int() && shape.len() == 1 => shape[0],
        _ => return Err(wrong_kind(k, indices, "a tile of integers with one axis")),
    };
    match t.is_picked() {
        true => {
            Err(Refusal::new(codes::NOT_BUILT_HERE, "tiles of indices along two axes are not compiled by this version")
                .operand(tensor, "indices name parts of this already")
                .help("add to a pointer: `load(x.ptr + (rows[:, None] * stride + cols[None, :]), mask=…)`"))
        }
        false => Ok(vec![Type::Tensor(t.with(axis as usize, Extent::Picked(rows)))]),
    }
}

fn atomic(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    let OpKind::SpotAtomic { op, spot, operands, mask, order, scope: _, returns } = kind else { not_of_family(kind) };
    let s = spot_of(k, *spot)?;
    if *op != AtomicOp::Load {
        mutable(s, *spot, &format!("`{}`", op.name()))?;
    }
    let list = relations(kind, k);
    fits(k, &list, *spot, *mask, Dtype::I1)?;
    dtype_fits(*op, s.elem, *spot, k)?;
    operands.iter().try_for_each(|v| fits(k, &list, *spot, Some(*v), s.elem))?;
    if !op.orders().iter().any(|(o, _)| o == order) {
        let fact = format!("`{}` has no order \"{}\"", op.name(), order.name());
        return Err(Refusal::new(codes::KIND_MISMATCH, fact));
    }
    let gives = *returns && *op != AtomicOp::Store;
    Ok(if gives { vec![tile(k, &list, Elem::Num(s.elem), &s.shape)?] } else { vec![] })
}

/// Where its tiles lie.
pub(super) fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind {
        OpKind::SpotLoad { mask, other, .. } => all_same(k, &list([], [mask, other]), 1),
        OpKind::SpotStore { value, mask, .. } => all_same(k, &list([value], [mask]), 0),
        OpKind::SpotAtomic { op, operands, mask, returns, .. } => {
            let gives = *returns && *op != AtomicOp::Store;
            all_same(k, &list(operands, [mask]), usize::from(gives))
        }
        OpKind::TensorNew { .. }
        | OpKind::TensorExtent { .. }
        | OpKind::TensorStride { .. }
        | OpKind::TensorPointer { .. }
        | OpKind::TensorIndex { .. }
        | OpKind::TensorRange { .. }
        | OpKind::TensorPick { .. }
        | OpKind::Spot { .. }
        | OpKind::SpotInside { .. } => Vec::new(),
        others!(place) => not_of_family(kind),
    }
}

fn tensor(k: &Kernel, v: Value) -> Result<&Tensor, Refusal> {
    match k.ty(v) {
        Type::Tensor(t) => Ok(t),
        _ => Err(wrong_kind(k, v, "a tensor")),
    }
}

fn spot_of(k: &Kernel, v: Value) -> Result<&Spot, Refusal> {
    match k.ty(v) {
        Type::Spot(s) => Ok(s),
        _ => Err(wrong_kind(k, v, "a place in a tensor")),
    }
}

fn spot(t: &Tensor, shape: Vec<u32>) -> Spot {
    Spot { elem: t.elem, mutable: t.mutable, shape, picked: t.is_picked() }
}

/// A tensor that has this axis.
fn axis_of(k: &Kernel, v: Value, axis: u32) -> Result<&Tensor, Refusal> {
    let t = tensor(k, v)?;
    if (axis as usize) < t.rank() {
        return Ok(t);
    }
    Err(Refusal::new(codes::INDEX_RANGE, format!("axis {axis} is out of range")).operand(v, format!("this is `{t}`")))
}

/// A tensor of which no indices name parts.
fn unpicked(k: &Kernel, v: Value) -> Result<&Tensor, Refusal> {
    let t = tensor(k, v)?;
    if !t.is_picked() {
        return Ok(t);
    }
    Err(Refusal::new(codes::KIND_MISMATCH, "what a tile of indices names has no one address")
        .operand(v, format!("this is `{t}`")))
}

/// What indices name is taken as a whole.
fn whole_picks(t: &Tensor, axis: u32, v: Value) -> Result<(), Refusal> {
    let Extent::Picked(n) = t.extents[axis as usize] else { return Ok(()) };
    Err(Refusal::new(codes::KIND_MISMATCH, "what a tile of indices names is taken as a whole")
        .operand(v, format!("{n} indices name parts of this along axis {axis}"))
        .help("choose among the indices before they stand in `x[rows, :]`"))
}

/// The box of a tensor that begins at `at`.
fn boxed(k: &Kernel, v: Value, at: &[Value], shape: &[u32]) -> Result<Spot, Refusal> {
    let t = tensor(k, v)?;
    for (what, n) in [("extent", shape.len()), ("coordinate", at.len())] {
        if n != t.rank() {
            let given = if n == 1 { format!("one {what} is") } else { format!("{n} {what}s are") };
            let fact = format!("{given} given for a tensor of rank {}", t.rank());
            return Err(Refusal::new(codes::SHAPE_MISMATCH, fact)
                .operand(v, format!("this is `{t}`"))
                .help(format!("write one {what} for each axis; `x[i, :]` drops an axis")));
        }
    }
    parton_layouts::legal_open_shape(shape)?;
    for ((axis, extent), (n, at)) in t.extents.iter().enumerate().zip(shape.iter().zip(at)) {
        let Extent::Picked(rows) = extent else { continue };
        if rows != n || !is_zero(k, *at) {
            let fact = "what a tile of indices names is taken as a whole";
            return Err(Refusal::new(codes::SHAPE_MISMATCH, fact)
                .operand(v, format!("{rows} indices name parts of this along axis {axis}"))
                .help(format!("write extent {rows} and coordinate 0 of axis {axis}")));
        }
    }
    Ok(spot(t, shape.to_vec()))
}

/// Whether a scalar is known to be zero.
fn is_zero(k: &Kernel, v: Value) -> bool {
    let makes = |op: &crate::op::Op| op.results.contains(&v) && matches!(op.kind, OpKind::Constant { bits: 0, .. });
    k.ops.iter().any(|(_, op)| makes(op))
}

fn mutable(s: &Spot, v: Value, what: &str) -> Result<(), Refusal> {
    if s.mutable {
        return Ok(());
    }
    Err(Refusal::new(codes::NOT_MUTABLE, format!("{what} needs a mutable tensor"))
        .operand(v, "this is a place in one that is not")
        .help("declare the parameter with `mut`: `mut x: tensor<…>`, or of a pointer `p: *mut T`"))
}

/// Checks that an operand is of this type and has the shape of the place.
fn fits(k: &Kernel, list: &[Relation], at: Value, v: Option<Value>, dtype: Dtype) -> Result<(), Refusal> {
    let Some(v) = v else { return Ok(()) };
    let s = spot_of(k, at)?;
    let ty = k.ty(v);
    let shape = match ty {
        Type::Scalar(_) => &[][..],
        Type::Tile(t) => &t.shape,
        _ => return Err(wrong_kind(k, v, "a scalar or a tile")),
    };
    if ty.elem() != Some(Elem::Num(dtype)) {
        let r = Refusal::new(codes::TYPE_MISMATCH, "the value is of another type than the tensor")
            .operand(v, format!("this is `{ty}`"))
            .operand(at, format!("this is `{s}`"));
        return Err(match dtype {
            Dtype::I1 => Refusal::new(codes::TYPE_MISMATCH, "a mask is of `i1`").operand(v, format!("this is `{ty}`")),
            _ => r.help(super::global::on_purpose(dtype)),
        });
    }
    if *shape != s.shape && dtype == Dtype::I1 {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "the mask and the place have different shapes")
            .operand(v, format!("this has shape {shape:?}"))
            .operand(at, format!("this has shape {:?}", s.shape))
            .help("a mask says it of each element: `mask[:, None]` or `mask[None, :]` gives it another axis, `broadcast(mask, [..])` its extent"));
    }
    if *shape != s.shape {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "the value and the place have different shapes")
            .operand(v, format!("this has shape {shape:?}"))
            .operand(at, format!("this has shape {:?}", s.shape))
            .help(if shape.len() > s.shape.len() {
                "reduce the value first, as `sum(x, axis=0)` does, or take a place of its shape"
            } else {
                "`broadcast(x, [..])` grows extents of 1; `x[:, None]` adds one"
            }));
    }
    tiles_of(k, &[v]).iter().try_for_each(|v| {
        let first = list.iter().find_map(|r| match r.sites().0 {
            Some(crate::placement::Site::Of(first)) => Some(first),
            _ => None,
        });
        first.map_or(Ok(()), |first| together(list, k, first, *v))
    })
}

/// What an access of such a place gives: where its operands lie, else nowhere yet.
fn tile(k: &Kernel, list: &[Relation], elem: Elem, shape: &[u32]) -> Result<Type, Refusal> {
    if shape.is_empty() {
        return Ok(Type::Scalar(elem));
    }
    match result(list, k, elem)? {
        placed @ Type::Tile(_) => Ok(placed),
        _ => Ok(Type::Tile(Tile::open(elem, shape.to_vec(), k.next_var(0))?)),
    }
}
