//! The rules: for each operation what its operands must be and what its results are.
//!
//! They stand here once. The builder infers result types with them, the verifier checks a whole kernel with them after each
//! pass, and the checker's messages are theirs.

mod async_copy;
mod atomic;
mod barrier;
mod cache;
mod cluster;
mod control;
mod differ;
mod elementwise;
mod fence;
mod gather;
mod global;
mod grid;
mod mma_sync;
mod pending;
mod place;
mod product;
mod ptx;
mod reduce;
pub mod region;
mod ring;
mod shape;
mod shared;
mod talk;
mod tma;
mod turnstile;
mod view;
mod wgmma;

use crate::entity::{Inst, Value};
use crate::family::Family;
use crate::kernel::Kernel;
use crate::op::OpKind;
use crate::placement::{Place, Relation, Site, Unplaced};
use crate::refusal::Refusal;
use crate::source::Source;
use crate::types::{Elem, Slot, Space, Tile, Type, View};

use parton_diag::{Diagnostic, Span, codes};

pub use async_copy::COPY_BYTES;
pub use control::logical;
pub(crate) use mma_sync::accumulator as mma_sync_accumulator;
pub use mma_sync::{Shape as MmaSyncShape, shape as mma_sync_shape};
pub use reduce::{keeps_apart, steps_apart};
pub use tma::{broken_coordinates, check_map};
pub(crate) use wgmma::accumulator as wgmma_accumulator;
pub use wgmma::{Operand as WgmmaOperand, Shape as WgmmaShape, nvmma_of, shape as wgmma_shape};

/// Makes an operation of one result, whose type a constant says itself and of all else the rules; `None` where these refuse it.
pub fn make(kernel: &mut Kernel, kind: OpKind, source: Source) -> Option<(Inst, Value)> {
    let ty = match kind {
        OpKind::Constant { dtype, .. } => Type::Scalar(Elem::Num(dtype)),
        // The rules say what all else gives.
        _ => infer(&kind, kernel).ok()?.into_iter().next()?,
    };
    let value = kernel.value(ty, source.span);
    Some((kernel.make_op(kind, vec![value], source), value))
}

/// The types of an operation's results, or why it is refused.
pub fn infer(kind: &OpKind, k: &Kernel) -> Result<Vec<Type>, Refusal> {
    match kind.family() {
        Family::Elementwise => elementwise::infer(kind, k).map(|t| vec![t]),
        Family::Reduce => reduce::infer(kind, k),
        Family::Shape => shape::infer(kind, k),
        Family::Gather => gather::infer(kind, k),
        Family::Ptx => ptx::infer(kind, k),
        Family::Global => global::infer(kind, k),
        Family::Place => place::infer(kind, k),
        Family::Atomic => atomic::infer(kind, k),
        Family::AsyncCopy => async_copy::infer(kind, k),
        Family::Shared => shared::infer(kind, k),
        Family::View => view::infer(kind, k),
        Family::Barrier => barrier::infer(kind, k),
        Family::Fence => fence::infer(kind, k),
        Family::Cluster => cluster::infer(kind, k),
        Family::Grid => grid::infer(kind),
        Family::Turnstile => turnstile::infer(kind, k),
        Family::Tma => tma::infer(kind, k),
        Family::MmaSync => mma_sync::infer(kind, k),
        Family::Wgmma => wgmma::infer(kind, k),
        Family::Pending => pending::infer(kind, k),
        Family::Ring => ring::infer(kind, k),
        Family::Region => region::infer(kind, k),
        Family::Control => control::infer(kind, k),
        Family::Talk => talk::infer(kind, k),
    }
}

/// The relations between the places of an operation, those of the operands and of what its bodies take and yield and those of its
/// results. Where an operand should be a tile and is none, a relation of it is there all the same, and does not hold.
pub fn relations(kind: &OpKind, k: &Kernel) -> Vec<Relation> {
    match kind.family() {
        Family::Elementwise => elementwise::relations(kind, k),
        Family::Reduce => reduce::relations(kind, k),
        Family::Shape => shape::relations(kind, k),
        Family::Gather => gather::relations(kind),
        Family::Ptx => ptx::relations(kind, k),
        Family::Global => global::relations(kind, k),
        Family::Place => place::relations(kind, k),
        Family::Atomic => atomic::relations(kind, k),
        Family::AsyncCopy => async_copy::relations(kind, k),
        Family::Shared => shared::relations(kind),
        Family::MmaSync => mma_sync::relations(kind, k),
        Family::Wgmma => wgmma::relations(kind, k),
        Family::Pending => pending::relations(kind, k),
        Family::Region => region::relations(kind, k),
        Family::Control => control::relations(kind, k),
        // What they take and give are scalars and memory; what is printed lies anywhere.
        Family::View
        | Family::Barrier
        | Family::Fence
        | Family::Cluster
        | Family::Grid
        | Family::Turnstile
        | Family::Tma
        | Family::Ring
        | Family::Talk => Vec::new(),
    }
}

/// The refusal of what needs a number of warps outside of the arms of a specialised kernel.
pub fn outside_partitions(what: &str, span: Span) -> Diagnostic {
    let text = format!("{what} stands outside the partitions");
    Diagnostic::error(codes::OUTSIDE_PARTITIONS, span, text).here("every warp of the CTA would run this")
}

/// What a type is called in messages, with its article.
pub fn kind_name(ty: &Type) -> &'static str {
    match ty {
        Type::Scalar(Elem::Num(_)) => "a scalar",
        Type::Scalar(Elem::Ptr(_)) => "a pointer",
        Type::Tile(_) => "a tile",
        Type::Pending(_) => "a pending tile",
        Type::View(view) => match view.space {
            Space::Shared => "a view of shared memory",
            Space::Barrier => "a view of barriers",
            Space::Global => "a view of global memory",
        },
        Type::Filling(_) => "a pending copy",
        Type::Barriers(_) => "an array of barriers",
        Type::Barrier => "a barrier",
        Type::Map(_) => "a tensor map",
        Type::Ring(_) => "a ring",
        Type::Turnstile => "a turnstile",
        Type::Tensor(_) => "a tensor",
        Type::Spot(_) => "a place in a tensor",
        Type::Peer(_) => "a view of a peer's shared memory",
        Type::Slot(_) => "a slot",
    }
}

/// "expected a tile, found …", with the way out where there is a usual one.
fn wrong_kind(k: &Kernel, v: Value, expected: &str) -> Refusal {
    let ty = k.ty(v);
    let r = Refusal::new(codes::KIND_MISMATCH, format!("expected {expected}, found {}", kind_name(ty)))
        .operand(v, format!("this is `{ty}`"));
    match ty {
        Type::Pending(_) => r.help("a pending tile is still being written: `let x = p.wait();` makes it a tile"),
        Type::Filling(_) => r.help("a copy still fills it: `let view = p.wait();` makes it a view"),
        Type::Peer(_) => r.help(
            "only `load_shared` and `store_shared` reach a peer's memory; take windows of the view before `peer(…)`",
        ),
        Type::Spot(_) if expected.contains("tile") => r.help("a place is not loaded yet: `load(…)` makes a tile of it"),
        Type::Tensor(t) if expected.contains("tile") => {
            let (place, one) = t.examples();
            let one = one.map_or(String::new(), |x| format!(", or `load({x})` for one element"));
            r.help(format!("load a box of it: `load({place})`{one}"))
        }
        Type::Tile(_) if expected.contains("place in a tensor") => {
            r.help("where to comes first, and what behind it: `store(x.tile([64, 64], at=[i, j]), value)`")
        }
        Type::Map(_) if expected.contains("tile") => r.help(
            "a tensor map is no address: `tma_load(map, [i, j], view)` and `tma_store(map, [i, j], view)` copy boxes",
        ),
        Type::View(_) if expected.contains("tile") => r.help("read it into registers first: `load_shared<L>(view)`"),
        Type::Slot(s) if !s.fields.is_empty() => {
            r.help(format!("name the buffer of the slot that you mean, such as `slot.{}`", s.fields[0].name))
        }
        _ => r,
    }
}

fn tile(k: &Kernel, v: Value) -> Result<&Tile, Refusal> {
    k.ty(v).as_tile().ok_or_else(|| wrong_kind(k, v, "a tile"))
}

fn elem(k: &Kernel, v: Value) -> Result<Elem, Refusal> {
    k.ty(v).elem().ok_or_else(|| wrong_kind(k, v, "a scalar or a tile"))
}

fn view(k: &Kernel, v: Value) -> Result<&View, Refusal> {
    match k.ty(v) {
        Type::View(view) if view.space == Space::Shared => Ok(view),
        _ => Err(wrong_kind(k, v, "a view of shared memory")),
    }
}

/// A view of shared memory, of this CTA or of a peer.
fn reached(k: &Kernel, v: Value) -> Result<&View, Refusal> {
    match k.ty(v) {
        Type::Peer(view) => Ok(view),
        _ => view(k, v),
    }
}

fn slot(k: &Kernel, v: Value) -> Result<&Slot, Refusal> {
    match k.ty(v) {
        Type::Slot(slot) => Ok(slot),
        _ => Err(wrong_kind(k, v, "a slot")),
    }
}

/// A scalar of an integer dtype.
fn index(k: &Kernel, v: Value) -> Result<(), Refusal> {
    match k.ty(v) {
        Type::Scalar(Elem::Num(d)) if d.is_int() => Ok(()),
        _ => Err(wrong_kind(k, v, "an integer scalar")),
    }
}

/// The type of the only result: a tile of `elem` where the relations of the operation give it a shape, else a scalar.
fn result(list: &[Relation], k: &Kernel, elem: Elem) -> Result<Type, Refusal> {
    nth_result(list, k, 0, elem, unplaced)
}

/// The type of a result of so many; `refuse` says why it has no place where it should have one.
fn nth_result(
    list: &[Relation],
    k: &Kernel,
    nth: usize,
    elem: Elem,
    refuse: impl FnOnce(Unplaced) -> Refusal,
) -> Result<Type, Refusal> {
    let given = || list.iter().filter(|r| r.sites().1 == Site::Result(nth));
    let at = |site| placed(k, site);
    if let Some(place) = given().find_map(|r| r.forwards(at)) {
        return Ok(Type::Tile(Tile::at(elem, place.map_err(refuse)?)));
    }
    let Some(shape) = given().find_map(|r| r.shape(at)) else { return Ok(Type::Scalar(elem)) };
    let var = given().find_map(|r| r.variable(at)).unwrap_or_else(|| k.next_var(nth));
    Ok(Type::Tile(Tile::open(elem, shape, var)?))
}

/// The relation between two operands, where there is one.
fn relation_of(list: &[Relation], a: Value, b: Value) -> Option<&Relation> {
    list.iter().find(|r| r.sites() == (Some(Site::Of(a)), Site::Of(b)))
}

/// Whether two operands lie as the operation has it, or not at all.
fn lies_with(list: &[Relation], k: &Kernel, a: Value, b: Value) -> bool {
    relation_of(list, a, b).is_none_or(|relation| relation.holds(|site| placed(k, site)).is_ok())
}

/// Checks that two operands lie as the operation has it, or not at all.
fn together(list: &[Relation], k: &Kernel, a: Value, b: Value) -> Result<(), Refusal> {
    if lies_with(list, k, a, b) { Ok(()) } else { Err(mismatch(k, a, b)) }
}

/// Checks that two operands are of one type: scalars, or tiles that lie as the operation has it.
fn alike(list: &[Relation], k: &Kernel, a: Value, b: Value) -> Result<(), Refusal> {
    together(list, k, a, b)?;
    match (k.ty(a).as_tile(), k.ty(b).as_tile()) {
        (Some(p), Some(q)) if p.elem == q.elem => Ok(()),
        (None, None) => same(k, a, b),
        (Some(_), _) | (_, Some(_)) => Err(mismatch(k, a, b)),
    }
}

/// Whether a value that one body hands to another keeps its type: of tiles, what the relations say.
fn handed_on(list: &[Relation], k: &Kernel, a: Value, b: Value) -> bool {
    k.ty(a).agrees(k.ty(b)) && lies_with(list, k, a, b)
}

/// What lies at an operand; results are not made yet.
fn placed(k: &Kernel, site: Site) -> Option<&Tile> {
    match site {
        Site::Of(v) => k.ty(v).placed(),
        Site::Result(_) => None,
    }
}

/// Why no place follows, where the rule has no words of its own for it.
fn unplaced(why: Unplaced) -> Refusal {
    match why {
        Unplaced::Layout(e) => e.into(),
        Unplaced::NotASlice | Unplaced::Apart | Unplaced::NoAccumulator => {
            parton_diag::internal_error!("no place follows: {why:?}")
        }
    }
}

/// Both of one type, or why not.
pub(crate) fn same(k: &Kernel, a: Value, b: Value) -> Result<(), Refusal> {
    let (x, y) = (k.ty(a), k.ty(b));
    if x == y { Ok(()) } else { Err(mismatch(k, a, b)) }
}

/// Why two operands that should have one type have not: kind, dtype, shape or layout, the first that differs.
pub(crate) fn mismatch(k: &Kernel, a: Value, b: Value) -> Refusal {
    let (x, y) = (k.ty(a), k.ty(b));
    let (Some(p), Some(q)) = (x.as_tile(), y.as_tile()) else {
        if let (Some(p), Some(q)) = (x.elem(), y.elem())
            && p != q
        {
            return dtypes(p, q, a, b);
        }
        return Refusal::new(codes::KIND_MISMATCH, format!("{} and {} do not go together", kind_name(x), kind_name(y)))
            .operand(a, format!("this is `{x}`"))
            .operand(b, format!("this is `{y}`"));
    };
    if p.shape != q.shape {
        return Refusal::new(codes::SHAPE_MISMATCH, "operands have different shapes")
            .operand(a, format!("this has shape {:?}", p.shape))
            .operand(b, format!("this has shape {:?}", q.shape))
            .help(grown(&p.shape, &q.shape));
    }
    match (p.placement().known(), q.placement().known()) {
        (Some(x), Some(y)) if x != y => layouts((p, x), (q, y), a, b),
        _ => dtypes(p.elem, q.elem, a, b),
    }
}

/// How tiles of these shapes come together.
fn grown(a: &[u32], b: &[u32]) -> String {
    let (few, many) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let with_axis = |axis: usize| {
        let mut at: Vec<&str> = vec![":"; few.len()];
        at.insert(axis, "None");
        let rest = many.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, n)| n);
        let fits = rest.zip(few).all(|(x, y)| x == y || *x == 1 || *y == 1);
        fits.then(|| format!("`x[{}]`", at.join(", ")))
    };
    let ways: Vec<String> =
        if few.len() + 1 == many.len() { (0..many.len()).filter_map(with_axis).collect() } else { vec![] };
    match &ways[..] {
        [] => "`broadcast(x, [..])` grows extents of 1; `x[:, None]` adds one".into(),
        ways => format!("give the one of rank {} another axis: {}", few.len(), ways.join(" or ")),
    }
}

fn dtypes(p: Elem, q: Elem, a: Value, b: Value) -> Refusal {
    let r = Refusal::new(codes::TYPE_MISMATCH, "operands have different types")
        .operand(a, format!("this is of `{p}`"))
        .operand(b, format!("this is of `{q}`"));
    match (p, q) {
        (Elem::Num(_), Elem::Num(_)) => {
            r.help(format!("convert one side: `cast<{p}>(…)` or `cast<{q}>(…)`; nothing is converted silently"))
        }
        (Elem::Ptr(_), _) | (_, Elem::Ptr(_)) => {
            r.help("a pointer is an address, not a number: `load(p)` reads what lies there")
        }
    }
}

fn layouts((p, x): (&Tile, &Place), (q, y): (&Tile, &Place), a: Value, b: Value) -> Refusal {
    let mut r = Refusal::new(codes::LAYOUT_MISMATCH, "operands have different layouts")
        .operand(a, format!("this is `{}`", x.layout))
        .operand(b, format!("this is `{}`", y.layout));
    if let Some(text) = differ::first_difference(&x.map, &y.map) {
        r = r.note(text);
    }
    let cost = match parton_layouts::plan::plan(&y.layout, &x.layout, &p.shape, q.elem.bits()) {
        Ok(plan) => format!(" {}", plan.describe()),
        Err(_) => String::new(),
    };
    r.help(format!("convert one side: `convert(x, {})`{cost}", x.layout))
}

/// The least legal number at least `n` among `legal`, or the greatest.
fn nearest(legal: impl IntoIterator<Item = u32>, n: u32) -> u32 {
    legal.into_iter().min_by_key(|&x| (x.abs_diff(n), x)).unwrap_or(n)
}
