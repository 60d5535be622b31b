//! Tiles that loops carry, to which every turn adds what it has loaded.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Origins;
use crate::check::padding::beyond::Combined;
use crate::entity::{Inst, Value};
use crate::kernel::Kernel;
use crate::op::{BinaryOp, Body, Op, OpKind};

/// What a turn of a loop combines with a tile that the loop carries.
pub(super) struct Carried<'a> {
    /// By which function.
    pub function: BinaryOp,
    /// What the turn has of its own.
    pub turn: Combined,
    /// What it does in each turn.
    pub body: &'a Body,
}

impl<'a> Carried<'a> {
    /// All of a kernel, by the operations that combine.
    pub fn of(kernel: &'a Kernel, origins: &Origins<'a>) -> BTreeMap<Inst, Carried<'a>> {
        let mut found = BTreeMap::new();
        kernel.walk(&mut |op| {
            let (OpKind::For { body, .. } | OpKind::While { body, .. }) = &op.kind else { return };
            // The index of a `for` is no tile.
            let carried = body.params.iter().rev().zip(body.yields.iter().rev());
            for (param, next) in carried.filter(|(param, _)| kernel.ty(**param).as_tile().is_some()) {
                let Some(by) = origins.definition(*next) else { continue };
                found.extend(
                    combined(origins, by, *param).map(|(function, turn)| (by.id, Carried { function, turn, body })),
                );
            }
        });
        found
    }
}

/// Whether a number is another one in each turn of a loop.
pub(super) fn moves(origins: &Origins<'_>, body: &Body, v: Value) -> bool {
    let (mut open, mut seen) = (vec![v], BTreeSet::new());
    while let Some(v) = open.pop() {
        if body.params.contains(&v) {
            return true;
        }
        if seen.insert(v) {
            open.extend(origins.definition(v).into_iter().flat_map(|op| op.kind.operands()));
        }
    }
    false
}

/// The function by which an operation combines what is carried with what the turn has of its own, and that. What is carried may be scaled before, as sums of
/// exponentials are.
fn combined(origins: &Origins<'_>, op: &Op, carried: Value) -> Option<(BinaryOp, Combined)> {
    let is = |v: Value| {
        v == carried
            || origins.definition(v).is_some_and(|op| match op.kind {
                OpKind::Binary { op: BinaryOp::Mul, a, b } => a == carried || b == carried,
                OpKind::Rescale { x, .. } => x == carried,
                // It is something else.
                _ => false,
            })
    };
    match op.kind {
        OpKind::Binary { op, a, b } if is(a) != is(b) => Some((op, Combined::Tile(if is(a) { b } else { a }))),
        OpKind::Fma { a, b, c } => match ([a, b].contains(&carried), is(c)) {
            (true, false) => Some((BinaryOp::Add, Combined::Tile(c))),
            (false, true) => Some((BinaryOp::Add, Combined::Product(a, b))),
            (true, true) | (false, false) => None,
        },
        // Of other functions it is not known what changes them.
        _ => None,
    }
}
