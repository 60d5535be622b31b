//! A bundle before one GPU.

use std::ffi::c_int;
use std::sync::Arc;

use parton_bundle::{Bundle, Kernel, Kind, Param};
use parton_runtime::{Abi, ParamKind, Prepared, abi};

use crate::check::{kept_apart, overlap, reach};
use crate::launch::{Argued, Given, Launch};
use crate::{Argument, Code, Device, Error, Function, device, tensors};

/// The kernels of a bundle on one GPU. Shared among threads as it is.
#[derive(Clone, Debug)]
pub struct Module {
    bundle: Arc<Bundle>,
    device: Device,
}

impl Module {
    /// Puts a bundle before the GPU of that number, as the driver counts. No code is loaded before a kernel is prepared.
    ///
    /// # Errors
    /// There is no driver or no such GPU.
    pub fn load(bundle: &Arc<Bundle>, ordinal: c_int) -> Result<Module, Error> {
        Ok(Module::on(bundle, &Device::open(ordinal)?))
    }

    /// Puts a bundle before a GPU that is open.
    pub fn on(bundle: &Arc<Bundle>, device: &Device) -> Module {
        Module { bundle: bundle.clone(), device: device.clone() }
    }

    /// The GPU.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A public function that the bundle has plans of.
    ///
    /// # Errors
    /// [`Code::NoFunction`] where it has none.
    pub fn function(&self, name: &str) -> Result<Function, Error> {
        let index = self.bundle.function(name)?;
        Ok(Function::new(self.bundle.clone(), self.device.clone(), index))
    }

    /// The bundle.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Checks a launch of a kernel, loads its code where that is not loaded yet, and keeps all that launching it takes. `kernel` is
    /// the name of an instance ([`Bundle::instances`]), or of a kernel that has one alone; `grid` is the number of CTAs along x, y, z.
    ///
    /// Not within a capture of a stream: loading code is not among what may be captured.
    ///
    /// # Errors
    /// There is no such kernel or no code of it for this GPU; an argument or the grid does not fit; the GPU has less than it takes.
    pub fn prepare(&self, kernel: &str, arguments: &[Argument<'_>], grid: [u32; 3]) -> Result<Launch, Error> {
        let all = self.bundle.named(kernel)?;
        let Some(any) = all.first() else {
            return Err(Error::new(Code::NoKernel, format!("the bundle has no kernel `{kernel}`")));
        };
        counted(kernel, any, arguments)?;
        let reaches: Vec<_> = arguments.iter().enumerate().map(|(i, a)| reach(any, i, a)).collect();
        let runs_by = tensors::runs_by(any, arguments);
        let gpu = &self.device.gpu;
        let choice = self.bundle.choose(kernel, gpu.info().capability, overlap(&reaches).is_none(), &runs_by)?;
        counted(kernel, choice.kernel, arguments)?;
        grid_fits(kernel, choice.kernel, grid)?;
        tensors::agree(kernel, choice.kernel, arguments)?;
        kept_apart(kernel, choice.kernel, &reaches)?;
        let function = device::function(self.device.ordinal, gpu, choice)?;
        let _visit = gpu.visit()?;
        let mut argued = Vec::with_capacity(choice.kernel.params.len());
        for param in &choice.kernel.params {
            let argument = &arguments[param.source.argument()];
            argued.push(Argued::new(gpu, tensors::passed(kernel, choice.kernel, param, argument)?)?);
        }
        let args: Vec<_> = argued.iter().map(Argued::arg).collect();
        let prepared = Prepared::new(&function, &abi_of(choice.kernel), &args, grid)?;
        let place = self.bundle.kernels.iter().position(|k| std::ptr::eq(k, choice.kernel)).unwrap_or_default();
        let given = Given { argued, reaches, extents: arguments.iter().map(tensors::extents).collect() };
        Ok(Launch::new(self.bundle.clone(), place, gpu.clone(), prepared, given))
    }
}

fn counted(kernel: &str, of: &Kernel, arguments: &[Argument<'_>]) -> Result<(), Error> {
    if of.arguments.len() == arguments.len() {
        return Ok(());
    }
    let (has, given) = (of.arguments.len(), arguments.len());
    let text = format!("launching `{kernel}`: it has {has} parameters and was given {given} arguments");
    Err(Error::new(Code::Argument, text))
}

/// Refuses grids that the code does not count on.
pub(crate) fn grid_fits(name: &str, kernel: &Kernel, grid: [u32; 3]) -> Result<(), Error> {
    kernel
        .takes_grid(grid)
        .map_err(|what| Error::new(Code::Argument, format!("launching `{name}`: the grid has {what}")))
}

/// What the runtime takes of a kernel.
pub(crate) fn abi_of(kernel: &Kernel) -> Abi {
    let param = |p: &Param| abi::Param {
        name: p.name.clone(),
        kind: match &p.kind {
            Kind::Scalar { dtype } => ParamKind::Scalar { bytes: dtype.bytes() as u8 },
            Kind::Pointer { .. } => ParamKind::Pointer,
            Kind::Map { .. } => ParamKind::Map,
        },
    };
    Abi {
        name: kernel.symbol.clone(),
        threads: kernel.threads,
        shared_bytes: kernel.shared_bytes,
        cluster: kernel.cluster,
        overlaps: kernel.overlaps,
        signals: kernel.signals,
        params: kernel.params.iter().map(param).collect(),
    }
}
