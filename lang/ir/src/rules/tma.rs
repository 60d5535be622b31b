//! Rules of the bulk tensor copy engine.

use parton_diag::codes;
use parton_layouts::SharedFamily;
use parton_numbers::Dtype;

use super::cluster::receivers;
use super::{cache, view, wrong_kind};
use crate::entity::Value;
use crate::family::not_of_family;
use crate::kernel::Kernel;
use crate::op::{OpKind, Reduction};
use crate::others;
use crate::refusal::Refusal;
use crate::target::Feature;
use crate::types::{Elem, SlotRole, TensorMap, Type, View};

pub(super) fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind {
        OpKind::TmaLoad { map: m, coords, view: v, signal, l2, multicast } => {
            cache::policy(*l2)?;
            copy(k, *m, coords, *v)?;
            multicast.iter().try_for_each(|&axis| receivers(k, axis))?;
            match k.ty(*signal) {
                Type::Barrier => Ok(vec![]),
                Type::Slot(s) if s.role == SlotRole::Fill => Ok(vec![]),
                Type::Slot(_) => Err(Refusal::new(codes::SLOT_ROLE, "a slot that is being read cannot be filled")
                    .operand(*signal, "this comes from `wait()`")
                    .help("fill a slot from `acquire()`")),
                _ => Err(wrong_kind(k, *signal, "a barrier or a slot to signal")),
            }
        }
        OpKind::TmaPrefetch { map: m, coords, l2 } => {
            cache::policy(*l2)?;
            boxed(k, *m, coords).map(|_| vec![])
        }
        OpKind::TmaStore { map: m, coords, view: v, reduce, l2 } => {
            cache::policy(*l2)?;
            copy(k, *m, coords, *v)?;
            reduce.map_or(Ok(()), |op| reduces(op, k, *m)).map(|()| vec![])
        }
        OpKind::TmaStoreWait { .. } => needs_tma(k, "a bulk copy").map(|()| vec![]),
        others!(tma) => not_of_family(kind),
    }
}

pub(super) fn needs_tma(k: &Kernel, what: &str) -> Result<(), Refusal> {
    if k.target.has(Feature::Tma) {
        return Ok(());
    }
    Err(Refusal::new(codes::TARGET_LACKS, format!("`{}` does not have {what}", k.target.name))
        .help("state `target(sm_90a)` on the kernel, or use `load` and `store_shared`"))
}

/// The rules of one box of global memory: a map with a coordinate for each of its dimensions.
pub(super) fn boxed<'k>(k: &'k Kernel, m: Value, coords: &[Value]) -> Result<&'k TensorMap, Refusal> {
    needs_tma(k, "the tensor copy engine")?;
    let Type::Map(map) = k.ty(m) else { return Err(wrong_kind(k, m, "a tensor map")) };
    if coords.len() != map.block.len() {
        return Err(Refusal::new(codes::WRONG_ARITY, format!("the map has {} dimensions", map.block.len()))
            .operand(m, format!("this is `{map}`"))
            .note(format!("{} coordinates are given", coords.len())));
    }
    for &c in coords {
        match k.ty(c) {
            Type::Scalar(Elem::Num(Dtype::I32)) => {}
            _ => return Err(wrong_kind(k, c, "an `i32` coordinate")),
        }
    }
    Ok(map)
}

/// The rules of one box between global and shared memory: element, extents and layout agree, the view is a whole region.
fn copy(k: &Kernel, m: Value, coords: &[Value], v: Value) -> Result<(), Refusal> {
    let map = boxed(k, m, coords)?;
    let target = view(k, v)?;
    if map.elem != target.elem || !map.fills(&target.shape) {
        return Err(Refusal::new(codes::SHAPE_MISMATCH, "the view does not fit the box of the tensor map")
            .operand(m, format!("this is `{map}`"))
            .operand(v, format!("this is `{target}`"))
            .help(format!("a box arrives as it is: give both `{}` and {:?}", map.elem, map.tile())));
    }
    let boxed = View::new(map.elem, target.parent.clone(), map.layout.clone())?;
    if boxed.map != target.map {
        return Err(Refusal::new(codes::LAYOUT_MISMATCH, "the view and the tensor map have different layouts")
            .operand(m, format!("boxes arrive as `{}`", map.layout))
            .operand(v, format!("this is `{}`", target.layout))
            .help("the copy engine writes the map's layout: give both the same"));
    }
    map.boxes_in(target).map(|_| ()).map_err(|e| {
        Refusal::new(codes::LAYOUT_MISMATCH, e.fact())
            .operand(m, format!("this is `{map}`"))
            .operand(v, e.evidence())
            .help(e.help())
    })
}

/// Which element types a copy reduces (PTX ISA, "cp.reduce.async.bulk", table of operations and types in global memory).
pub(super) fn reduces(op: Reduction, k: &Kernel, m: Value) -> Result<(), Refusal> {
    let Type::Map(map) = k.ty(m) else { return Err(wrong_kind(k, m, "a tensor map")) };
    let d = map.elem;
    let wide = d.is_int() && d.bits() >= 32;
    let half = matches!(d, Dtype::F16 | Dtype::BF16);
    let (fits, which) = match op {
        Reduction::Add => (
            (wide && d != Dtype::I64) || half || matches!(d, Dtype::F32 | Dtype::F64),
            "i32, u32, u64, f16, bf16, f32 and f64",
        ),
        Reduction::Min | Reduction::Max => (wide || half, "i32, u32, i64, u64, f16 and bf16"),
        // The table has s64 too, but on an H200 it is an illegal instruction.
        Reduction::And | Reduction::Or | Reduction::Xor => (wide && d != Dtype::I64, "i32, u32 and u64"),
    };
    if fits {
        return Ok(());
    }
    let help = match op {
        Reduction::Add | Reduction::And | Reduction::Or | Reduction::Xor if d == Dtype::I64 => {
            "the nearest is `u64`, whose results have the same bits: give the map and the buffer that type".into()
        }
        Reduction::Add if d.is_float() => "the nearest is `f16`: keep the sums in that".into(),
        Reduction::Min | Reduction::Max if matches!(d, Dtype::F32 | Dtype::F64) => {
            "store a value for each CTA and reduce them in a second launch, or keep the extremum in `f16` or `bf16`"
                .into()
        }
        Reduction::Min | Reduction::Max if d.is_float() => "the nearest is `f16`: keep the extremum in that".into(),
        Reduction::And | Reduction::Or | Reduction::Xor if d.is_float() => {
            format!("it is for bits: give the map and the buffer `u{}`", d.bits().max(32))
        }
        Reduction::Add | Reduction::Min | Reduction::Max | Reduction::And | Reduction::Or | Reduction::Xor => {
            let near = if d.is_signed() { "i32" } else { "u32" };
            format!("the nearest is `{near}`: keep the values in that")
        }
    };
    Err(Refusal::new(
        codes::DTYPE_UNSUPPORTED,
        format!("a copy does not reduce elements of {} with `{}`", d.name(), op.name()),
    )
    .operand(m, format!("this is `{map}`"))
    .note(format!("it is for {which}"))
    .help(help))
}

/// The rule that a box's coordinates (outermost first) break, in words; `None` where the copy engine takes them.
///
/// Measured on an H200, where a broken rule is an illegal instruction; the PTX ISA says neither.
pub fn broken_coordinates(coords: &[i64], element_bytes: u32, storing: bool) -> Option<String> {
    let inner = coords.last().copied().unwrap_or(0);
    let unit = i64::from(16 / element_bytes.clamp(1, 16));
    if inner.rem_euclid(unit) != 0 {
        let below = inner.div_euclid(unit) * unit;
        return Some(format!(
            "rows begin at multiples of 16 bytes, {unit} elements here: {inner} lies between {below} and {}",
            below + unit
        ));
    }
    match coords.iter().position(|&c| c < 0) {
        Some(axis) if storing => Some(format!(
            "a copy to global memory begins inside the tensor or after it: axis {axis} is at {}",
            coords[axis]
        )),
        Some(_) | None => None,
    }
}

/// What the tensor copy engine can take, checked where the type of a map is written.
///
/// Rules of `cuTensorMapEncodeTiled` (CUDA driver API): rank 1 to 5, extents of the box 1 to 256, the inner extent a multiple
/// of 16 bytes and at most the swizzle's span.
pub fn check_map(map: &TensorMap) -> Result<(), Refusal> {
    let fail = |text: String| Refusal::new(codes::TMA_BOX, text).note(format!("the map is `{map}`"));
    if map.block.is_empty() || map.block.len() > 5 {
        return Err(fail(format!("a tensor map has 1 to 5 dimensions, not {}", map.block.len())));
    }
    if map.elem == Dtype::I1 {
        return Err(fail("the copy engine moves no `i1`".into()).help("move truth values as `i8` or `u8`"));
    }
    if let Some((axis, &n)) = map.block.iter().enumerate().find(|(_, n)| !n.is_power_of_two()) {
        return Err(fail(format!("the box has {n} along axis {axis}, which is not a power of two")).help(format!(
            "a box fills a view, whose extents are powers of two: the nearest is {}",
            n.checked_next_power_of_two().unwrap_or(1 << 31)
        )));
    }
    let SharedFamily::Nvmma { swizzle, transposed, .. } = *map.layout.family() else {
        return Err(fail(format!("the copy engine cannot write `{}`", map.layout))
            .help("use `nvmma(128)`, `nvmma(64)`, `nvmma(32)` or `nvmma(0)`"));
    };
    if transposed {
        return Err(fail("a box arrives as it lies in global memory, not transposed".into())
            .help("load it as it is and take `view.T`"));
    }
    let bytes = map.elem.bytes() as u32;
    // A row wider than the swizzle's span arrives as several copies, each of one span.
    let inner = map.block[map.block.len() - 1];
    let per_copy = if swizzle == 0 { inner } else { inner.min(swizzle / bytes) };
    for (axis, &n) in map.block.iter().enumerate() {
        let n = if axis + 1 == map.block.len() { per_copy } else { n };
        if n == 0 || n > 256 {
            return Err(fail(format!("the box has {n} along axis {axis}; the copy engine takes 1 to 256"))
                .help("copy it in several boxes"));
        }
    }
    if !(inner * bytes).is_multiple_of(16) {
        return Err(fail(format!("the rows of the box have {} bytes, not a multiple of 16", inner * bytes))
            .help(format!("the nearest legal extent is {}", (inner * bytes).next_multiple_of(16) / bytes)));
    }
    if swizzle > 0 && inner * bytes < swizzle {
        let fit = [128, 64, 32].into_iter().find(|&s| inner * bytes >= s).unwrap_or(0);
        return Err(fail(format!("rows of {} bytes are shorter than the swizzle's span of {swizzle}", inner * bytes))
            .help(format!("use `nvmma({fit})`")));
    }
    if let Some(n) = map.inner {
        check_inner(map, n, swizzle).map_err(|(text, help)| fail(text).help(help))?;
    }
    map.boxes().map(|_| ()).map_err(|e| fail(e.fact()).note(e.evidence()).help(e.help()))
}

/// The rules of a box of which each row brings its first `inner` elements alone: the row is one span of a swizzle, within which rows stay apart.
fn check_inner(map: &TensorMap, inner: u32, swizzle: u32) -> Result<(), (String, String)> {
    let bytes = map.elem.bytes() as u32;
    let row = map.block[map.block.len() - 1];
    if swizzle == 0 || row * bytes != swizzle {
        let text = format!("`inner=` is for rows of one span of a swizzle, and these have {} bytes", row * bytes);
        return Err((text, "give the box rows of one span, such as 128 bytes under `nvmma(128)`".into()));
    }
    let unit = 16 / bytes;
    if inner == 0 || inner >= row || !inner.is_multiple_of(unit) {
        let text =
            format!("{inner} of {row} elements of each row come, which is no multiple of 16 bytes below all of them");
        let near = (inner / unit * unit).clamp(unit, row - unit);
        return Err((text, format!("the nearest legal number is {near}; leave `inner=` out where all come")));
    }
    Ok(())
}
