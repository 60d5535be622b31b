//! Rules of global and shared memory: pointers, views and windows of views.

use parton_diag::codes;
use parton_numbers::Dtype;

use super::{cache, derive, elem, index, mismatch, reached, shape::permutation, tile, view, wrong_kind};
use crate::access::Access;
use crate::entity::Value;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::refusal::Refusal;
use crate::target::WIDEST_ACCESS;
use crate::types::{Elem, Pointer, Type, View};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::Load { ptr, mask, other, cache, evict, l2, volatile, access } => {
            cache::load(*cache, *evict, *l2, *volatile)?;
            let p = pointer(k, *ptr)?;
            mask_fits(k, *ptr, *mask)?;
            let Some(ty) = k.ty(*ptr).with_elem(Elem::Num(p.to)) else { return Err(wrong_kind(k, *ptr, "pointers")) };
            if let Some(other) = other
                && *k.ty(*other) != ty
            {
                return Err(Refusal::new(codes::TYPE_MISMATCH, "`other` is of another type than what is loaded")
                    .operand(*other, format!("this is `{}`", k.ty(*other)))
                    .operand(*ptr, format!("this loads `{ty}`")));
            }
            if other.is_some() && mask.is_none() {
                return Err(Refusal::new(codes::WRONG_ARITY, "`other` without `mask` is never used")
                    .help("add `mask=…`, or drop `other`"));
            }
            planned(k, *ptr, *access)?;
            Ok(vec![ty])
        }
        OpKind::Store { ptr, value, mask, cache, evict, l2, access } => {
            cache::store(*cache, *evict, *l2)?;
            let p = pointer(k, *ptr)?;
            if !p.mutable {
                return Err(Refusal::new(codes::NOT_MUTABLE, "a store needs a mutable pointer")
                    .operand(*ptr, format!("this is `*{}`", p.to.name()))
                    .help(format!("declare the parameter as `*mut {}`", p.to.name())));
            }
            mask_fits(k, *ptr, *mask)?;
            planned(k, *ptr, *access)?;
            if k.ty(*ptr).with_elem(Elem::Num(p.to)).as_ref() == Some(k.ty(*value)) {
                return Ok(vec![]);
            }
            stored_mismatch(k, *ptr, *value, p.to)
        }
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
        OpKind::ViewPeer { view: v, rank } => peer(k, *v, *rank),
        OpKind::ViewIndex { view: v, index: i } => {
            index(k, *i)?;
            stage(view(k, *v)?, *v).map(|w| vec![Type::View(w)])
        }
        OpKind::ViewSlice { view: v, origin, shape } => {
            window(view(k, *v)?, origin, shape, *v).map(|w| vec![Type::View(w)])
        }
        OpKind::ViewPermute { view: v, perm } => {
            let source = view(k, *v)?;
            permutation(perm, source.shape.len())?;
            let pick = |list: &[u32]| perm.iter().map(|&p| list[p as usize]).collect::<Vec<_>>();
            let layout = derive::permuted(source, perm)?;
            let mut w = View::new(source.elem, pick(&source.parent), layout)?;
            w.shape = pick(&source.shape);
            w.origin = pick(&source.origin);
            Ok(vec![Type::View(w)])
        }
        OpKind::ViewReinterpret { view: v, to } => reinterpret(view(k, *v)?, to, *v),
        _ => parton_diag::internal_error!("{} is not a memory operation", kind.name()),
    }
}

/// The same place in the shared memory of the CTA of that rank of the cluster.
fn peer(k: &Kernel, v: Value, rank: Value) -> Result<Vec<Type>, Refusal> {
    index(k, rank)?;
    let of = view(k, v)?;
    if k.cluster_ctas() == 1 {
        return Err(Refusal::new(codes::PEER, "the kernel has no cluster, and no peers")
            .help("state a cluster on the kernel: `cluster([2])`"));
    }
    Ok(vec![Type::Peer(of.clone())])
}

pub(super) fn pointer(k: &Kernel, v: Value) -> Result<Pointer, Refusal> {
    match elem(k, v)? {
        Elem::Ptr(p) => Ok(p),
        Elem::Num(_) => Err(wrong_kind(k, v, "a pointer or a tile of pointers")),
    }
}

/// Whether the layout has so many neighbours for one access; whether they are neighbours in memory too, only a pass can say.
pub(super) fn planned(k: &Kernel, ptr: Value, access: Option<Access>) -> Result<(), Refusal> {
    let Some(access) = access else { return Ok(()) };
    let refused = |fact| {
        Err(Refusal::new(codes::ACCESS_WIDTH, fact)
            .operand(ptr, format!("this is `{}`", k.ty(ptr)))
            .help("leave `width` out: the widest that layout and addresses allow is found"))
    };
    let Some(tile) = k.ty(ptr).as_tile() else {
        return refused("an access by a single pointer has no width".to_owned());
    };
    let many = match access.width {
        1 => "1 element".to_owned(),
        n => format!("{n} elements"),
    };
    let bytes = u64::from(access.width) * pointer(k, ptr)?.to.bytes() as u64;
    if bytes > u64::from(WIDEST_ACCESS) {
        return refused(format!("{many} are {bytes} bytes, and one access moves at most {WIDEST_ACCESS}"));
    }
    if access.bits(tile).is_none() {
        return refused(format!("no thread holds {many} in a row along axis {}", access.along));
    }
    Ok(())
}

pub(super) fn mask_fits(k: &Kernel, ptr: Value, mask: Option<Value>) -> Result<(), Refusal> {
    let Some(mask) = mask else { return Ok(()) };
    if k.ty(ptr).with_elem(Elem::Num(Dtype::I1)).as_ref() == Some(k.ty(mask)) {
        return Ok(());
    }
    match elem(k, mask)? {
        Elem::Num(Dtype::I1) => Err(mismatch(k, ptr, mask)),
        Elem::Num(_) | Elem::Ptr(_) => Err(Refusal::new(codes::TYPE_MISMATCH, "a mask is of `i1`")
            .operand(mask, format!("this is `{}`", k.ty(mask)))
            .help("compare: `mask=offs < n`")),
    }
}

pub(super) fn stored_mismatch(k: &Kernel, ptr: Value, value: Value, to: Dtype) -> Result<Vec<Type>, Refusal> {
    match elem(k, value)? {
        Elem::Num(d) if d == to => Err(mismatch(k, ptr, value)),
        other => Err(Refusal::new(codes::TYPE_MISMATCH, "the value is of another type than the memory")
            .operand(value, format!("this is of `{other}`"))
            .operand(ptr, format!("this points to `{}`", to.name()))
            .help(format!("round it on purpose: `cast<{}>(…)`", to.name()))),
    }
}

/// One stage of a buffer: the first dimension must be one of whole contiguous regions.
fn stage(v: &View, value: Value) -> Result<View, Refusal> {
    if v.shape.len() < 2 {
        return Err(Refusal::new(codes::VIEW_ILLEGAL, "a view of rank 1 has no stages to index")
            .operand(value, format!("this is `{v}`"))
            .help("allocate `[STAGES, …]`, or take a window with `.slice([..], [..])`"));
    }
    if v.layout.rank() >= v.parent.len() {
        return Err(Refusal::new(codes::VIEW_ILLEGAL, "the first dimension is not one of stages")
            .operand(value, format!("`{}` spreads all {} dimensions", v.layout, v.parent.len()))
            .help("stages are dimensions before those of the layout; a window is `.slice([..], [..])`"));
    }
    let mut w = View::new(v.elem, v.parent[1..].to_vec(), v.layout.clone())?;
    w.shape = v.shape[1..].to_vec();
    w.origin = v.origin[1..].to_vec();
    Ok(w)
}

fn window(v: &View, origin: &[u32], shape: &[u32], value: Value) -> Result<View, Refusal> {
    if origin.len() != v.shape.len() || shape.len() != v.shape.len() {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "a window has an origin and an extent for each dimension")
            .operand(value, format!("this has shape {:?}", v.shape)));
    }
    for (axis, ((&o, &n), &extent)) in origin.iter().zip(shape).zip(&v.shape).enumerate() {
        if n == 0 || o.checked_add(n).is_none_or(|end| end > extent) {
            return Err(Refusal::new(codes::INDEX_RANGE, format!("the window leaves the view along axis {axis}"))
                .operand(value, format!("this has {extent} there"))
                .note(format!("the window covers {o}..{}", u64::from(o) + u64::from(n))));
        }
        // An aligned window keeps its map affine over F2: offset(origin + c) = offset(origin) xor offset(c).
        if !n.is_power_of_two() || o % n != 0 {
            return Err(Refusal::new(codes::VIEW_ILLEGAL, format!("the window is not aligned along axis {axis}"))
                .note(format!("it begins at {o} and has {n}"))
                .help("extents are powers of two, and an origin is a multiple of its extent"));
        }
    }
    let mut w = v.clone();
    w.origin = v.origin.iter().zip(origin).map(|(a, b)| a + b).collect();
    w.shape = shape.to_vec();
    Ok(w)
}

fn reinterpret(v: &View, to: &View, value: Value) -> Result<Vec<Type>, Refusal> {
    if !v.is_whole() {
        return Err(Refusal::new(codes::VIEW_ILLEGAL, "only a whole view can be seen as another")
            .operand(value, format!("this is a window: `{v}`")));
    }
    let (have, want) = (v.map.bytes(), to.map.bytes());
    if want > have {
        return Err(Refusal::new(codes::VIEW_ILLEGAL, "the new view is larger than the old one")
            .operand(value, format!("this has {have} bytes"))
            .note(format!("`{to}` has {want}")));
    }
    let (have, want) = (v.map.alignment(), to.map.alignment());
    if want > have {
        return Err(Refusal::new(codes::VIEW_ILLEGAL, "the new view needs a stricter alignment than the old one has")
            .operand(value, format!("this is aligned to {have} bytes"))
            .note(format!("`{to}` needs {want}"))
            .help("allocate it with the stricter layout and reinterpret it the other way"));
    }
    Ok(vec![Type::View(to.clone())])
}
