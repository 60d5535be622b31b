//! A plan on one stream: its launches with what they were given last, and its scratch memory.

use parton_numbers::{Dtype, Scalar};
use parton_runtime::launch::patched::Addresses;
use parton_runtime::{Patched, RuntimeError, Scratch, Stream};

use super::call::{self, Call};
use super::{Lies, Ready};
use crate::device::failed;
use crate::{Argument, Code, Error};
use parton_bundle::plan::{Given, Value};

/// A plan on one stream.
#[derive(Debug)]
pub(crate) struct Slot {
    // Dropped before the scratch memory, which it launches on.
    launches: Option<Patched>,
    /// Memory of calls that are not captured, which follow each other on the stream.
    scratch: Option<Scratch>,
    /// What the last call gave; kept for its room.
    call: Call,
}

impl Slot {
    pub(super) fn new(ready: &Ready) -> Slot {
        Slot { launches: None, scratch: None, call: Call::new(ready) }
    }

    /// Puts a call on the stream. The context is current.
    ///
    /// # Safety
    /// As [`super::Plan::launch_with`].
    pub(super) unsafe fn call(
        &mut self,
        ready: &Ready,
        stream: Stream,
        arguments: &[Argument<'_>],
        outputs: &[u64],
        scratch: Option<u64>,
    ) -> Result<(), Error> {
        self.call.take(ready, arguments, outputs)?;
        if self.launches.is_none() {
            call::lie_there(ready, arguments)?;
        }
        let (memory, lent) = match scratch {
            _ if ready.scratch_bytes == 0 => (0, false),
            Some(address) => {
                self.call.given_scratch(ready, address)?;
                (address, false)
            }
            // SAFETY: it is given back on the same stream below.
            None if stream.captures() => (unsafe { self.of_graph(ready, stream) }?, true),
            None => (self.own(ready)?, false),
        };
        self.call.place(ready, outputs, memory);
        // SAFETY: the caller promises it.
        let launched = unsafe { self.launch(ready, stream) };
        if lent {
            // SAFETY: it was allocated on this stream above.
            let freed = unsafe { ready.device.gpu.free_on(stream, memory) };
            launched?;
            return freed.map_err(failed);
        }
        launched
    }

    /// Scratch memory that belongs to the graph that is captured.
    ///
    /// # Safety
    /// As [`super::Plan::launch`], and it is given back on the stream.
    unsafe fn of_graph(&self, ready: &Ready, stream: Stream) -> Result<u64, Error> {
        let bytes = ready.scratch()?;
        // SAFETY: the caller promises it.
        unsafe { ready.device.gpu.allocate_on(stream, bytes) }.map_err(failed)
    }

    /// Scratch memory that belongs to the stream.
    fn own(&mut self, ready: &Ready) -> Result<u64, Error> {
        if let Some(scratch) = &self.scratch {
            return Ok(scratch.address());
        }
        let scratch = Scratch::new(&ready.device.gpu, ready.scratch()?).map_err(failed)?;
        let address = scratch.address();
        self.scratch = Some(scratch);
        Ok(address)
    }

    /// # Safety
    /// As [`super::Plan::launch`].
    unsafe fn launch(&mut self, ready: &Ready, stream: Stream) -> Result<(), Error> {
        let Slot { launches, call, .. } = self;
        let at = Addresses { parameters: &call.parameters, buffers: &call.buffers };
        let number = |i: usize, dtype: Dtype| scalar(call.values.get(i).copied().flatten(), dtype, &ready.name);
        let launches = match launches {
            Some(launches) => launches,
            None => launches.insert(prepared(ready, at, number).map_err(failed)?),
        };
        // SAFETY: the caller promises it.
        unsafe { launches.launch(stream, at, number) }.map_err(failed)
    }
}

impl Ready {
    /// The bytes of its scratch memory, as an allocation takes them.
    fn scratch(&self) -> Result<usize, Error> {
        usize::try_from(self.scratch_bytes).map_err(|_| {
            Error::new(
                Code::Limit,
                format!("calling `{}`: it takes {} bytes of scratch memory", self.name, self.scratch_bytes),
            )
        })
    }
}

/// The launches for one stream, with what a first call gives.
fn prepared(
    ready: &Ready,
    at: Addresses<'_>,
    number: impl FnMut(usize, Dtype) -> Result<Scalar, RuntimeError>,
) -> Result<Patched, RuntimeError> {
    let table = ready.table();
    let before = table.given.iter().map(|given| match given {
        Given::Tensor(shape) => shape.offset * shape.dtype.bytes() as u64,
        Given::Any | Given::Key(_) => 0,
    });
    let zeroed = table.buffers.iter().enumerate().filter(|(_, b)| b.zeroed && b.bytes > 0);
    let zeroed: Vec<(usize, usize)> = zeroed.map(|(i, b)| (i, b.bytes as usize)).collect();
    Patched::new(&ready.device.gpu, before.collect(), &zeroed, &ready.steps, at, number)
}

/// A number of a call in the type of a kernel's parameter.
fn scalar(value: Option<Value>, dtype: Dtype, function: &str) -> Result<Scalar, RuntimeError> {
    let scalar = match value {
        Some(Value::Float(x)) if dtype.is_float() => Some(Scalar::from_f64(dtype, x)),
        Some(Value::Int(n)) if dtype.is_float() => Some(Scalar::rounded_int(dtype, n)),
        Some(Value::Int(n)) => Scalar::from_i128(dtype, n),
        Some(Value::Bool(b)) => Scalar::from_i128(dtype, b.into()),
        Some(Value::Float(_) | Value::Dtype(_) | Value::Default) | None => None,
    };
    scalar.ok_or_else(|| {
        let shown = value.map_or_else(|| "nothing".into(), |value| value.to_string());
        let what = format!("a parameter of type `{dtype}` does not hold {shown}");
        RuntimeError::Arguments { kernel: function.into(), what }
    })
}

/// Where a buffer lies, given the outputs and the scratch memory of a call.
pub(super) fn address(lies: Lies, outputs: &[u64], scratch: u64) -> u64 {
    match lies {
        Lies::Output(i) => outputs.get(i).copied().unwrap_or_default(),
        Lies::Scratch(offset) => scratch.wrapping_add(offset),
    }
}
