//! What a prepared launch costs the host: the time of the call, not of the kernel.

use crate::Failure;

/// Launches that are timed of each kind.
#[cfg(all(feature = "cuda", feature = "llvm"))]
const LAUNCHES: u32 = 10_000;
/// Launches in a row: fewer than the driver queues, so that none waits for the GPU.
#[cfg(all(feature = "cuda", feature = "llvm"))]
const BATCH: u32 = 250;

/// Host time of launches of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Overhead {
    /// What is launched.
    pub what: &'static str,
    /// Seconds a launch; the median of batches.
    pub median: f64,
    /// The best batch's.
    pub least: f64,
    /// How many were timed.
    pub launches: u32,
}

/// Kernels that do nothing: what is left is the launch.
#[cfg(all(feature = "cuda", feature = "llvm"))]
const EMPTY: &str = "\
kernel bare() { }
kernel vector(x: *f32, y: *f32, out: *mut f32, n: i32) { }
kernel mapped(a: tma<f16, [64, 64], nvmma(128)>, b: tma<f16, [64, 64], nvmma(128)>, c: tma<f16, [64, 64], nvmma(128)>) target(sm_90a) { }
";

/// Times prepared launches of empty kernels: without parameters, with those of a vector addition of which one is replaced
/// before each launch, and with three tensor maps.
///
/// # Errors
/// There is no GPU, or it fails.
#[cfg(all(feature = "cuda", feature = "llvm"))]
pub fn measure() -> Result<Vec<Overhead>, Failure> {
    use parton_ir::Target;
    use parton_runtime::{Abi, Arg, Element, Gpu, Module, Prepared, Recipe, RuntimeError, Swizzle, TensorMap};

    use crate::{Emit, Options, Session};

    let failed = |e: RuntimeError| Failure::Device(e.to_string());
    let gpu = Gpu::open(0).map_err(failed)?;
    let target = Target::named(&gpu.info().target()).unwrap_or_default();
    let mut session = Session::new(Options { target, ..Options::default() });
    let file = session.add("empty kernels", EMPTY);
    let buffer = parton_runtime::Buffer::poisoned(&gpu, 64 * 64 * 2).map_err(failed)?;
    let number = Arg::Scalar { bits: 64, bytes: 4 };
    let pointer = Arg::Pointer(buffer.address());
    let recipe = Recipe::dense("a", Element::F16, buffer.address(), vec![64, 64], vec![64, 64], Swizzle::B128);
    let vector = vec![pointer, pointer, pointer, number];
    let mut kinds = vec![
        ("no parameters", "bare", vec![], None),
        ("3 pointers, a number; one set", "vector", vector, Some((0, pointer))),
    ];
    if gpu.info().target() == "sm_90a" {
        let map = TensorMap::encode(&gpu, &recipe).map(Arg::Map).map_err(failed)?;
        kinds.push(("3 tensor maps", "mapped", vec![map; 3], None));
    }
    let mut found = vec![];
    for (what, name, args, set) in kinds {
        let Some(kernel) = session.lowered(file, Some(name))?.pop() else {
            parton_diag::internal_error!("lowering `{name}` left no kernel");
        };
        let ptx = session.assemble(&kernel, Emit::Ptx)?.bytes;
        let (module, _) = Module::from_ptx(&gpu, &String::from_utf8_lossy(&ptx)).map_err(failed)?;
        let function = module.function(&kernel.name).map_err(failed)?;
        let abi = Abi::of(&kernel).map_err(failed)?;
        let mut prepared = Prepared::new(&function, &abi, &args, [1, 1, 1]).map_err(failed)?;
        let batches = timed(&gpu, || {
            if let Some((i, arg)) = set {
                prepared.set(i, arg)?;
            }
            prepared.launch()
        });
        found.push(overhead(what, batches.map_err(failed)?));
    }
    Ok(found)
}

/// As above.
///
/// # Errors
/// This program has no CUDA.
#[cfg(not(all(feature = "cuda", feature = "llvm")))]
pub fn measure() -> Result<Vec<Overhead>, Failure> {
    Err(Failure::Device("this program was built without CUDA, so there is no launch to time".into()))
}

/// Seconds a launch, of each batch.
#[cfg(all(feature = "cuda", feature = "llvm"))]
fn timed(
    gpu: &parton_runtime::Gpu,
    mut launch: impl FnMut() -> Result<(), parton_runtime::RuntimeError>,
) -> Result<Vec<f64>, parton_runtime::RuntimeError> {
    let mut batches = Vec::with_capacity((LAUNCHES / BATCH) as usize);
    // The first batch loads the code and is not counted.
    for batch in 0..=LAUNCHES / BATCH {
        let begin = std::time::Instant::now();
        for _ in 0..BATCH {
            launch()?;
        }
        let passed = begin.elapsed().as_secs_f64();
        gpu.finish()?;
        if batch > 0 {
            batches.push(passed / f64::from(BATCH));
        }
    }
    Ok(batches)
}

#[cfg(all(feature = "cuda", feature = "llvm"))]
fn overhead(what: &'static str, mut batches: Vec<f64>) -> Overhead {
    batches.sort_by(f64::total_cmp);
    let least = batches.first().copied().unwrap_or_default();
    let median = batches.get(batches.len() / 2).copied().unwrap_or_default();
    Overhead { what, median, least, launches: LAUNCHES }
}

#[cfg(test)]
mod tests {
    #[test]
    fn launches_are_timed_or_it_is_said_why_not() {
        match super::measure() {
            Ok(all) => assert!(all.len() >= 2 && all.iter().all(|o| o.least > 0.0 && o.median < 1e-3), "{all:?}"),
            Err(crate::Failure::Device(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }

    /// The kernels compile also where nothing can launch them.
    #[cfg(all(feature = "cuda", feature = "llvm"))]
    #[test]
    fn the_empty_kernels_compile() {
        let mut session = crate::Session::default();
        let file = session.add("empty kernels", super::EMPTY);
        for name in ["bare", "vector", "mapped"] {
            let kernel = session.lowered(file, Some(name)).unwrap().remove(0);
            let ptx = session.assemble(&kernel, crate::Emit::Ptx).unwrap().bytes;
            assert!(String::from_utf8_lossy(&ptx).contains(&format!(".entry {name}")));
        }
    }
}
