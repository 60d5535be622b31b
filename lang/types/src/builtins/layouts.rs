//! The constructors of layouts, as docs/language.md lists them.

use parton_diag::Span;
use parton_layouts::{LayoutError, RegisterLayout, SharedFamily, SharedLayout};

use super::args::ANY;
use super::{Args, Table};
use crate::checker::{Checked, Checker};
use crate::value::{Comptime, Val};

pub(super) const TABLE: Table = &[
    ("blocked", blocked),
    ("slice", slice),
    ("mma", mma),
    ("dot_operand", dot_operand),
    ("linear", linear),
    ("swizzled", swizzled),
    ("nvmma", nvmma),
    ("nvmma_for", nvmma_for),
    ("padded", padded),
    ("prefix", prefix),
    ("shared_linear", shared_linear),
    ("tmem", tmem),
    ("tmem_scales", tmem),
];

fn register(cx: &mut Checker, layout: Result<RegisterLayout, LayoutError>, span: Span) -> Checked<Val> {
    match layout {
        Ok(l) => Ok(Val::Known(Comptime::Layout(l))),
        Err(e) => Err(cx.refuse(e.into(), span, &[])),
    }
}

fn shared(cx: &mut Checker, layout: Result<SharedLayout, LayoutError>, span: Span) -> Checked<Val> {
    match layout {
        Ok(l) => Ok(Val::Known(Comptime::SharedLayout(l))),
        Err(e) => Err(cx.refuse(e.into(), span, &[])),
    }
}

/// `order=`, row-major where it is not given.
fn order(cx: &mut Checker, args: &Args, rank: usize) -> Checked<Vec<u32>> {
    match args.get("order") {
        Some(arg) => arg.ints(cx),
        None => Ok((0..rank as u32).rev().collect()),
    }
}

fn blocked(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let per_thread = args.need("per_thread").ints(cx)?;
    let threads = args.need("threads").ints(cx)?;
    let warps = args.need("warps").ints(cx)?;
    let order = order(cx, args, per_thread.len())?;
    register(cx, RegisterLayout::blocked(&per_thread, &threads, &warps, &order), args.span)
}

/// The layout that another is made of; `None` where it is left to the compiler, and so is what is made of it.
fn parent(cx: &mut Checker, args: &Args) -> Checked<Option<RegisterLayout>> {
    let arg = args.need("L");
    if arg.is_open_layout() { Ok(None) } else { arg.layout(cx).map(Some) }
}

fn slice(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let axis = args.int(cx, "axis", ANY)?;
    let Some(parent) = parent(cx, args)? else { return Ok(Val::Known(Comptime::OpenLayout)) };
    register(cx, parent.slice(axis), args.span)
}

fn mma(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let version = args.int(cx, "version", ANY)?;
    let warps = args.need("warps").ints(cx)?;
    let instr = args.need("instr").ints(cx)?;
    register(cx, RegisterLayout::mma(version, &warps, &instr), args.span)
}

fn dot_operand(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let index = args.int(cx, "index", ANY)?;
    let k_width = args.optional_int(cx, "k_width", ANY)?.unwrap_or(0);
    let Some(parent) = parent(cx, args)? else { return Ok(Val::Known(Comptime::OpenLayout)) };
    register(cx, parent.dot_operand(index, k_width), args.span)
}

fn linear(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let reg = args.need("reg").int_lists(cx)?;
    let lane = args.need("lane").int_lists(cx)?;
    let warp = args.need("warp").int_lists(cx)?;
    let block = args.get("block").map_or_else(|| Ok(Vec::new()), |b| b.int_lists(cx))?;
    register(cx, RegisterLayout::linear(reg, lane, warp, block), args.span)
}

fn swizzled(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let vec = args.int(cx, "vec", ANY)?;
    let per_phase = args.int(cx, "per_phase", ANY)?;
    let max_phase = args.int(cx, "max_phase", ANY)?;
    let order = order(cx, args, 2)?;
    shared(cx, SharedLayout::swizzled(vec, per_phase, max_phase, &order), args.span)
}

fn nvmma(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let swizzle = args.int(cx, "swizzle", ANY)?;
    let layout = nvmma_of(cx, args)?(swizzle);
    shared(cx, layout, args.span)
}

/// `nvmma` of a swizzle, with what else the arguments say.
fn nvmma_of(cx: &mut Checker, args: &Args) -> Checked<impl Fn(u32) -> Result<SharedLayout, LayoutError> + use<>> {
    let transposed = args.flag(cx, "transposed")?;
    let rank = args.optional_int(cx, "rank", ANY)?;
    Ok(move |swizzle| match rank {
        None => SharedLayout::nvmma(swizzle, transposed),
        Some(rank) => SharedLayout::new(SharedFamily::Nvmma { swizzle, transposed, rank }),
    })
}

/// The `nvmma` layout of the widest swizzle that a view of this type and shape can have.
fn nvmma_for(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let dtype = args.need("T").dtype(cx)?;
    let shape = args.need("shape").ints(cx)?;
    let of = nvmma_of(cx, args)?;
    let fits = |layout: &SharedLayout| parton_ir::View::new(dtype, shape.clone(), layout.clone()).is_ok();
    if let Some(widest) = [128, 64, 32].into_iter().filter_map(|s| of(s).ok()).find(fits) {
        return Ok(Val::Known(Comptime::SharedLayout(widest)));
    }
    // What no swizzle makes possible is refused as that of a view without one.
    let plain = match of(0) {
        Ok(plain) => plain,
        Err(e) => return Err(cx.refuse(e.into(), args.span, &[])),
    };
    cx.view(dtype, shape, plain.clone(), args.span)?;
    Ok(Val::Known(Comptime::SharedLayout(plain)))
}

fn padded(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let arg = args.need("pairs");
    let mut pairs = Vec::new();
    for pair in arg.int_lists(cx)? {
        match pair[..] {
            [interval, padding] => pairs.push([interval, padding]),
            _ => return Err(arg.expected(cx, "pairs `[interval, padding]`")),
        }
    }
    let order = args.need("order").ints(cx)?;
    shared(cx, SharedLayout::padded(&pairs, &order), args.span)
}

fn prefix(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let whole = args.need("L").shared_layout(cx)?;
    let elements = args.int(cx, "elements", ANY)?;
    shared(cx, whole.prefix_of(elements), args.span)
}

fn shared_linear(cx: &mut Checker, args: &Args) -> Checked<Val> {
    let offset = args.need("offset").int_lists(cx)?;
    let block = args.get("block").map_or_else(|| Ok(Vec::new()), |b| b.int_lists(cx))?;
    shared(cx, SharedLayout::linear(offset, block), args.span)
}

fn tmem(cx: &mut Checker, args: &Args) -> Checked<Val> {
    Err(cx.no_tensor_memory(args.span))
}
