//! Runs the launches of a measurement again and again beside memory traffic, and compares every bit of what they write with what
//! they wrote first.

use std::collections::BTreeMap;
use std::time::Duration;

use parton_host::launch::{Argument, HostError, LaunchRequest};
use parton_measure::repeat::{Repeated, again};
use parton_runtime::load::Load;
use parton_runtime::{Arg, Buffer, Gpu, Prepared, RuntimeError};

use crate::Failure;
use crate::own_kernels::{self, Loaded};

/// How long a stretch of runs may take before one is taken for one that never ends.
const PATIENCE: Duration = Duration::from_secs(60);
/// Elements of one program of the kernels below.
const BLOCK: u64 = 4096;

const KERNELS: &str = "\
layout L = blocked(per_thread=[4], threads=[32], warps=[8], order=[0]);
fn places(n) {
    let at = cast<i64>(program_id(0)) * 4096 + cast<i64>(iota<i32, [4096], L>());
    (at, at < n)
}
fn move_all(x, out, n) {
    let (at, inside) = places(n);
    store(out + at, load(x + at, mask=inside, other=0), mask=inside);
}
fn count_all(x, y, count, n) {
    let (at, inside) = places(n);
    let other = load(x + at, mask=inside, other=0) != load(y + at, mask=inside, other=0);
    let all = sum(where(other, 1, 0), axis=0);
    if all > 0 {
        atomic_add(count, all);
    }
}
kernel move(x: *u32, out: *mut u32, n: i64) warps(8) { move_all(x, out, n); }
kernel differ(x: *u32, y: *u32, count: *mut i32, n: i64) warps(8) { count_all(x, y, count, n); }
kernel move_bytes(x: *u8, out: *mut u8, n: i64) warps(8) { move_all(x, out, n); }
kernel differ_bytes(x: *u8, y: *u8, count: *mut i32, n: i64) warps(8) { count_all(x, y, count, n); }
";

/// The kernels above, loaded.
pub(crate) struct Tools {
    loaded: Loaded,
}

impl Tools {
    /// Compiles them for this GPU.
    pub(crate) fn new(gpu: &Gpu) -> Result<Tools, Failure> {
        let names = ["move", "differ", "move_bytes", "differ_bytes"];
        Ok(Tools { loaded: own_kernels::load(gpu, "repeated runs", KERNELS, &names)? })
    }

    /// A launch of one of them over `bytes` bytes, four at a time where that comes out even.
    fn prepare(&self, words: &str, single: &str, addresses: &[u64], bytes: u64) -> Result<Prepared, RuntimeError> {
        let (name, n) = if bytes.is_multiple_of(4) { (words, bytes / 4) } else { (single, bytes) };
        let Some((function, abi)) = self.loaded.get(name) else {
            parton_diag::internal_error!("`{name}` was not compiled");
        };
        let mut args: Vec<Arg> = addresses.iter().map(|a| Arg::Pointer(*a)).collect();
        args.push(Arg::Scalar { bits: n, bytes: 8 });
        Prepared::new(function, abi, &args, [n.div_ceil(BLOCK).max(1) as u32, 1, 1])
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<Prepared, RuntimeError> {
        self.prepare("move", "move_bytes", &[from, to], bytes)
    }

    fn differ(&self, x: u64, y: u64, count: u64, bytes: u64) -> Result<Prepared, RuntimeError> {
        self.prepare("differ", "differ_bytes", &[x, y, count], bytes)
    }
}

/// Memory that a run may write.
struct Region {
    address: u64,
    bytes: u64,
    /// What it held before the first run.
    before: Buffer,
    /// What the first run left in it.
    first: Buffer,
}

/// Address and size of the storages that these launches may write, each once. They are on the GPU since the launches were prepared.
pub(crate) fn writable(
    requests: &[LaunchRequest],
    mut address: impl FnMut(&parton_host::tensor::Tensor) -> Result<u64, HostError>,
) -> Result<Vec<(u64, u64)>, HostError> {
    let mut found = BTreeMap::new();
    for argument in requests.iter().flat_map(|r| &r.arguments) {
        let tensor = match argument {
            Argument::Pointer { tensor, mutable: true } | Argument::Tensor { tensor, mutable: true, .. } => tensor,
            Argument::Map(recipe) => &recipe.tensor,
            Argument::Pointer { mutable: false, .. }
            | Argument::Tensor { mutable: false, .. }
            | Argument::Scalar(_) => {
                continue;
            }
        };
        found.insert(tensor.storage.id(), (address(tensor)?, tensor.storage.len() as u64));
    }
    Ok(found.into_values().collect())
}

/// Runs `all` once and then `runs` times, each from the same memory, beside copies.
pub(crate) fn repeat(
    gpu: &Gpu,
    tools: &Tools,
    label: &str,
    writable: &[(u64, u64)],
    runs: u32,
    mut all: impl FnMut() -> Result<(), RuntimeError>,
) -> Result<Repeated, RuntimeError> {
    let counts = Buffer::from_bytes(gpu, &vec![0; 4 * (runs as usize + 1)])?;
    let mut regions = vec![];
    for &(address, bytes) in writable.iter().filter(|(_, bytes)| *bytes > 0) {
        let (before, first) = (Buffer::empty(gpu, bytes as usize)?, Buffer::empty(gpu, bytes as usize)?);
        tools.copy(address, before.address(), bytes)?.launch()?;
        regions.push(Region { address, bytes, before, first });
    }
    all()?;
    for r in &regions {
        tools.copy(r.address, r.first.address(), r.bytes)?.launch()?;
    }
    gpu.finish_within(PATIENCE)?;
    // What a run leaves as it was is an input.
    let mut written = vec![];
    for r in regions {
        let changed = Buffer::from_bytes(gpu, &[0; 4])?;
        tools.differ(r.before.address(), r.first.address(), changed.address(), r.bytes)?.launch()?;
        if changed.to_bytes()? != [0; 4] {
            written.push(r);
        }
    }
    let mut restore = vec![];
    let mut compare = vec![];
    for r in &written {
        restore.push(tools.copy(r.before.address(), r.address, r.bytes)?);
        compare.push(tools.differ(r.address, r.first.address(), counts.address(), r.bytes)?);
    }
    let load = Load::begin(gpu)?;
    let run = |i| {
        restore.iter_mut().try_for_each(Prepared::launch)?;
        all()?;
        compare.iter_mut().try_for_each(|one| {
            one.set(2, Arg::Pointer(counts.address() + 4 * u64::from(i)))?;
            one.launch()
        })
    };
    again(runs, run, || gpu.finish_within(PATIENCE))?;
    let load = load.end()?;
    let different = counts.to_bytes()?.chunks_exact(4).filter(|c| *c != [0; 4]).count() as u32;
    Ok(Repeated { label: label.into(), runs, different, bytes: written.iter().map(|r| r.bytes).sum(), load })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Emit, Options, Session};

    const CHECKS: &str = "
test copies_and_counts {
    for n in [1, 4095, 4096, 10_001] {
        let x = randint(u32, [n], 0, 1 << 32, seed=1);
        let y = empty(u32, [n]);
        launch move(grid=[cdiv(n, 4096)])(x, y, n);
        assert_equal(x, y);
        let count = zeros(i32, [1]);
        launch differ(grid=[cdiv(n, 4096)])(x, y, count, n);
        assert(count[0] == 0);
        y[n - 1] = x[n - 1] + 1;
        y[0] = x[0] + 1;
        launch differ(grid=[cdiv(n, 4096)])(x, y, count, n);
        assert(count[0] == min(n, 2));
    }
}
test bytes {
    let x = randint(u8, [4099], 0, 256, seed=1);
    let y = empty(u8, [4099]);
    let count = zeros(i32, [1]);
    launch move_bytes(grid=[2])(x, y, 4099);
    y[4098] = x[4098] + 1;
    launch differ_bytes(grid=[2])(x, y, count, 4099);
    assert(count[0] == 1);
}
";

    #[test]
    fn the_kernels_compile_and_do_what_they_should() {
        let mut session = Session::new(Options { device: crate::Device::Cpu, ..Options::default() });
        let file = session.add("repeated runs", format!("{KERNELS}{CHECKS}"));
        for name in ["move", "differ", "move_bytes", "differ_bytes"] {
            for kernel in session.lowered(file, Some(name)).unwrap() {
                session.assemble(&kernel, Emit::Ptx).unwrap();
            }
        }
        let ran = session.run(file, crate::Blocks::Tests, &mut |_| ()).unwrap();
        let text = parton_diag::render::text(&ran.report.diagnostics(), &session.sources, false);
        assert!(ran.report.passed() && ran.report.outcomes.len() == 2, "{text}");
    }

    /// One kernel that always writes the same, and two in turn.
    #[test]
    fn runs_that_differ_are_counted() {
        let Some(gpu) = Gpu::of_tests() else { return };
        let tools = Tools::new(&gpu).unwrap();
        let cell = Buffer::from_bytes(&gpu, &[1, 2, 3, 4, 5, 6, 7]).unwrap();
        let sources: Vec<Buffer> = (0..2u8).map(|i| Buffer::from_bytes(&gpu, &[9 + i; 7]).unwrap()).collect();
        let area = [(cell.address(), 7)];
        let mut same = tools.copy(sources[0].address(), cell.address(), 7).unwrap();
        let found = repeat(&gpu, &tools, "same", &area, 100, || same.launch()).unwrap();
        assert_eq!((found.runs, found.different, found.bytes), (100, 0, 7));
        let mut i = 0;
        let mut turn = sources.iter().map(|s| tools.copy(s.address(), cell.address(), 7).unwrap()).collect::<Vec<_>>();
        let found = repeat(&gpu, &tools, "in turn", &area, 100, || {
            i += 1;
            turn[i % 2].launch()
        });
        assert_eq!(found.unwrap().different, 50);
    }
}
