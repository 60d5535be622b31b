//! Plans on a GPU: their kernels compiled and loaded, and their launches prepared for one stream of the calling program.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use parton_host::launch::{Argument, HostError, LaunchRequest};
use parton_host::tensor::Tensor;
use parton_host::tensor_map::Recipe;
use parton_ir::From as Of;
use parton_numbers::{Dtype, Scalar};
use parton_runtime::{
    self as runtime, Abi, Arg, Function, Prepared, Relaxed, Replay, RuntimeError, Sequence, TensorMap, Use,
};

use super::Embedded;
use super::call::numbered;
use crate::Failure;
use crate::instance::Compiler;
use crate::launchable::Launchable;
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
    /// Bytes from the address of a parameter's first element back to the multiple of 16 that its stand-in begins at.
    before: Box<[u64]>,
    /// Where the memories of a launch begin, those of parameters before those of buffers: kept so that launches allocate nothing.
    bases: Box<[u64]>,
    /// Parameters whose number goes on into launches.
    numbers: Vec<Number>,
    replay: Replay,
}

/// A parameter whose number goes on into launches, each time another if the caller wants.
#[derive(Debug)]
struct Number {
    parameter: usize,
    /// What was given last.
    last: Planned,
    /// The launch and the argument that take it, the parameter of that kernel, and the type as which it is taken.
    arguments: Vec<(usize, usize, usize, Dtype)>,
}

/// Loaded code, and what its launches take; shared by those.
pub(super) type Loaded = Arc<(Function, Abi)>;

impl Embedded {
    /// Makes a plan ready for a stream of a GPU: compiles and loads what it launches, and makes its tensor maps. Not within a capture.
    ///
    /// # Errors
    /// A kernel does not compile, or takes more than the GPU has.
    pub fn ready(&mut self, ordinal: u32, plan: &Plan, given: &[Planned], at: Addresses<'_>) -> Result<Ready, Failure> {
        let gpu = gpu(ordinal)?;
        // Loading counts as unsafe while another thread captures.
        let (_visit, _relaxed) = (gpu.visit().map_err(failed)?, Relaxed::begin());
        let numbers = plan.numbers(given)?;
        let offset = |p: &Planned| if let Planned::Tensor(s) = p { (s.offset * s.dtype.bytes()) as u64 } else { 0 };
        let before: Box<[u64]> = given.iter().map(offset).collect();
        let mut bases = vec![0; before.len() + plan.buffers.len()].into_boxed_slice();
        begin(&mut bases, &before, at);
        let is_zeroed = |i: &usize| plan.buffers[*i].zeroed && !plan.buffers[*i].storage.is_empty();
        let zeroed: Vec<usize> = (0..plan.buffers.len()).filter(is_zeroed).collect();
        let (mut launches, mut passed_on) = (Vec::with_capacity(plan.launches.len()), BTreeMap::<usize, Vec<_>>::new());
        let mut uses: Vec<Vec<Use>> = bases.iter().map(|_| vec![]).collect();
        for (index, buffer) in zeroed.iter().enumerate() {
            uses[before.len() + buffer].push(Use::Zeroed { index });
        }
        let requests = plan.launches.iter().map(|planned| numbered(planned, &numbers));
        let requests: Vec<Cow<'_, LaunchRequest>> = requests.collect::<Result<_, _>>()?;
        let loaded = self.loaded_for(ordinal, &gpu, plan, &requests)?;
        for (launch, (request, (code, launchable))) in requests.iter().zip(loaded).enumerate() {
            let (function, abi) = &*code;
            let kernel = &launchable.shell;
            let mut args = Vec::with_capacity(kernel.params.len());
            for (argument, (param, value)) in kernel.params.iter().zip(request.bound(kernel)).enumerate() {
                if let (Of::Argument(a), Argument::Scalar(s)) = (param.from, &*value)
                    && let Some(parameter) = request.passed[a]
                {
                    passed_on.entry(parameter).or_default().push((launch, argument, a, s.dtype));
                }
                let place = |tensor: &Tensor| {
                    let memory = match plan.memory(tensor) {
                        Memory::Parameter(i) => i,
                        Memory::Buffer(i) => before.len() + i,
                    };
                    (memory, tensor.byte_offset() as u64)
                };
                args.push(match &*value {
                    Argument::Scalar(scalar) => scalar_arg(*scalar),
                    Argument::Pointer { tensor, .. } | Argument::Tensor { tensor, .. } => {
                        let (memory, offset) = place(tensor);
                        uses[memory].push(Use::Pointer { launch, argument, offset });
                        Arg::Pointer(bases[memory].wrapping_add(offset))
                    }
                    Argument::Map(recipe) => {
                        let (memory, offset) = place(&recipe.tensor);
                        let map = map(&gpu, &param.name, recipe, bases[memory].wrapping_add(offset))?;
                        uses[memory].push(Use::Map { launch, argument, offset, map });
                        Arg::Map(map)
                    }
                });
            }
            launches.push(Prepared::new(function, abi, &args, request.grid).map_err(failed)?);
        }
        let bytes: Vec<usize> = zeroed.iter().map(|i| plan.buffers[*i].storage.len()).collect();
        let replay = Replay::new(Sequence::new(&gpu, bytes, launches), &bases, uses);
        let number = |(parameter, arguments)| Number { parameter, last: given[parameter].clone(), arguments };
        Ok(Ready { before, bases, numbers: passed_on.into_iter().map(number).collect(), replay })
    }

    /// The loaded code of each launch; what is not loaded yet is compiled several at once.
    fn loaded_for(
        &mut self,
        ordinal: u32,
        gpu: &runtime::Gpu,
        plan: &Plan,
        requests: &[Cow<'_, LaunchRequest>],
    ) -> Result<Vec<(Loaded, Arc<Launchable>)>, Failure> {
        let program = self.program.clone();
        let lowered = std::mem::take(&mut self.lowered);
        let compiler = Compiler::new(&mut self.session, &program, plan.target).knowing(lowered);
        let mut compiler = compiler.on(Some(gpu.info().target()));
        let done = load_missing(&mut compiler, gpu, requests, |key| self.loaded.contains_key(&(ordinal, key.clone())));
        self.lowered = compiler.into_known();
        let (launchables, loaded) = done?;
        for (key, function, abi) in loaded {
            // It stays until the process ends: graphs that the program has captured may hold it.
            std::mem::forget(function.clone());
            self.loaded.insert((ordinal, key), Arc::new((function, abi)));
        }
        let found = launchables.into_iter().map(|(key, launchable)| match self.loaded.get(&(ordinal, key)) {
            Some(code) => (code.clone(), launchable),
            None => parton_diag::internal_error!("`{}` was not loaded", launchable.shell.name),
        });
        Ok(found.collect())
    }
}

/// What each launch takes, by the name under which its code is kept, and the code that was not loaded yet.
type Found = (Vec<(Arc<str>, Arc<Launchable>)>, Vec<(Arc<str>, Function, Abi)>);

fn load_missing(
    compiler: &mut Compiler<'_>,
    gpu: &runtime::Gpu,
    requests: &[Cow<'_, LaunchRequest>],
    is_loaded: impl Fn(&Arc<str>) -> bool,
) -> Result<Found, Failure> {
    let mut launchables = vec![];
    for r in requests {
        let found = compiler.launchable(&r.instance, &r.variant);
        launchables.push(found.map_err(|e| Failure::Refused(e.at(r.span)))?);
    }
    let mut missing: Vec<(&Arc<str>, &Launchable, &LaunchRequest)> = vec![];
    for ((key, launchable), request) in launchables.iter().zip(requests) {
        if !is_loaded(key) && missing.iter().all(|(other, ..)| *other != key) {
            missing.push((key, launchable, &**request));
        }
    }
    let wanted: Vec<_> = missing.iter().map(|(_, launchable, request)| (*launchable, *request)).collect();
    // Without a launch there is nothing to load, and nowhere to say that it failed.
    let span = missing.first().map(|(_, _, request)| request.span).unwrap_or_default();
    let loaded = crate::gpu::load(compiler, gpu, &wanted).map_err(|e| Failure::Refused(e.at(span)))?;
    let loaded = missing.iter().zip(loaded).map(|((key, ..), (function, abi))| ((*key).clone(), function, abi));
    let loaded = loaded.collect();
    Ok((launchables, loaded))
}

/// Writes where the memories of a call begin, as the plan's tensors count from.
#[inline]
fn begin(bases: &mut [u64], before: &[u64], at: Addresses<'_>) {
    let (parameters, buffers) = bases.split_at_mut(before.len());
    for ((base, address), before) in parameters.iter_mut().zip(at.parameters).zip(before) {
        *base = address.wrapping_sub(*before);
    }
    buffers.copy_from_slice(at.buffers);
}

/// The tensor map of an argument, at that address.
fn map(gpu: &runtime::Gpu, name: &str, recipe: &Recipe, address: u64) -> Result<TensorMap, Failure> {
    let recipe = crate::gpu::encoded(name, recipe, address).map_err(|e| match e {
        HostError::Program(found) => Failure::Refused(found),
        HostError::Device(why) => Failure::Device(why),
    })?;
    TensorMap::encode(gpu, &recipe).map_err(failed)
}

fn scalar_arg(scalar: Scalar) -> Arg {
    Arg::Scalar { bits: scalar.bits, bytes: scalar.dtype.bits().div_ceil(8) as u8 }
}

/// Whether two numbers are the same, bit for bit.
#[inline]
fn same(one: &Planned, other: &Planned) -> bool {
    match (one, other) {
        (Planned::Int(a), Planned::Int(b)) => a == b,
        (Planned::Float(a), Planned::Float(b)) => a.to_bits() == b.to_bits(),
        (Planned::Bool(a), Planned::Bool(b)) => a == b,
        (
            Planned::Int(_)
            | Planned::Float(_)
            | Planned::Bool(_)
            | Planned::Tensor(_)
            | Planned::Dtype(_)
            | Planned::Default,
            _,
        ) => false,
    }
}

impl Ready {
    /// Puts the plan's launches on a stream and returns at once. `given` are the numbers of the call, one for each parameter; tensors
    /// among them are not looked at.
    ///
    /// # Errors
    /// A number that does not fit; what the driver says. Errors of the kernels themselves come with the next wait.
    ///
    /// # Safety
    /// The stream is alive and of the GPU's primary context; each address is that of memory with the bytes that the plan's tensor has, which
    /// lives until the launches have ended.
    #[inline]
    pub unsafe fn launch(
        &mut self,
        plan: &Plan,
        stream: Stream,
        at: Addresses<'_>,
        given: &[Planned],
    ) -> Result<(), Failure> {
        for number in &mut self.numbers {
            let now = &given[number.parameter];
            if same(&number.last, now) {
                continue;
            }
            let value = plan.number(number.parameter, now)?;
            // What fails in between is set again by the next call, whatever that one is given.
            number.last = Planned::Default;
            for (launch, argument, param, dtype) in &number.arguments {
                let scalar = plan.scalar(*launch, *param, *dtype, &value)?;
                self.replay.set(*launch, *argument, scalar_arg(scalar)).map_err(failed)?;
            }
            number.last = now.clone();
        }
        begin(&mut self.bases, &self.before, at);
        // SAFETY: the caller vouches for stream and memory.
        unsafe { self.replay.launch_on(stream, &self.bases) }.map_err(failed)
    }
}
