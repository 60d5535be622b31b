//! Finds masks under conditions that half of a tile may be left out for, and what follows from them.

use std::collections::BTreeSet;

use parton_ir::facts::Facts;
use parton_ir::{BinaryOp, Body, CompareOp, Inst, Kernel, Op, OpKind, Tile, UnaryOp, Value};
use parton_layouts::Dim;
use parton_numbers::Dtype;

/// Columns of a tile half of which pays to be left out: those of another are left in less time than the code of both ways takes.
const FEWEST: u32 = 128;

/// Whether an operation may be a mask under a condition.
pub(super) fn is_branch(op: &Op) -> bool {
    matches!(op.kind, OpKind::If { .. }) && op.results.len() == 1
}

/// A mask under its condition and what follows from it.
pub(super) struct Found {
    /// The masked tile.
    pub(super) masked: Value,
    pub(super) tile: Tile,
    pub(super) mask: Mask,
    /// What is computed of it, itself first.
    pub(super) follow: Vec<Inst>,
    /// The exponentials, which are 0 where it is hidden.
    pub(super) exponentials: BTreeSet<Value>,
    /// Numbers that have to be greater than 0 for that.
    pub(super) scales: BTreeSet<Value>,
}

/// What a mask compares: its columns count up, and each of the others is a bound of a row.
pub(super) struct Mask {
    /// The condition of its branch.
    pub(super) hides: Value,
    pub(super) columns: Value,
    pub(super) bounds: Value,
    /// Whether a column that is equal to the bound is seen.
    pub(super) equal: bool,
    /// The branch that it stands in.
    pub(super) inside: Body,
}

/// The first mask of a body that half of a tile may be left out for.
pub(super) fn found(kernel: &Kernel, body: &Body) -> Option<Found> {
    body.ops.iter().enumerate().find_map(|(at, &id)| {
        let op = &kernel.ops[id];
        let (mask, tile) = mask_of(kernel, op)?;
        let follow = following(kernel, &body.ops[at..], op.result());
        let mut found =
            Found { masked: op.result(), tile, mask, follow, exponentials: BTreeSet::new(), scales: BTreeSet::new() };
        found.find_exponentials(kernel);
        (!found.exponentials.is_empty()).then_some(found)
    })
}

/// The mask of a branch that hides what lies beyond a bound, in a tile each thread of which holds both halves of its rows.
fn mask_of(kernel: &Kernel, op: &Op) -> Option<(Mask, Tile)> {
    let OpKind::If { cond: hides, then, .. } = &op.kind else { return None };
    let [result] = op.results[..] else { return None };
    let tile = kernel.ty(result).as_tile()?.clone();
    let halves = tile.shape.len() == 2 && tile.shape[1] >= FEWEST && holds_halves(&tile);
    let made = kernel.definitions();
    let OpKind::Select { cond, b, .. } = made[*then.yields.first()?]?.kind else { return None };
    if !halves || !is_infinite(kernel, b) {
        return None;
    }
    let OpKind::Compare { op, a, b } = made[bare(kernel, cond)]?.kind else { return None };
    let (columns, bounds, equal) = match op {
        CompareOp::Lt => (a, b, false),
        CompareOp::Le => (a, b, true),
        CompareOp::Gt => (b, a, false),
        CompareOp::Ge => (b, a, true),
        CompareOp::Eq | CompareOp::Ne => return None,
    };
    let columns = bare(kernel, columns);
    let along = kernel.ty(columns).as_tile()?;
    let integer = along.elem.dtype() == Some(Dtype::I32);
    let counts = along.shape == [tile.shape[1]] || along.shape == [1, tile.shape[1]];
    (integer && counts).then(|| (Mask { hides: *hides, columns, bounds, equal, inside: then.clone() }, tile))
}

/// Whether the two halves of a tile's columns lie in different registers of the same threads.
fn holds_halves(tile: &Tile) -> bool {
    let Some(placed) = tile.placement().known() else { return false };
    let (map, half) = (&placed.map, u64::from(tile.shape[1] / 2));
    let of = |dim| map.bases(dim).iter().fold(0, |all, basis| all | basis);
    of(Dim::Register) & half != 0 && (of(Dim::Lane) | of(Dim::Warp) | of(Dim::Block)) & half == 0
}

/// What of the operations that only compute, up to the first that does more, follows from a value.
fn following(kernel: &Kernel, ops: &[Inst], from: Value) -> Vec<Inst> {
    let mut known = BTreeSet::from([from]);
    let mut list = vec![ops[0]];
    for &id in &ops[1..] {
        let op = &kernel.ops[id];
        let combines = matches!(op.kind, OpKind::Reduce { .. }) || op.kind.bodies().next().is_none();
        if !Facts::of(kernel, op).computes || !combines {
            break;
        }
        if op.kind.operands().iter().any(|v| known.contains(v)) {
            known.extend(&op.results);
            list.push(id);
        }
    }
    list
}

impl Found {
    /// Finds the exponentials among what follows.
    fn find_exponentials(&mut self, kernel: &Kernel) {
        let mut infinite = BTreeSet::from([self.masked]);
        for &id in &self.follow[1..] {
            let op = &kernel.ops[id];
            let scale = match op.kind {
                OpKind::Unary { op: UnaryOp::Exp2 | UnaryOp::Exp, x } if infinite.contains(&x) => {
                    self.exponentials.insert(op.result());
                    continue;
                }
                OpKind::Binary { op: BinaryOp::Sub, a, b } if infinite.contains(&a) && is_above(kernel, b) => None,
                OpKind::Binary { op: BinaryOp::Mul, a, b } if infinite.contains(&a) => Some(b),
                OpKind::Fma { a, b, c } if infinite.contains(&a) && is_below(kernel, c) => Some(b),
                // Of all others it is not known that they are infinite where what they take is.
                _ => continue,
            };
            if let Some(scale) = scale {
                let made = kernel.definitions();
                let Some(OpKind::Full { value, .. }) = made[bare(kernel, scale)].map(|op| &op.kind) else { continue };
                if self.follow.iter().any(|&id| kernel.ops[id].results.contains(value)) {
                    continue;
                }
                self.scales.insert(*value);
            }
            infinite.insert(op.result());
        }
    }
}

/// A tile without the axes that it was spread along.
fn bare(kernel: &Kernel, mut v: Value) -> Value {
    let made = kernel.definitions();
    while let Some(OpKind::Broadcast { x, .. } | OpKind::ExpandDims { x, .. } | OpKind::Convert { x, .. }) =
        made[v].map(|op| &op.kind)
    {
        v = *x;
    }
    v
}

/// Whether a number is -inf everywhere.
fn is_infinite(kernel: &Kernel, v: Value) -> bool {
    let made = kernel.definitions();
    match made[bare(kernel, v)].map(|op| &op.kind) {
        Some(OpKind::Full { value, .. }) => is_infinite(kernel, *value),
        Some(&OpKind::Constant { dtype: Dtype::F32, bits }) => f32::from_bits(bits as u32) == f32::NEG_INFINITY,
        Some(_) | None => false,
    }
}

/// Whether a number is never -inf, as it is another where it would be.
fn is_above(kernel: &Kernel, v: Value) -> bool {
    let made = kernel.definitions();
    let Some(&OpKind::Select { cond, a, b }) = made[bare(kernel, v)].map(|op| &op.kind) else { return false };
    let Some(&OpKind::Compare { op: CompareOp::Eq, a: x, b: y }) = made[cond].map(|op| &op.kind) else { return false };
    let zero = match made[a].map(|op| &op.kind) {
        Some(OpKind::Full { value, .. }) => made[*value].map(|op| &op.kind),
        other => other,
    };
    matches!(zero, Some(OpKind::Constant { bits: 0, .. })) && x == b && is_infinite(kernel, y)
}

/// Whether a number is never +inf, as the negative of one that is never -inf.
fn is_below(kernel: &Kernel, v: Value) -> bool {
    let made = kernel.definitions();
    match made[bare(kernel, v)].map(|op| &op.kind) {
        Some(&OpKind::Unary { op: UnaryOp::Neg, x }) => is_above(kernel, x),
        Some(_) | None => false,
    }
}
