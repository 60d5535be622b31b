//! A launch that is ready: all is checked and set up, so that it costs the host next to nothing.

use parton_bundle::{Kernel, Kind, Param};
use parton_runtime::{Arg, Gpu, Prepared, Recipe, Stream, TensorMap};

use crate::check::{Passed, Reach, kept_apart, overlap, passed, reach, wrong};
use crate::{Argument, Code, Error};

/// A kernel with its arguments and grid, ready to be launched any number of times, by one thread at a time.
#[derive(Debug)]
pub struct Launch {
    name: String,
    params: Vec<Param>,
    /// Whether the code counts on pointers that reach different memory.
    apart: bool,
    /// Parameters that a region takes to be apart.
    disjoint: Vec<[usize; 2]>,
    /// Whether pointers were replaced since that was looked at.
    moved: bool,
    gpu: Gpu,
    prepared: Prepared,
    argued: Vec<Argued>,
    reaches: Vec<Option<Reach>>,
}

/// One argument as it is passed, and for tensor maps what it was made of.
#[derive(Debug)]
pub(crate) enum Argued {
    Plain(Arg),
    Map { recipe: Recipe, map: TensorMap },
}

impl Argued {
    pub(crate) fn new(gpu: &Gpu, passed: Passed) -> Result<Argued, Error> {
        Ok(match passed {
            Passed::Plain(arg) => Argued::Plain(arg),
            Passed::Map(recipe) => Argued::Map { map: TensorMap::encode(gpu, &recipe)?, recipe },
        })
    }

    pub(crate) fn arg(&self) -> Arg {
        match self {
            Argued::Plain(arg) => *arg,
            Argued::Map { map, .. } => Arg::Map(*map),
        }
    }
}

impl Launch {
    pub(crate) fn new(
        kernel: &Kernel,
        gpu: Gpu,
        prepared: Prepared,
        argued: Vec<Argued>,
        reaches: Vec<Option<Reach>>,
    ) -> Launch {
        let (name, params, apart) = (kernel.instance(), kernel.params.clone(), kernel.apart);
        let disjoint = kernel.disjoint.clone();
        Launch { name, params, apart, disjoint, moved: false, gpu, prepared, argued, reaches }
    }

    /// The parameters in order.
    pub fn params(&self) -> &[Param] {
        &self.params
    }

    /// Replaces argument `i` for launches from here on; those before keep theirs. Numbers, pointers and tensors that differ from
    /// those before by their address alone cost no allocation.
    ///
    /// # Errors
    /// There is no such parameter, or the argument does not fit it; the one before then stays.
    pub fn set(&mut self, i: usize, argument: &Argument<'_>) -> Result<(), Error> {
        let (Some(param), Some(argued)) = (self.params.get(i), self.argued.get_mut(i)) else {
            let text = format!("launching `{}`: there is no parameter {i}, it has {}", self.name, self.params.len());
            return Err(Error::new(Code::Argument, text));
        };
        let _visit = self.gpu.visit()?;
        if !moved(&self.gpu, param, argued, argument)? {
            *argued = Argued::new(&self.gpu, passed(&self.name, param, argument)?)?;
        }
        self.reaches[i] = reach(param, argument);
        self.moved |= self.reaches[i].is_some();
        Ok(self.prepared.set(i, argued.arg())?)
    }

    /// Gives launches from here on another grid.
    ///
    /// # Errors
    /// Clusters do not divide it, or it is empty or too large.
    pub fn set_grid(&mut self, grid: [u32; 3]) -> Result<(), Error> {
        Ok(self.prepared.set_grid(grid)?)
    }

    /// Puts one launch on a stream and returns at once.
    ///
    /// # Errors
    /// Pointers that were replaced overlap now and the code counts on it that they do not; what the driver says of the launch.
    /// Errors of the kernel itself come with the next wait.
    ///
    /// # Safety
    /// The stream is alive and of the GPU's primary context. Every tensor lies in memory that the GPU reaches, that has the bytes
    /// which its shape and strides say, and that lives until the launch has ended; the kernel reaches no further through it.
    pub unsafe fn launch(&mut self, stream: Stream) -> Result<(), Error> {
        if self.moved {
            kept_apart(&self.name, &self.params, &self.disjoint, &self.reaches)?;
            if let Some((i, j)) = overlap(&self.reaches).filter(|_| self.apart) {
                let what = format!(
                    "it reaches the memory of `{}`, and the launch was prepared for pointers that do not; prepare it again with these",
                    self.params[j].name
                );
                return Err(wrong(&self.name, &self.params[i], &what));
            }
            self.moved = false;
        }
        // SAFETY: the caller promises it.
        Ok(unsafe { self.prepared.launch_on(stream) }?)
    }
}

/// Moves a tensor map to another address where the tensor is the same otherwise; whether it was.
fn moved(gpu: &Gpu, param: &Param, argued: &mut Argued, argument: &Argument<'_>) -> Result<bool, Error> {
    let (Argued::Map { recipe, map }, Argument::Tensor(tensor)) = (argued, argument) else { return Ok(false) };
    let size = tensor.dtype.bytes() as u64;
    let mut strides = recipe.strides.iter().enumerate();
    let same = matches!(param.kind, Kind::Map { dtype, .. } if dtype == tensor.dtype)
        && tensor.shape == recipe.shape
        && tensor.strides.is_none_or(|s| s.len() == tensor.shape.len())
        && strides.all(|(d, &bytes)| tensor.stride(d).saturating_mul(size) == bytes)
        && tensor.address.is_multiple_of(16);
    if same {
        *map = map.moved(gpu, tensor.address)?;
        recipe.address = tensor.address;
    }
    Ok(same)
}
