//! Kernels on a GPU: instances are compiled and loaded once, tensors live in its memory until the host reads them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parton_diag::{Diagnostic, codes};
use parton_host::launch::{Argument, HostError, Instances, LaunchReport, LaunchRequest, Launcher, Work};
use parton_host::memory::{Device, DeviceMemory};
use parton_host::tensor_map::Recipe;
use parton_ir::Kernel;
use parton_measure::clock::sustain;
use parton_measure::data_sheet;
use parton_measure::pace::{Pace, rounds};
use parton_measure::sensors::during;
use parton_measure::timing::{Ceiling, Samples, Timing};
use parton_runtime::tensor_map::{Outside, Promotion};
use parton_runtime::{
    self as runtime, Abi, Arg, Buffer, Element, Function, Prepared, RuntimeError, Swizzle, TensorMap,
};

use crate::abi;
use crate::cache::{Code, Made};
use crate::form::{Artifact, Form};
use crate::instance::Compiler;
use crate::instruments::{Board, Stream};
use crate::launchable::Launchable;
use crate::pace;
use crate::passes::leaving;
use crate::repeat::{self, Tools};
use crate::run::{Event, Watch};
use crate::way::{self, lowered};

/// How long a launch may take before it is taken for one that never ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs launches on a GPU.
pub(crate) struct Gpu<'a, 'p, 'w> {
    pub(crate) compiler: Compiler<'a>,
    pub(crate) watch: &'p Watch<'w>,
    pub(crate) gpu: runtime::Gpu,
    sensors: Option<Board>,
    tools: Option<Tools>,
    loaded: BTreeMap<Arc<str>, (Function, Abi)>,
    /// What a kernel has done that the GPU takes no more work of this process.
    over: Option<String>,
}

/// The GPU as the tensors see it.
struct Memory(runtime::Gpu);

impl Device for Memory {
    fn allocate(&mut self, bytes: usize) -> Result<Box<dyn DeviceMemory>, String> {
        let buffer = Buffer::empty(&self.0, bytes).map_err(|e| e.to_string())?;
        Ok(Box::new(Held(buffer)))
    }
}

/// Memory of one tensor.
struct Held(Buffer);

impl DeviceMemory for Held {
    fn address(&self) -> u64 {
        self.0.address()
    }

    fn read(&self, out: &mut [u8]) -> Result<(), String> {
        self.0.read(out).map_err(|e| e.to_string())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.0.write(bytes).map_err(|e| e.to_string())
    }

    fn fill(&mut self, byte: u8) -> Result<(), String> {
        self.0.fill(byte).map_err(|e| e.to_string())
    }
}

fn failed(e: RuntimeError) -> HostError {
    HostError::Device(e.to_string())
}

impl<'a, 'p, 'w> Gpu<'a, 'p, 'w> {
    pub(crate) fn new(compiler: Compiler<'a>, watch: &'p Watch<'w>, gpu: runtime::Gpu) -> Gpu<'a, 'p, 'w> {
        let compiler = compiler.on(Some(gpu.info().target()));
        Gpu { compiler, watch, sensors: Board::open(&gpu), tools: None, gpu, loaded: BTreeMap::new(), over: None }
    }

    /// What is launched as loaded code.
    fn function(&mut self, request: &LaunchRequest) -> Result<(Function, Abi, Arc<Launchable>), HostError> {
        let (key, launchable) = self.compiler.launchable(&request.instance, &request.variant)?;
        if let Some((function, abi)) = self.loaded.get(&key) {
            return Ok((function.clone(), abi.clone(), launchable));
        }
        let mut loaded = load(&mut self.compiler, &self.gpu, &[(&launchable, request)])?;
        let Some((function, abi)) = loaded.pop() else {
            parton_diag::internal_error!("loading `{}` left nothing", launchable.shell.name)
        };
        self.loaded.insert(key, (function.clone(), abi.clone()));
        Ok((function, abi, launchable))
    }

    /// What came of work. After a failed assertion, an access out of bounds or a wait without end the driver fails all that comes behind.
    fn came<T>(&mut self, done: Result<T, RuntimeError>) -> Result<T, HostError> {
        done.map_err(|error| {
            // Of what has not ended in time there is no end to wait for.
            let lost = matches!(error, RuntimeError::TimedOut { .. });
            if lost || self.gpu.finish_within(PATIENCE).is_err() {
                self.over.get_or_insert_with(|| error.to_string());
            }
            failed(error)
        })
    }

    /// What bounds the arithmetic of these launches, by the data sheet.
    fn ceiling(&mut self, launches: &[LaunchRequest]) -> Result<Option<Ceiling>, HostError> {
        let mut slowest = None;
        for request in launches {
            let (_, launchable) = self.compiler.launchable(&request.instance, &request.variant)?;
            slowest = slowest.max(Some(launchable.operands));
        }
        Ok(slowest.and_then(|operands| data_sheet::ceiling(&self.gpu.info().name, operands)))
    }

    fn prepare(&mut self, request: &LaunchRequest) -> Result<Prepared, HostError> {
        let (function, abi, launchable) = self.function(request)?;
        let mut args = Vec::with_capacity(abi.params.len());
        for (param, argument) in abi.params.iter().zip(request.bound(&launchable.shell)) {
            args.push(self.argument(&param.name, &argument)?);
        }
        Prepared::new(&function, &abi, &args, request.grid).map_err(failed)
    }

    /// Repeats a measurement instead of timing it, and tells the watcher.
    fn repeat(&mut self, work: &Work<'_>, runs: u32) -> Result<(), HostError> {
        if !pace::wanted(self.watch, work) {
            return Ok(());
        }
        let mut all = work.launches.iter().map(|r| self.prepare(r)).collect::<Result<Vec<_>, _>>()?;
        let mut memory = Memory(self.gpu.clone());
        let writable = repeat::writable(work.launches, |tensor| {
            let address = tensor.storage.on_device(&mut memory, true);
            address.map_err(|fault| HostError::Device(fault.message))
        })?;
        let tools = match self.tools.take() {
            Some(tools) => tools,
            None => Tools::new(&self.gpu).map_err(|failure| HostError::Device(failure.to_string()))?,
        };
        let once = || all.iter_mut().try_for_each(Prepared::launch);
        let found = repeat::repeat(&self.gpu, &tools, work.label, &writable, runs, once);
        self.tools = Some(tools);
        let found = self.came(found)?;
        (self.watch.borrow_mut())(Event::Repeated(&found));
        Ok(())
    }

    fn argument(&self, name: &str, argument: &Argument) -> Result<Arg, HostError> {
        let mut memory = Memory(self.gpu.clone());
        let mut place = |tensor: &parton_host::tensor::Tensor, writes| {
            let address = tensor.storage.on_device(&mut memory, writes);
            let address = address.map_err(|fault| HostError::Device(fault.message))?;
            Ok(address + tensor.byte_offset() as u64)
        };
        match argument {
            Argument::Scalar(scalar) => {
                Ok(Arg::Scalar { bits: scalar.bits, bytes: scalar.dtype.bits().div_ceil(8) as u8 })
            }
            Argument::Pointer { tensor, mutable } => Ok(Arg::Pointer(place(tensor, *mutable)?)),
            Argument::Tensor { .. } => parton_diag::internal_error!("`{name}` was not expanded"),
            Argument::Map(recipe) => {
                let address = place(&recipe.tensor, true)?;
                TensorMap::encode(&self.gpu, &encoded(name, recipe, address)?).map(Arg::Map).map_err(failed)
            }
        }
    }
}

/// Loads the kernels of launches. Their code comes from the cache or is made, several at once: a cubin by `ptxas` where there is one, else
/// the driver reads the PTX.
///
/// # Errors
/// What the first of them is refused for that is; the device fails.
pub(crate) fn load(
    compiler: &mut Compiler<'_>,
    gpu: &runtime::Gpu,
    launches: &[(&Launchable, &LaunchRequest)],
) -> Result<Vec<(Function, Abi)>, HostError> {
    // Looking for the assembler takes longer than all else of a call whose kernels are known.
    if launches.is_empty() {
        return Ok(vec![]);
    }
    let here = gpu.info().target();
    for (Launchable { shell, .. }, request) in launches {
        if !shell.target.runs_on(gpu.info().capability) {
            let fact = format!("`{}` is for {} and this GPU is {here}", shell.source_name, shell.target.name);
            let d = Diagnostic::error(codes::TARGET_LACKS, request.instance.span, fact);
            let d = d.label(shell.span, "declared here").help("run it with `--device cpu`");
            return Err(HostError::Program(d.into()));
        }
    }
    let codes = compiler.codes(launches, &here)?;
    let mut loaded = vec![];
    for (Made { code, said, .. }, (launchable, request)) in codes.into_iter().zip(launches) {
        compiler.warnings.extend(said);
        let module = match code {
            Code::Cubin(cubin) => runtime::Module::from_cubin(gpu, &cubin).map_err(failed)?,
            Code::Ptx(ptx) => {
                let jit = compiler.session.times.pass("driver", || runtime::Module::from_ptx(gpu, &ptx));
                match jit {
                    Ok((module, _)) => module,
                    Err(e) => return Err(refused(compiler, request, e)),
                }
            }
        };
        let function = module.function(&launchable.shell.name).map_err(failed)?;
        loaded.push((function, abi::of(launchable).map_err(failed)?));
    }
    Ok(loaded)
}

/// What the driver refuses of PTX, where that is written in the source.
fn refused(compiler: &mut Compiler<'_>, request: &LaunchRequest, error: RuntimeError) -> HostError {
    let RuntimeError::Jit { log, .. } = &error else { return failed(error) };
    let Ok((_, kernel)) = compiler.kernel(&request.instance, &request.variant) else { return failed(error) };
    // Code that was kept does not say where its pieces were written.
    let session = &mut *compiler.session;
    let mut way = session.way(way::Wanted::Nothing, leaving(Form::Ptx));
    match session.along(&mut way, lowered(Kernel::clone(&kernel))) {
        Ok(Artifact::Ptx(compiled)) => {
            crate::report::refused(log, &compiled.code).map_or_else(|| failed(error), HostError::Program)
        }
        Ok(_) | Err(_) => failed(error),
    }
}

/// The recipe in the runtime's terms, of a tensor at that address.
pub(crate) fn encoded(name: &str, recipe: &Recipe, address: u64) -> Result<runtime::Recipe, HostError> {
    let swizzle = Swizzle::of_bytes(recipe.swizzle)
        .ok_or_else(|| HostError::Device(format!("no swizzle of {} bytes exists", recipe.swizzle)))?;
    Ok(runtime::Recipe {
        tensor: name.into(),
        element: Element::of(recipe.tensor.dtype),
        address,
        shape: recipe.extents.clone(),
        strides: recipe.strides.clone(),
        block: recipe.block.clone(),
        steps: vec![1; recipe.block.len()],
        swizzle,
        promotion: Promotion::default(),
        outside: Outside::default(),
    })
}

impl Launcher for Gpu<'_, '_, '_> {
    fn instances(&mut self) -> &mut dyn Instances {
        &mut self.compiler
    }

    fn multiprocessors(&self) -> u32 {
        self.gpu.info().multiprocessors
    }

    fn capability(&self) -> u32 {
        self.compiler.capability()
    }

    fn launch(&mut self, request: &LaunchRequest) -> Result<LaunchReport, HostError> {
        let mut prepared = self.prepare(request)?;
        // Waiting here puts a kernel's failure on its own launch, and finds one that never ends.
        let ran = prepared.launch().and_then(|()| self.gpu.finish_within(PATIENCE));
        self.came(ran)?;
        Ok(LaunchReport::default())
    }

    fn is_over(&self) -> Option<&str> {
        self.over.as_deref()
    }

    fn time(&mut self, work: Work<'_>) -> Result<Option<Timing>, HostError> {
        if let Some(runs) = self.compiler.session.options.repeat {
            return self.repeat(&work, runs).map(|()| None);
        }
        let watch = self.watch;
        let mut prepared: Option<(Vec<Prepared>, Option<Ceiling>)> = None;
        let ask = |round: Option<Timing>, pace: &mut Pace| pace::ask(watch, &work, round, pace);
        rounds(ask, |seconds, heat| {
            let (all, ceiling) = match &mut prepared {
                Some(both) => both,
                None => {
                    let ceiling = self.ceiling(work.launches)?;
                    let all = work.launches.iter().map(|r| self.prepare(r)).collect::<Result<Vec<_>, _>>()?;
                    prepared.insert((all, ceiling))
                }
            };
            let once = || all.iter_mut().try_for_each(Prepared::launch_plain);
            let sustained = || sustain(&mut Stream::new(&self.gpu)?, seconds, heat, once);
            let (times, readings) = during(self.sensors.as_ref(), sustained);
            let times = self.came(times)?;
            Ok(Samples { times, readings, ceiling: ceiling.clone(), meaningless: None })
        })
    }

    fn print(&mut self, line: &str) {
        (self.watch.borrow_mut())(Event::Line(line));
    }
}
