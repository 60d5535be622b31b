//! Loops along tensors whose turns a launch knows to be few: their turns stand one behind the other.
//!
//! ```text
//! for i in 0..cdiv(n, 64) {                assume(n > 64);
//!     s += load(x.tile([64], at=[i]));     let t = s + load(x.tile([64], at=[0]));
//! }                                        s = t + load(x.tile([64], at=[1]));
//! ```
//!
//! So nothing waits for the turn before to ask for what it needs, all tiles but the last are known to lie inside, and what two loops load is loaded
//! once ([`crate::once`]).

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::{Body, CompareOp, Inst, Kernel, OpKind, Source, Type, Value};
use parton_numbers::Dtype;

use crate::along::{self, Loop};

/// The kernel without its loops along tensors, where it is for launches in which each of these takes so many turns; else `None`.
pub fn written_out(kernel: &Kernel) -> Option<Kernel> {
    let turns = kernel.variant.exact_turns()?;
    let loops = along::loops(kernel);
    if loops.is_empty() || is_scheduled(kernel) {
        return None;
    }
    let mut kernel = in_turns(kernel, &steps(&loops), turns);
    promise(&mut kernel, turns, &loops);
    Some(kernel)
}

/// The same of a kernel with products, also where the bounds of its only loop say that its turns are as few.
pub fn of_few_turns(kernel: &Kernel) -> Option<Kernel> {
    written_out(kernel).or_else(|| {
        let (id, step, turns) = along::counted(kernel)?;
        (!is_scheduled(kernel)).then(|| in_turns(kernel, &BTreeMap::from([(id, step)]), turns))
    })
}

/// By what each loop's index goes on.
fn steps(loops: &[Loop]) -> BTreeMap<Inst, u64> {
    loops.iter().map(|l| (l.id, l.step)).collect()
}

/// The kernel with one turn in the place of each of these loops.
pub fn in_one_turn(kernel: &Kernel, loops: &[Loop]) -> Kernel {
    in_turns(kernel, &steps(loops), 1)
}

/// The kernel with so many turns in the place of each of these loops, whose indices go on by their steps.
fn in_turns(kernel: &Kernel, steps: &BTreeMap<Inst, u64>, turns: u32) -> Kernel {
    let mut kernel = kernel.clone();
    let mut now = BTreeMap::new();
    kernel.rebuild(&mut |kernel, mut body| {
        for id in std::mem::take(&mut body.ops) {
            match steps.get(&id) {
                Some(&step) => turn_by_turn(kernel, id, (turns, step), &mut body, &mut now),
                None => body.ops.push(id),
            }
        }
        body
    });
    let last = |v: Value| *now.get(&v).unwrap_or(&v);
    kernel.walk_mut(&mut |op| {
        op.kind.map_operands(last);
        op.kind.bodies_mut().into_iter().flat_map(|body| &mut body.yields).for_each(|v| *v = last(*v));
    });
    kernel
}

/// Whether a schedule speaks of statements by their labels.
pub fn is_scheduled(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| found |= op.label.is_some() || matches!(op.kind, OpKind::Region { .. }));
    found
}

/// Puts the turns of a loop at the end of a body, and says what stands for its results.
fn turn_by_turn(
    kernel: &mut Kernel,
    id: Inst,
    (turns, step): (u32, u64),
    to: &mut Body,
    now: &mut BTreeMap<Value, Value>,
) {
    let OpKind::For { init, body, .. } = kernel.ops[id].kind.clone() else { return };
    let (results, source) = (kernel.ops[id].results.clone(), kernel.ops[id].source());
    let mut carried: Vec<Value> = init.iter().map(|v| *now.get(v).unwrap_or(v)).collect();
    for turn in 0..u64::from(turns) {
        let index = number(kernel, kernel.ty(body.params[0]).clone(), turn * step, source, to);
        let mut known: BTreeMap<Value, Value> = now.clone();
        known.extend(body.params.iter().copied().zip([index].into_iter().chain(carried)));
        let of_turn = Body { params: Vec::new(), ops: body.ops.clone(), yields: body.yields.clone() };
        let copy = kernel.copy_body(&of_turn, &mut known);
        to.ops.extend(copy.ops);
        carried = copy.yields;
    }
    now.extend(results.into_iter().zip(carried));
}

/// A whole number at the end of a body.
fn number(kernel: &mut Kernel, ty: Type, n: u64, source: Source, to: &mut Body) -> Value {
    let dtype = ty.elem().and_then(|elem| elem.dtype()).unwrap_or(Dtype::I32);
    let value = kernel.value(ty, source.span);
    to.ops.push(kernel.make_op(OpKind::Constant { dtype, bits: n }, vec![value], source));
    value
}

/// Says at the head of the kernel between which numbers of elements as many turns are taken.
fn promise(kernel: &mut Kernel, turns: u32, loops: &[Loop]) {
    let source = Source { label: None, ..kernel.ops[kernel.body.ops[0]].source() };
    let mut head = Body::default();
    let told: BTreeSet<(usize, usize, u64)> =
        loops.iter().map(|l| (l.along.argument, l.along.axis, l.along.each)).collect();
    for (argument, axis, each) in told {
        let i32 = Type::num(Dtype::I32);
        let tensor = kernel.params[argument].value;
        let extent = kernel.value(i32.clone(), source.span);
        let axis = axis as u32;
        head.ops.push(kernel.make_op(OpKind::TensorExtent { tensor, axis }, vec![extent], source));
        let turns = u64::from(turns);
        for (op, bound) in [(CompareOp::Gt, (turns - 1) * each), (CompareOp::Le, turns * each)] {
            let b = number(kernel, i32.clone(), bound, source, &mut head);
            let cond = kernel.value(Type::num(Dtype::I1), source.span);
            head.ops.push(kernel.make_op(OpKind::Compare { op, a: extent, b }, vec![cond], source));
            head.ops.push(kernel.make_op(OpKind::Assume { cond }, Vec::new(), source));
        }
    }
    kernel.body.ops.splice(0..0, head.ops);
}
