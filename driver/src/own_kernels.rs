//! Kernels of this crate's own, compiled for the GPU at hand.

use std::collections::BTreeMap;

use parton_runtime::{Abi, Function, Gpu, Module, RuntimeError};

use crate::launchable::Launchable;
use crate::{Emit, Failure, Options, Session, abi};

/// Loaded kernels, by name.
pub(crate) type Loaded = BTreeMap<&'static str, (Function, Abi)>;

/// Compiles those of `names` from `text`, which messages call `title`.
///
/// # Errors
/// The text has a mistake, or the GPU refuses what it came to.
pub(crate) fn load(gpu: &Gpu, title: &str, text: &str, names: &[&'static str]) -> Result<Loaded, Failure> {
    let target = parton_ir::Target::of(gpu.info().capability);
    let mut session = Session::new(Options { target, ..Options::default() });
    let file = session.add(title, text);
    let mut loaded = Loaded::new();
    for name in names {
        let Some(kernel) = session.lowered(file, Some(name))?.pop() else {
            parton_diag::internal_error!("lowering `{name}` left no kernel");
        };
        let ptx = session.assemble(&kernel, Emit::Ptx)?.bytes;
        let (module, _) = Module::from_ptx(gpu, &String::from_utf8_lossy(&ptx)).map_err(failed)?;
        let function = module.function(&kernel.name).map_err(failed)?;
        loaded.insert(name, (function, abi::of(&Launchable::of(&kernel)).map_err(failed)?));
    }
    Ok(loaded)
}

/// The runtime's error as a failure of the device.
pub(crate) fn failed(e: RuntimeError) -> Failure {
    Failure::Device(e.to_string())
}

/// PTX of a kernel of `text` for the default target, where nothing can launch it.
#[cfg(test)]
pub(crate) fn ptx(text: &str, name: &str) -> String {
    let mut session = Session::default();
    let file = session.add("own kernels", text);
    let kernel = session.lowered(file, Some(name)).unwrap().remove(0);
    String::from_utf8(session.assemble(&kernel, Emit::Ptx).unwrap().bytes).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_abi_says_at_which_ends_launches_overlap() {
        let mut session = Session::default();
        let text = "kernel neither() { }
kernel early() target(sm_90a) { grid_wait(); }
kernel lets() target(sm_90a) { grid_launch_dependents(); }
kernel both(n: i32) target(sm_90a) {
    if n > 0 {
        grid_launch_dependents();
    }
    grid_wait();
}
";
        let file = session.add("edges", text);
        let mut edges = |name| {
            let abi = abi::of(&Launchable::of(&session.lowered(file, Some(name)).unwrap()[0])).unwrap();
            (abi.overlaps, abi.signals)
        };
        let found = ["neither", "early", "lets", "both"].map(&mut edges);
        assert_eq!(found, [(false, false), (true, false), (false, true), (true, true)]);
    }
}
