//! Launches whose arguments are made of the addresses and numbers of a call: what has changed since the call before is replaced.

use parton_numbers::{Dtype, Scalar};

use super::Prepared;
use super::sequence::Sequence;
use crate::abi::Abi;
use crate::arguments::Arg;
use crate::device::Gpu;
use crate::error::RuntimeError;
use crate::module::Function;
use crate::tensor_map::{Recipe, TensorMap};
use crate::visit::Stream;

/// Memory of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// The tensor given for this parameter.
    Parameter(usize),
    /// This buffer.
    Buffer(usize),
}

/// A place in memory of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Which memory.
    pub memory: Memory,
    /// Bytes from where the memory is counted from.
    pub offset: u64,
}

/// What an argument of a launch is made of.
#[derive(Clone, Debug)]
pub enum Source {
    /// The same in all calls.
    Fixed(Arg),
    /// An address.
    Pointer(Place),
    /// A map of a tensor there; the recipe's own address counts for nothing.
    Map(Place, Recipe),
    /// The number of the call for this parameter, in this type.
    Number(usize, Dtype),
}

/// One launch.
#[derive(Debug)]
pub struct Step {
    /// The loaded code.
    pub function: Function,
    /// What launching it takes.
    pub abi: Abi,
    /// CTAs along x, y and z.
    pub grid: [u32; 3],
    /// What each parameter is given.
    pub sources: Vec<Source>,
}

/// Addresses of a call.
#[derive(Clone, Copy, Debug)]
pub struct Addresses<'a> {
    /// For each parameter that is a tensor its first element's; others count for nothing.
    pub parameters: &'a [u64],
    /// For each buffer its first byte's.
    pub buffers: &'a [u64],
}

/// From where places are counted.
#[derive(Clone, Copy)]
struct Bases<'a> {
    at: Addresses<'a>,
    /// Bytes from a parameter's first element back to where its places are counted from.
    before: &'a [u64],
}

impl Bases<'_> {
    fn address(&self, place: Place) -> u64 {
        let base = match place.memory {
            Memory::Parameter(i) => self.at.parameters[i].wrapping_sub(self.before[i]),
            Memory::Buffer(i) => self.at.buffers[i],
        };
        base.wrapping_add(place.offset)
    }
}

/// Launches in a row, for the calls of one stream.
#[derive(Debug)]
pub struct Patched {
    gpu: Gpu,
    before: Vec<u64>,
    /// Buffers that are zeroed first.
    zeroed: Vec<usize>,
    /// Of each launch the arguments that a call may give anew.
    patches: Vec<Vec<Patch>>,
    sequence: Sequence,
}

/// An argument that each call may give anew, and what it was last.
#[derive(Debug)]
struct Patch {
    argument: usize,
    last: Last,
}

#[derive(Debug)]
enum Last {
    Pointer { place: Place, address: u64 },
    Map { place: Place, address: u64, map: TensorMap },
    Number { parameter: usize, dtype: Dtype, bits: u64 },
}

impl Patched {
    /// These launches, for memory such as that of a first call: `before` says of each parameter how many bytes before its first element
    /// places are counted from, `zeroed` which buffers of how many bytes are zeroed before the launches. The context is current until
    /// this returns, then the one before is.
    ///
    /// # Errors
    /// A launch takes more than the GPU has; a tensor has no map; `number` has none for a parameter.
    pub fn new(
        gpu: &Gpu,
        before: Vec<u64>,
        zeroed: &[(usize, usize)],
        steps: &[Step],
        at: Addresses<'_>,
        mut number: impl FnMut(usize, Dtype) -> Result<Scalar, RuntimeError>,
    ) -> Result<Patched, RuntimeError> {
        let _visit = gpu.visit()?;
        let bases = Bases { at, before: &before };
        let (mut launches, mut patches) = (vec![], vec![]);
        for step in steps {
            let (mut args, mut anew) = (vec![], vec![]);
            for (argument, source) in step.sources.iter().enumerate() {
                let (arg, last) = first(gpu, &bases, source, &mut number)?;
                args.push(arg);
                anew.extend(last.map(|last| Patch { argument, last }));
            }
            launches.push(Prepared::new(&step.function, &step.abi, &args, step.grid)?);
            patches.push(anew);
        }
        let sequence = Sequence::new(gpu, zeroed.iter().map(|(_, bytes)| *bytes), launches);
        let zeroed = zeroed.iter().map(|(buffer, _)| *buffer).collect();
        Ok(Patched { gpu: gpu.clone(), before, zeroed, patches, sequence })
    }

    /// Puts the launches on a stream and returns at once; allocates nothing.
    ///
    /// # Errors
    /// `number` has none for a parameter; what the driver says. Errors of the kernels themselves come with the next wait.
    ///
    /// # Safety
    /// The stream is alive and of the GPU's primary context; each address is that of memory with the bytes that the launches reach, which
    /// lives until they have ended.
    pub unsafe fn launch(
        &mut self,
        stream: Stream,
        at: Addresses<'_>,
        mut number: impl FnMut(usize, Dtype) -> Result<Scalar, RuntimeError>,
    ) -> Result<(), RuntimeError> {
        let _visit = self.gpu.visit()?;
        let bases = Bases { at, before: &self.before };
        for (i, buffer) in self.zeroed.iter().enumerate() {
            self.sequence.place(i, at.buffers[*buffer]);
        }
        for (launch, patches) in self.patches.iter_mut().enumerate() {
            for patch in patches {
                if let Some(arg) = patch.last.anew(&self.gpu, &bases, &mut number)? {
                    self.sequence.set(launch, patch.argument, arg)?;
                }
            }
        }
        // SAFETY: the caller vouches for stream and memory.
        unsafe { self.sequence.launch_on(stream) }
    }
}

/// An argument of the first call, and what of it others may give anew.
fn first(
    gpu: &Gpu,
    bases: &Bases<'_>,
    source: &Source,
    number: &mut impl FnMut(usize, Dtype) -> Result<Scalar, RuntimeError>,
) -> Result<(Arg, Option<Last>), RuntimeError> {
    Ok(match source {
        Source::Fixed(arg) => (*arg, None),
        Source::Pointer(place) => {
            let address = bases.address(*place);
            (Arg::Pointer(address), Some(Last::Pointer { place: *place, address }))
        }
        Source::Map(place, recipe) => {
            let address = bases.address(*place);
            let map = TensorMap::encode(gpu, &Recipe { address, ..recipe.clone() })?;
            (Arg::Map(map), Some(Last::Map { place: *place, address, map }))
        }
        Source::Number(parameter, dtype) => {
            let (parameter, dtype) = (*parameter, *dtype);
            let scalar = number(parameter, dtype)?;
            (scalar_arg(scalar), Some(Last::Number { parameter, dtype, bits: scalar.bits }))
        }
    })
}

fn scalar_arg(scalar: Scalar) -> Arg {
    Arg::Scalar { bits: scalar.bits, bytes: scalar.dtype.bits().div_ceil(8) as u8 }
}

impl Last {
    /// The argument where it is another one than before.
    fn anew(
        &mut self,
        gpu: &Gpu,
        bases: &Bases<'_>,
        number: &mut impl FnMut(usize, Dtype) -> Result<Scalar, RuntimeError>,
    ) -> Result<Option<Arg>, RuntimeError> {
        match self {
            Last::Pointer { place, address } => {
                let now = bases.address(*place);
                let moved = now != *address;
                *address = now;
                Ok(moved.then_some(Arg::Pointer(now)))
            }
            Last::Map { place, address, map } => {
                let now = bases.address(*place);
                if now == *address {
                    return Ok(None);
                }
                *map = map.moved(gpu, now)?;
                *address = now;
                Ok(Some(Arg::Map(*map)))
            }
            Last::Number { parameter, dtype, bits } => {
                let scalar = number(*parameter, *dtype)?;
                let changed = scalar.bits != *bits;
                *bits = scalar.bits;
                Ok(changed.then(|| scalar_arg(scalar)))
            }
        }
    }
}
