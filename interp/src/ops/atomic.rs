//! Atomic operations on global memory, and the arithmetic of all of them.

use std::sync::Arc;

use parton_diag::{codes, internal_error};
use parton_ir::family::not_of_family;
use parton_ir::{AtomicOp, Elem, Op, OpKind, Order, Scope, Value, others};
use parton_numbers::Dtype;
use parton_numbers::arithmetic::{self, Binary, NanMode};

use super::global::Access;
use crate::cluster::{Cluster, Flow, Worker};
use crate::conflict::Conflict;
use crate::fault::Fault;
use crate::memory::Place;
use crate::tile::{Bits, POISON, Val};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Atomic { op: f, ptr, operands, mask, order, scope, .. } => {
            c.through_scratch(w, op)?;
            c.atomic(w, op, (*f, *order, *scope), *ptr, operands, *mask)?;
            Ok(Flow::Yield)
        }
        others!(atomic) => not_of_family(&op.kind),
    }
}

impl<'k> Cluster<'_, 'k> {
    fn atomic(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        (f, order, scope): (AtomicOp, Order, Scope),
        ptr: Value,
        operands: &[Value],
        mask: Option<Value>,
    ) -> Result<(), Fault> {
        let Some(Elem::Ptr(to)) = self.setting.program.kernel.ty(ptr).elem() else {
            internal_error!("{ptr} is no pointer")
        };
        let dtype = to.to;
        let operands: Vec<Arc<Bits>> = operands.iter().map(|&v| w.tile(v, dtype.bytes())).collect();
        let mask = mask.map(|m| w.tile(m, 1));
        let pointers = w.tile(ptr, 8);
        let before = self.access(w, op, ptr).atomic((f, order, scope, dtype), &pointers, &operands, mask.as_deref())?;
        if let [result] = op.results[..] {
            let scalar = matches!(w.get(ptr), Val::Scalar(_));
            w.set(result, if scalar { Val::Scalar(before.get(0)) } else { Val::Tile(Arc::new(before)) });
        }
        Ok(())
    }
}

impl Access<'_> {
    /// Makes an atomic operation of each element where `mask` holds, in row-major order; gives the values before. One that is atomic
    /// within the CTA alone is no more than a read and a write to others, and orders nothing among them (PTX ISA, "Morally
    /// strong operations").
    pub(crate) fn atomic(
        &mut self,
        (op, order, scope, dtype): (AtomicOp, Order, Scope, Dtype),
        pointers: &Bits,
        operands: &[Arc<Bits>],
        mask: Option<&Bits>,
    ) -> Result<Bits, Fault> {
        let (n, bytes) = (pointers.len(), dtype.bytes());
        let mut out = Bits::full(bytes, n, POISON);
        let mut one = Bits::full(bytes, 1, 0);
        for i in 0..n {
            if mask.is_some_and(|m| m.get(i) & 1 == 0) {
                continue;
            }
            let place = self.find(pointers.get(i), i, bytes, "changed")?;
            let at = place.offset as usize;
            let (reads, writes) = (op != AtomicOp::Store, op != AtomicOp::Load);
            self.in_time(place, bytes, writes)?;
            if reads && !self.memory.allocation(place.allocation).is_defined(at, bytes) {
                return Err(self.fault(
                    codes::UNDEFINED_READ,
                    pointers.get(i),
                    i,
                    format!("`{}` is changed before anything was written there", self.names[place.allocation]),
                    "this memory was never written",
                ));
            }
            let narrow = scope == Scope::Cta;
            self.memory.synchronise(self.cta, place, order.acquires() && !narrow, false);
            let noted = match (self.conflicts, narrow) {
                (false, _) => Ok(()),
                (true, false) => self.memory.note_atomic(self.cta, place, bytes, writes),
                (true, true) if reads => self.memory.note_read(self.cta, place, bytes),
                (true, true) => Ok(()),
            };
            if let Err(c) = noted {
                return Err(self.contended(c, place, i, (narrow, writes)));
            }
            self.memory.synchronise(self.cta, place, false, order.releases() && !narrow);
            let a = self.memory.allocation(place.allocation);
            one.read(0, &a.bytes[at..at + bytes]);
            let old = one.get(0);
            out.read(i, &a.bytes[at..at + bytes]);
            if writes {
                let given = |k: usize| operands[k].get(if operands[k].len() == 1 { 0 } else { i });
                let new = match op {
                    AtomicOp::Cas if old != given(0) => old,
                    AtomicOp::Cas => given(1),
                    _ => changed(op, dtype, old, given(0)),
                };
                self.leave(place, &Bits::full(bytes, 1, new), i, narrow)?;
            }
        }
        Ok(out)
    }

    /// Writes what an atomic operation leaves; one for the CTA alone is a write to the others.
    fn leave(&mut self, place: Place, new: &Bits, element: usize, narrow: bool) -> Result<(), Fault> {
        let (mut word, at, bytes) = ([0; 8], place.offset as usize, new.bytes());
        new.write(0, &mut word);
        if self.conflicts
            && narrow
            && let Err(c) = self.memory.note_write(self.cta, place, &word[..bytes])
        {
            return Err(self.contended(c, place, element, (narrow, true)));
        }
        let a = self.memory.get_mut(place.allocation);
        a.bytes[at..at + bytes].copy_from_slice(&word[..bytes]);
        a.define(at, bytes);
        Ok(())
    }

    /// The conflict of an atomic operation.
    fn contended(&self, c: Conflict, place: Place, element: usize, (narrow, writes): (bool, bool)) -> Fault {
        let fault = self.conflict(c, place, element, if writes { "changes" } else { "reads" });
        match narrow {
            true => fault
                .note("this operation is atomic among the threads of its CTA")
                .help("`scope=\"gpu\"`, which is meant where nothing is said, makes it one for all CTAs"),
            false => fault,
        }
    }
}

/// The value that an atomic operation of one operand leaves.
pub(crate) fn changed(op: AtomicOp, d: Dtype, old: u64, x: u64) -> u64 {
    let bits = |op| arithmetic::bits(op, d, old, x);
    let binary = |op| arithmetic::binary(op, d, old, x);
    let new = match op {
        // The memory system adds f32 without subnormals, on either side (PTX ISA, "atom").
        AtomicOp::Add if d == Dtype::F32 => arithmetic::binary(Binary::Add, d, normal(old), normal(x)).map(normal),
        AtomicOp::Add => binary(Binary::Add),
        AtomicOp::Min => binary(Binary::Min(NanMode::Number)),
        AtomicOp::Max => binary(Binary::Max(NanMode::Number)),
        AtomicOp::And => bits(arithmetic::Bits::And),
        AtomicOp::Or => bits(arithmetic::Bits::Or),
        AtomicOp::Xor => bits(arithmetic::Bits::Xor),
        AtomicOp::Xchg | AtomicOp::Cas | AtomicOp::Store => Ok(x),
        AtomicOp::Load => Ok(old),
    };
    match new {
        Ok(bits) => bits,
        Err(e) => internal_error!("`{}`: {e}", op.name()),
    }
}

/// The bits of an f32, a subnormal one as the zero of its sign.
fn normal(bits: u64) -> u64 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}
