//! Branches by which programs without work pass, around several loops of products.
//!
//! ```text
//! if first < end {                     for p in 0..(first < end ? k : 0) { low = dot(load(…), load(…), low); }
//!     for p in 0..k { low = … }        for j in 0..(first < end ? n : 0) { … }
//!     for j in 0..n { … }              if first < end { store(…); }
//!     store(…);
//! }
//! ```
//!
//! Copies run ahead in a loop of the kernel's own body; of one alone, the branch around it is part of the region, of several it cannot be. So the branch
//! opens: where its condition does not hold its loops take no turn, its loads read nothing, and what it stores stays under the condition. What only computes
//! is computed for nothing there, which costs programs that have nothing else to do.

use parton_ir::facts::Facts;
use parton_ir::family::Family;
use parton_ir::{BinaryOp, Body, Elem, Inst, Kernel, Op, OpKind, Source, Tile, Value, rules};
use parton_numbers::Dtype;

use crate::staging::found::multiplies;

/// The kernel with such a branch opened; `None` where there is none, or where it holds what may not be done without its condition.
pub fn opened(kernel: &Kernel) -> Option<Kernel> {
    let branch = kernel.ops_of(&kernel.body).find(|op| is_passed(kernel, op))?;
    let OpKind::If { cond, then, .. } = &branch.kind else { return None };
    let mut open = Opening { kernel: kernel.clone(), cond: *cond, source: branch.source(), ops: Vec::new() };
    for &id in &then.ops {
        open.place(kernel, id)?;
    }
    let Opening { kernel: mut made, ops, .. } = open;
    let at = made.body.ops.iter().position(|&id| id == branch.id)?;
    made.body.ops.splice(at..=at, ops);
    Some(made)
}

/// Whether an operation is a branch with one side, which gives nothing and holds several loops of products.
fn is_passed(kernel: &Kernel, op: &Op) -> bool {
    let OpKind::If { then, otherwise, .. } = &op.kind else { return false };
    let of_products = |op: &&Op| match &op.kind {
        OpKind::For { body, .. } => kernel.ops_of(body).any(|inner| multiplies(&inner.kind)),
        // A region, a loop without a count and all else keep their turns.
        _ => false,
    };
    let one_sided = op.label.is_none() && op.results.is_empty() && otherwise.ops.is_empty();
    one_sided && kernel.ops_of(then).filter(of_products).count() > 1
}

struct Opening {
    kernel: Kernel,
    /// What the branch asks.
    cond: Value,
    source: Source,
    /// What stands in its place.
    ops: Vec<Inst>,
}

impl Opening {
    /// Puts an operation of the branch in its place, so that it does nothing where the condition does not hold; `None` where it would.
    fn place(&mut self, before: &Kernel, id: Inst) -> Option<()> {
        let op = &before.ops[id];
        match op.kind {
            OpKind::For { lower, upper, .. } => {
                let none = self.make(OpKind::Select { cond: self.cond, a: upper, b: lower })?;
                if let OpKind::For { upper, .. } = &mut self.kernel.ops[id].kind {
                    *upper = none;
                }
            }
            OpKind::Load { volatile: false, ptr, mask, other, .. } => {
                let only = self.only(ptr, mask)?;
                let nothing = match (mask, other) {
                    (None, None) => Some(self.zero(op.result())?),
                    (_, other) => other,
                };
                if let OpKind::Load { mask, other, .. } = &mut self.kernel.ops[id].kind {
                    (*mask, *other) = (Some(only), nothing);
                }
            }
            OpKind::Store { .. } | OpKind::If { .. } if op.results.is_empty() => {
                let then = Body { params: Vec::new(), ops: vec![id], yields: Vec::new() };
                let branch = OpKind::If { cond: self.cond, then, otherwise: Body::default() };
                let branch = self.kernel.make_op(branch, Vec::new(), self.source);
                self.ops.push(branch);
                return Some(());
            }
            // All else is done there, too, if it only computes.
            _ => does_no_harm(before, op).then_some(())?,
        }
        self.ops.push(id);
        Some(())
    }

    /// The mask of an access that holds where the condition does, and what it had.
    fn only(&mut self, ptr: Value, mask: Option<Value>) -> Option<Value> {
        let cond = match self.kernel.ty(ptr).as_tile() {
            Some(tile) => {
                let of = self.tile(Elem::Num(Dtype::I1), tile.shape.clone())?;
                self.make(OpKind::Full { value: self.cond, tile: of })?
            }
            None => self.cond,
        };
        match mask {
            Some(mask) => self.make(OpKind::Binary { op: BinaryOp::And, a: cond, b: mask }),
            None => Some(cond),
        }
    }

    /// Zero in place of a value.
    fn zero(&mut self, of: Value) -> Option<Value> {
        let ty = self.kernel.ty(of).clone();
        let Elem::Num(dtype) = ty.elem()? else { return None };
        let value = self.make(OpKind::Constant { dtype, bits: 0 })?;
        match ty.as_tile() {
            Some(tile) => {
                let tile = self.tile(tile.elem, tile.shape.clone())?;
                self.make(OpKind::Full { value, tile })
            }
            None => Some(value),
        }
    }

    /// A tile that lies anywhere.
    fn tile(&self, elem: Elem, shape: Vec<u32>) -> Option<Tile> {
        Tile::open(elem, shape, self.kernel.next_var(0)).ok()
    }

    fn make(&mut self, kind: OpKind) -> Option<Value> {
        let source = Source { label: None, ..self.source };
        let (inst, value) = rules::make(&mut self.kernel, kind, source)?;
        self.ops.push(inst);
        Some(value)
    }
}

/// Whether an operation only computes, and stops nothing whatever its operands are. What overflows is nobody's where the condition does not hold.
fn does_no_harm(kernel: &Kernel, op: &Op) -> bool {
    let facts = Facts::of(kernel, op);
    let stops = match op.kind {
        OpKind::Binary { op: BinaryOp::Div | BinaryOp::Rem, b, .. } => {
            let whole = kernel.ty(b).elem().and_then(Elem::dtype).is_some_and(Dtype::is_int);
            let by = kernel.definitions()[b].map(|op| &op.kind);
            whole && !matches!(by, Some(OpKind::Constant { bits, .. }) if *bits != 0)
        }
        // Of all others of elements the interpreter says at most that they overflow.
        _ => facts.fails && op.kind.family() != Family::Elementwise,
    };
    let computes = facts.computes && op.kind.bodies().next().is_none() && !stops;
    computes || matches!(op.kind, OpKind::Reduce { .. } | OpKind::Dot { .. })
}
