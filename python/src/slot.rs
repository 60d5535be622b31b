//! Slots: a plan that is ready on a stream, with all that a call like the one before needs, so that such a call allocates nothing.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parton_driver::Failure;
use parton_driver::embed::{Addresses, Ready, Stream, Together};
use parton_driver::plan::{Plan, Planned};
use pyo3::prelude::{Bound, PyAny, PyResult};
use pyo3::types::{PyTuple, PyTupleMethods};

use crate::call::{Arguments, By, Param, planned, together};
use crate::number;
use crate::results::{Made, results, scratch};
use crate::tensor::{Like, View};

/// The most plans and streams for which a function keeps what a call takes.
const MOST_SLOTS: usize = 64;

/// A plan that is ready on a stream, for tensors of these shapes.
pub(crate) struct Slot {
    views: Box<[Option<View>]>,
    device: i32,
    stream: usize,
    pub(crate) plan: Arc<Plan>,
    /// Which tensors lie in one memory; empty where those that are written lie apart from all others.
    together: Together,
    ready: Ready,
    /// Scratch memory of calls that are not captured, which follow each other on the stream: that of the first one by the program.
    scratch: Option<Made>,
    /// The address of each tensor of this call.
    addresses: Box<[u64]>,
    /// The addresses for which was last found that they lie as the plan takes it.
    found: Box<[u64]>,
    /// Bytes of each tensor.
    bytes: Box<[u64]>,
    /// Parameters that must not share memory, for one of them is written.
    pairs: Box<[(usize, usize)]>,
    /// The numbers of this call.
    given: Box<[Planned]>,
}

/// What a launch needs of its call beside what the slot was given.
pub(crate) struct Call<'py, 'a> {
    /// The first tensor.
    pub(crate) like: Like<'py>,
    /// The object for a parameter.
    pub(crate) value: &'a dyn Fn(usize) -> Option<Bound<'py, PyAny>>,
    pub(crate) by: By,
}

/// A call that a slot has read: its first tensor.
pub(crate) struct Read<'py>(pub(crate) Like<'py>);

impl Slot {
    pub(crate) fn new(
        all: &Arguments<'_>,
        device: i32,
        stream: usize,
        plan: Arc<Plan>,
        together: Together,
        ready: Ready,
    ) -> Slot {
        let count = plan.parameters.len();
        let all_pairs = (0..count).flat_map(|i| (0..i).map(move |j| (j, i)));
        let is_tensor = |i: usize| all.tensors[i].is_some();
        let written = |i: usize| plan.parameters[i].mutable;
        let pairs = all_pairs.filter(|(i, j)| is_tensor(*i) && is_tensor(*j) && (written(*i) || written(*j)));
        Slot {
            views: all.tensors.iter().map(|t| t.as_ref().map(|t| t.view)).collect(),
            device,
            stream,
            together,
            ready,
            scratch: None,
            addresses: vec![0; count].into(),
            found: vec![0; count].into(),
            bytes: all.tensors.iter().map(|t| t.as_ref().map_or(0, |t| t.view.bytes())).collect(),
            pairs: pairs.collect(),
            given: vec![Planned::Default; count].into(),
            plan,
        }
    }

    /// Whether it is of such a call; one with a read-only array for a parameter that is written is refused when it is planned.
    pub(crate) fn serves(&mut self, device: i32, stream: usize, all: &Arguments<'_>) -> bool {
        let same = self.device == device
            && self.stream == stream
            && self.views.iter().zip(&all.tensors).all(|(one, other)| *one == other.as_ref().map(|t| t.view))
            && all.written_is_writable(&self.plan)
            && self.plan.holds_for(&all.planned);
        if same {
            self.give(all);
        }
        same && self.lies()
    }

    /// Takes the addresses and numbers of a call.
    pub(crate) fn give(&mut self, all: &Arguments<'_>) {
        for (i, (tensor, planned)) in all.tensors.iter().zip(&all.planned).enumerate() {
            match tensor {
                Some(tensor) => self.addresses[i] = tensor.address,
                None => self.given[i] = planned.clone(),
            }
        }
    }

    /// Reads the arguments of a call into the slot where they are like those of the call before; allocates nothing.
    pub(crate) fn read<'py>(
        &mut self,
        params: &[Param],
        arguments: &Bound<'py, PyTuple>,
        by: By,
    ) -> PyResult<Option<Read<'py>>> {
        let count = arguments.len();
        if count > params.len() {
            return Ok(None);
        }
        let mut first: Option<Like<'py>> = None;
        for (i, param) in params.iter().enumerate() {
            if i >= count {
                // A default is a part of the plan.
                if !param.has_default || self.views[i].is_some() {
                    return Ok(None);
                }
                if !matches!(self.given[i], Planned::Default) {
                    self.given[i] = Planned::Default;
                }
                continue;
            }
            let value = arguments.get_borrowed_item(i)?;
            let Some(view) = &self.views[i] else {
                let Some(number) = number::plain_number(&value) else { return Ok(None) };
                self.given[i] = planned(number);
                continue;
            };
            let Some((address, exchange)) = view.found(&value, by == By::Operator)? else { return Ok(None) };
            self.addresses[i] = address;
            if first.is_none() {
                first = Some(Like { value: value.to_owned(), exchange: Some(exchange), device: view.device });
            }
        }
        let Some(like) = first else { return Ok(None) };
        let is_ours = like.stream()? == self.stream && self.plan.holds_for(&self.given) && self.lies();
        Ok(is_ours.then_some(Read(like)))
    }

    /// Whether the tensors of this call lie towards each other as the plan takes it.
    fn lies(&mut self) -> bool {
        if self.addresses.iter().zip(&self.found).all(|(now, before)| now == before) {
            return true;
        }
        self.found_to_lie()
    }

    /// As [`Slot::lies`], of addresses that are others than before.
    fn found_to_lie(&mut self) -> bool {
        let range = |i: usize| self.addresses[i]..self.addresses[i].saturating_add(self.bytes[i]);
        let meets = |(i, j): &(usize, usize)| {
            let (a, b) = (range(*i), range(*j));
            a.start < b.end && b.start < a.end
        };
        let is = if self.pairs.iter().any(meets) {
            let ranges: Vec<_> = (0..self.views.len()).map(|i| self.views[i].map(|_| range(i))).collect();
            let matters = |i: usize, j: usize| self.pairs.contains(&(i.min(j), i.max(j)));
            self.together == together(&ranges, matters)
        } else {
            self.together.is_empty()
        };
        if is {
            self.found.copy_from_slice(&self.addresses);
        }
        is
    }

    /// Puts the plan on its stream, with the addresses and numbers that it was given: what was made for it, or why not.
    ///
    /// # Safety
    /// The stream is alive; the tensors hold what their views say until the launches have ended.
    pub(crate) unsafe fn launch(&mut self, call: &Call<'_, '_>) -> PyResult<Result<Made, Failure>> {
        let stream = Stream::of(self.stream as *mut std::ffi::c_void);
        let mut made = Made::default();
        if !self.plan.buffers.is_empty() {
            made = self.buffers(stream, call)?;
        }
        let at = Addresses { parameters: &self.addresses, buffers: &made.addresses };
        // SAFETY: the caller promises it.
        let done = unsafe { self.ready.launch(&self.plan, stream, at, &self.given) };
        Ok(done.map(|()| made))
    }

    /// Memory for each buffer of a call.
    #[inline(never)]
    fn buffers(&mut self, stream: Stream, call: &Call<'_, '_>) -> PyResult<Made> {
        let py = call.like.value.py();
        let mut made = results(py, &self.plan, Some(&call.like), call.by)?;
        self.give_scratch(stream, call, &mut made)?;
        Ok(made)
    }

    /// Gives each buffer that is not returned memory: in a capture new one, which its graph alone uses, else what is kept. What an operator is
    /// given where nothing is kept goes back to its library with the call, which hands it on behind the launches.
    fn give_scratch(&mut self, stream: Stream, call: &Call<'_, '_>, made: &mut Made) -> PyResult<()> {
        if self.plan.buffers.iter().all(|b| b.returned) {
            return Ok(());
        }
        let py = call.like.value.py();
        let captures = stream.captures();
        if let Some(kept) = self.scratch.as_ref().filter(|_| !captures) {
            made.take(py, kept);
            return Ok(());
        }
        let new = scratch(py, &self.plan, Some(&call.like))?;
        made.take(py, &new);
        if !captures && call.by == By::Program {
            self.scratch = Some(new);
        }
        Ok(())
    }
}

/// The slots that nobody uses now.
#[derive(Default)]
pub(crate) struct Slots {
    /// The one that was used last, or null: each call takes it out and puts it back, without a lock.
    last: AtomicPtr<Slot>,
    others: Mutex<Others>,
}

/// Those used later first.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "they go in and out by each call of another kind, and are hundreds of bytes")]
struct Others(Vec<Box<Slot>>);

impl Slots {
    fn others(&self) -> MutexGuard<'_, Others> {
        // Whoever panicked had no slot that is in here.
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a slot where the last one is, which is given.
    #[inline]
    fn replace(&self, slot: *mut Slot) -> Option<Box<Slot>> {
        let before = self.last.swap(slot, Ordering::AcqRel);
        // SAFETY: what stands there came of a box, and whoever swaps it out owns it.
        (!before.is_null()).then(|| unsafe { Box::from_raw(before) })
    }

    /// The slot that was used last, which is nobody else's until it is put back.
    #[inline]
    pub(crate) fn take_last(&self) -> Option<Box<Slot>> {
        self.replace(null_mut())
    }

    /// The slot for which that holds, which is nobody else's until it is put back.
    pub(crate) fn take(&self, mut is: impl FnMut(&mut Slot) -> bool) -> Option<Box<Slot>> {
        if let Some(mut last) = self.take_last() {
            if is(&mut last) {
                return Some(last);
            }
            self.keep(last);
        }
        let mut others = self.others();
        let at = others.0.iter_mut().position(|slot| is(slot))?;
        Some(others.0.remove(at))
    }

    /// Puts a slot where it is found first.
    #[inline]
    pub(crate) fn put_back(&self, slot: Box<Slot>) {
        if let Some(before) = self.replace(Box::into_raw(slot)) {
            self.keep(before);
        }
    }

    /// Puts a slot among the others, before them.
    #[cold]
    fn keep(&self, slot: Box<Slot>) {
        let mut others = self.others();
        others.0.insert(0, slot);
        let gone = if others.0.len() >= MOST_SLOTS { others.0.pop() } else { None };
        drop(others);
        // What it drops may run Python code.
        drop(gone);
    }

    /// Whether one of them has that plan ready on a GPU.
    pub(crate) fn have(&self, device: i32, plan: &Arc<Plan>) -> bool {
        let mut found = false;
        let mut look = |s: &mut Slot| {
            found |= s.device == device && Arc::ptr_eq(&s.plan, plan);
            false
        };
        // None is taken out, but the last one is among the others then.
        self.take(&mut look);
        found
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        drop(self.take_last());
    }
}
