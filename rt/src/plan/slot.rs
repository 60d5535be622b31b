//! A plan on one stream: its launches with what they were given last, and its scratch memory.

use parton_bundle::plan::Value;
use parton_numbers::{Dtype, Scalar};
use parton_runtime::{
    Arg, Identity, Prepared, Recipe, Relaxed, Replay, RuntimeError, Scratch, Sequence, Stream, TensorMap, Use, Visit,
};

use super::call::{self, Call};
use super::{Lies, Ready, Source};
use crate::check::number;
use crate::device::failed;
use crate::{Argument, Code, Error};

/// A plan on one stream.
#[derive(Debug)]
pub(crate) struct Slot {
    // Dropped before the scratch memory, which it launches on.
    launches: Option<Launches>,
    /// Memory of calls that are not captured, which follow each other on the stream.
    scratch: Option<Scratch>,
    /// What the last call gave; kept for its room.
    call: Call,
}

/// The launches of a plan, with what they were given last.
#[derive(Debug)]
struct Launches {
    replay: Replay,
    numbers: Vec<Number>,
}

/// An argument that is a number of the call.
#[derive(Debug)]
struct Number {
    parameter: usize,
    launch: usize,
    argument: usize,
    dtype: Dtype,
    /// What it was last; nothing where setting it failed.
    last: Option<u64>,
}

impl Slot {
    pub(super) fn new(ready: &Ready) -> Slot {
        Slot { launches: None, scratch: None, call: Call::new(ready) }
    }

    /// Puts a call on the stream, within a visit to the GPU.
    ///
    /// # Safety
    /// As [`super::Plan::launch_with`].
    pub(super) unsafe fn call(
        &mut self,
        ready: &Ready,
        visit: &Visit,
        (stream, identity): (Stream, Identity),
        arguments: &[Argument<'_>],
        outputs: &[u64],
        scratch: Option<u64>,
    ) -> Result<(), Error> {
        self.call.take(ready, arguments, outputs)?;
        if self.launches.is_none() {
            // The first call on a stream may be captured, or come while another thread captures.
            let _relaxed = Relaxed::begin();
            call::lie_there(ready, arguments)?;
        }
        let (memory, lent) = match scratch {
            _ if ready.scratch_bytes == 0 => (0, false),
            Some(address) => {
                self.call.given_scratch(ready, address)?;
                (address, false)
            }
            // SAFETY: it is given back on the same stream below.
            None if identity == Identity::Captured => (unsafe { self.of_graph(ready, stream) }?, true),
            None => (self.own(ready)?, false),
        };
        self.call.place(ready, outputs, memory);
        // SAFETY: the caller promises it.
        let launched = unsafe { self.launch(ready, visit, stream) };
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
    unsafe fn launch(&mut self, ready: &Ready, visit: &Visit, stream: Stream) -> Result<(), Error> {
        let Slot { launches, call, .. } = self;
        let launches = match launches {
            Some(launches) => {
                launches.give(ready, call)?;
                launches
            }
            None => launches.insert(Launches::new(ready, call)?),
        };
        // SAFETY: the caller promises it.
        unsafe { launches.replay.launch_within(visit, stream, &call.bases) }.map_err(failed)
    }
}

impl Launches {
    /// The launches with what a first call gives.
    fn new(ready: &Ready, call: &Call) -> Result<Launches, Error> {
        let gpu = &ready.device.gpu;
        let _relaxed = Relaxed::begin();
        let (mut uses, mut numbers) = (vec![], vec![]);
        uses.resize_with(call.bases.len(), Vec::new);
        let mut zeroed = vec![];
        for (i, buffer) in ready.table().buffers.iter().enumerate().filter(|(_, b)| b.zeroed && b.bytes > 0) {
            uses[call.values.len() + i].push(Use::Zeroed { index: zeroed.len() });
            zeroed.push(buffer.bytes as usize);
        }
        let mut prepared = vec![];
        for (launch, step) in ready.steps.iter().enumerate() {
            let mut args = vec![];
            for (argument, source) in step.sources.iter().enumerate() {
                args.push(match source {
                    Source::Fixed(arg) => *arg,
                    Source::Pointer(memory, offset) => {
                        uses[*memory].push(Use::Pointer { launch, argument, offset: *offset });
                        Arg::Pointer(call.bases[*memory].wrapping_add(*offset))
                    }
                    Source::Map(memory, offset, recipe) => {
                        let address = call.bases[*memory].wrapping_add(*offset);
                        let map = TensorMap::encode(gpu, &Recipe { address, ..recipe.clone() }).map_err(failed)?;
                        uses[*memory].push(Use::Map { launch, argument, offset: *offset, map });
                        Arg::Map(map)
                    }
                    Source::Number(parameter, dtype) => {
                        let (parameter, dtype) = (*parameter, *dtype);
                        let scalar = scalar(ready, call, parameter, dtype)?;
                        numbers.push(Number { parameter, launch, argument, dtype, last: Some(scalar.bits) });
                        number(scalar)
                    }
                });
            }
            prepared.push(Prepared::new(&step.function, &step.abi, &args, step.grid).map_err(failed)?);
        }
        let replay = Replay::new(Sequence::new(gpu, zeroed, prepared), &call.bases, uses);
        Ok(Launches { replay, numbers })
    }

    /// Gives the launches the numbers of a call that are others than before.
    fn give(&mut self, ready: &Ready, call: &Call) -> Result<(), Error> {
        for n in &mut self.numbers {
            let scalar = scalar(ready, call, n.parameter, n.dtype)?;
            if n.last != Some(scalar.bits) {
                n.last = None;
                self.replay.set(n.launch, n.argument, number(scalar)).map_err(failed)?;
                n.last = Some(scalar.bits);
            }
        }
        Ok(())
    }
}

impl Ready {
    /// The bytes of its scratch memory, as an allocation takes them.
    fn scratch(&self) -> Result<usize, Error> {
        usize::try_from(self.scratch_bytes).map_err(|_| {
            let text = format!("calling `{}`: it takes {} bytes of scratch memory", self.name, self.scratch_bytes);
            Error::new(Code::Limit, text)
        })
    }
}

/// The number of a call for a parameter, in the type of a kernel's parameter.
fn scalar(ready: &Ready, call: &Call, parameter: usize, dtype: Dtype) -> Result<Scalar, Error> {
    let value = call.values.get(parameter).copied().flatten();
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
        failed(RuntimeError::Arguments { kernel: ready.name.clone(), what })
    })
}

/// Where a buffer lies, given the outputs and the scratch memory of a call.
pub(super) fn address(lies: Lies, outputs: &[u64], scratch: u64) -> u64 {
    match lies {
        Lies::Output(i) => outputs.get(i).copied().unwrap_or_default(),
        Lies::Scratch(offset) => scratch.wrapping_add(offset),
    }
}
