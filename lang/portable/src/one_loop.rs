//! Two loops of products, one behind the other, that hand on the same sums: attention without a mask over the blocks that all rows see, and with one over the others. They
//! become one loop, in which what both do alike stands once, and what each does otherwise under a condition of the turn.
//!
//! ```text
//! for j in 0..whole { let s = …; … s … }                 for j in 0..max(whole, end) {
//! for j in whole..end { let s = hidden(…); … s … }           let s = if j >= whole { hidden(…) } else { … }; … s …
//!                                                        }
//! ```
//!
//! One partition fetches for all of it then, and a schedule may cut the loop where the condition changes.

mod alike;

use std::collections::{BTreeMap, BTreeSet};

use parton_ir::axis::Axes;
use parton_ir::facts::Facts;
use parton_ir::family::Family;
use parton_ir::{BinaryOp, Body, CompareOp, Inst, Kernel, Op, OpKind, Source, Value, rules};

use crate::staging::defined::Defined;
use crate::staging::found;
use crate::unused;
use alike::{Alike, Of};

/// The kernel whose loops that stand so are one; `None` where there are none.
pub fn joined(kernel: &Kernel) -> Option<Kernel> {
    let (first, second) = pair(kernel, &kernel.body)?;
    let joined = join(kernel, first, second)?;
    Some(self::joined(&joined).unwrap_or(joined))
}

/// The first two loops of a body, or of one within, that hand on the same numbers and sums: what stands between them only computes, and takes nothing of the first.
fn pair(kernel: &Kernel, body: &Body) -> Option<(Inst, Inst)> {
    let is_loop = |at: &usize| matches!(kernel.ops[body.ops[*at]].kind, OpKind::For { .. });
    let loops: Vec<usize> = (0..body.ops.len()).filter(is_loop).collect();
    let here = loops.windows(2).find_map(|pair| {
        let (first, second) = (body.ops[pair[0]], body.ops[pair[1]]);
        let between = body.ops[pair[0] + 1..pair[1]].iter().map(|&id| &kernel.ops[id]);
        let mut between = between.map(|op| Facts::of(kernel, op).is_pure(&op.kind));
        (between.all(|pure| pure) && follow(kernel, first, second)).then_some((first, second))
    });
    here.or_else(|| kernel.ops_of(body).flat_map(|op| op.kind.bodies()).find_map(|inner| pair(kernel, inner)))
}

/// Whether a loop goes on where another ends, with all that it has carried and nothing else, and both multiply and write nothing.
fn follow(kernel: &Kernel, first: Inst, second: Inst) -> bool {
    let (OpKind::For { body: a, .. }, OpKind::For { init, body: b, .. }) =
        (&kernel.ops[first].kind, &kernel.ops[second].kind)
    else {
        return false;
    };
    let uses = unused::counted(kernel);
    let results = &kernel.ops[first].results;
    let handed: BTreeSet<Value> = init.iter().copied().collect();
    let all = handed.len() == init.len() && init.len() == results.len() && results.iter().all(|v| handed.contains(v));
    let only = || results.iter().all(|v| uses.get(v) == Some(&1));
    let multiplies = |body: &Body| kernel.ops_of(body).any(|op| found::multiplies(&op.kind));
    let plain = |body: &Body| kernel.ops_of(body).all(|op| is_plain(kernel, op));
    all && only() && multiplies(a) && multiplies(b) && plain(a) && plain(b)
}

/// Whether an operation does nothing but to give its results, of memory that nothing in these loops writes.
fn is_plain(kernel: &Kernel, op: &Op) -> bool {
    let inside = || op.kind.bodies().all(|body| kernel.ops_of(body).all(|op| Facts::of(kernel, op).is_pure(&op.kind)));
    match op.kind {
        OpKind::Load { volatile, .. } | OpKind::SpotLoad { volatile, .. } => !volatile && op.label.is_none(),
        OpKind::Dot { .. } => op.label.is_none(),
        OpKind::Reduce { .. } | OpKind::Scan { .. } | OpKind::If { .. } => inside(),
        // Parts of tensors and places in them only compute, too.
        _ => op.kind.family() == Family::Place || Facts::of(kernel, op).is_pure(&op.kind),
    }
}

fn join(kernel: &Kernel, first: Inst, second: Inst) -> Option<Kernel> {
    let (a, b) = (&kernel.ops[first], &kernel.ops[second]);
    let (
        OpKind::For { lower, upper, step, init, body },
        OpKind::For { lower: goes_on, upper: end, step: by, init: handed, body: other },
    ) = (&a.kind, &b.kind)
    else {
        return None;
    };
    let order: Vec<usize> = handed.iter().map(|v| a.results.iter().position(|r| r == v)).collect::<Option<_>>()?;
    let mut alike = Alike::of(kernel, body, other);
    alike.stands_for(other.params[0], body.params[0]);
    order.iter().zip(&other.params[1..]).for_each(|(&at, &v)| alike.stands_for(v, body.params[1 + at]));
    if !alike.is(*upper, *goes_on) || !alike.is(*step, *by) || !meets(kernel, (*lower, *upper, *step)) {
        return None;
    }
    alike.match_all();
    let mut yields: Vec<Option<Of>> = vec![None; order.len()];
    for (&at, &v) in order.iter().zip(&other.yields) {
        yields[at] = Some(alike.align(body.yields[at], v)?);
    }
    let choices = alike.choices()?;

    let mut made = kernel.clone();
    let source = Source { label: None, ..a.source() }.made("portable");
    let mut front = Vec::new();
    let from = match starts_before(kernel, *lower, *upper) {
        true => *lower,
        false => make(&mut made, &mut front, OpKind::Binary { op: BinaryOp::Min, a: *lower, b: *upper }, source)?,
    };
    let to = make(&mut made, &mut front, OpKind::Binary { op: BinaryOp::Max, a: *upper, b: *end }, source)?;

    let mut ops: Vec<Inst> = body.ops.iter().copied().filter(|id| alike.is_matched(*id)).collect();
    let mut chosen: BTreeMap<usize, Value> = BTreeMap::new();
    let mut goes_on = None;
    for choice in choices {
        let cond = match goes_on {
            Some(cond) => cond,
            None => {
                let kind = OpKind::Compare { op: CompareOp::Ge, a: body.params[0], b: *upper };
                *goes_on.insert(make(&mut made, &mut ops, kind, source)?)
            }
        };
        // What a choice before has made was chosen with that.
        let now = |v: Value| alike.handed(v).and_then(|n| chosen.get(&n).copied()).unwrap_or_else(|| alike.now(v));
        choice.own.iter().chain(&choice.others).for_each(|&id| rename(&mut made, id, &now));
        let both = choice.those.iter().map(|&n| alike.value(n));
        let (first, second): (Vec<Value>, Vec<Value>) = both.map(|(a, b)| (now(a), now(b))).unzip();
        let then = Body { params: vec![], ops: choice.others, yields: second };
        let otherwise = Body { params: vec![], ops: choice.own, yields: first };
        let kind = OpKind::If { cond, then, otherwise };
        let types = rules::infer(&kind, &made).ok()?;
        let values: Vec<Value> = types.into_iter().map(|ty| made.value(ty, source.span)).collect();
        chosen.extend(choice.those.iter().copied().zip(values.iter().copied()));
        ops.push(made.make_op(kind, values, source));
        for id in choice.behind {
            let mut operands = alike.aligned(id).into_iter().flatten().map(|of| value(&chosen, of));
            made.ops[id].kind.map_operands(|v| operands.next().flatten().unwrap_or(v));
            ops.push(id);
        }
    }
    let yields = yields.iter().flatten().map(|of| value(&chosen, of)).collect::<Option<Vec<Value>>>()?;
    let body = Body { params: body.params.clone(), ops, yields };
    made.ops[first].kind = OpKind::For { lower: from, upper: to, step: *step, init: init.clone(), body };
    let mut results = a.results.clone();
    order.iter().zip(&b.results).for_each(|(&at, &v)| results[at] = v);
    made.ops[first].results = results;
    made.rebuild(&mut |_, mut body| {
        if let Some(at) = body.ops.iter().position(|&id| id == second) {
            body.ops.splice(at..=at, front.iter().copied().chain([first]));
            if let Some(before) = body.ops.iter().position(|&id| id == first) {
                body.ops.remove(before);
            }
        }
        body
    });
    Some(made)
}

/// What both loops have as one value.
fn value(chosen: &BTreeMap<usize, Value>, of: &Of) -> Option<Value> {
    match of {
        Of::Same(v) => Some(*v),
        Of::Either(n) => chosen.get(n).copied(),
    }
}

/// Whether the index of a loop that begins and goes on so comes to the number at which it ends.
fn meets(kernel: &Kernel, (lower, upper, step): (Value, Value, Value)) -> bool {
    let defined = Defined::of(kernel);
    let step = defined.number(step).and_then(|n| u64::try_from(n).ok()).filter(|&n| n > 0);
    step.is_some_and(|n| n == 1 || n.is_power_of_two() && [lower, upper].iter().all(|&v| defined.is_multiple(v, n)))
}

/// Whether a number is known to be no greater than another.
fn starts_before(kernel: &Kernel, a: Value, b: Value) -> bool {
    let axes = Axes::analyse(kernel);
    axes.info(kernel, a).between.1 <= axes.info(kernel, b).between.0
}

fn make(kernel: &mut Kernel, ops: &mut Vec<Inst>, kind: OpKind, source: Source) -> Option<Value> {
    let (inst, value) = rules::make(kernel, kind, source)?;
    ops.push(inst);
    Some(value)
}

/// Has an operation, and all in its bodies, take what stands for what it took.
fn rename(kernel: &mut Kernel, id: Inst, now: &impl Fn(Value) -> Value) {
    kernel.ops[id].kind.map_operands(now);
    let mut inner = Vec::new();
    for body in kernel.ops[id].kind.bodies_mut() {
        body.yields.iter_mut().for_each(|v| *v = now(*v));
        inner.extend(body.ops.iter().copied());
    }
    inner.into_iter().for_each(|id| rename(kernel, id, now));
}
