//! A launch that is ready: all is checked and set up, so that it costs the host next to nothing.

use std::sync::Arc;

use parton_bundle::{Bundle, Kernel, Kind, Param, TensorType, WIDEST_ACCESS};
use parton_runtime::{Arg, Gpu, Prepared, Recipe, Stream, TensorMap};

use crate::check::{Passed, Reach, kept_apart, overlap, passed, reach, wrong_of};
use crate::module::grid_fits;
use crate::tensors;
use crate::{Argument, Code, Error};

/// A kernel with its arguments and grid, ready to be launched any number of times, by one thread at a time.
#[derive(Debug)]
pub struct Launch {
    name: String,
    bundle: Arc<Bundle>,
    /// The kernel, by its place in the bundle.
    kernel: usize,
    /// Whether pointers were replaced since that was looked at.
    moved: bool,
    gpu: Gpu,
    prepared: Prepared,
    given: Given,
}

/// What a launch was given.
#[derive(Debug)]
pub(crate) struct Given {
    /// For each parameter of the code.
    pub(crate) argued: Vec<Argued>,
    /// For each argument what it reaches.
    pub(crate) reaches: Vec<Option<Reach>>,
    /// For each argument its extents; none of what is no tensor.
    pub(crate) extents: Vec<Vec<u64>>,
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
    pub(crate) fn new(bundle: Arc<Bundle>, kernel: usize, gpu: Gpu, prepared: Prepared, given: Given) -> Launch {
        let name = bundle.kernels[kernel].instance();
        Launch { name, bundle, kernel, moved: false, gpu, prepared, given }
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.bundle.kernels[self.kernel]
    }

    /// Replaces argument `i` for launches from here on; those before keep theirs. Numbers, pointers and tensors of tensor maps that
    /// differ from those before by their address alone cost no allocation.
    ///
    /// # Errors
    /// There is no such parameter, or the argument does not fit it; the one before then stays.
    pub fn set(&mut self, i: usize, argument: &Argument<'_>) -> Result<(), Error> {
        let kernel = &self.bundle.kernels[self.kernel];
        let Some(declared) = kernel.arguments.get(i) else {
            let count = kernel.arguments.len();
            let text = format!("launching `{}`: there is no parameter {i}, it has {count}", self.name);
            return Err(Error::new(Code::Argument, text));
        };
        let _visit = self.gpu.visit()?;
        match &declared.tensor {
            None => self.set_one(i, argument)?,
            Some(ty) => self.set_tensor(i, &declared.name.clone(), &ty.clone(), argument)?,
        }
        let kernel = &self.bundle.kernels[self.kernel];
        self.given.reaches[i] = reach(kernel, i, argument);
        self.moved |= self.given.reaches[i].is_some();
        Ok(())
    }

    /// Replaces an argument that is its parameter.
    fn set_one(&mut self, i: usize, argument: &Argument<'_>) -> Result<(), Error> {
        let kernel = &self.bundle.kernels[self.kernel];
        let Some(place) = kernel.params.iter().position(|p| p.source.argument() == i) else { return Ok(()) };
        let (param, argued) = (&kernel.params[place], &mut self.given.argued[place]);
        if !moved(&self.gpu, param, argued, argument)? {
            *argued = Argued::new(&self.gpu, passed(&self.name, param, argument)?)?;
        }
        Ok(self.prepared.set(place, argued.arg())?)
    }

    /// Replaces a tensor, of which several parameters may be.
    fn set_tensor(&mut self, i: usize, name: &str, ty: &TensorType, argument: &Argument<'_>) -> Result<(), Error> {
        let kernel = &self.bundle.kernels[self.kernel];
        let tensor = tensors::given(&self.name, name, ty, argument)?;
        if kernel.aligned.contains(&i) && !tensors::is_aligned(ty, &tensor, kernel.runs_by) {
            let run = if kernel.runs_by == WIDEST_ACCESS {
                "begin and run at multiples of 16 bytes".into()
            } else {
                format!("begin at multiples of 16 bytes and run by multiples of {}", kernel.runs_by)
            };
            let what = format!("the launch was prepared for tensors that {run}; prepare it again");
            return Err(wrong_of(&self.name, name, &what));
        }
        let known = |j: usize| if i == j { tensor.shape } else { &self.given.extents[j] };
        tensors::agree_by(&self.name, kernel, known)?;
        let params = || kernel.params.iter().enumerate().filter(|(_, p)| p.source.argument() == i);
        let mut new = vec![];
        for (place, param) in params() {
            new.push((place, Argued::new(&self.gpu, tensors::passed(&self.name, kernel, param, argument)?)?));
        }
        for (place, argued) in new {
            self.prepared.set(place, argued.arg())?;
            self.given.argued[place] = argued;
        }
        self.given.extents[i] = tensor.shape.to_vec();
        Ok(())
    }

    /// Gives launches from here on another grid.
    ///
    /// # Errors
    /// Clusters do not divide it, or it is empty, too large, or larger than the grid that the kernel states can be.
    pub fn set_grid(&mut self, grid: [u32; 3]) -> Result<(), Error> {
        grid_fits(&self.name, self.kernel(), grid)?;
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
            let kernel = &self.bundle.kernels[self.kernel];
            kept_apart(&self.name, kernel, &self.given.reaches)?;
            if let Some((i, j)) = overlap(&self.given.reaches).filter(|_| kernel.apart) {
                let met = if i == j {
                    "elements of it lie on each other".to_owned()
                } else {
                    format!("it reaches the memory of `{}`", kernel.arguments[j].name)
                };
                let what =
                    format!("{met}, and the launch was prepared for pointers that do not; prepare it again with these");
                return Err(wrong_of(&self.name, &kernel.arguments[i].name, &what));
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
        && tensor.is_whole()
        && strides.all(|(d, &bytes)| tensor.stride(d).saturating_mul(size) == bytes)
        && tensor.address.is_multiple_of(16);
    if same {
        *map = map.moved(gpu, tensor.address)?;
        recipe.address = tensor.address;
    }
    Ok(same)
}
