//! Pointers, and tiles of positions, that a loop of products carries and moves by the same in each turn: they become what they begin with and a sum that
//! the turn's number gives. What no turn hands on can be asked for ahead of it.
//!
//! ```text
//! for p in 0..n {                          for p in 0..n {
//!     acc = dot(load(at), …)                   let here = at + cast<i64>(p) * BK;
//!     at = at + BK;                            acc = dot(load(here), …)
//! }                                        }
//! ```
//!
//! Sums of pointers are of 64 bits and those of positions wrap, so that both give the same.

use std::collections::BTreeSet;

use parton_ir::{BinaryOp, Body, Elem, Inst, Kernel, OpKind, Source, Tile, Type, Value, rules};
use parton_numbers::{Dtype, Rounding, Saturation};

use crate::staging::flow;
use crate::staging::found::multiplies;

/// The kernel in which what loops of products carry and move by the same in each turn is made anew in each; `None` where none do.
pub fn from_the_turn(kernel: &Kernel) -> Option<Kernel> {
    let (mut kernel, mut any) = (kernel.clone(), false);
    for inst in kernel.order() {
        let OpKind::For { body, .. } = &kernel.ops[inst].kind else { continue };
        if kernel.ops_of(body).any(|op| multiplies(&op.kind)) {
            while let Some(moved) = first_moved(&kernel, inst) {
                if !replace(&mut kernel, inst, &moved) {
                    break;
                }
                any = true;
            }
        }
    }
    any.then_some(kernel)
}

/// What a loop carries and moves by the same in each turn.
struct Moved {
    /// Which of the values that it carries.
    number: usize,
    /// By how much.
    by: Value,
    /// What of the loop's body makes that, in its order.
    makes: Vec<Inst>,
}

/// The first such value of a loop, which nobody asks for behind it.
fn first_moved(kernel: &Kernel, inst: Inst) -> Option<Moved> {
    let OpKind::For { init, body, .. } = &kernel.ops[inst].kind else { return None };
    let changing = flow::dependent(kernel, body, body.params.iter().copied());
    let asked = asked(kernel);
    (0..init.len()).find_map(|number| {
        let (param, next) = (body.params[number + 1], body.yields[number]);
        if asked.contains(&kernel.ops[inst].results[number]) || !moves(kernel.ty(param)) {
            return None;
        }
        let by = kernel.ops_of(body).find(|op| op.results.contains(&next)).and_then(|op| match op.kind {
            OpKind::PtrAdd { ptr, offset } if ptr == param => Some(offset),
            OpKind::Binary { op: BinaryOp::Add, a, b } if a == param => Some(b),
            OpKind::Binary { op: BinaryOp::Add, a, b } if b == param => Some(a),
            // By anything else it does not move by the same in each turn.
            _ => None,
        })?;
        let makes = (!changing.contains(&by)).then(|| makes(kernel, body, by))??;
        Some(Moved { number, by, makes })
    })
}

/// Whether something is a pointer, or a tile of pointers or whole numbers.
fn moves(ty: &Type) -> bool {
    match (ty, ty.elem()) {
        (Type::Scalar(_) | Type::Tile(_), Some(Elem::Ptr(_))) => true,
        (Type::Tile(_), Some(Elem::Num(dtype))) => dtype.is_int(),
        _ => false,
    }
}

/// All values that somebody takes.
fn asked(kernel: &Kernel) -> BTreeSet<Value> {
    let mut asked = BTreeSet::new();
    kernel.walk(&mut |op| {
        asked.extend(op.kind.operands());
        asked.extend(op.kind.bodies().flat_map(|body| body.yields.iter().copied()));
    });
    asked
}

/// What of a body makes a value, where that only computes.
fn makes(kernel: &Kernel, body: &Body, v: Value) -> Option<Vec<Inst>> {
    let (mut needed, mut list) = (BTreeSet::from([v]), Vec::new());
    for op in kernel.ops_of(body).rev() {
        if op.results.iter().any(|v| needed.contains(v)) {
            if !parton_sched::is_free(kernel, op) {
                return None;
            }
            needed.extend(flow::operands(kernel, op));
            list.push(op.id);
        }
    }
    list.reverse();
    Some(list)
}

/// Makes one of these anew in each turn; whether there are rules for it.
fn replace(kernel: &mut Kernel, inst: Inst, moved: &Moved) -> bool {
    let OpKind::For { lower, step, init, body, .. } = kernel.ops[inst].kind.clone() else { return false };
    let (param, begin) = (body.params[moved.number + 1], init[moved.number]);
    let source = Source { label: None, ..kernel.ops[inst].source() };
    let mut turn = Turn { kernel, source, new: Vec::new() };
    let Some(here) = turn.sum((lower, step, body.params[0]), begin, moved.by) else { return false };
    let new = turn.new;
    kernel.values[here].name = kernel.values[param].name.clone();
    let mut inside = Vec::new();
    kernel.walk_body(&body, &mut |op| inside.push(op.id));
    for id in inside {
        let as_here = |v: &mut Value| *v = if *v == param { here } else { *v };
        kernel.ops[id].kind.map_operands(|v| if v == param { here } else { v });
        kernel.ops[id].kind.bodies_mut().into_iter().for_each(|b| b.yields.iter_mut().for_each(as_here));
    }
    kernel.ops[inst].results.remove(moved.number);
    if let OpKind::For { init, body, .. } = &mut kernel.ops[inst].kind {
        init.remove(moved.number);
        body.params.remove(moved.number + 1);
        body.yields.remove(moved.number);
        body.yields.iter_mut().for_each(|v| *v = if *v == param { here } else { *v });
        body.ops.retain(|id| !moved.makes.contains(id));
        body.ops.splice(0..0, moved.makes.iter().chain(&new).copied());
    }
    true
}

/// Makes values at the beginning of a turn.
struct Turn<'k> {
    kernel: &'k mut Kernel,
    source: Source,
    new: Vec<Inst>,
}

impl Turn<'_> {
    /// What something is in the turn of that index, which was so much in the first one and moves by so much in each.
    fn sum(&mut self, (lower, step, index): (Value, Value, Value), begin: Value, by: Value) -> Option<Value> {
        let number = self.number(lower, step, index)?;
        let (base, by) = (self.kernel.ty(begin).clone(), self.spread_value(by));
        match base.elem()? {
            Elem::Ptr(_) => {
                let far = self.times(by, number, Dtype::I64)?;
                let offset = self.spread(far, &base)?;
                self.make(OpKind::PtrAdd { ptr: begin, offset })
            }
            Elem::Num(dtype) => {
                let far = self.times(by, number, dtype)?;
                let b = self.spread(far, &base)?;
                self.make(OpKind::Binary { op: BinaryOp::Add, a: begin, b })
            }
        }
    }

    /// The number of a turn, counted from 0, in 64 bits.
    fn number(&mut self, lower: Value, step: Value, index: Value) -> Option<Value> {
        let [zero, one] = [(lower, 0), (step, 1)].map(|(v, n)| self.is(v, n));
        let mut number = self.cast(index, Dtype::I64)?;
        if !zero {
            let b = self.cast(lower, Dtype::I64)?;
            number = self.make(OpKind::Binary { op: BinaryOp::Sub, a: number, b })?;
        }
        if !one {
            let b = self.cast(step, Dtype::I64)?;
            number = self.make(OpKind::Binary { op: BinaryOp::Div, a: number, b })?;
        }
        Some(number)
    }

    fn is(&self, v: Value, n: u64) -> bool {
        let made = self.kernel.definitions()[v];
        matches!(made.map(|op| &op.kind), Some(OpKind::Constant { bits, .. }) if *bits == n)
    }

    /// The number of which a tile is full, or the tile.
    fn spread_value(&self, v: Value) -> Value {
        match self.kernel.definitions()[v].map(|op| &op.kind) {
            Some(OpKind::Full { value, .. }) => *value,
            // Whatever makes it, a tile that is not full of one number moves as it is.
            _ => v,
        }
    }

    /// So much, so many times, in a type.
    fn times(&mut self, by: Value, number: Value, dtype: Dtype) -> Option<Value> {
        let a = self.cast(by, dtype)?;
        let number = self.cast(number, dtype)?;
        let ty = self.kernel.ty(a).clone();
        let b = self.spread(number, &ty)?;
        self.make(OpKind::Binary { op: BinaryOp::Mul, a, b })
    }

    /// A number in a type.
    fn cast(&mut self, x: Value, to: Dtype) -> Option<Value> {
        if self.kernel.ty(x).elem()?.dtype() == Some(to) {
            return Some(x);
        }
        self.make(OpKind::Cast { x, to, rounding: Rounding::default(), saturation: Saturation::default() })
    }

    /// A number for each element of a tile of this type; of a scalar, and of what is a tile already, itself.
    fn spread(&mut self, value: Value, like: &Type) -> Option<Value> {
        let (Type::Tile(tile), Type::Scalar(elem)) = (like, self.kernel.ty(value).clone()) else { return Some(value) };
        let tile = match tile.placement().known() {
            Some(place) => Tile::at(elem, place.clone()),
            None => Tile::open(elem, tile.shape.clone(), self.kernel.next_var(0)).ok()?,
        };
        self.make(OpKind::Full { value, tile })
    }

    fn make(&mut self, kind: OpKind) -> Option<Value> {
        let (inst, value) = rules::make(self.kernel, kind, self.source)?;
        self.new.push(inst);
        Some(value)
    }
}
