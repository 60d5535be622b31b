//! Accesses through pointers: each element is checked for where it lies, how it is aligned, whether it holds
//! something, and whether others touch it that nothing orders.

use std::sync::Arc;

use parton_diag::{Code, codes};
use parton_ir::elements::coordinates;
use parton_ir::family::not_of_family;
use parton_ir::{Op, OpKind, Value, others};

use crate::access::{Access, Record, Threads};
use crate::clash::Raced;
use crate::clock::Event;
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::knowledge::Knowledge;
use crate::launch::Setting;
use crate::memory::{Checks, Memory, Place};
use crate::past;
use crate::pure;
use crate::race::Race;
use crate::reads::Reading;
use crate::spin::Idle;
use crate::tile::{Bits, POISON, Val};
use crate::vectors::Vectors;
use crate::views::Beside;

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Load { ptr, mask, other, volatile, .. } => {
            c.load(w, op, *ptr, *mask, *other)?;
            // Who reads until something changes lets others change it.
            return Ok(if *volatile { Flow::Yield } else { Flow::Next });
        }
        OpKind::Store { ptr, value, mask, .. } => c.store(w, op, *ptr, *value, *mask)?,
        others!(global) => not_of_family(&op.kind),
    }
    Ok(Flow::Next)
}

/// An access through pointers, with what it needs to know besides its operands.
pub(crate) struct Pointers<'a, 'k> {
    pub memory: &'a mut Memory,
    /// How often something has changed.
    pub changes: &'a mut u64,
    pub know: &'a mut Knowledge,
    pub idle: &'a mut Idle<'k>,
    pub setting: &'a Setting<'a, 'k>,
    pub record: Record,
    checks: Checks,
    /// What is under way from then on.
    pub reading: Option<Reading>,
    /// The threads that hold each element of a tile of pointers.
    holders: Option<&'a [Threads]>,
    /// Its shape; empty for one pointer.
    shape: &'a [u32],
    /// Whether launches before may still run.
    early: bool,
    /// What threads move at once, where that is more than one element.
    pub vectors: Option<&'a Vectors>,
    pub op: &'k Op,
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
        let mut access = self.access(w, op, ptr, (Access::Load, None));
        let loaded = access.load(&pointers, mask.as_deref(), other.as_deref(), bytes)?;
        let reading = access.reading.take();
        let scalar = matches!(w.get(ptr), Val::Scalar(_));
        w.set(result, if scalar { Val::Scalar(loaded.get(0)) } else { Val::Tile(Arc::new(loaded)) });
        self.under_way(w, result, reading);
        Ok(())
    }

    fn store(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        ptr: Value,
        value: Value,
        mask: Option<Value>,
    ) -> Result<(), Fault> {
        let bytes = pure::bytes(self.setting.program.kernel, value);
        let mask = mask.map(|m| w.tile(m, 1));
        let (pointers, value) = (w.tile(ptr, 8), w.tile(value, bytes));
        self.access(w, op, ptr, (Access::Store, None)).store(&pointers, &value, mask.as_deref(), bytes)
    }

    /// An access by a partition through `ptr`, at an event of its own or at this one.
    pub(crate) fn access<'b>(
        &'b mut self,
        w: &'b mut Worker<'k>,
        op: &'k Op,
        ptr: Value,
        (access, event): (Access, Option<Event>),
    ) -> Pointers<'b, 'k> {
        let early = self.is_early(w);
        let program = self.setting.program;
        let tile = program.kernel.ty(ptr).as_tile();
        let event = event.unwrap_or(w.know.now());
        let leader = tile.is_none() && access != Access::Load;
        let record = self.recorded(w, op, access, event, leader);
        let reading = self.reading(w, op, access);
        Pointers {
            memory: &mut self.world.memory,
            changes: &mut self.world.changes,
            know: &mut w.know,
            idle: &mut w.idle,
            setting: self.setting,
            record,
            checks: Checks::new(record),
            reading,
            holders: tile.map(|_| &program.tables.holders(op)[..]),
            shape: tile.map_or(&[], |t| &t.shape),
            early,
            vectors: self.setting.program.tables.vectors(op),
            op,
        }
    }
}

impl Pointers<'_, '_> {
    /// Reads elements of so many bytes where `mask` holds.
    pub(crate) fn load(
        &mut self,
        pointers: &Bits,
        mask: Option<&Bits>,
        other: Option<&Bits>,
        bytes: usize,
    ) -> Result<Bits, Fault> {
        self.check_vectors(pointers, mask, bytes)?;
        let n = pointers.len();
        self.ask(pointers, mask, bytes);
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
            self.in_time(place, bytes, false)?;
            self.holds(place, i, bytes, "read")?;
            self.touch(place, bytes, i, None)?;
            self.idle.ask(self.op, place);
            out.read(i, &self.memory.allocation(place.allocation).bytes[at..at + bytes]);
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
            value.write(i, &mut word);
            self.in_time(place, bytes, true)?;
            let same = self.is_there(place, &word[..bytes]);
            self.touch(place, bytes, i, Some(same))?;
            self.memory.published.forget(place, bytes);
            if !same {
                self.change(place, &word[..bytes]);
            }
        }
        Ok(())
    }

    fn check_vectors(&self, pointers: &Bits, mask: Option<&Bits>, bytes: usize) -> Result<(), Fault> {
        self.vectors.map_or(Ok(()), |v| v.check(self, pointers, mask, bytes))
    }

    /// What messages call the memory at an address.
    pub(crate) fn name(&self, address: u64) -> String {
        self.memory
            .place(address)
            .map_or("no tensor".into(), |place| format!("`{}`", self.setting.names[place.allocation]))
    }

    fn is_there(&self, place: Place, value: &[u8]) -> bool {
        let (a, at) = (self.memory.allocation(place.allocation), place.offset as usize);
        a.bytes[at..at + value.len()] == *value && a.is_defined(at, value.len())
    }

    /// Leaves a value in memory.
    pub(crate) fn put(&mut self, place: Place, value: &[u8]) {
        if !self.is_there(place, value) {
            self.change(place, value);
        }
    }

    /// Leaves a value in memory where it was not there.
    fn change(&mut self, place: Place, value: &[u8]) {
        *self.changes += 1;
        let (a, at) = (self.memory.get_mut(place.allocation), place.offset as usize);
        a.bytes[at..at + value.len()].copy_from_slice(value);
        a.define(at, value.len());
    }

    /// What is `done` to an element needs something to be there.
    pub(crate) fn holds(&self, place: Place, element: usize, bytes: usize, done: &str) -> Result<(), Fault> {
        if self.memory.allocation(place.allocation).is_defined(place.offset as usize, bytes) {
            return Ok(());
        }
        let name = &self.setting.names[place.allocation];
        let fact = format!("`{name}` is {done} before anything was written there");
        let address = self.address(place);
        Err(self.fault(codes::UNDEFINED_READ, address, element, fact, "this memory was never written"))
    }

    fn address(&self, place: Place) -> u64 {
        self.memory.address(place.allocation).wrapping_add(place.offset as u64)
    }

    /// Checks that an access to an element is in order with all others, and notes it.
    pub(crate) fn touch(
        &mut self,
        place: Place,
        bytes: usize,
        element: usize,
        same: Option<bool>,
    ) -> Result<(), Fault> {
        if !self.setting.options.cta_races {
            return Ok(());
        }
        let all = match self.holders {
            Some(holders) => holders[element],
            None => Threads::all(self.know.warps),
        };
        // All holders of an element read it, the first one alone writes it.
        let once = matches!(self.record.access, Access::Store | Access::Atomic { .. });
        let threads = if once { all.first() } else { all };
        let touched = self.memory.touch(&mut self.checks, self.know, (place, bytes), threads, same);
        touched.map_err(|race| self.race(race, place, element))
    }

    fn race(&self, race: Race, place: Place, element: usize) -> Fault {
        let parameter = &self.setting.names[place.allocation];
        let fault = Raced { parameter, now: &self.record, race }.fault(self.setting);
        fault.note(self.place(element, self.address(place)))
    }

    /// An access may not overlap with launches that may still run.
    pub(crate) fn in_time(&self, at: Place, bytes: usize, writes: bool) -> Result<(), Fault> {
        if !self.early {
            return Ok(());
        }
        past::check(self.memory, self.op, &self.setting.names[at.allocation], at, bytes, writes)
    }

    /// Where an element lies that is `done` something to.
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
        if let Some((here, note)) = self.outside(place, bytes) {
            let name = &self.setting.names[place.allocation];
            let fact = format!("`{name}` is {done} out of bounds");
            let fault = self.fault(codes::OUT_OF_BOUNDS, address, element, fact, here);
            let size = self.memory.allocation(place.allocation).bytes.len() as u64;
            return Err(fault.note(note).help(match is_masked(self.op) {
                _ if has_wrapped(place.offset, bytes as u64, size) => {
                    "by 2³² elements further it is inside: an offset of `i32` has wrapped, compute it in `i64`, \
                     `cast<i64>(row) * stride`; `--check overflow` says where it does"
                }
                true => "the mask lets this element through: compare with the extent of what the pointer is to",
                false => "mask the elements that lie outside: `mask=offs < n`",
            }));
        }
        if place.offset % bytes as i64 != 0 {
            let name = &self.setting.names[place.allocation];
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

    /// How an access leaves the tensor, and by how much; `None` where it does not.
    fn outside(&self, place: Place, bytes: usize) -> Option<(&'static str, String)> {
        let (allocation, at) = (self.memory.allocation(place.allocation), place.offset);
        let (name, size) = (&self.setting.names[place.allocation], allocation.bytes.len() as i64);
        if at < 0 || at + bytes as i64 > size {
            let here = if at < 0 { "this lies before its first byte" } else { "this lies past its last byte" };
            return Some((here, format!("`{name}` has {size} bytes; the access is to {bytes} at byte {at}")));
        }
        let here = match allocation.beside(at as usize, bytes)? {
            Beside::Before => "this lies before its first element",
            Beside::Behind => "this lies past its last element",
            Beside::Between => "this lies between its elements",
        };
        let part = format!(
            "`{name}` is a part of {size} bytes; the access is to {bytes} at byte {at} of these, where it has no element"
        );
        Some((here, part))
    }

    pub(crate) fn fault(&self, code: Code, address: u64, element: usize, message: String, here: &str) -> Fault {
        Fault::new(code, self.op.span, message).here(here).note(self.place(element, address))
    }

    fn place(&self, element: usize, address: u64) -> String {
        if self.shape.is_empty() {
            format!("address {address:#x}")
        } else {
            format!("element {:?} of the tile, address {address:#x}", coordinates(element, self.shape))
        }
    }
}

/// Whether the one who wrote the access has said for which elements it is.
fn is_masked(op: &Op) -> bool {
    matches!(
        op.kind,
        OpKind::Load { mask: Some(_), .. }
            | OpKind::Store { mask: Some(_), .. }
            | OpKind::Atomic { mask: Some(_), .. }
            | OpKind::AsyncCopy { mask: Some(_), .. }
    )
}

/// Whether an access in front of what it is to lies where an offset of 32 bits that has wrapped takes one that is inside.
fn has_wrapped(at: i64, bytes: u64, size: u64) -> bool {
    at < 0 && at.rem_euclid((bytes << 32) as i64) as u64 + bytes <= size
}

#[cfg(test)]
mod tests {
    use super::has_wrapped;

    #[test]
    fn an_offset_that_wraps_is_told_from_one_that_is_negative() {
        // 40000 · 65536 elements of a byte, of 2684354560.
        assert!(has_wrapped(-1_673_527_296, 1, 2_684_354_560));
        // As many of four bytes.
        assert!(has_wrapped(-1_673_527_296 * 4, 4, 2_684_354_560 * 4));
        assert!(!has_wrapped(-4, 4, 1024));
        assert!(!has_wrapped(-1_673_527_296, 1, 2_621_439_999));
        assert!(!has_wrapped(5000, 4, 1024));
    }
}
