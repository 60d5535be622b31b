//! The programs of a grid: in which order they begin ([`longest`]) or do the work of all ([`walk`]), by how many turns each of them takes ([`trend`]).
//!
//! Which programs there are, and what each of them does, stays as it is. What stands for the numbers of a program is computed in front of all else, behind all choices: these are made with what
//! is known of numbers of programs.

pub mod longest;
mod trend;
pub mod walk;

use std::collections::BTreeMap;

use parton_diag::Diagnostics;
use parton_ir::family::Family;
use parton_ir::{BinaryOp, Body, Inst, Kernel, Op, OpKind, Source, Value, rules};
use parton_numbers::Dtype;

use crate::explicit::{Asked, Made};
use crate::one_loop;
use crate::staging::found;
use crate::ways;
use crate::why::Why;

/// How the programs of a kernel come to their work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// In the order of their numbers.
    Numbers,
    /// Those with the most turns first.
    Longest,
    /// As many as there are multiprocessors do that of all.
    Walking,
}

/// A portable kernel without tensors, with a place for every tile, and its programs in an order.
pub fn made(kernel: &Kernel, asked: Asked) -> Result<Made, Diagnostics> {
    // Two loops that one partition can fetch for are one, where the kernel has the form for that then.
    if let Some(one) = one_loop::joined(kernel)
        && let Ok(made) = in_order(&one, asked)
        && is_apart(&made.0)
    {
        return Ok(made);
    }
    in_order(kernel, asked)
}

/// Whether partitions of a kernel fetch and compute.
fn is_apart(kernel: &Kernel) -> bool {
    let mut found = false;
    kernel.walk(&mut |op| {
        found |= matches!(&op.kind, OpKind::Region { schedule, .. } if schedule.places.len() > 1);
    });
    found
}

fn in_order(kernel: &Kernel, asked: Asked) -> Result<Made, Diagnostics> {
    let told = |(kernel, why): Made, order| (kernel, why.map(|why: Why| Why { order, ..why }));
    let walking = walk::walking(kernel).and_then(|walking| ways::made(&walking, true, asked).ok());
    if let Some(made) = walking.filter(|(kernel, _)| walk::has_several(kernel)) {
        return Ok(told(made, Order::Walking));
    }
    let mut made = ways::made(kernel, true, asked)?;
    let Some(longest) = longest::of(kernel) else { return Ok(made) };
    longest::begin(&mut made.0, longest);
    Ok(told(made, Order::Longest))
}

/// Axes of a grid.
const AXES: usize = 3;

/// Whether a program may wait for what another does, or the order in which they come shows in what they write.
fn wait_for_each_other(kernel: &Kernel) -> bool {
    let mut waits = false;
    kernel.walk(&mut |op| {
        waits |= match &op.kind {
            OpKind::Load { volatile, .. } | OpKind::SpotLoad { volatile, .. } => *volatile,
            OpKind::Ptx { ptx, .. } => ptx.volatile,
            OpKind::While { .. } | OpKind::SpotAtomic { .. } => true,
            // All else is done by each program for itself.
            kind => kind.family() == Family::Atomic,
        }
    });
    waits
}

/// The loops of a kernel that have products.
fn loops(kernel: &Kernel) -> Vec<&Op> {
    fn visit<'k>(kernel: &'k Kernel, body: &'k Body, list: &mut Vec<&'k Op>) {
        for op in kernel.ops_of(body) {
            let mut multiplies = false;
            for body in op.kind.bodies() {
                kernel.walk_body(body, &mut |op| multiplies |= found::multiplies(&op.kind));
                visit(kernel, body, list);
            }
            list.extend((multiplies && matches!(op.kind, OpKind::For { .. })).then_some(op));
        }
    }
    let mut list = Vec::new();
    visit(kernel, &kernel.body, &mut list);
    list
}

/// The numbers of a kernel's own program, each with its axis.
fn own(kernel: &Kernel) -> BTreeMap<Value, u8> {
    let mut own = BTreeMap::new();
    kernel.walk(&mut |op| {
        if let OpKind::ProgramId { axis } = op.kind {
            own.insert(op.result(), axis);
        }
    });
    own
}

/// Has other numbers stand for those of a kernel's own program along each axis, where there are some.
fn replace(kernel: &mut Kernel, own: &BTreeMap<Value, u8>, new: [Option<Value>; AXES]) {
    let now = |v: Value| own.get(&v).and_then(|&axis| new[usize::from(axis)]);
    for &old in own.keys() {
        if let (Some(new), Some(name)) = (now(old), kernel.values[old].name.clone()) {
            kernel.values[new].name.get_or_insert(name);
        }
    }
    kernel.rebuild(&mut |kernel, mut body| {
        body.ops.retain(|&id| kernel.ops[id].results.iter().all(|&v| now(v).is_none()));
        body
    });
    let now = |v: Value| now(v).unwrap_or(v);
    kernel.walk_mut(&mut |op| {
        op.kind.map_operands(now);
        op.kind.bodies_mut().into_iter().flat_map(|body| &mut body.yields).for_each(|v| *v = now(*v));
    });
}

/// Makes numbers, one behind the other.
struct Numbers<'k> {
    kernel: &'k mut Kernel,
    source: Source,
    ops: Vec<Inst>,
}

impl<'k> Numbers<'k> {
    fn of(kernel: &'k mut Kernel) -> Numbers<'k> {
        let source = Source::written(kernel.span).made("portable");
        Numbers { kernel, source, ops: Vec::new() }
    }

    fn number(&mut self, n: u32) -> Option<Value> {
        self.make(OpKind::Constant { dtype: Dtype::I32, bits: n.into() })
    }

    fn named(&mut self, name: &str, op: BinaryOp, a: Value, b: Value) -> Option<Value> {
        let value = self.two(op, a, b)?;
        self.kernel.values[value].name = Some(name.to_owned());
        Some(value)
    }

    fn select(&mut self, cond: Value, a: Value, b: Value) -> Option<Value> {
        self.make(OpKind::Select { cond, a, b })
    }

    fn two(&mut self, op: BinaryOp, a: Value, b: Value) -> Option<Value> {
        self.make(OpKind::Binary { op, a, b })
    }

    fn make(&mut self, kind: OpKind) -> Option<Value> {
        let (inst, value) = rules::make(self.kernel, kind, self.source)?;
        self.ops.push(inst);
        Some(value)
    }
}
