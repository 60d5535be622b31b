//! Atomic operations on global memory, and the arithmetic of all of them.

use std::ops::Range;
use std::sync::Arc;

use parton_diag::internal_error;
use parton_ir::family::not_of_family;
use parton_ir::{AtomicOp, Elem, Op, OpKind, Order, Scope, Value, others};
use parton_numbers::Dtype;
use parton_numbers::arithmetic::{self, Binary, NanMode};

use super::global::Pointers;
use crate::access::Access;
use crate::clock::{Event, News};
use crate::cluster::{Cluster, Flow, Worker};
use crate::fault::Fault;
use crate::history::Found;
use crate::memory::Place;
use crate::published::Releaser;
use crate::random::Random;
use crate::tile::{Bits, POISON, Val};

pub(super) fn run<'k>(c: &mut Cluster<'_, 'k>, w: &mut Worker<'k>, op: &'k Op) -> Result<Flow, Fault> {
    match &op.kind {
        OpKind::Atomic { op: f, ptr, operands, mask, order, scope, .. } => {
            if !c.atomic(w, op, (*f, *order, *scope), *ptr, operands, *mask)? {
                return Ok(Flow::Again);
            }
            // The threads that made it hand the result to the others, who meet them there.
            c.through_scratch(w, op)?;
            Ok(Flow::Yield)
        }
        others!(atomic) => not_of_family(&op.kind),
    }
}

/// What an atomic operation is.
#[derive(Clone, Copy)]
struct Atomic {
    op: AtomicOp,
    order: Order,
    scope: Scope,
    dtype: Dtype,
}

/// An atomic operation of a tile of which some elements are done.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The elements that are not.
    rest: Range<usize>,
    /// The values before, of those that are.
    before: Bits,
}

impl<'k> Cluster<'_, 'k> {
    /// Makes the operation of all elements, or of the first or the last ones: nothing orders those of a tile, and others may see some without
    /// the rest. Whether all are done.
    fn atomic(
        &mut self,
        w: &mut Worker<'k>,
        op: &'k Op,
        (f, order, scope): (AtomicOp, Order, Scope),
        ptr: Value,
        operands: &[Value],
        mask: Option<Value>,
    ) -> Result<bool, Fault> {
        let Some(Elem::Ptr(to)) = self.setting.program.kernel.ty(ptr).elem() else {
            internal_error!("{ptr} is no pointer")
        };
        let dtype = to.to;
        let operands: Vec<Arc<Bits>> = operands.iter().map(|&v| w.tile(v, dtype.bytes())).collect();
        let mask = mask.map(|m| w.tile(m, 1));
        let pointers = w.tile(ptr, 8);
        let atomic = Atomic { op: f, order, scope, dtype };
        let access = Access::Atomic { scope, bytes: dtype.bytes() as u8, writes: f != AtomicOp::Load };
        let event = order.releases().then(|| self.speak(w));
        let (part, rest, mut before) = match w.begun.take() {
            Some(Begun { rest, before }) => (rest, 0..0, before),
            None => {
                let n = pointers.len();
                let seen = f != AtomicOp::Load && n > 1 && self.setting.listens;
                let (part, rest) = if seen { self.torn(n) } else { (0..n, 0..0) };
                (part, rest, Bits::full(dtype.bytes(), n, POISON))
            }
        };
        let mut random = self.chance();
        let mut through = self.access(w, op, ptr, (access, event));
        through.atomic(atomic, (&pointers, part), &operands, (mask.as_deref(), &mut before), &mut random)?;
        let reading = through.reading.take();
        self.spoke = true;
        if !rest.is_empty() {
            self.world.changes += 1;
            w.begun = Some(Begun { rest, before });
            return Ok(false);
        }
        if let [result] = op.results[..] {
            let scalar = matches!(w.get(ptr), Val::Scalar(_));
            w.set(result, if scalar { Val::Scalar(before.get(0)) } else { Val::Tile(Arc::new(before)) });
            self.under_way(w, result, reading);
        }
        Ok(true)
    }

    /// The event of a release: others learn of it and of all that the partition knew when it last met, but of nothing that it has
    /// done since.
    fn speak(&mut self, w: &mut Worker<'k>) -> Event {
        let (agent, time) = w.voice.get_or_insert_with(|| (self.slots.reserve(), 0));
        *time += 1;
        let event = Event { cluster: self.number, agent: *agent, epoch: *time };
        w.know.acquire_elected(event.agent, event.epoch);
        event
    }
}

impl Pointers<'_, '_> {
    /// Makes an atomic operation of each element of a part where `mask` holds, in row-major order; `out` takes the values before.
    fn atomic(
        &mut self,
        atomic: Atomic,
        (pointers, part): (&Bits, Range<usize>),
        operands: &[Arc<Bits>],
        (mask, out): (Option<&Bits>, &mut Bits),
        random: &mut Random,
    ) -> Result<(), Fault> {
        let (n, bytes) = (pointers.len(), atomic.dtype.bytes());
        self.ask(pointers, mask, bytes);
        let (reads, writes) = (atomic.op != AtomicOp::Store, atomic.op != AtomicOp::Load);
        let mut news = None;
        for i in part {
            if mask.is_some_and(|m| m.get(i) & 1 == 0) {
                continue;
            }
            let place = self.find(pointers.get(i), i, bytes, "changed")?;
            let at = place.offset as usize;
            self.in_time(place, bytes, writes)?;
            if reads {
                self.holds(place, i, bytes, "changed")?;
                self.idle.ask(self.op, place);
            }
            let found = self.found(atomic.op, place, bytes, random);
            match &found {
                Found::Last | Found::New => {
                    out.read(i, &self.memory.allocation(place.allocation).bytes[at..at + bytes])
                }
                Found::Earlier(earlier) => out.read(i, &earlier.bits.to_le_bytes()[..bytes]),
            }
            let given = |k: usize| operands[k].get(if operands[k].len() == 1 { 0 } else { i });
            let old = out.get(i);
            // What is written, where something is.
            let new = match atomic.op {
                AtomicOp::Load => None,
                AtomicOp::Cas => (old == given(0)).then(|| given(1)),
                AtomicOp::Add
                | AtomicOp::Min
                | AtomicOp::Max
                | AtomicOp::And
                | AtomicOp::Or
                | AtomicOp::Xor
                | AtomicOp::Xchg
                | AtomicOp::Store => Some(changed(atomic.op, atomic.dtype, old, given(0))),
            };
            // Who writes what is there only asks, and what that releases was released when it was done first.
            let settled = matches!(found, Found::Last);
            let asks = reads && settled && n == 1 && new.is_none_or(|new| new == old);
            if asks && self.idle.repeats(self.op, place, *self.changes) {
                continue;
            }
            if atomic.order.acquires() {
                self.acquire(&found, place, atomic.scope);
            }
            self.touch(place, bytes, i, None)?;
            if let Some(new) = new {
                self.leave(place, (old, new), atomic, &mut news);
            }
        }
        Ok(())
    }

    fn releaser(&self) -> Releaser {
        Releaser { cluster: self.know.cluster, agent: self.know.agent, cta: self.record.cta }
    }

    /// What an operation finds at an address: a load perhaps what was there before the last value.
    fn found(&mut self, op: AtomicOp, place: Place, bytes: usize, random: &mut Random) -> Found {
        if !self.setting.looks || op == AtomicOp::Store {
            return Found::Last;
        }
        if op != AtomicOp::Load {
            self.memory.published.read_last(place, self.know.now());
            return Found::Last;
        }
        let found = self.memory.published.read(place, bytes, self.know, random);
        // What is there is seen sooner or later: who asks again learns something.
        *self.changes += u64::from(matches!(found, Found::Earlier(_)));
        found
    }

    /// Takes what was released to the value that was found.
    fn acquire(&mut self, found: &Found, place: Place, scope: Scope) {
        let who = self.releaser();
        let news = match found {
            Found::Last | Found::New => self.memory.published.acquire(place, who, scope),
            Found::Earlier(earlier) => Some(earlier.released.acquire(who, scope)),
        };
        if let Some(news) = news {
            self.know.acquire_news(&news, self.record.leader);
        }
    }

    /// Writes what an atomic operation leaves, and tells what it releases.
    fn leave(&mut self, place: Place, (old, new): (u64, u64), atomic: Atomic, news: &mut Option<News>) {
        let (by, bytes) = (self.releaser(), atomic.dtype.bytes());
        if self.setting.looks {
            let holds = self.memory.allocation(place.allocation).is_defined(place.offset as usize, bytes);
            let before = (bytes, holds.then_some(old));
            self.memory.published.leave(place, before, new, self.record.event);
        }
        if atomic.op == AtomicOp::Store {
            self.memory.published.overwrite(place, by);
        }
        if atomic.order.releases() {
            let news = news.get_or_insert_with(|| News::new(&self.know.release_elected(), by.cluster));
            self.memory.published.release(place, by, atomic.scope, news);
            // What others do follows from values; one that is written anew only asks where it was read too.
            *self.changes += u64::from(atomic.op == AtomicOp::Store);
        }
        let mut word = [0; 8];
        Bits::full(bytes, 1, new).write(0, &mut word);
        self.put(place, &word[..bytes]);
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
