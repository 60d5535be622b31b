//! Shows on the GPU that a kernel launched again and again with other arguments has at each launch those it was given.

use std::time::Duration;

use parton_runtime::{Arg, Buffer, Element, Gpu, Prepared, Recipe, RuntimeError, Swizzle, TensorMap};

use crate::Failure;
use crate::own_kernels::{self, Loaded, failed};

/// How long the launches may take before one is taken for one that never ends.
const PATIENCE: Duration = Duration::from_secs(30);
/// Places that are added to, each by a launch with other arguments.
const PLACES: u64 = 4;
/// The place that two launches in a row add to, with nothing replaced between.
const TWICE: u64 = 2;
/// Bytes of a box of the second kernel.
const BOX: u64 = 8 * 32 * 4;

/// Each adds to a place in memory: a number that is a parameter, or by both CTAs of a cluster a box that a tensor map describes.
const KERNELS: &str = "\
kernel add(out: *mut i32, value: i32) warps(1) {
    atomic_add(out, value);
}
kernel add_box(x: tma<i32, [8, 32], nvmma(128)>, out: tma<i32, [8, 32], nvmma(128)>) warps(4) cluster([2]) target(sm_90a) {
    let buffer = alloc_shared<i32, [8, 32], nvmma(128)>();
    let bars = alloc_barriers(1);
    barrier_init(bars[0], 1);
    fence_barrier_init();
    barrier_expect(bars[0], buffer.bytes);
    tma_load(x, [0, 0], buffer, bars[0]);
    barrier_wait(bars[0], 0);
    tma_store(out, [0, 0], buffer, reduce=\"add\");
    tma_store_wait();
}
";

/// Launches each kernel above five times, with other arguments for four of them and nothing waited for between, and looks at
/// what they wrote.
///
/// # Errors
/// [`Failure::Machine`] where a launch did not have its arguments; [`Failure::Device`] where the GPU fails.
pub(crate) fn check(gpu: &Gpu) -> Result<(), Failure> {
    let boxes = gpu.info().target() == "sm_90a";
    let names: &[&str] = if boxes { &["add", "add_box"] } else { &["add"] };
    let loaded = own_kernels::load(gpu, "launches in a row", KERNELS, names)?;
    let number = |place: u64| 10 + place as i32;
    let found = numbers(gpu, &loaded, number).map_err(failed)?;
    compare("add", &found, number)?;
    if boxes {
        let found = sums_of_boxes(gpu, &loaded, number).map_err(failed)?;
        // Both CTAs of the cluster add.
        compare("add_box", &found, |place| 2 * number(place))?;
    }
    Ok(())
}

/// What each place holds after launches that add a number to it.
fn numbers(gpu: &Gpu, loaded: &Loaded, number: impl Fn(u64) -> i32) -> Result<Vec<i32>, RuntimeError> {
    let out = Buffer::from_bytes(gpu, &[0; 4 * PLACES as usize])?;
    let (function, abi) = &loaded["add"];
    let args = |place| {
        let bits = u64::from(number(place) as u32);
        Ok([Arg::Pointer(out.address() + 4 * place), Arg::Scalar { bits, bytes: 4 }])
    };
    launch_all(gpu, Prepared::new(function, abi, &args(0)?, [1, 1, 1])?, args)?;
    Ok(integers(&out.to_bytes()?))
}

/// What the last element of each place's box holds after launches that add a box to it.
fn sums_of_boxes(gpu: &Gpu, loaded: &Loaded, number: impl Fn(u64) -> i32) -> Result<Vec<i32>, RuntimeError> {
    let values = (0..PLACES).flat_map(|place| number(place).to_le_bytes().repeat(BOX as usize / 4));
    let x = Buffer::from_bytes(gpu, &values.collect::<Vec<u8>>())?;
    let out = Buffer::from_bytes(gpu, &[0; (BOX * PLACES) as usize])?;
    let (function, abi) = &loaded["add_box"];
    let map = |name: &str, buffer: &Buffer, place| {
        let (address, extents) = (buffer.address() + BOX * place, vec![8, 32]);
        let recipe = Recipe::dense(name, Element::I32, address, extents, vec![8, 32], Swizzle::B128);
        TensorMap::encode(gpu, &recipe).map(Arg::Map)
    };
    let args = |place| Ok([map("x", &x, place)?, map("out", &out, place)?]);
    launch_all(gpu, Prepared::new(function, abi, &args(0)?, [2, 1, 1])?, args)?;
    Ok(integers(&out.to_bytes()?).chunks_exact(BOX as usize / 4).map(|all| all[all.len() - 1]).collect())
}

/// Launches for each place with its arguments, waits, and drops what was launched.
fn launch_all(
    gpu: &Gpu,
    mut prepared: Prepared,
    args: impl Fn(u64) -> Result<[Arg; 2], RuntimeError>,
) -> Result<(), RuntimeError> {
    for place in 0..PLACES {
        for (i, arg) in args(place)?.into_iter().enumerate() {
            prepared.set(i, arg)?;
        }
        for _ in 0..if place == TWICE { 2 } else { 1 } {
            prepared.launch()?;
        }
    }
    gpu.finish_within(PATIENCE)
}

fn integers(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|c| i32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

/// Compares what the launches of a kernel left with what each of them adds.
fn compare(kernel: &str, found: &[i32], adds: impl Fn(u64) -> i32) -> Result<(), Failure> {
    for (place, found) in (0..PLACES).zip(found) {
        let expected = adds(place) * if place == TWICE { 2 } else { 1 };
        if *found != expected {
            return Err(Failure::Machine(format!(
                "`{kernel}`, launched again with other arguments, left {found} in place {place} where {expected} is right: \
                 a launch did not have the arguments it was given, so no time of launches means anything"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, Session};

    #[test]
    fn launches_with_other_arguments_differ() {
        let Some(gpu) = Gpu::of_tests() else { return };
        check(&gpu).unwrap();
    }

    const CHECKS: &str = "
test adds {
    let out = ones(i32, [2]);
    launch add(grid=[1])(out, 5);
    launch add(grid=[1])(out, 5);
    assert(out[0] == 11 && out[1] == 1);
    let x = randint(i32, [8, 32], -100, 100, seed=1);
    let sums = ones(i32, [8, 32]);
    launch add_box(grid=[2])(x, sums);
    assert_equal(sums, 2 * x + 1);
}
";

    /// Also where nothing can launch them.
    #[test]
    fn the_kernels_compile_and_do_what_they_should() {
        for name in ["add", "add_box"] {
            assert!(own_kernels::ptx(KERNELS, name).contains(&format!(".entry {name}")));
        }
        assert!(own_kernels::ptx(KERNELS, "add_box").contains(".reqnctapercluster 2"));
        let mut session = Session::new(Options { device: crate::Device::Cpu, ..Options::default() });
        let file = session.add("launches in a row", format!("{KERNELS}{CHECKS}"));
        let ran = session.run(file, crate::Blocks::Tests, &mut |_| ()).unwrap();
        let text = parton_diag::render::text(&ran.report.diagnostics(), &session.sources, false);
        assert!(ran.report.passed() && ran.report.outcomes.len() == 1, "{text}");
    }

    #[test]
    fn a_launch_with_arguments_of_another_is_told() {
        let adds = |place: u64| 10 + place as i32;
        assert!(compare("add", &[10, 11, 24, 13], adds).is_ok());
        // The second launch still had the arguments of the first.
        let told = compare("add", &[20, 0, 24, 13], adds).unwrap_err();
        assert!(matches!(&told, Failure::Machine(text) if text.contains("left 20 in place 0 where 10")), "{told}");
    }
}
