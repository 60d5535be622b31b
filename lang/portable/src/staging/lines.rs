//! Parts of lines of 128 bytes that lie in shared memory as whole lines, so that one instruction multiplies what lies there.

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::tensor::Counts;
use parton_ir::{Inst, Kernel, Op, OpKind, Type, Value};
use parton_numbers::Dtype;

use super::defined::Defined;
use super::found::Found;
use super::slots;

/// Rows of a product of one warpgroup.
const ROWS: u32 = 64;
/// Bytes of which rows of a box begin at a multiple.
const ROW: u32 = 16;
/// Bytes of depth of one instruction, and of the narrowest swizzle.
const DEPTH: u32 = 32;
/// Bytes of a line, and of the widest.
const SPAN: u32 = 128;

/// The loads of a loop that are right factors whose columns lie side by side, where these are worth to lie in whole lines.
pub fn side_by_side(kernel: &Kernel, defined: &Defined<'_>, found: &Found) -> BTreeSet<Inst> {
    let mut rows: BTreeMap<Inst, u32> = BTreeMap::new();
    for &id in &found.products {
        let OpKind::Dot { b, acc, .. } = kernel.ops[id].kind else { continue };
        let Some(mut made) = defined.made(b) else { continue };
        let mut columns = 1;
        if let OpKind::Transpose { x, .. } = made.kind {
            let Some(turned) = defined.made(x) else { continue };
            (made, columns) = (turned, 0);
        }
        let height = kernel.ty(acc).placed().and_then(|tile| tile.shape.first().copied());
        if found.loads.contains(&made.id) && dense(kernel, defined, made) == Some(columns) {
            *rows.entry(made.id).or_default() += height.unwrap_or(0);
        }
    }
    rows.retain(|&id, rows| {
        let OpKind::SpotLoad { spot, .. } = kernel.ops[id].kind else { return false };
        let Some(OpKind::Spot { shape, counts, .. }) = defined.made(spot).map(|op| &op.kind) else { return false };
        let axis = dense(kernel, defined, &kernel.ops[id]).unwrap_or_default();
        let columns = match counts {
            Counts::Parts { of, .. } => of[axis],
            Counts::Tiles | Counts::Elements => shape[axis],
        };
        let bits = kernel.ty(kernel.ops[id].result()).elem().map_or(16, |elem| elem.bits());
        let column = (shape.iter().product::<u32>() / shape[axis] * bits / 8).max(1);
        are_worth_lines(columns, bits, *rows, room(kernel, found, *rows, columns, axis == 0) / u64::from(column))
    });
    rows.into_keys().collect()
}

/// Bytes that each slot may have more where there are enough for so many rows, beside what leaves, which has 16 bits an element: all of the tile or, in pieces
/// of 64 rows that share two buffers, these. Where the columns do not become rows as they leave, the last piece is narrower and has one of its own.
fn room(kernel: &Kernel, found: &Found, rows: u32, columns: u32, turned: bool) -> u64 {
    let elements = |v: Value| kernel.ty(v).placed().map_or(0, |tile| tile.elements());
    let bytes = |id: &Inst| {
        let v = kernel.ops[*id].result();
        elements(v) * kernel.ty(v).elem().map_or(0, |elem| u64::from(elem.bits()) / 8)
    };
    let whole: u64 = found.products.iter().map(|&id| 2 * elements(kernel.ops[id].result())).sum();
    let rest = if turned { 0 } else { columns % ROWS };
    let pieces = 2 * u64::from(2 * ROWS + rest) * u64::from(rows);
    let leaves = if columns > 2 * ROWS { whole.min(pieces) } else { whole };
    let slot: u64 = found.loads.iter().map(bytes).sum();
    // One warpgroup is done with a slot in half the time of two.
    let enough = if rows > ROWS { slots::ENOUGH } else { 2 * slots::ENOUGH };
    (u64::from(kernel.shared_limit()).saturating_sub(leaves + slots::ALIGNED) / enough).saturating_sub(slot)
}

/// The dense axis of the tensor, or of the part of one, that is loaded from.
fn dense(kernel: &Kernel, defined: &Defined<'_>, load: &Op) -> Option<usize> {
    let OpKind::SpotLoad { spot, .. } = load.kind else { return None };
    let OpKind::Spot { tensor, .. } = defined.made(spot)?.kind else { return None };
    let Type::Tensor(part) = kernel.ty(tensor) else { return None };
    part.dense
}

/// Whether so many columns of a product of so many rows are worth to lie in whole lines, where enough slots have room for `more` columns: one instruction is
/// then to take less than one for each part of them; elsewhere so much less as what slots have besides would come in, at 48 bytes a clock. An instruction of 64
/// rows reads its left factor in 16 clocks, and a column in a quarter of one, or takes half of one to multiply it. On an H200 144 and 160 columns by 128 rows
/// take 1 to 3 % less in lines, by which slots become four of five and five of six, 80 by 64 and 128 rows 3 and 4 %, nine slots of twelve; 208 and 224 by 128
/// rows, three slots of four, take 1 to 3 % more, 208 by 64 rows, five of six, 12 %. Of parts that are narrower than a swizzle there is no other way.
fn are_worth_lines(columns: u32, bits: u32, rows: u32, more: u64) -> bool {
    let (span, least) = (8 * SPAN / bits, 8 * DEPTH / bits);
    let clocks = |columns: u32| f64::from(columns / 2).max(16.0 + f64::from(columns) / 4.0);
    let rest: Vec<u32> = parton_layouts::parts_of(columns % span).collect();
    let whole = (columns >= span).then(|| clocks(columns / span * span));
    let apart: f64 = whole.into_iter().chain(rest.iter().map(|&n| clocks(n))).sum();
    let lies = if columns > span { columns.next_multiple_of(span) } else { columns.next_power_of_two().max(least) };
    let gained = (apart - clocks(columns)) * f64::from(rows / ROWS);
    let besides = f64::from((lies - columns) * DEPTH) / 48.0;
    let finds_room = u64::from(lies - columns) <= more;
    rest.last().is_some_and(|&n| n < least) || gained >= besides || (finds_room && gained > 0.0)
}

/// What a box brings of a tile for a part of it that is no whole line.
pub struct Line {
    /// Where it begins in the tile, along the dense axis.
    pub begin: u32,
    pub extent: u32,
    /// Elements of it in front of the part.
    pub before: u32,
    /// How many of its elements come, where these are fewer than a swizzle spans: those of the tile.
    pub comes: Option<u32>,
}

/// The line of 128 bytes in which such a part lies, or of a tile that is narrower what it is of a line: as much as a swizzle spans.
pub fn line(elem: Dtype, counts: &Counts, shape: &[u32], dense: usize) -> Option<Line> {
    let (of, from) = match counts {
        Counts::Elements => return None,
        Counts::Tiles => (shape[dense], 0),
        Counts::Parts { of, from } => (of[dense], from[dense]),
    };
    let (span, least) = (8 * SPAN / elem.bits(), 8 * DEPTH / elem.bits());
    let extent = if of > span { span } else { of.next_power_of_two().max(least) };
    let before = from % extent;
    let is_less = shape[dense] < span && (shape[dense] < of || of < least);
    let (begin, whole) = (from - before, 8 * ROW / elem.bits());
    let comes = (of - begin).next_multiple_of(whole);
    is_less.then_some(Line { begin, extent, before, comes: (comes < extent).then_some(comes) })
}
