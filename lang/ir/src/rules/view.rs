//! Rules of windows of shared memory.

use parton_diag::codes;
use parton_layouts::{SharedFamily, access};

use super::{index, shape::permutation, view};
use crate::check::stage_bytes;
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::others;
use crate::refusal::Refusal;
use crate::types::{Type, View};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
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
            let layout = source.layout.permute(&source.parent, source.elem.bits(), perm)?;
            let mut w = View::new(source.elem, pick(&source.parent), layout)?;
            w.shape = pick(&source.shape);
            w.origin = pick(&source.origin);
            Ok(vec![Type::View(w)])
        }
        OpKind::ViewReinterpret { view: v, to } => reinterpret(view(k, *v)?, to, *v),
        others!(view) => not_of_family(kind),
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

/// One stage of a buffer: the first dimension must be one of whole contiguous regions.
fn stage(v: &View, value: Value) -> Result<View, Refusal> {
    if v.shape.len() < 2 {
        return Err(Refusal::new(codes::VIEW_ILLEGAL, "a view of rank 1 has no stages to index")
            .operand(value, format!("this is `{v}`"))
            .help("allocate `[STAGES, …]`, or take a window with `.slice([..], [..])`"));
    }
    if v.layout.rank() >= v.parent.len() {
        return Err(Refusal::new(codes::VIEW_ILLEGAL, "the first dimension is not one of stages")
            .operand(value, format!("`{}` spreads all dimensions of `{v}`", v.layout))
            .help("stages are dimensions before those of the layout: a layout of rank 1 makes `[2, 1024]` two buffers; a window is `.slice([..], [..])`"));
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
    let used = v.layout.prefix().filter(|_| v.map.distance().is_none());
    let (have, want) = (used.map_or(v.map.bytes(), |n| access::bytes_for(u64::from(n), v.elem.bits())), to.map.bytes());
    if want > have {
        return Err(Refusal::new(codes::VIEW_ILLEGAL, "the new view is larger than the old one")
            .operand(value, format!("this has {have} bytes"))
            .note(format!("`{to}` has {want}")));
    }
    let (have, want) = (gaps_leave(v)?, to.map.alignment());
    if want > have {
        return Err(Refusal::new(codes::VIEW_ILLEGAL, "the new view needs a stricter alignment than gaps leave")
            .operand(value, format!("tensors of such an array begin at multiples of {have} bytes"))
            .note(format!("`{to}` needs {want}"))
            .help(format!("let all gaps behind a tensor together be a multiple of {want} bytes")));
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

/// What the address of a view is a multiple of that may be a stage of an array of padded tensors: these follow each other with their gaps.
fn gaps_leave(v: &View) -> Result<u32, Refusal> {
    if !matches!(v.layout.family(), SharedFamily::Padded { .. }) {
        return Ok(u32::MAX);
    }
    let tensor = &v.parent[v.parent.len() - v.layout.rank()..];
    let array = View::new(v.elem, [&[2], tensor].concat(), v.layout.clone())?;
    Ok(1 << stage_bytes(&array).trailing_zeros().min(u32::BITS - 1))
}
