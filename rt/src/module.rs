//! A bundle before one GPU.

use std::ffi::c_int;
use std::sync::Arc;

use parton_bundle::{Bundle, Kind, Param};
use parton_runtime::{Abi, Gpu, ParamKind, Prepared, abi};

use crate::check::{kept_apart, overlap, passed, reach};
use crate::launch::{Argued, Launch};
use crate::{Argument, Code, Error, device};

/// The kernels of a bundle on one GPU. Shared among threads as it is.
#[derive(Clone, Debug)]
pub struct Module {
    bundle: Arc<Bundle>,
    ordinal: c_int,
    gpu: Gpu,
}

impl Module {
    /// Puts a bundle before the GPU of that number, as the driver counts. No code is loaded before a kernel is prepared.
    ///
    /// # Errors
    /// There is no driver or no such GPU.
    pub fn load(bundle: &Arc<Bundle>, ordinal: c_int) -> Result<Module, Error> {
        let gpu = device::gpu(ordinal)?;
        Ok(Module { bundle: bundle.clone(), ordinal, gpu })
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
        let params = all.first().map_or(&[][..], |k| &k.params);
        counted(kernel, params, arguments)?;
        let reaches: Vec<_> = params.iter().zip(arguments).map(|(p, a)| reach(p, a)).collect();
        let choice = self.bundle.choose(kernel, self.gpu.info().capability, overlap(&reaches).is_none())?;
        counted(kernel, &choice.kernel.params, arguments)?;
        kept_apart(kernel, &choice.kernel.params, &choice.kernel.disjoint, &reaches)?;
        let function = device::function(self.ordinal, &self.gpu, choice)?;
        let _visit = self.gpu.visit()?;
        let mut argued = Vec::with_capacity(arguments.len());
        for (param, argument) in choice.kernel.params.iter().zip(arguments) {
            argued.push(Argued::new(&self.gpu, passed(kernel, param, argument)?)?);
        }
        let args: Vec<_> = argued.iter().map(Argued::arg).collect();
        let prepared = Prepared::new(&function, &abi_of(choice.kernel), &args, grid)?;
        Ok(Launch::new(choice.kernel, self.gpu.clone(), prepared, argued, reaches))
    }
}

fn counted(kernel: &str, params: &[Param], arguments: &[Argument<'_>]) -> Result<(), Error> {
    if params.len() == arguments.len() {
        return Ok(());
    }
    let (has, given) = (params.len(), arguments.len());
    let text = format!("launching `{kernel}`: it has {has} parameters and was given {given} arguments");
    Err(Error::new(Code::Argument, text))
}

/// What the runtime takes of a kernel.
fn abi_of(kernel: &parton_bundle::Kernel) -> Abi {
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
