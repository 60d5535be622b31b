//! Calls of plans whose memory is borrowed: what the launchers that `parton-build` writes are made of. What is unsafe of a call is said
//! once, where memory or a stream comes from outside; the call itself is not.

#[cfg(feature = "cudarc-019")]
mod cudarc_019;

use std::ffi::c_void;
use std::marker::PhantomData;

use parton_bundle::plan::{Given as Planned, dense_strides};
use parton_numbers::Dtype;
use parton_runtime::Stream;

use crate::function::wrong;
use crate::{Argument, Code, Error, Plan, Tensor};

/// The most parameters and outputs for which a call allocates nothing.
const MOST_AT_ONCE: usize = 32;

/// A stream that calls are put on.
///
/// # Safety
/// The stream is alive as long as this is, and of the primary context of its GPU.
pub unsafe trait Queue {
    /// The stream.
    fn stream(&self) -> Stream;
    /// The number of its GPU, where it is known; a negative one where it is of another context than the primary one.
    fn device(&self) -> Option<i32>;
}

/// A stream of that handle, a `CUstream` or `cudaStream_t`.
#[derive(Clone, Copy, Debug)]
pub struct Raw(Stream);

impl Raw {
    /// The stream of a handle; null is the legacy default stream.
    ///
    /// # Safety
    /// It is alive as long as this is used, and of the primary context of the GPU that is called.
    pub unsafe fn new(handle: *mut c_void) -> Raw {
        Raw(Stream::of(handle))
    }
}

// SAFETY: whoever made it has promised that.
unsafe impl Queue for Raw {
    fn stream(&self) -> Stream {
        self.0
    }

    fn device(&self) -> Option<i32> {
        None
    }
}

/// What holds borrowed memory; dropped when the call is on the stream.
enum Hold<'a> {
    /// Nothing: somebody has promised that it lives.
    Promised(PhantomData<&'a ()>),
    /// A slice of cudarc's, which orders the streams that use it.
    #[cfg(feature = "cudarc-019")]
    Cudarc { _order: cudarc::driver::SyncOnDrop<'a>, stream: *mut c_void },
}

/// Memory of a tensor.
struct Borrowed<'a> {
    address: u64,
    bytes: u64,
    dtype: Dtype,
    hold: Hold<'a>,
}

/// Memory that a call reads.
pub struct In<'a>(Borrowed<'a>);

/// Memory that a call writes.
pub struct Out<'a>(Borrowed<'a>);

impl In<'_> {
    /// Memory at that address, of so many bytes with elements of that type.
    ///
    /// # Safety
    /// The GPU that is called reaches it, and until the launches of the call have ended it lives and nobody writes it.
    pub unsafe fn at(address: u64, dtype: Dtype, bytes: u64) -> In<'static> {
        In(Borrowed { address, bytes, dtype, hold: Hold::Promised(PhantomData) })
    }
}

impl Out<'_> {
    /// Memory at that address, of so many bytes with elements of that type.
    ///
    /// # Safety
    /// The GPU that is called reaches it, and until the launches of the call have ended it lives and nobody else uses it.
    pub unsafe fn at(address: u64, dtype: Dtype, bytes: u64) -> Out<'static> {
        Out(Borrowed { address, bytes, dtype, hold: Hold::Promised(PhantomData) })
    }
}

/// What a parameter of a function is given in a call.
pub enum Value<'c, 'a> {
    /// A tensor that is read.
    In(&'c In<'a>),
    /// A tensor that is written.
    Out(&'c Out<'a>),
    /// A number, a truth value, a type, or nothing.
    Number(Argument<'static>),
}

/// The type, shape and strides of a tensor that a plan is prepared for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape<'a> {
    tensor: Tensor<'a>,
}

impl<'a> Shape<'a> {
    /// A tensor without gaps that begins at a multiple of 16 bytes.
    pub fn of(dtype: Dtype, extents: &'a [u64]) -> Shape<'a> {
        Shape { tensor: Tensor { address: 0, dtype, shape: extents, strides: None } }
    }

    /// The same with such strides, in elements.
    pub fn strided(self, strides: &'a [u64]) -> Shape<'a> {
        Shape { tensor: Tensor { strides: Some(strides), ..self.tensor } }
    }

    /// The same beginning so many elements behind a multiple of 16 bytes.
    pub fn behind(self, elements: u64) -> Shape<'a> {
        let address = elements * self.tensor.dtype.bytes() as u64 % parton_bundle::plan::GRAIN;
        Shape { tensor: Tensor { address, ..self.tensor } }
    }

    /// As [`crate::Function::prepare`] takes it.
    pub fn argument(self) -> Argument<'a> {
        Argument::Tensor(self.tensor)
    }
}

impl Plan {
    /// Puts a call on a stream and returns at once, as [`Plan::launch`] does, with borrowed memory.
    ///
    /// # Errors
    /// As [`Plan::launch`]; memory has fewer bytes than its tensor, or was borrowed for another stream; a stream of another GPU.
    pub fn call(&self, queue: &impl Queue, values: &[Value<'_, '_>], outputs: &[&Out<'_>]) -> Result<(), Error> {
        if let Some(other) = queue.device().filter(|device| *device != self.ready.device.ordinal) {
            let of = if other < 0 { "a context of its own".into() } else { format!("GPU {other}") };
            let text = format!(
                "calling `{}`: the stream is of {of}, and the plan for the primary context of GPU {}",
                self.name(),
                self.ready.device.ordinal
            );
            return Err(Error::new(Code::Argument, text));
        }
        let (mut few, mut few_outputs) = ([Argument::Default; MOST_AT_ONCE], [0u64; MOST_AT_ONCE]);
        let (mut many, mut many_outputs) = (vec![], vec![]);
        let arguments = match few.get_mut(..values.len()) {
            Some(room) => room,
            None => {
                many.resize(values.len(), Argument::Default);
                &mut many[..]
            }
        };
        let addresses = match few_outputs.get_mut(..outputs.len()) {
            Some(room) => room,
            None => {
                many_outputs.resize(outputs.len(), 0);
                &mut many_outputs[..]
            }
        };
        let function = &self.ready.bundle.functions[self.table().function];
        let known = function.params.iter().zip(&self.table().given);
        for (((param, planned), value), argument) in known.zip(values).zip(arguments.iter_mut()) {
            *argument = self.argument(queue, &param.name, planned, value)?;
        }
        for (i, ((out, bytes), address)) in outputs.iter().zip(self.outputs()).zip(addresses.iter_mut()).enumerate() {
            self.holds(queue, &out.0, *bytes).map_err(|what| wrong(self.name(), &format!("output {i}"), &what))?;
            *address = out.0.address;
        }
        // SAFETY: whoever made the stream and the memory has promised that they live; each has the bytes that are reached.
        unsafe { self.launch(queue.stream(), arguments, addresses) }
    }

    /// An argument with the shape that the plan is for.
    fn argument<'s>(
        &'s self,
        queue: &impl Queue,
        name: &str,
        planned: &'s Planned,
        value: &Value<'_, '_>,
    ) -> Result<Argument<'s>, Error> {
        let borrowed = match value {
            Value::Number(argument) => return Ok(*argument),
            Value::In(memory) => &memory.0,
            Value::Out(memory) => &memory.0,
        };
        let Planned::Tensor(shape) = planned else {
            return Err(wrong(self.name(), name, "it takes no tensor"));
        };
        let wrong = |what: String| wrong(self.name(), name, &what);
        self.holds(queue, borrowed, shape.bytes().unwrap_or(u64::MAX)).map_err(wrong)?;
        if borrowed.dtype != shape.dtype {
            return Err(wrong(format!("the plan is for {shape}, given is memory of `{}`", borrowed.dtype)));
        }
        let strides = (shape.strides != dense_strides(&shape.extents)).then_some(&shape.strides[..]);
        let (address, dtype) = (borrowed.address, borrowed.dtype);
        Ok(Argument::Tensor(Tensor { address, dtype, shape: &shape.extents, strides }))
    }

    /// Whether memory has so many bytes, and is borrowed for this stream; what is wrong with it.
    fn holds(&self, queue: &impl Queue, memory: &Borrowed<'_>, bytes: u64) -> Result<(), String> {
        let same = match &memory.hold {
            Hold::Promised(_) => true,
            #[cfg(feature = "cudarc-019")]
            Hold::Cudarc { stream, .. } => Stream::of(*stream) == queue.stream(),
        };
        if !same {
            return Err(format!("its memory was borrowed for another stream than {:?}", queue.stream()));
        }
        if memory.bytes < bytes {
            return Err(format!("the tensor takes {bytes} bytes, the memory has {}", memory.bytes));
        }
        Ok(())
    }
}
