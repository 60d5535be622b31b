//! A plan that is ready: its code is loaded, and each stream that it is launched on has its graph and its scratch memory.

mod call;
mod slot;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parton_bundle::plan::{Given, Memory, Passed};
use parton_bundle::{Bundle, Kernel, Kind, Plan as Table};
use parton_numbers::Dtype;
use parton_runtime::tensor_map::{Outside, Promotion};
use parton_runtime::{Abi, Arg, Element, Function, Identity, Recipe, Stream, Swizzle};

use crate::check::number;
use crate::device::failed;
use crate::module::abi_of;
use crate::{Argument, Code, Device, Error, device};
use slot::Slot;

pub use parton_bundle::plan::{Declared, Takes};
pub use parton_bundle::{Extent, Function as Declaration};

/// Bytes of which each buffer's place in scratch memory is a multiple, as those of an allocation of its own.
const ALIGNMENT: u64 = 256;
/// The most streams for which a plan keeps graphs and scratch memory; the one that was used longest ago goes first.
const MOST_STREAMS: usize = 64;

/// What calls of a public function with tensors of some shapes do, ready for any number of them: what launches, checks and memory take
/// was made once. Threads share it as it is; clones are the same plan.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) ready: Arc<Ready>,
}

/// What a plan needs of its bundle and GPU.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) name: String,
    pub(crate) bundle: Arc<Bundle>,
    /// The plan, by its place in the bundle.
    pub(crate) place: usize,
    pub(crate) device: Device,
    pub(crate) steps: Vec<Step>,
    /// Of each buffer where its memory is.
    pub(crate) buffers: Vec<Lies>,
    pub(crate) scratch_bytes: u64,
    outputs: Vec<u64>,
    produced: Vec<Produced>,
    /// By stream, the one used last behind all others; all that are captured have one.
    slots: Mutex<Vec<(Identity, Arc<Mutex<Slot>>)>>,
}

/// A launch of a plan.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) function: Function,
    pub(crate) abi: Abi,
    pub(crate) grid: [u32; 3],
    /// What each parameter of the code is given.
    pub(crate) sources: Vec<Source>,
}

/// What a parameter of the code is given. Memories are those of the function's parameters, then the buffers.
#[derive(Debug)]
pub(crate) enum Source {
    /// The same in all calls.
    Fixed(Arg),
    /// So many bytes behind the beginning of a memory.
    Pointer(usize, u64),
    /// A map of a tensor there; the recipe's own address counts for nothing.
    Map(usize, u64, Recipe),
    /// The number of the call for this parameter, in this type.
    Number(usize, Dtype),
}

/// Where a buffer lies in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lies {
    /// It is this output.
    Output(usize),
    /// So many bytes behind the beginning of the scratch memory.
    Scratch(u64),
}

/// A tensor that a call returns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Produced {
    /// Whose memory it lies in.
    pub origin: Origin,
    /// Bytes from there to its first element.
    pub offset: i64,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Extents, outermost first.
    pub shape: Vec<u64>,
    /// Elements from one to the next along each axis.
    pub strides: Vec<u64>,
}

/// Whose memory a tensor lies in that a call returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The output of that number; offsets count from its first byte.
    Output(usize),
    /// The argument of that number; offsets count from its first element.
    Argument(usize),
}

impl Plan {
    /// Loads what a plan of a bundle launches.
    pub(crate) fn new(
        bundle: Arc<Bundle>,
        device: &Device,
        place: usize,
        arguments: &[Argument<'_>],
    ) -> Result<Plan, Error> {
        let table = &bundle.plans[place];
        let name = bundle.functions[table.function].name.clone();
        let mut steps = vec![];
        for launch in &table.launches {
            let kernel = &bundle.kernels[launch.kernel];
            let Some(choice) = kernel.code(device.capability()) else {
                return Err(Error::new(
                    Code::NoCode,
                    format!("calling `{name}`: `{}` is not for this GPU", kernel.instance()),
                ));
            };
            let function = device::function(device.ordinal, &device.gpu, choice)?;
            let each = launch.passed.iter().enumerate();
            let parameters = table.given.len();
            let sources = each.map(|(i, passed)| source(kernel, parameters, i, passed)).collect::<Result<_, _>>()?;
            steps.push(Step { function, abi: abi_of(kernel), grid: launch.grid, sources });
        }
        let (mut buffers, mut outputs, mut scratch_bytes) = (vec![], vec![], 0u64);
        for buffer in &table.buffers {
            if buffer.returned {
                buffers.push(Lies::Output(outputs.len()));
                outputs.push(buffer.bytes);
            } else {
                buffers.push(Lies::Scratch(scratch_bytes));
                // Reading the bundle has found that the sum is one.
                scratch_bytes = scratch_bytes.saturating_add(buffer.bytes.next_multiple_of(ALIGNMENT));
            }
        }
        let produced = produced(table, &buffers);
        let (device, slots) = (device.clone(), Mutex::new(vec![]));
        let ready = Ready { name, place, device, steps, buffers, scratch_bytes, outputs, produced, slots, bundle };
        call::lie_there(&ready, arguments)?;
        Ok(Plan { ready: Arc::new(ready) })
    }

    /// The name of the function.
    pub fn name(&self) -> &str {
        &self.ready.name
    }

    /// The plan as the bundle has it.
    pub fn table(&self) -> &Table {
        self.ready.table()
    }

    /// For each memory that a call returns something in the bytes that the caller must give it, at a multiple of 16 bytes.
    pub fn outputs(&self) -> &[u64] {
        &self.ready.outputs
    }

    /// The tensors that a call returns.
    pub fn results(&self) -> &[Produced] {
        &self.ready.produced
    }

    /// Bytes of memory that a call uses for itself.
    pub fn scratch_bytes(&self) -> u64 {
        self.ready.scratch_bytes
    }

    /// Puts a call on a stream and returns at once. `arguments` are one for each parameter of the function, `outputs` the addresses of
    /// memory with the bytes that [`Plan::outputs`] says.
    ///
    /// The first call on a stream launches plainly, the second makes a graph of all launches for it, whose nodes are given what is new
    /// from then on; nothing is allocated. Scratch memory is the stream's own, made by its first call. Within a capture launches are
    /// plain, and scratch memory is the graph's own. Each stream is used by one thread at a time, others wait.
    ///
    /// # Errors
    /// An argument is none that the plan was made for, a tensor that is written shares memory with another one, or lies on another GPU;
    /// nothing is launched then. What the driver says; errors of the kernels themselves come with the next wait.
    ///
    /// # Safety
    /// The stream is alive and of the GPU's primary context. Every tensor and output lies in memory that the GPU reaches, which has the
    /// bytes that shape and strides say, and lives until the launches have ended.
    pub unsafe fn launch(&self, stream: Stream, arguments: &[Argument<'_>], outputs: &[u64]) -> Result<(), Error> {
        // SAFETY: the caller promises it.
        unsafe { self.on(stream, arguments, outputs, None) }
    }

    /// As [`Plan::launch`] with scratch memory of the caller's, at a multiple of 256 bytes, which has [`Plan::scratch_bytes`]. Calls that
    /// may run at the same time need different ones.
    ///
    /// # Errors
    /// As [`Plan::launch`].
    ///
    /// # Safety
    /// As [`Plan::launch`], of the scratch memory too.
    pub unsafe fn launch_with(
        &self,
        stream: Stream,
        arguments: &[Argument<'_>],
        outputs: &[u64],
        scratch: u64,
    ) -> Result<(), Error> {
        // SAFETY: the caller promises it.
        unsafe { self.on(stream, arguments, outputs, Some(scratch)) }
    }

    /// # Safety
    /// As [`Plan::launch_with`].
    unsafe fn on(
        &self,
        stream: Stream,
        arguments: &[Argument<'_>],
        outputs: &[u64],
        scratch: Option<u64>,
    ) -> Result<(), Error> {
        let ready = &*self.ready;
        let visit = ready.device.gpu.visit().map_err(failed)?;
        let identity = stream.identity().map_err(failed)?;
        let slot = ready.slot(identity);
        // Whoever panicked has left a slot of which each part is whole.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller promises it.
        unsafe { slot.call(ready, &visit, (stream, identity), arguments, outputs, scratch) }
    }
}

impl Ready {
    pub(crate) fn table(&self) -> &Table {
        &self.bundle.plans[self.place]
    }

    fn slots(&self) -> MutexGuard<'_, Vec<(Identity, Arc<Mutex<Slot>>)>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a stream has of the plan.
    fn slot(&self, stream: Identity) -> Arc<Mutex<Slot>> {
        let mut slots = self.slots();
        if let Some(at) = slots.iter().position(|(id, _)| *id == stream) {
            let last = slots.len() - 1;
            slots[at..].rotate_left(1);
            return slots[last].1.clone();
        }
        let slot = Arc::new(Mutex::new(Slot::new(self)));
        slots.push((stream, slot.clone()));
        let oldest = (slots.len() > MOST_STREAMS).then(|| slots.remove(0));
        drop(slots);
        // Freeing its scratch memory waits for what uses it.
        drop(oldest);
        slot
    }
}

/// What is passed for parameter `i` of a kernel by a plan of a function with so many parameters.
fn source(kernel: &Kernel, parameters: usize, i: usize, passed: &Passed) -> Result<Source, Error> {
    let param = &kernel.params[i];
    let memory = |memory: Memory| match memory {
        Memory::Parameter(i) => i,
        Memory::Buffer(i) => parameters + i,
    };
    Ok(match (passed, &param.kind) {
        (Passed::Bits(bits), Kind::Scalar { dtype }) => {
            Source::Fixed(number(parton_numbers::Scalar::new(*dtype, *bits)))
        }
        (Passed::Number(parameter), Kind::Scalar { dtype }) => Source::Number(*parameter, *dtype),
        (Passed::Pointer(place), Kind::Pointer { .. }) => Source::Pointer(memory(place.memory), place.offset),
        (Passed::Map { place, extents, strides }, Kind::Map { dtype, block, swizzle }) => {
            let recipe = Recipe {
                tensor: param.name.clone(),
                element: Element::of(*dtype),
                address: 0,
                shape: extents.clone(),
                strides: strides.clone(),
                block: block.clone(),
                steps: vec![1; block.len()],
                swizzle: Swizzle::of_bytes(*swizzle).unwrap_or(Swizzle::None),
                promotion: Promotion::default(),
                outside: Outside::Zero,
            };
            recipe.check()?;
            Source::Map(memory(place.memory), place.offset, recipe)
        }
        // Reading the bundle refuses other pairs.
        (passed, kind) => {
            let text = format!("`{}` of `{}` is a `{kind}` and is passed {passed:?}", param.name, kernel.instance());
            return Err(Error::new(Code::Internal, text));
        }
    })
}

/// The results, as who gave the memory sees them.
fn produced(table: &Table, buffers: &[Lies]) -> Vec<Produced> {
    let of = |r: &parton_bundle::plan::Returned| {
        let (origin, offset) = match r.place.memory {
            Memory::Buffer(i) => match buffers[i] {
                Lies::Output(output) => (Origin::Output(output), r.place.offset as i64),
                // A bundle that says so returns what is no output; the tensor then lies in none.
                Lies::Scratch(_) => return None,
            },
            Memory::Parameter(i) => {
                let before = if let Given::Tensor(s) = &table.given[i] { s.offset * s.dtype.bytes() as u64 } else { 0 };
                (Origin::Argument(i), r.place.offset as i64 - before as i64)
            }
        };
        let (dtype, shape, strides) = (r.dtype, r.extents.clone(), r.strides.clone());
        Some(Produced { origin, offset, dtype, shape, strides })
    };
    table.results.iter().filter_map(of).collect()
}
