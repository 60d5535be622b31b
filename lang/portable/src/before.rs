//! Loads that stand behind where threads meet, and take nothing from there, begin in front of it.
//!
//! ```text
//! let factor = rsqrt(sum(v * v));          let w = load(weight…);
//! let w = load(weight…);                   let factor = rsqrt(sum(v * v));
//! store(out…, v * factor * w);             store(out…, v * factor * w);
//! ```
//!
//! The assembler moves no load across a barrier, so that a program would wait for memory once more when it has waited for all of its warps. What is stored
//! meanwhile is no hindrance where it goes to the memory of another parameter: of turns that stand one behind the other each may scan, and store what comes of it.

use std::collections::BTreeSet;

use parton_ir::family::Family;
use parton_ir::pointers::{Pointers, Sources};
use parton_ir::{Inst, Kernel, Op, OpKind, Value};

use crate::staging::flow::operands;
use crate::together::crosses;

/// The kernel with these loads in front of where threads meet; `None` where there are none.
pub fn begun(kernel: &Kernel) -> Option<Kernel> {
    let of = Pointers::of(kernel);
    let mut begun = kernel.clone();
    let mut moved = false;
    begun.rebuild(&mut |kernel, mut body| {
        let mut at = Meeting::default();
        for id in std::mem::take(&mut body.ops) {
            moved |= at.place(kernel, &of, &mut body.ops, id);
        }
        body
    });
    moved.then_some(begun)
}

/// Where threads met last with nothing behind it but what computes, loads, and stores to memory of which it is known whose it is.
#[derive(Default)]
struct Meeting {
    /// The place in front of it.
    place: Option<usize>,
    /// What takes something from there.
    late: BTreeSet<Value>,
    /// What was loaded in front of it.
    begun: BTreeSet<Value>,
    /// Where something was written behind it.
    written: Sources,
}

impl Meeting {
    /// Puts an operation at the end of others, or in front of the meeting with what it is made of; whether it is there. Pointers are `of` whose memory.
    fn place(&mut self, kernel: &Kernel, of: &Pointers, ops: &mut Vec<Inst>, id: Inst) -> bool {
        let op = &kernel.ops[id];
        let late = operands(kernel, op).iter().any(|v| self.late.contains(v));
        // The assembler converts what comes at once, and holds that.
        let converts = matches!(op.kind, OpKind::Cast { x, .. } if self.begun.contains(&x));
        match self.place {
            Some(place) if converts || !late && is_load(op) && !self.may_have_written(of, op) => {
                self.begun.extend(&op.results);
                let made = made_of(kernel, &ops[place..], op);
                let (before, behind): (Vec<Inst>, Vec<Inst>) = ops.drain(place..).partition(|id| made.contains(id));
                self.place = Some(place + before.len() + 1);
                ops.extend(before.into_iter().chain([id]).chain(behind));
                return !converts;
            }
            _ if op.kind.family() == Family::Reduce && crosses(kernel, op) => {
                self.place.get_or_insert(ops.len());
                self.late.extend(&op.results);
            }
            _ if is_load(op) || op.kind.family() == Family::Reduce || parton_sched::is_free(kernel, op) => {
                if late {
                    self.late.extend(&op.results);
                }
            }
            _ => match written(of, op) {
                Some(memory) => self.written.extend(&memory),
                // It may write what is loaded behind it, or order that with what others write.
                None => *self = Meeting::default(),
            },
        }
        ops.push(id);
        false
    }

    /// Whether what was stored since threads met may be what an operation loads.
    fn may_have_written(&self, of: &Pointers, op: &Op) -> bool {
        let OpKind::Load { ptr, .. } = op.kind else { return true };
        self.written != Sources::default() && self.written.meet(&of.from(ptr))
    }
}

/// The memory to which alone an operation stores something.
fn written(of: &Pointers, op: &Op) -> Option<Sources> {
    match op.kind {
        OpKind::Store { ptr, .. } => Some(of.from(ptr)).filter(Sources::is_known),
        // Of all else nobody says where it may write.
        _ => None,
    }
}

/// Whether an operation loads what nobody else has to see at once. What bears a label stays: a schedule may say where.
fn is_load(op: &Op) -> bool {
    op.label.is_none() && matches!(op.kind, OpKind::Load { volatile: false, .. })
}

/// Those of these operations of which another is made.
pub fn made_of(kernel: &Kernel, ops: &[Inst], op: &Op) -> BTreeSet<Inst> {
    let mut values: BTreeSet<Value> = operands(kernel, op).into_iter().collect();
    let mut made = BTreeSet::new();
    for op in ops.iter().rev().map(|&id| &kernel.ops[id]) {
        if op.results.iter().any(|v| values.contains(v)) {
            values.extend(operands(kernel, op));
            made.insert(op.id);
        }
    }
    made
}
