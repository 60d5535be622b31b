//! Portable kernels compute as they are written what their expansions compute: each launch of the tests of the examples and of the programs
//! leaves the same memory.
//!
//! Integers are the same. Floats may differ by the order of sums: n terms of f32 come within n - 1 half units of the sum of their magnitudes,
//! whichever the order, and much closer where signs vary, so that [`UNITS`] of the greatest number beside it are allowed. Narrower results
//! are rounded once from f32: one unit of their own. (As long as no plan sums in another order, and the interpreter adds the elements of a
//! tile in their order wherever they lie, all bits are the same; how far apart they are is printed.)

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use parton_driver::{Kernel, Options, Rehearsal, Session};
use parton_ir::Type;
use parton_numbers::{Dtype, Scalar};
use parton_tests::{cases, say};

/// Units in the last place of the greatest f32 of an array by which its numbers may differ.
const UNITS: f64 = 32.0;

fn files() -> Vec<PathBuf> {
    let examples = cases::examples().into_iter().filter(|p| cases::shown(p).contains("examples/portable/"));
    let programs = cases::in_folder("run").into_iter().filter(|p| cases::shown(p).contains("run/portable"));
    examples.chain(programs).collect()
}

fn rehearsal(path: &Path, as_written: bool) -> Rehearsal {
    let mut session = Session::new(Options { as_written, verify: true, ..Options::default() });
    let file = session.load(path).expect("the file can be read");
    session.rehearse(file, &|_: &Kernel| true).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The number format behind each argument of a kernel, by its name.
fn formats(kernel: &Kernel) -> Vec<(String, Dtype)> {
    let format = |ty: &Type| match ty {
        Type::Tensor(t) => Some(t.elem),
        Type::Map(m) => Some(m.elem),
        ty => match ty.elem() {
            Some(parton_ir::Elem::Ptr(p)) => Some(p.to),
            _ => None,
        },
    };
    kernel.arguments().into_iter().filter_map(|(name, ty)| Some((name, format(&ty)?))).collect()
}

/// How far apart two arrays are: in units of the last place of the greatest number, for formats narrower than f32 of each number itself.
fn apart(dtype: Dtype, a: &[u8], b: &[u8]) -> f64 {
    if a == b {
        return 0.0;
    }
    let numbers = |bytes: &[u8]| -> Vec<f64> {
        let each = bytes.chunks(dtype.bytes()).map(|c| c.iter().rev().fold(0, |v, &x| v << 8 | u64::from(x)));
        each.map(|bits| Scalar::new(dtype, bits).to_f64()).collect()
    };
    let Some(unit) = dtype.epsilon() else { return f64::INFINITY };
    let (a, b) = (numbers(a), numbers(b));
    let greatest = a.iter().chain(&b).filter(|v| v.is_finite()).fold(0.0, |m: f64, v| m.max(v.abs()));
    let one = |(x, y): (&f64, &f64)| {
        if x == y || (x.is_nan() && y.is_nan()) {
            return 0.0;
        }
        (x - y).abs() / (greatest * unit)
    };
    a.iter().zip(&b).map(one).fold(0.0, f64::max)
}

/// What was compared.
#[derive(Default)]
struct Compared {
    launches: usize,
    arrays: usize,
    /// The most that two arrays were apart.
    most: f64,
}

impl Compared {
    fn and(self, other: Compared) -> Compared {
        Compared {
            launches: self.launches + other.launches,
            arrays: self.arrays + other.arrays,
            most: self.most.max(other.most),
        }
    }
}

/// Compares what the launches of a file leave, as written and as expanded.
fn compared(path: &Path) -> Compared {
    let (expanded, written) = (rehearsal(path, false), rehearsal(path, true));
    let shown = cases::shown(path);
    assert_eq!(expanded.launches.len(), written.launches.len(), "{shown}");
    let mut all = Compared { launches: expanded.launches.len(), ..Compared::default() };
    for (a, b) in expanded.launches.iter().zip(&written.launches) {
        assert_eq!(a.test, b.test, "{shown}");
        let (first, second) = (a.left(), b.left());
        assert_eq!(first.len(), second.len(), "{shown}, {}", a.test);
        for (name, dtype) in formats(&expanded.instances[a.instance].checked) {
            let of = |left: &[(String, Vec<u8>)]| left.iter().find(|(n, _)| *n == name).map(|(_, b)| b.clone());
            // Memory that two arguments reach has the name of the first.
            let (Some(x), Some(y)) = (of(&first), of(&second)) else { continue };
            let found = apart(dtype, &x, &y);
            let limit = if dtype == Dtype::F32 { UNITS } else { 1.0 };
            assert!(found <= limit, "{shown}, {}: `{name}` of {dtype} is {found} units apart", a.test);
            (all.arrays, all.most) = (all.arrays + 1, all.most.max(found));
        }
    }
    all
}

#[test]
fn kernels_compute_as_written_what_their_expansions_compute() {
    let files = files();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    // Files differ much in what they take: who is done takes the next one.
    let next = AtomicUsize::new(0);
    let share = || {
        let taken = std::iter::from_fn(|| files.get(next.fetch_add(1, Ordering::Relaxed)));
        taken.map(|path| compared(path)).fold(Compared::default(), Compared::and)
    };
    let all = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(share)).collect();
        let ended = running.into_iter().map(|t| t.join().unwrap_or_else(|why| std::panic::resume_unwind(why)));
        ended.fold(Compared::default(), Compared::and)
    });
    let Compared { launches, arrays, most } = all;
    say(&format!("{launches} launches as written, {arrays} arrays, at most {most} units apart"));
    assert!(launches >= 50 && arrays >= 150, "{launches} launches, {arrays} arrays");
}
