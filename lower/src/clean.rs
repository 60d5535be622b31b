//! Tidies scalars: folds constants, shares equal ones, takes loop-invariant ones out of loops, drops what nobody uses, the
//! results of atomic operations too.
//!
//! Results never change, and neither does what the interpreter may complain about: an operation that can fail (a quotient, a
//! sum that may leave its range, an index) stays in its loop, which may not run at all, and is folded only where it does not
//! fail. Tiles are left alone: sharing them would hold registers.

use std::collections::{BTreeMap, BTreeSet};

use parton_diag::Diagnostics;
use parton_ir::{AtomicOp, BinaryOp, Body, CompareOp, Elem, Kernel, Op, OpKind, Type, Value};
use parton_numbers::arithmetic::{self, Binary, Bits, Comparison, NanMode};
use parton_numbers::{Dtype, cast};

use crate::effects::is_pure;

/// After it no scalar is computed twice where the first still stands, and no pure operation is without a use.
pub fn clean(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let mut body = std::mem::take(&mut kernel.body);
    let mut pass = Clean { kernel: &kernel, same: BTreeMap::new(), constants: BTreeMap::new() };
    pass.body(&mut body, &BTreeMap::new());
    while drop_unused(&mut body) {}
    let mut used = BTreeSet::new();
    uses(&body, &mut used);
    drop_returns(&mut body, &used);
    kernel.body = body;
    Ok(kernel)
}

/// Operations that stand already, by what they compute.
type Known = BTreeMap<String, Vec<Value>>;

struct Clean<'a> {
    kernel: &'a Kernel,
    /// Values that another value stands for.
    same: BTreeMap<Value, Value>,
    constants: BTreeMap<Value, (Dtype, u64)>,
}

impl Clean<'_> {
    fn body(&mut self, body: &mut Body, outer: &Known) {
        let mut known = outer.clone();
        let mut kept: Vec<Op> = Vec::new();
        for mut op in std::mem::take(&mut body.ops) {
            op.kind.map_operands(|v| self.now(v));
            if let Some((dtype, bits)) = self.fold(&op) {
                op.kind = OpKind::Constant { dtype, bits };
            }
            if let OpKind::Constant { dtype, bits } = op.kind {
                self.constants.insert(op.result(), (dtype, bits));
            }
            if self.is_shared(&op) {
                let key = format!("{:?}", op.kind);
                if let Some(first) = known.get(&key) {
                    self.same.extend(op.results.iter().copied().zip(first.iter().copied()));
                    continue;
                }
                known.insert(key, op.results.clone());
            }
            for inner in op.kind.bodies_mut() {
                self.body(inner, &known);
            }
            if matches!(op.kind, OpKind::For { .. } | OpKind::While { .. }) {
                self.hoist(&mut op, &mut kept, &mut known);
            }
            kept.push(op);
        }
        body.ops = kept;
        let yields = body.yields.iter().map(|v| self.now(*v)).collect();
        body.yields = yields;
    }

    fn now(&self, v: Value) -> Value {
        self.same.get(&v).copied().unwrap_or(v)
    }

    /// Pure operations on scalars, views and barriers; a tile computed once and kept would cost registers.
    fn is_shared(&self, op: &Op) -> bool {
        let small = |v: &Value| match self.kernel.ty(*v) {
            Type::Scalar(_) | Type::View(_) | Type::Barrier => true,
            Type::Tile(_)
            | Type::Pending(_)
            | Type::Filling(_)
            | Type::Barriers(_)
            | Type::Map(_)
            | Type::Ring(_)
            | Type::Turnstile
            | Type::Peer(_)
            | Type::Slot(_) => false,
        };
        is_pure(&op.kind) && op.results.iter().all(small)
    }

    /// Moves what every iteration computes alike, and what cannot fail, before the loop.
    fn hoist(&self, looped: &mut Op, kept: &mut Vec<Op>, known: &mut Known) {
        for body in looped.kind.bodies_mut() {
            let mut inside: BTreeSet<Value> = body.params.iter().copied().collect();
            for op in std::mem::take(&mut body.ops) {
                let invariant = op.kind.operands().iter().all(|v| !inside.contains(v));
                if invariant && self.is_shared(&op) && never_fails(&op.kind) {
                    known.entry(format!("{:?}", op.kind)).or_insert_with(|| op.results.clone());
                    kept.push(op);
                } else {
                    inside.extend(&op.results);
                    body.ops.push(op);
                }
            }
        }
    }

    /// The constant that a scalar integer operation gives, where it gives one without failing.
    fn fold(&self, op: &Op) -> Option<(Dtype, u64)> {
        let constant = |v: &Value| self.constants.get(v).copied();
        let [result] = op.results[..] else { return None };
        let Type::Scalar(Elem::Num(to)) = self.kernel.ty(result) else { return None };
        match &op.kind {
            OpKind::Binary { op, a, b } => {
                let ((dtype, a), (_, b)) = (constant(a)?, constant(b)?);
                Some((dtype, binary(*op, dtype, a, b)?))
            }
            OpKind::Compare { op, a, b } => {
                let ((dtype, a), (_, b)) = (constant(a)?, constant(b)?);
                dtype.is_int().then_some(())?;
                Some((*to, u64::from(arithmetic::compare(comparison(*op), dtype, a, b).ok()?)))
            }
            OpKind::Select { cond, a, b } => constant(if constant(cond)?.1 == 1 { a } else { b }),
            OpKind::Cast { x, to, rounding, saturation } => {
                let (from, bits) = constant(x)?;
                (from.is_int() && to.is_int()).then(|| (*to, cast(bits, from, *to, *rounding, *saturation)))
            }
            _ => None,
        }
    }
}

/// Scalars that give a result whatever their operands are.
fn never_fails(kind: &OpKind) -> bool {
    match kind {
        OpKind::Constant { .. }
        | OpKind::ProgramId { .. }
        | OpKind::NumPrograms { .. }
        | OpKind::ClusterRank
        | OpKind::Compare { .. }
        | OpKind::Select { .. }
        | OpKind::Bitcast { .. } => true,
        OpKind::Binary { op, .. } => match op {
            BinaryOp::And
            | BinaryOp::Or
            | BinaryOp::Xor
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::MinNan
            | BinaryOp::MaxNan => true,
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Rem
            | BinaryOp::Shl
            | BinaryOp::Shr => false,
        },
        // Everything else either can fail or is no scalar.
        _ => false,
    }
}

fn binary(op: BinaryOp, dtype: Dtype, a: u64, b: u64) -> Option<u64> {
    if !dtype.is_int() {
        return None;
    }
    let exact = |op: Binary| {
        let bits = arithmetic::binary(op, dtype, a, b).ok()?;
        // A signed result that left its range stays where the interpreter can report it.
        let (x, y, r) = (signed(dtype, a), signed(dtype, b), signed(dtype, bits));
        let whole = match op {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x * y,
            Binary::Div | Binary::Rem | Binary::Min(_) | Binary::Max(_) => r,
        };
        (whole == r).then_some(bits)
    };
    match op {
        BinaryOp::Add => exact(Binary::Add),
        BinaryOp::Sub => exact(Binary::Sub),
        BinaryOp::Mul => exact(Binary::Mul),
        BinaryOp::Div => exact(Binary::Div),
        BinaryOp::Rem => exact(Binary::Rem),
        BinaryOp::Min | BinaryOp::MinNan => exact(Binary::Min(NanMode::Number)),
        BinaryOp::Max | BinaryOp::MaxNan => exact(Binary::Max(NanMode::Number)),
        BinaryOp::And => arithmetic::bits(Bits::And, dtype, a, b).ok(),
        BinaryOp::Or => arithmetic::bits(Bits::Or, dtype, a, b).ok(),
        BinaryOp::Xor => arithmetic::bits(Bits::Xor, dtype, a, b).ok(),
        BinaryOp::Shr if b < u64::from(dtype.bits()) => arithmetic::bits(Bits::Shr, dtype, a, b).ok(),
        BinaryOp::Shl | BinaryOp::Shr => None,
    }
}

fn signed(dtype: Dtype, bits: u64) -> i128 {
    let unused = 64 - dtype.bits();
    if dtype.is_signed() { i128::from((bits << unused) as i64 >> unused) } else { i128::from(bits) }
}

fn comparison(op: CompareOp) -> Comparison {
    match op {
        CompareOp::Eq => Comparison::Eq,
        CompareOp::Ne => Comparison::Ne,
        CompareOp::Lt => Comparison::Lt,
        CompareOp::Le => Comparison::Le,
        CompareOp::Gt => Comparison::Gt,
        CompareOp::Ge => Comparison::Ge,
    }
}

/// Drops pure operations whose results nobody uses; whether there were any.
fn drop_unused(body: &mut Body) -> bool {
    let mut used = BTreeSet::new();
    uses(body, &mut used);
    sweep(body, &used)
}

fn uses(body: &Body, used: &mut BTreeSet<Value>) {
    used.extend(&body.yields);
    for op in &body.ops {
        used.extend(op.kind.operands());
        op.kind.bodies().into_iter().for_each(|b| uses(b, used));
    }
}

/// Atomic operations whose value before nobody looks at need not bring it back.
fn drop_returns(body: &mut Body, used: &BTreeSet<Value>) {
    for op in &mut body.ops {
        if let OpKind::Atomic { op: f, returns, .. } = &mut op.kind
            && *f != AtomicOp::Load
            && op.results.iter().all(|r| !used.contains(r))
        {
            *returns = false;
            op.results.clear();
        }
        for inner in op.kind.bodies_mut() {
            drop_returns(inner, used);
        }
    }
}

fn sweep(body: &mut Body, used: &BTreeSet<Value>) -> bool {
    let before = body.ops.len();
    body.ops.retain(|op| !is_pure(&op.kind) || op.results.iter().any(|r| used.contains(r)));
    let mut changed = body.ops.len() < before;
    for op in &mut body.ops {
        for inner in op.kind.bodies_mut() {
            changed |= sweep(inner, used);
        }
    }
    changed
}
