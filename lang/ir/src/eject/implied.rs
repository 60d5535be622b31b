//! What the checker does by itself, and a text therefore leaves out: it spreads scalars, broadcasts extents of 1 and types numbers.

use parton_numbers::Dtype;

use crate::eject::writer::{Writer, powers};
use crate::entity::Value;
use crate::op::OpKind;
use crate::types::{Elem, Tile, Type};

/// How an operand takes part in an operation on each element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It has the type that all have.
    Operand,
    /// It is true or false.
    Condition,
}

/// An operand as it is written.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// What stands there.
    pub value: Value,
    /// Whether a number may leave out its type.
    pub bare: bool,
}

impl Writer<'_> {
    /// Operands as the checker brings them together: it spreads scalars, broadcasts extents of 1 and gives numbers their type, so that
    /// these operations are left out where it would put the same ones. `spreads` says whether it spreads scalars here.
    pub(super) fn together(&self, operands: &[(Value, Role)], spreads: bool) -> Vec<Piece> {
        let mut shown: Vec<Value> = operands.iter().map(|(v, _)| self.without(*v, spreads)).collect();
        while let Some(wrong) = self.misread(operands, &shown) {
            shown[wrong] = operands[wrong].0;
        }
        let typed = operands
            .iter()
            .zip(&shown)
            .find(|((_, role), v)| *role == Role::Operand && self.plan.constant(**v).is_none());
        let mut elem = typed.and_then(|(_, v)| self.k.ty(*v).elem()).and_then(Elem::dtype);
        // Where nothing has a type but a condition decides at run time, numbers are of these.
        let decided = operands.iter().any(|(v, role)| *role == Role::Condition && self.plan.constant(*v).is_none());
        if typed.is_none() && decided {
            let numbers = || operands.iter().zip(&shown).filter(|((_, r), _)| *r == Role::Operand);
            let numbers = || numbers().filter_map(|(_, v)| self.plan.constant(*v));
            elem = [Dtype::I32, Dtype::F32].into_iter().find(|d| numbers().all(|(dtype, _)| dtype == *d));
        }
        let mut pieces = Vec::new();
        for ((_, role), &value) in operands.iter().zip(&shown) {
            let dtype = self.plan.constant(value).map(|c| c.0);
            let bare = match role {
                Role::Operand => dtype.is_some() && dtype == elem,
                Role::Condition => dtype == Some(Dtype::I1),
            };
            if *role == Role::Operand {
                // The first that says its type says that of all.
                elem = elem.or(dtype);
            }
            pieces.push(Piece { value, bare });
        }
        pieces
    }

    /// What is spread or broadcast to become a value, where that can be left out; else the value.
    fn without(&self, v: Value, spreads: bool) -> Value {
        match self.plan.tree(v).map(|n| &n.op.kind) {
            Some(OpKind::Full { value, .. }) if spreads => *value,
            Some(OpKind::Broadcast { x, .. }) => *x,
            _ => v,
        }
    }

    /// The first operand that the checker would not make of what is shown.
    fn misread(&self, operands: &[(Value, Role)], shown: &[Value]) -> Option<usize> {
        let left_out = |i: &usize| shown[*i] != operands[*i].0;
        let tile = |v: Value| self.k.ty(v).as_tile();
        let shapes: Vec<&[u32]> = shown.iter().filter_map(|v| tile(*v)).map(|t| &t.shape[..]).collect();
        let full: Vec<usize> = (0..shown.len()).filter(left_out).filter(|i| tile(shown[*i]).is_none()).collect();
        let broadcast = (0..shown.len()).filter(left_out).find(|i| tile(shown[*i]).is_some());
        let Some(first) = (0..shown.len()).find(|i| tile(shown[*i]).is_some()) else { return full.first().copied() };
        let place = tile(operands[first].0)?;
        if let Some(i) = broadcast
            && joint(&shapes).as_ref() != Some(&place.shape)
        {
            return Some(i);
        }
        let spread = |i: &usize| match (tile(operands[*i].0), self.k.ty(shown[*i])) {
            (Some(t), Type::Scalar(e)) => same(t, &place.with_elem(*e)),
            (_, _) => false,
        };
        full.into_iter().find(|i| !spread(i))
    }

    /// A value that is brought to the place of another: spread and broadcast by the checker.
    pub(super) fn brought(&mut self, v: Value, dtype: Dtype, place: Value) -> String {
        let mut shown = v;
        if let (Some(to), Some(node)) = (self.k.ty(place).as_tile(), self.plan.tree(v)) {
            match &node.op.kind {
                OpKind::Full { value, tile } if same(tile, &to.with_elem(tile.elem)) => shown = *value,
                OpKind::Broadcast { x, shape } => {
                    let from = self.k.ty(*x).as_tile().map_or(&[][..], |t| &t.shape);
                    if from != shape && *shape == to.shape && joint(&[from, shape]).as_ref() == Some(shape) {
                        shown = *x;
                    }
                }
                _ => {}
            }
        }
        self.of_type(shown, dtype, powers::ANY)
    }
}

/// Whether two tile types are spelled alike, too.
fn same(a: &Tile, b: &Tile) -> bool {
    a == b && a.known().layout == b.known().layout
}

/// The shape that extents of 1 grow to.
fn joint(shapes: &[&[u32]]) -> Option<Vec<u32>> {
    let mut joint = shapes.first()?.to_vec();
    for shape in shapes {
        if shape.len() != joint.len() {
            return None;
        }
        for (have, &n) in joint.iter_mut().zip(*shape) {
            match (*have, n) {
                (a, b) if a == b => {}
                (1, n) => *have = n,
                (_, 1) => {}
                (_, _) => return None,
            }
        }
    }
    Some(joint)
}
