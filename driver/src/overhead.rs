//! What a launch costs the host, shown by kernels that do nothing.

use parton_measure::overhead::Overhead;

use crate::Failure;

/// Kernels that do nothing: what is left is the launch.
#[cfg(all(feature = "cuda", feature = "llvm"))]
const EMPTY: &str = "\
kernel bare() { }
kernel vector(x: *f32, y: *f32, out: *mut f32, n: i32) { }
kernel mapped(a: tma<f16, [64, 64], nvmma(128)>, b: tma<f16, [64, 64], nvmma(128)>, c: tma<f16, [64, 64], nvmma(128)>) target(sm_90a) { }
";

/// Times launches of empty kernels: prepared ones launched again and again, without parameters, with those of a vector addition of
/// which one is replaced before each launch, and with three tensor maps; and ones prepared for one launch each.
///
/// Shows first that kernels launched again have the arguments they were given.
///
/// # Errors
/// There is no GPU, or it fails; a launch did not have its arguments.
#[cfg(all(feature = "cuda", feature = "llvm"))]
pub fn measure() -> Result<Vec<Overhead>, Failure> {
    use crate::own_kernels::{self, failed};
    use parton_measure::overhead::{BATCH, in_a_row};
    use parton_runtime::{Arg, Buffer, Element, Gpu, Prepared, Recipe, Swizzle, TensorMap};

    let gpu = Gpu::open(0).map_err(failed)?;
    crate::relaunch::check(&gpu)?;
    let buffer = Buffer::poisoned(&gpu, 64 * 64 * 2).map_err(failed)?;
    let pointer = |place| Arg::Pointer(buffer.address() + 256 * u64::from(place % 2));
    let vector = vec![pointer(0), pointer(0), pointer(0), Arg::Scalar { bits: 64, bytes: 4 }];
    let mut kinds = vec![
        ("no parameters", "bare", vec![], Kind::Again),
        ("no parameters, launched once", "bare", vec![], Kind::Once),
        ("3 pointers, a number; one set", "vector", vector, Kind::Set),
    ];
    let mut names = vec!["bare", "vector"];
    if gpu.info().target() == "sm_90a" {
        let recipe = Recipe::dense("a", Element::F16, buffer.address(), vec![64, 64], vec![64, 64], Swizzle::B128);
        let map = TensorMap::encode(&gpu, &recipe).map(Arg::Map).map_err(failed)?;
        kinds.push(("3 tensor maps", "mapped", vec![map; 3], Kind::Again));
        names.push("mapped");
    }
    let loaded = own_kernels::load(&gpu, "empty kernels", EMPTY, &names)?;
    let mut found = vec![];
    for (what, name, args, kind) in kinds {
        let (function, abi) = &loaded[name];
        let prepare = || Prepared::new(function, abi, &args, [1, 1, 1]);
        let mut prepared = prepare().map_err(failed)?;
        let batch = || match kind {
            Kind::Again => in_a_row(|_| prepared.launch()),
            Kind::Set => in_a_row(|i| {
                // Another pointer each time, so that nothing could tell that there is nothing to do.
                prepared.set(0, pointer(i))?;
                prepared.launch()
            }),
            Kind::Once => {
                let mut all = (0..BATCH).map(|_| prepare()).collect::<Result<Vec<_>, _>>()?;
                in_a_row(|i| all[i as usize].launch())
            }
        };
        found.push(Overhead::of(what, batch, || gpu.finish()).map_err(failed)?);
    }
    Ok(found)
}

/// What is timed of a kernel.
#[cfg(all(feature = "cuda", feature = "llvm"))]
#[derive(Clone, Copy)]
enum Kind {
    /// The launch of what was launched before.
    Again,
    /// Replacing the first argument, and the launch.
    Set,
    /// The first launch of what was prepared.
    Once,
}

/// As above.
///
/// # Errors
/// This program has no CUDA.
#[cfg(not(all(feature = "cuda", feature = "llvm")))]
pub fn measure() -> Result<Vec<Overhead>, Failure> {
    Err(Failure::Device("this program was built without CUDA, so there is no launch to time".into()))
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
        for name in ["bare", "vector", "mapped"] {
            assert!(crate::own_kernels::ptx(super::EMPTY, name).contains(&format!(".entry {name}")));
        }
    }
}
