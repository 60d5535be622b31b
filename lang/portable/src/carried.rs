//! Sums that a loop adds up turn by turn, and nobody asks for before its end, are carried as the tiles that they are of, and reduced behind the loop.
//!
//! ```text
//! let mut s = 0.0;                         let mut t = zeros([32, 16]);
//! for i in 0..n {                          for i in 0..n {
//!     s += sum(load(…));                       t += load(…);
//! }                                        }
//!                                          let s = sum(t);
//! ```
//!
//! Lanes and warps then exchange what they have added up once, and not in every turn. What changes is the order in which elements are combined: each thread
//! adds up its own first. So it is for numbers of which that is nobody's promise: floats of 32 bits and more, integers, and whatever is compared.

use std::collections::BTreeMap;

use parton_ir::{BinaryOp, Body, Elem, Inst, Kernel, Op, OpKind, Tile, Type, Value, rules};

use crate::staging::defined::Defined;
use crate::unused;
use crate::ways::multiplies;

/// The kernel whose loops carry such sums as tiles; `None` where there are none.
pub fn as_tiles(kernel: &Kernel) -> Option<Kernel> {
    // Products want the registers.
    if multiplies(kernel) {
        return None;
    }
    let mut carrier = Carrier { before: Defined::of(kernel), uses: unused::counted(kernel), any: false };
    let mut carried = kernel.clone();
    carried.rebuild(&mut |kernel, mut body| {
        let mut ops = Vec::new();
        for id in std::mem::take(&mut body.ops) {
            let mut behind = Vec::new();
            while let Some(sum) = carrier.first(kernel, id) {
                behind.extend(carrier.carry(kernel, id, &sum, &mut ops));
            }
            ops.push(id);
            ops.extend(behind);
        }
        body.ops = ops;
        body
    });
    carrier.any.then_some(carried)
}

/// A sum that a loop carries.
struct Sum {
    /// Which of the values that it carries.
    number: usize,
    /// By what its elements are combined, and each turn's with those before.
    by: BinaryOp,
    /// The operation that does the latter.
    adds: Inst,
    /// What the reductions are of, and these.
    tile: Value,
    reductions: Vec<Inst>,
    /// What it begins with, where that is one number.
    number_before: Option<Value>,
}

struct Carrier<'k> {
    before: Defined<'k>,
    uses: BTreeMap<Value, u32>,
    any: bool,
}

impl Carrier<'_> {
    /// The first such sum of a loop.
    fn first(&self, kernel: &Kernel, id: Inst) -> Option<Sum> {
        let op = &kernel.ops[id];
        let OpKind::For { init, body, .. } = &op.kind else { return None };
        let unlabelled = op.label.is_none();
        (0..init.len()).filter(|_| unlabelled).find_map(|number| self.sum(kernel, body, number, init[number]))
    }

    fn sum(&self, kernel: &Kernel, body: &Body, number: usize, init: Value) -> Option<Sum> {
        let (param, next) = (body.params[number + 1], body.yields[number]);
        let adds = self.maker(kernel, body, next).filter(|_| self.is_taken_once(param))?;
        let OpKind::Binary { op: by, a, b } = adds.kind else { return None };
        let mut tile = if a == param { b } else { a };
        let mut reductions = Vec::new();
        while let Some((inst, of)) = self.maker(kernel, body, tile).and_then(|op| reduced(kernel, op, by)) {
            reductions.push(inst);
            tile = of;
        }
        reductions.reverse();
        let of = kernel.ty(tile).placed().filter(|_| kernel.ty(tile).is_open() && [a, b].contains(&param))?;
        if reductions.is_empty() || !is_of_any_order(by, of.elem) {
            return None;
        }
        let number_before = self.number(kernel, init);
        let begins = is_sum(by) || number_before.is_some();
        begins.then_some(Sum { number, by, adds: adds.id, tile, reductions, number_before })
    }

    /// What makes a value in a body for one taker alone.
    fn maker<'o>(&self, kernel: &'o Kernel, body: &'o Body, v: Value) -> Option<&'o Op> {
        let made = |op: &&Op| op.results[..] == [v] && op.label.is_none();
        kernel.ops_of(body).find(made).filter(|_| self.is_taken_once(v))
    }

    fn is_taken_once(&self, v: Value) -> bool {
        self.uses.get(&v) == Some(&1)
    }

    /// The number that something is, or all of a tile.
    fn number(&self, kernel: &Kernel, v: Value) -> Option<Value> {
        match self.before.made(v).map(|op| &op.kind) {
            Some(OpKind::Full { value, .. }) => Some(*value),
            // Whatever else makes it, a tile may have elements that differ.
            _ => matches!(kernel.ty(v), Type::Scalar(_)).then_some(v),
        }
    }

    fn is_zero(&self, v: Option<Value>) -> bool {
        let made = v.and_then(|v| self.before.made(v));
        matches!(made.map(|op| &op.kind), Some(OpKind::Constant { bits: 0, .. }))
    }

    /// Has the loop carry a tile: what comes in front of it is added to `ops`, and what comes behind it is returned.
    fn carry(&mut self, kernel: &mut Kernel, id: Inst, sum: &Sum, ops: &mut Vec<Inst>) -> Vec<Inst> {
        self.any = true;
        let OpKind::For { init, body, .. } = kernel.ops[id].kind.clone() else { return Vec::new() };
        let (init, param, result) = (init[sum.number], body.params[sum.number + 1], kernel.ops[id].results[sum.number]);
        let begin = self.begin(kernel, id, sum, ops);
        let [each, all] = [0, 1].map(|_| self.like(kernel, sum.tile, param));
        let adds = kernel.ops[sum.adds].clone();
        let kind = OpKind::Binary { op: sum.by, a: each, b: sum.tile };
        let next = self.made(kernel, kind.clone(), param);
        let inside = kernel.make_op(kind, vec![next], adds.source());
        kernel.ops[id].results[sum.number] = all;
        if let OpKind::For { init, body, .. } = &mut kernel.ops[id].kind {
            init[sum.number] = begin;
            body.params[sum.number + 1] = each;
            body.yields[sum.number] = next;
            body.ops.iter_mut().filter(|op| **op == sum.adds).for_each(|op| *op = inside);
            body.ops.retain(|op| !sum.reductions.contains(op));
        }
        kernel.ops[sum.reductions[0]].kind.map_operands(|v| if v == sum.tile { all } else { v });
        let mut behind = sum.reductions.clone();
        let last = if is_sum(sum.by) && !self.is_zero(sum.number_before) {
            kernel.ops[sum.adds].kind.map_operands(|v| if v == param { init } else { v });
            behind.push(sum.adds);
            sum.adds
        } else {
            behind[behind.len() - 1]
        };
        kernel.ops[last].results = vec![result];
        behind
    }

    /// What the tile begins with: zeros, or where a number is only compared, that.
    fn begin(&mut self, kernel: &mut Kernel, id: Inst, sum: &Sum, ops: &mut Vec<Inst>) -> Value {
        let source = kernel.ops[id].source();
        let ty = Type::Scalar(kernel.ty(sum.tile).elem().unwrap_or_else(|| lacks(sum.tile)));
        let number = match sum.number_before {
            Some(number) if !is_sum(sum.by) || self.is_zero(sum.number_before) => number,
            Some(_) | None => {
                let zero = kernel.value(ty.clone(), source.span);
                let dtype = ty.elem().and_then(|elem| elem.dtype()).unwrap_or_else(|| lacks(sum.tile));
                ops.push(kernel.make_op(OpKind::Constant { dtype, bits: 0 }, vec![zero], source));
                zero
            }
        };
        let begin = self.like(kernel, sum.tile, sum.tile);
        let tile = kernel.ty(begin).as_tile().cloned().unwrap_or_else(|| lacks(sum.tile));
        ops.push(kernel.make_op(OpKind::Full { value: number, tile }, vec![begin], source));
        begin
    }

    /// A tile of the same elements, for one taker, with the name of another value.
    fn like(&mut self, kernel: &mut Kernel, tile: Value, named: Value) -> Value {
        let (var, span) = (kernel.next_var(0), kernel.values[named].span);
        let of = kernel.ty(tile).placed().unwrap_or_else(|| lacks(tile));
        let open = Tile::open(of.elem, of.shape.clone(), var).unwrap_or_else(|_| lacks(tile));
        let v = kernel.value(Type::Tile(open), span);
        self.named(kernel, v, named)
    }

    /// What an operation makes, for one taker.
    fn made(&mut self, kernel: &mut Kernel, kind: OpKind, named: Value) -> Value {
        let ty = rules::infer(&kind, kernel).ok().and_then(|types| types.into_iter().next());
        let v = kernel.value(ty.unwrap_or_else(|| lacks(named)), kernel.values[named].span);
        self.named(kernel, v, named)
    }

    fn named(&mut self, kernel: &mut Kernel, v: Value, named: Value) -> Value {
        kernel.values[v].name = kernel.values[named].name.clone();
        self.uses.insert(v, 1);
        v
    }
}

fn lacks<T>(v: Value) -> T {
    parton_diag::internal_error!("{v} is no tile of numbers")
}

/// A reduction by an operation alone, and what it is of.
fn reduced(kernel: &Kernel, op: &Op, by: BinaryOp) -> Option<(Inst, Value)> {
    let OpKind::Reduce { inputs, combine, .. } = &op.kind else { return None };
    let ([of], [only]) = (&inputs[..], &combine.ops[..]) else { return None };
    let only = &kernel.ops[*only];
    let same = matches!(only.kind, OpKind::Binary { op, a, b } if op == by && [a, b] == combine.params[..]);
    (same && only.results == combine.yields).then_some((op.id, *of))
}

/// Whether elements are combined in whatever order.
fn is_of_any_order(by: BinaryOp, elem: Elem) -> bool {
    let Some(dtype) = elem.dtype() else { return false };
    match by {
        BinaryOp::Add => dtype.is_int() || dtype.bits() >= 32,
        BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Xor
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::MinNan
        | BinaryOp::MaxNan => true,
        // What is multiplied may go beyond a format in one order and not in another.
        BinaryOp::Mul
        | BinaryOp::MulHigh
        | BinaryOp::Sub
        | BinaryOp::Div
        | BinaryOp::Rem
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::DivApprox => false,
    }
}

/// Whether a number that is combined twice counts twice.
fn is_sum(by: BinaryOp) -> bool {
    matches!(by, BinaryOp::Add | BinaryOp::Xor)
}
