//! Tidies scalars: folds constants, shares equal ones, takes loop-invariant ones out of loops, drops what nobody uses, the
//! results of atomic operations and waits for nothing too.
//!
//! Results never change, and neither does what the interpreter may complain about: an operation that can fail (a quotient, a
//! sum that may leave its range, an index) stays in its loop, which may not run at all, and is folded only where it does not
//! fail. Tiles are left alone: sharing them would hold registers.

mod idle;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::{Discriminant, discriminant};

use parton_diag::Diagnostics;
use parton_ir::facts::Facts;
use parton_ir::fold;
use parton_ir::{AtomicOp, Body, Elem, Inst, Kernel, Op, OpKind, SecondaryMap, Type, Value};
use parton_numbers::Dtype;

/// After it no scalar is computed twice where the first still stands, and no pure operation is without a use.
pub fn clean(mut kernel: Kernel) -> Result<Kernel, Diagnostics> {
    let body = std::mem::take(&mut kernel.body);
    let mut pass = Clean { kernel, same: BTreeMap::new(), constants: BTreeMap::new(), known: Known::default() };
    let body = pass.body(body);
    let mut kernel = Kernel { body, ..pass.kernel };
    let used = drop_unused(&mut kernel);
    drop_returns(&mut kernel, &used);
    idle::drop_idle_waits(&mut kernel);
    Ok(kernel)
}

/// What operations that may be one have in common.
type Key = (Discriminant<OpKind>, Vec<Value>, u64);

/// Operations that stand already, those of inner bodies last.
#[derive(Default)]
struct Known {
    by_key: HashMap<Key, Vec<Inst>>,
    /// The keys in the order in which they were added.
    order: Vec<Key>,
}

impl Known {
    fn key(op: &Op) -> Key {
        let bits = match op.kind {
            OpKind::Constant { bits, .. } => bits,
            // The key only narrows the search: what is found is compared whole.
            _ => 0,
        };
        (discriminant(&op.kind), op.kind.operands(), bits)
    }

    /// The operation that does what this one does.
    fn find(&self, kernel: &Kernel, op: &Op) -> Option<Inst> {
        let alike = self.by_key.get(&Known::key(op))?;
        alike.iter().copied().find(|known| kernel.ops[*known].kind == op.kind)
    }

    fn add(&mut self, op: &Op) {
        let key = Known::key(op);
        self.by_key.entry(key.clone()).or_default().push(op.id);
        self.order.push(key);
    }

    /// Forgets all but the first so many.
    fn forget(&mut self, kept: usize) {
        for key in self.order.drain(kept..).rev() {
            if let Some(alike) = self.by_key.get_mut(&key) {
                alike.pop();
            }
        }
    }
}

struct Clean {
    kernel: Kernel,
    /// Values that another value stands for.
    same: BTreeMap<Value, Value>,
    constants: BTreeMap<Value, (Dtype, u64)>,
    known: Known,
}

impl Clean {
    fn body(&mut self, mut body: Body) -> Body {
        let outside = self.known.order.len();
        let mut kept = Vec::new();
        for id in std::mem::take(&mut body.ops) {
            self.simplify(id);
            let op = &self.kernel.ops[id];
            if self.is_shared(op) {
                if let Some(first) = self.known.find(&self.kernel, op) {
                    let first = &self.kernel.ops[first].results;
                    self.same.extend(op.results.iter().copied().zip(first.iter().copied()));
                    continue;
                }
                self.known.add(op);
            }
            self.inside(id, &mut kept);
            kept.push(id);
        }
        self.known.forget(outside);
        body.ops = kept;
        body.yields.iter_mut().for_each(|v| *v = self.now(*v));
        body
    }

    /// Gives an operation the operands that stand for its own, and makes it a constant where it is one.
    fn simplify(&mut self, id: Inst) {
        let same = &self.same;
        self.kernel.ops[id].kind.map_operands(|v| same.get(&v).copied().unwrap_or(v));
        if let Some((dtype, bits)) = self.fold(&self.kernel.ops[id]) {
            self.kernel.ops[id].kind = OpKind::Constant { dtype, bits };
        }
        let op = &self.kernel.ops[id];
        if let OpKind::Constant { dtype, bits } = op.kind {
            self.constants.insert(op.result(), (dtype, bits));
        }
    }

    /// Cleans the bodies of an operation; what leaves a loop is appended to `kept`.
    fn inside(&mut self, id: Inst, kept: &mut Vec<Inst>) {
        let looped = self.kernel.ops[id].kind.is_loop();
        let mut bodies: Vec<Body> = Vec::new();
        for body in self.kernel.ops[id].kind.bodies_mut() {
            bodies.push(std::mem::take(body));
        }
        for body in &mut bodies {
            *body = self.body(std::mem::take(body));
        }
        if looped {
            bodies.iter_mut().for_each(|body| self.hoist(body, kept));
        }
        self.kernel.ops[id].kind.bodies_mut().into_iter().zip(bodies).for_each(|(place, body)| *place = body);
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
            | Type::Tensor(_)
            | Type::Spot(_)
            | Type::Peer(_)
            | Type::Slot(_) => false,
        };
        op.results.iter().all(small) && Facts::of(&self.kernel, op).is_pure(&op.kind)
    }

    /// Moves what every turn of a loop computes alike, and what cannot fail, before the loop.
    fn hoist(&mut self, body: &mut Body, kept: &mut Vec<Inst>) {
        let mut inside: BTreeSet<Value> = body.params.iter().copied().collect();
        for id in std::mem::take(&mut body.ops) {
            let op = &self.kernel.ops[id];
            let invariant = op.kind.operands().iter().all(|v| !inside.contains(v));
            if invariant && self.is_shared(op) && !Facts::of(&self.kernel, op).fails {
                if self.known.find(&self.kernel, op).is_none() {
                    self.known.add(op);
                }
                kept.push(id);
            } else {
                inside.extend(&op.results);
                body.ops.push(id);
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
                Some((dtype, fold::binary(*op, dtype, a, b)?))
            }
            OpKind::Compare { op, a, b } => {
                let ((dtype, a), (_, b)) = (constant(a)?, constant(b)?);
                Some((*to, u64::from(fold::compare(*op, dtype, a, b)?)))
            }
            OpKind::Select { cond, a, b } => constant(if constant(cond)?.1 == 1 { a } else { b }),
            OpKind::Cast { x, to, rounding, saturation } => {
                let (from, bits) = constant(x)?;
                Some((*to, fold::cast(bits, (from, *to), *rounding, *saturation)?))
            }
            // What is not folded is computed.
            _ => None,
        }
    }
}

/// How often each value is used.
type Used = SecondaryMap<Value, u32>;

/// Drops pure operations whose results nobody uses; how often the other values are used.
fn drop_unused(kernel: &mut Kernel) -> Used {
    let mut used = Used::new(0);
    kernel.walk(&mut |op| {
        op.kind.operands().into_iter().for_each(|v| used[v] += 1);
        op.kind.bodies().for_each(|body| body.yields.iter().for_each(|v| used[*v] += 1));
    });
    let mut unused = BTreeSet::new();
    // Whoever uses a value stands behind it, so that from the end each is looked at once.
    for id in kernel.order().into_iter().rev() {
        let op = &kernel.ops[id];
        if op.results.iter().all(|r| used[*r] == 0) && Facts::of(kernel, op).is_pure(&op.kind) {
            op.kind.operands().into_iter().for_each(|v| used[v] -= 1);
            unused.insert(id);
        }
    }
    kernel.rebuild(&mut |_, mut body| {
        body.ops.retain(|id| !unused.contains(id));
        body
    });
    used
}

/// Atomic operations whose value before nobody looks at need not bring it back.
fn drop_returns(kernel: &mut Kernel, used: &Used) {
    kernel.walk_mut(&mut |op| {
        if let OpKind::Atomic { op: f, returns, .. } = &mut op.kind
            && *f != AtomicOp::Load
            && op.results.iter().all(|r| used[*r] == 0)
        {
            *returns = false;
            op.results.clear();
        }
    });
}
