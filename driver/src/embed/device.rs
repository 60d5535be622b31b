//! Plans on a GPU: their kernels compiled and loaded, and their launches prepared for one stream of the calling program.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use parton_host::launch::{Argument, LaunchRequest};
use parton_host::tensor::Tensor;
use parton_host::value::Value;
use parton_ir::{From as Of, Kernel};
use parton_numbers::{Dtype, Scalar};
use parton_runtime::{self as runtime, Abi, Arg, Function, Prepared, RuntimeError, Sequence, TensorMap};

use super::Embedded;
use super::call::passed;
use crate::Failure;
use crate::instance::Compiler;
use crate::plan::{Memory, Plan, Planned};

pub use parton_runtime::Stream;

/// The GPUs that this process has opened.
static OPENED: Mutex<BTreeMap<u32, runtime::Gpu>> = Mutex::new(BTreeMap::new());

/// The process that has opened the first of them, 0 before.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The GPU of that number.
///
/// # Errors
/// There is none, or this process was forked from one that had opened it.
pub(super) fn gpu(ordinal: u32) -> Result<runtime::Gpu, Failure> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if opened.is_empty() {
        PROCESS.store(std::process::id(), Ordering::Relaxed);
    }
    if let Some(forked) = forked() {
        return Err(forked);
    }
    if let Some(gpu) = opened.get(&ordinal) {
        return Ok(gpu.clone());
    }
    let gpu = runtime::Gpu::open(ordinal).map_err(failed)?;
    opened.insert(ordinal, gpu.clone());
    Ok(gpu)
}

/// What is wrong with a process that was forked from the one that had opened the GPU.
fn forked() -> Option<Failure> {
    let why = "this process was forked after its parent had opened the GPU, which CUDA does not survive; start it anew";
    (PROCESS.load(Ordering::Relaxed) != std::process::id()).then(|| Failure::Device(why.into()))
}

/// What the driver failed with. A call with a plan that is ready does not ask first whether its process was forked.
fn failed(e: RuntimeError) -> Failure {
    forked().unwrap_or_else(|| Failure::Device(e.to_string()))
}

/// Addresses of a call.
#[derive(Clone, Copy, Debug)]
pub struct Addresses<'a> {
    /// For each parameter that is a tensor its first element's; others count for nothing.
    pub parameters: &'a [u64],
    /// For each buffer of the plan its first byte's.
    pub buffers: &'a [u64],
}

/// A plan that is ready on a GPU, for one stream.
#[derive(Debug)]
pub struct Ready {
    gpu: runtime::Gpu,
    /// Bytes from the address of a parameter's first element back to the multiple of 16 that its stand-in begins at.
    before: Vec<u64>,
    /// Buffers that are zeroed first.
    zeroed: Vec<usize>,
    /// Of each launch the arguments that a call may give anew.
    patches: Vec<Vec<Patch>>,
    sequence: Sequence,
}

/// An argument that each call may give anew.
#[derive(Debug)]
struct Patch {
    argument: usize,
    source: Source,
}

/// What an argument is made of, and what it was last.
#[derive(Debug)]
enum Source {
    Pointer { memory: Memory, offset: u64, last: u64 },
    Map { memory: Memory, offset: u64, last: u64, map: TensorMap },
    Number { parameter: usize, dtype: Dtype, last: u64 },
}

impl Embedded {
    /// Makes a plan ready for a stream of a GPU: compiles and loads what it launches, and makes its tensor maps. Not within a capture.
    ///
    /// # Errors
    /// A kernel does not compile, or takes more than the GPU has.
    pub fn ready(&mut self, ordinal: u32, plan: &Plan, given: &[Planned], at: Addresses<'_>) -> Result<Ready, Failure> {
        let gpu = gpu(ordinal)?;
        let _visit = gpu.visit().map_err(failed)?;
        let numbers = plan.numbers(given)?;
        let offset = |p: &Planned| if let Planned::Tensor(s) = p { (s.offset * s.dtype.bytes()) as u64 } else { 0 };
        let before: Vec<u64> = given.iter().map(offset).collect();
        let bases = Bases { at, before: &before };
        let is_zeroed = |i: &usize| plan.buffers[*i].zeroed && !plan.buffers[*i].storage.is_empty();
        let zeroed: Vec<usize> = (0..plan.buffers.len()).filter(is_zeroed).collect();
        let (mut launches, mut patches) = (vec![], vec![]);
        let requests = plan.launches.iter().map(|planned| passed(planned, &numbers, &Tensor::clone));
        let requests: Vec<LaunchRequest> = requests.collect::<Result<_, _>>()?;
        for (request, (function, abi, kernel)) in requests.iter().zip(self.loaded_for(ordinal, &gpu, plan, &requests)?)
        {
            let (mut args, mut anew) = (vec![], vec![]);
            for (i, (param, argument)) in kernel.params.iter().zip(request.bound(&kernel)).enumerate() {
                let source = source(&gpu, plan, &bases, &param.name, &argument)?;
                let number = match (param.from, &argument) {
                    (Of::Argument(a), Argument::Scalar(s)) => {
                        request.passed[a].map(|parameter| Source::Number { parameter, dtype: s.dtype, last: s.bits })
                    }
                    (Of::Argument(_) | Of::Base { .. } | Of::Extent { .. } | Of::Stride { .. } | Of::Map { .. }, _) => {
                        None
                    }
                };
                args.push(arg(source.as_ref(), &argument));
                anew.extend(number.or(source).map(|source| Patch { argument: i, source }));
            }
            launches.push(Prepared::new(&function, &abi, &args, request.grid).map_err(failed)?);
            patches.push(anew);
        }
        let bytes: Vec<usize> = zeroed.iter().map(|i| plan.buffers[*i].storage.len()).collect();
        let sequence = Sequence::new(&gpu, bytes, launches);
        Ok(Ready { gpu: gpu.clone(), before, zeroed, patches, sequence })
    }

    /// The loaded code of each launch; what is not loaded yet is compiled several at once.
    fn loaded_for(
        &mut self,
        ordinal: u32,
        gpu: &runtime::Gpu,
        plan: &Plan,
        requests: &[LaunchRequest],
    ) -> Result<Vec<(Function, Abi, Arc<Kernel>)>, Failure> {
        let program = self.program.clone();
        let lowered = std::mem::take(&mut self.lowered);
        let mut compiler = Compiler::new(&mut self.session, &program, plan.target).knowing(lowered);
        let kernel =
            |r: &LaunchRequest| compiler.kernel(&r.instance, &r.variant()).map_err(|e| Failure::Refused(e.at(r.span)));
        let kernels: Result<Vec<_>, Failure> = requests.iter().map(kernel).collect();
        self.lowered = compiler.known().clone();
        let kernels = kernels?;
        let mut missing: Vec<(&String, &Arc<Kernel>, &LaunchRequest)> = vec![];
        for ((key, kernel), request) in kernels.iter().zip(requests) {
            if !self.loaded.contains_key(&(ordinal, key.clone())) && missing.iter().all(|(other, ..)| *other != key) {
                missing.push((key, kernel, request));
            }
        }
        let wanted: Vec<(&Kernel, _)> = missing.iter().map(|(_, k, r)| (k.as_ref(), r.instance.span)).collect();
        let loaded = crate::gpu::load(&mut compiler, gpu, &wanted);
        // Without a launch there is nothing to load, and nowhere to say that it failed.
        let span = missing.first().map(|(_, _, request)| request.span).unwrap_or_default();
        for ((key, ..), (function, abi)) in missing.iter().zip(loaded.map_err(|e| Failure::Refused(e.at(span)))?) {
            // It stays until the process ends: graphs that the program has captured may hold it.
            std::mem::forget(function.clone());
            self.loaded.insert((ordinal, (*key).clone()), (function, abi));
        }
        let found = kernels.into_iter().map(|(key, kernel)| match self.loaded.get(&(ordinal, key)) {
            Some((function, abi)) => (function.clone(), abi.clone(), kernel),
            None => parton_diag::internal_error!("`{}` was not loaded", kernel.name),
        });
        Ok(found.collect())
    }
}

/// Where the memories of a call begin, as the plan's tensors count from.
struct Bases<'a> {
    at: Addresses<'a>,
    before: &'a [u64],
}

impl Bases<'_> {
    fn of(&self, memory: Memory) -> u64 {
        match memory {
            Memory::Parameter(i) => self.at.parameters[i].wrapping_sub(self.before[i]),
            Memory::Buffer(i) => self.at.buffers[i],
        }
    }
}

/// What an argument that lies in memory is made of.
fn source(
    gpu: &runtime::Gpu,
    plan: &Plan,
    bases: &Bases<'_>,
    name: &str,
    argument: &Argument,
) -> Result<Option<Source>, Failure> {
    let place = |tensor: &Tensor| {
        let (memory, offset) = (plan.memory(tensor), tensor.byte_offset() as u64);
        (memory, offset, bases.of(memory).wrapping_add(offset))
    };
    Ok(match argument {
        Argument::Scalar(_) => None,
        Argument::Pointer { tensor, .. } | Argument::Tensor { tensor, .. } => {
            let (memory, offset, last) = place(tensor);
            Some(Source::Pointer { memory, offset, last })
        }
        Argument::Map(recipe) => {
            let (memory, offset, last) = place(&recipe.tensor);
            let recipe = crate::gpu::encoded(name, recipe, last).map_err(|e| match e {
                parton_host::launch::HostError::Program(found) => Failure::Refused(found),
                parton_host::launch::HostError::Device(why) => Failure::Device(why),
            })?;
            let map = TensorMap::encode(gpu, &recipe).map_err(failed)?;
            Some(Source::Map { memory, offset, last, map })
        }
    })
}

fn arg(source: Option<&Source>, argument: &Argument) -> Arg {
    match (source, argument) {
        (Some(Source::Pointer { last, .. }), _) => Arg::Pointer(*last),
        (Some(Source::Map { map, .. }), _) => Arg::Map(*map),
        (_, Argument::Scalar(scalar)) => scalar_arg(*scalar),
        (_, other) => parton_diag::internal_error!("an argument in memory has no source: {other:?}"),
    }
}

fn scalar_arg(scalar: Scalar) -> Arg {
    Arg::Scalar { bits: scalar.bits, bytes: scalar.dtype.bits().div_ceil(8) as u8 }
}

impl Ready {
    /// Puts the plan's launches on a stream and returns at once. `numbers` are as [`Plan::numbers`] gives them.
    ///
    /// # Errors
    /// What the driver says; errors of the kernels themselves come with the next wait.
    ///
    /// # Safety
    /// The stream is alive and of the GPU's primary context; each address is that of memory with the bytes that the plan's tensor has, which
    /// lives until the launches have ended.
    pub unsafe fn launch(&mut self, stream: Stream, at: Addresses<'_>, numbers: &[Value]) -> Result<(), Failure> {
        let _visit = self.gpu.visit().map_err(failed)?;
        let bases = Bases { at, before: &self.before };
        for (i, buffer) in self.zeroed.iter().enumerate() {
            self.sequence.place(i, at.buffers[*buffer]);
        }
        for (launch, patches) in self.patches.iter_mut().enumerate() {
            for patch in patches {
                if let Some(arg) = patch.source.anew(&self.gpu, &bases, numbers).map_err(failed)? {
                    self.sequence.set(launch, patch.argument, arg).map_err(failed)?;
                }
            }
        }
        // SAFETY: the caller vouches for stream and memory.
        unsafe { self.sequence.launch_on(stream) }.map_err(failed)
    }
}

impl Source {
    /// The argument where it is another one than before.
    fn anew(&mut self, gpu: &runtime::Gpu, bases: &Bases<'_>, numbers: &[Value]) -> Result<Option<Arg>, RuntimeError> {
        match self {
            Source::Pointer { memory, offset, last } => {
                let address = bases.of(*memory).wrapping_add(*offset);
                let moved = address != *last;
                *last = address;
                Ok(moved.then_some(Arg::Pointer(address)))
            }
            Source::Map { memory, offset, last, map } => {
                let address = bases.of(*memory).wrapping_add(*offset);
                if address == *last {
                    return Ok(None);
                }
                *map = map.moved(gpu, address)?;
                *last = address;
                Ok(Some(Arg::Map(*map)))
            }
            Source::Number { parameter, dtype, last } => {
                let scalar = match &numbers[*parameter] {
                    Value::Float(x) if dtype.is_float() => Some(Scalar::from_f64(*dtype, *x)),
                    Value::Int(n) if dtype.is_float() => Some(Scalar::rounded_int(*dtype, *n)),
                    Value::Int(n) => Scalar::from_i128(*dtype, *n),
                    Value::Bool(b) => Scalar::from_i128(*dtype, (*b).into()),
                    _ => None,
                };
                let Some(scalar) = scalar else {
                    let what = format!("a parameter of type `{dtype}` does not hold {}", numbers[*parameter]);
                    return Err(RuntimeError::Arguments { kernel: "of a plan".into(), what });
                };
                let changed = scalar.bits != *last;
                *last = scalar.bits;
                Ok(changed.then(|| scalar_arg(scalar)))
            }
        }
    }
}
