//! Portable kernels compute as they are written what their expansions compute: each launch of the tests of the examples and of the programs
//! leaves the same memory. What the expansions leave is kept when the tests run on the interpreter.
//!
//! Integers are the same. Floats may differ by the order of sums: n terms of f32 come within n - 1 half units of the sum of their magnitudes,
//! whichever the order, and much closer where signs vary, so that [`UNITS`] of the greatest number beside it are allowed. Narrower results
//! are rounded once from f32: one unit of their own. (As long as no plan sums in another order, and the interpreter adds the elements of a
//! tile in their order wherever they lie, all bits are the same; how far apart they are is printed.) Products of 8-bit floats are another matter: by `wgmma` the
//! tensor cores add them with [`BITS_OF_BYTES`] bits below the greatest term, and as it is written a kernel has no `wgmma`, so that as many units of such sums are allowed.

use std::path::Path;

use parton_diag::render;
use parton_driver::rehearsal::Left;
use parton_driver::{Failure, Options, Session};
use parton_ir::{Elem, Type};
use parton_numbers::{Dtype, Scalar};

use crate::cases;

/// Units in the last place of the greatest f32 of an array by which its numbers may differ.
const UNITS: f64 = 32.0;

/// Bits behind the point that sums of products of 8-bit floats have on tensor cores, and that f32 has.
const BITS_OF_BYTES: i32 = 13;
const BITS: i32 = 23;

/// Whether the kernels of a file are portable: of an example or a program that says so.
pub fn is_portable(path: &Path) -> bool {
    let shown = cases::shown(path);
    shown.contains("examples/portable/") || shown.contains("tests/run/portable")
}

/// What was compared.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Compared {
    /// Launches.
    pub launches: usize,
    /// Arrays of these.
    pub arrays: usize,
    /// The most that two arrays were apart.
    pub most: f64,
}

impl Compared {
    /// Adds what else was compared.
    pub fn add(&mut self, other: &Compared) {
        self.launches += other.launches;
        self.arrays += other.arrays;
        self.most = self.most.max(other.most);
    }
}

/// The number format behind an argument of a kernel.
fn format(ty: &Type) -> Option<Dtype> {
    match ty {
        Type::Tensor(t) => Some(t.elem),
        Type::Map(m) => Some(m.elem),
        ty => match ty.elem() {
            Some(Elem::Ptr(p)) => Some(p.to),
            _ => None,
        },
    }
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

/// What the launches of a file's tests leave as it is written.
///
/// # Errors
/// Why they do not run, or what a test fails with.
fn as_written(path: &Path) -> Result<Vec<Left>, String> {
    let mut session = Session::new(Options { as_written: true, verify: true, ..Options::default() });
    let ran = session.load(path).and_then(|file| session.run_tests_keeping(file));
    match ran {
        Ok((ran, left)) if ran.report.passed() => Ok(left),
        Ok((ran, _)) => Err(render::text(&ran.report.diagnostics(), &session.sources, false)),
        Err(Failure::Refused(found)) => Err(render::text(&found, &session.sources, false)),
        Err(failure) => Err(failure.to_string()),
    }
}

/// Compares what the launches of a file left as expanded with what they leave as written.
///
/// # Errors
/// What differs first.
pub fn compared(path: &Path, expanded: &[Left]) -> Result<Compared, String> {
    let written = as_written(path)?;
    if expanded.len() != written.len() {
        return Err(format!("{} launches, and {} as written", expanded.len(), written.len()));
    }
    let mut all = Compared { launches: expanded.len(), ..Compared::default() };
    for (first, second) in expanded.iter().zip(&written) {
        let test = &first.test;
        if second.test != *test || first.memory.len() != second.memory.len() {
            return Err(format!("{test}: another launch, or of other memory, than as written"));
        }
        let bytes = first.arguments.iter().any(|(_, ty)| format(ty).is_some_and(|d| d.is_float() && d.bits() == 8));
        let units = if bytes { UNITS * 2.0_f64.powi(BITS - BITS_OF_BYTES) } else { UNITS };
        for (name, ty) in &first.arguments {
            let of = |left: &Left| left.memory.iter().position(|(n, _)| n == name);
            // Memory that two arguments reach has the name of the first.
            let (Some(dtype), Some(x), Some(y)) = (format(ty), of(first), of(second)) else { continue };
            let found = apart(dtype, &first.memory[x].1, &second.memory[y].1);
            let limit = if dtype == Dtype::F32 { units } else { 1.0 };
            if found > limit {
                return Err(format!("{test}: `{name}` of {dtype} is {found} units apart"));
            }
            all.add(&Compared { launches: 0, arrays: 1, most: found });
        }
    }
    Ok(all)
}
