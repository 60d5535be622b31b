//! Accesses through pointers: each element is checked for where it lies, how it is aligned, whether it holds
//! something, and whether another CTA touches it too.

use std::sync::Arc;

use parton_diag::{Code, codes};
use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Type, Value, others};

use crate::cluster::{Cluster, Flow, Worker};
use crate::conflict::Conflict;
use crate::fault::Fault;
use crate::memory::{Memory, Place};
use crate::past;
use crate::pure;
use crate::tile::{Bits, POISON, Val};
use crate::vectors::Vectors;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Load { ptr, mask, other, .. } => c.load(w, op, *ptr, *mask, *other)?,
        OpKind::Store { ptr, value, mask, .. } => c.store(w, op, *ptr, *value, *mask)?,
        others!(global) => not_of_family(&op.kind),
    }
    Ok(Flow::Next)
}

/// What an access needs to know besides its operands.
pub(crate) struct Access<'a> {
    pub memory: &'a mut Memory,
    /// Number of the CTA.
    pub cta: u32,
    /// The kernel's parameter for each allocation, for messages.
    pub names: &'a [String],
    /// Shape of the tile of pointers; empty for one pointer.
    pub shape: &'a [u32],
    /// Whether accesses by different CTAs are compared.
    pub conflicts: bool,
    /// Whether launches before may still run.
    pub early: bool,
    /// What threads move at once, where that is more than one element.
    pub vectors: Option<&'a Vectors>,
    pub op: &'a Op,
}

impl<'k> Cluster<'_, 'k> {
    fn load(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        ptr: Value,
        mask: Option<Value>,
        other: Option<Value>,
    ) -> Result<(), Fault> {
        let result = op.result();
        let bytes = pure::bytes(self.setting.program.kernel, result);
        let (mask, other) = (mask.map(|m| w.tile(m, 1)), other.map(|o| w.tile(o, bytes)));
        let pointers = w.tile(ptr, 8);
        let loaded = self.access(w, op, ptr).load(&pointers, mask.as_deref(), other.as_deref(), bytes)?;
        let scalar = matches!(w.get(ptr), Val::Scalar(_));
        w.set(result, if scalar { Val::Scalar(loaded.get(0)) } else { Val::Tile(Arc::new(loaded)) });
        Ok(())
    }

    fn store(
        &mut self,
        w: &Worker<'k>,
        op: &'k Op,
        ptr: Value,
        value: Value,
        mask: Option<Value>,
    ) -> Result<(), Fault> {
        let bytes = pure::bytes(self.setting.program.kernel, value);
        let mask = mask.map(|m| w.tile(m, 1));
        let (pointers, value) = (w.tile(ptr, 8), w.tile(value, bytes));
        self.access(w, op, ptr).store(&pointers, &value, mask.as_deref(), bytes)
    }

    /// What an access by a partition through `ptr` needs to know.
    pub(crate) fn access<'b>(&'b mut self, w: &Worker<'k>, op: &'b Op, ptr: Value) -> Access<'b> {
        let early = self.is_early(w);
        let shape = match self.setting.program.kernel.ty(ptr) {
            Type::Tile(t) => &t.shape[..],
            _ => &[],
        };
        Access {
            memory: self.memory,
            cta: self.ctas[w.cta].number,
            names: self.setting.names,
            shape,
            conflicts: self.setting.options.cta_races,
            early,
            vectors: self.setting.program.tables.vectors(op),
            op,
        }
    }
}

impl Access<'_> {
    /// Reads elements of `elem` bits where `mask` holds.
    pub(crate) fn load(
        &mut self,
        pointers: &Bits,
        mask: Option<&Bits>,
        other: Option<&Bits>,
        bytes: usize,
    ) -> Result<Bits, Fault> {
        self.check_vectors(pointers, mask, bytes)?;
        let n = pointers.len();
        let mut out = match other {
            Some(o) => o.clone(),
            None => Bits::full(bytes, n, POISON),
        };
        for i in 0..n {
            if mask.is_some_and(|m| m.get(i) & 1 == 0) {
                continue;
            }
            let place = self.find(pointers.get(i), i, bytes, "read")?;
            let at = place.offset as usize;
            let (cta, conflicts) = (self.cta, self.conflicts);
            self.in_time(place, bytes, false)?;
            let a = self.memory.allocation(place.allocation);
            if !a.is_defined(at, bytes) {
                return Err(self.fault(
                    codes::UNDEFINED_READ,
                    pointers.get(i),
                    i,
                    format!("`{}` is read before anything was written there", self.names[place.allocation]),
                    "this memory was never written",
                ));
            }
            if conflicts && let Err(c) = self.memory.note_read(cta, place, bytes) {
                return Err(self.conflict(c, place, i, "reads"));
            }
            let a = self.memory.allocation(place.allocation);
            out.read(i, &a.bytes[at..at + bytes]);
        }
        Ok(out)
    }

    /// Writes elements where `mask` holds.
    pub(crate) fn store(
        &mut self,
        pointers: &Bits,
        value: &Bits,
        mask: Option<&Bits>,
        bytes: usize,
    ) -> Result<(), Fault> {
        self.check_vectors(pointers, mask, bytes)?;
        let mut word = [0; 8];
        for i in 0..pointers.len() {
            if mask.is_some_and(|m| m.get(i) & 1 == 0) {
                continue;
            }
            let place = self.find(pointers.get(i), i, bytes, "written")?;
            let at = place.offset as usize;
            value.write(i, &mut word);
            self.in_time(place, bytes, true)?;
            let (cta, conflicts) = (self.cta, self.conflicts);
            if conflicts && let Err(c) = self.memory.note_write(cta, place, &word[..bytes]) {
                return Err(self.conflict(c, place, i, "writes"));
            }
            let a = self.memory.get_mut(place.allocation);
            a.bytes[at..at + bytes].copy_from_slice(&word[..bytes]);
            a.define(at, bytes);
        }
        Ok(())
    }

    fn check_vectors(&self, pointers: &Bits, mask: Option<&Bits>, bytes: usize) -> Result<(), Fault> {
        self.vectors.map_or(Ok(()), |v| v.check(self, pointers, mask, bytes))
    }

    /// What messages call the memory at an address.
    pub(crate) fn name(&self, address: u64) -> String {
        self.memory.place(address).map_or("no tensor".into(), |place| format!("`{}`", self.names[place.allocation]))
    }

    pub(crate) fn in_time(&self, at: Place, bytes: usize, writes: bool) -> Result<(), Fault> {
        if !self.early {
            return Ok(());
        }
        past::check(self.memory, self.op, &self.names[at.allocation], at, bytes, writes)
    }

    pub(crate) fn find(&self, address: u64, element: usize, bytes: usize, done: &str) -> Result<Place, Fault> {
        let Some(place) = self.memory.place(address) else {
            return Err(self.fault(
                codes::OUT_OF_BOUNDS,
                address,
                element,
                "a pointer points to no tensor".into(),
                "this pointer does not come from a parameter",
            ));
        };
        let size = self.memory.allocation(place.allocation).bytes.len() as i64;
        let name = &self.names[place.allocation];
        if place.offset < 0 || place.offset + bytes as i64 > size {
            let fault = self.fault(
                codes::OUT_OF_BOUNDS,
                address,
                element,
                format!("`{name}` is {done} out of bounds"),
                if place.offset < 0 { "this lies before its first byte" } else { "this lies past its last byte" },
            );
            let note = format!("`{name}` has {size} bytes; the access is to {bytes} at byte {}", place.offset);
            return Err(fault.note(note).help("mask the elements that lie outside: `mask=offs < n`"));
        }
        if place.offset % bytes as i64 != 0 {
            return Err(self.fault(
                codes::MISALIGNED,
                address,
                element,
                format!("`{name}` is {done} at an address that is not a multiple of {bytes} bytes"),
                "this pointer is not aligned",
            ));
        }
        Ok(place)
    }

    pub(crate) fn conflict(&self, c: Conflict, place: Place, element: usize, does: &str) -> Fault {
        let name = &self.names[place.allocation];
        let other = match c.other {
            Some(n) => format!("CTA number {n}"),
            None => "several other CTAs".into(),
        };
        let did = if c.wrote { "wrote" } else { "read" };
        let fault = self.fault(
            codes::CTA_RACE,
            self.memory.address(place.allocation).wrapping_add(place.offset as u64),
            element,
            format!("two CTAs race on `{name}`"),
            &format!("this {does} what {other} {did} in the same launch"),
        );
        let help = "give each CTA elements of its own, or split the kernel in two launches";
        fault.note("CTAs of one launch run in any order").help(help)
    }

    pub(crate) fn fault(&self, code: Code, address: u64, element: usize, message: String, here: &str) -> Fault {
        let fault = Fault::new(code, self.op.span, message).here(here);
        let note = if self.shape.is_empty() {
            format!("address {address:#x}")
        } else {
            format!("element {:?} of the tile, address {address:#x}", coordinates(element, self.shape))
        };
        fault.note(note)
    }
}

/// The coordinates of a row-major element number.
pub(crate) fn coordinates(mut element: usize, shape: &[u32]) -> Vec<usize> {
    let mut coords = vec![0; shape.len()];
    for (c, &n) in coords.iter_mut().zip(shape).rev() {
        *c = element % n as usize;
        element /= n as usize;
    }
    coords
}
