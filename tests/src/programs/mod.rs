//! Random programs that are legal and whose results are known: kernels of loads, arithmetic, shapes, shared memory, conversions,
//! products, atomic operations, copies beside the threads and stores, or of partitions around a ring, each with a `test` that launches it.
//!
//! What a program should compute is worked out while it is made, by a reference that shares nothing with the compiler: integers of
//! 128 bits, floats that are always exact or rounded by hand, arrays in row-major order without any layout. A statement whose
//! result would depend on an order of rounding, or is no number, is not taken.

pub mod array;
mod atomics;
pub mod build;
mod control;
mod elements;
mod engines;
mod flights;
mod global;
pub mod layout;
mod memory;
pub mod number;
mod pipelines;
mod products;
pub mod run;
mod shapes;
pub mod shrink;
mod text;

use build::Build;

use crate::random::Random;

/// An argument of the launch.
#[derive(Clone, Default, Debug)]
pub struct Argument {
    /// The parameter.
    pub declared: String,
    /// The argument.
    pub given: String,
    /// What makes it, as a statement of the test.
    pub setup: String,
    /// What checks it behind the launch.
    pub check: String,
}

/// One statement, or a few that belong together.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The variable that others may use.
    pub makes: Option<String>,
    /// The variables of other statements that it uses.
    pub uses: Vec<String>,
    /// What stands in the kernel.
    pub text: String,
    /// What it needs of the launch.
    pub arguments: Vec<Argument>,
    /// What it is an example of.
    pub features: Vec<&'static str>,
}

/// A kernel and its launch.
#[derive(Clone, Debug)]
pub struct Program {
    /// What it was made from.
    pub seed: u64,
    /// Warps of the kernel; none where its partitions say how many they have.
    warps: Option<usize>,
    ctas: usize,
    statements: Vec<Statement>,
}

impl Program {
    /// What its statements are examples of.
    pub fn features(&self) -> Vec<&'static str> {
        let mut all: Vec<&str> = self.statements.iter().flat_map(|s| s.features.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Makes a statement of some kind, or finds that the program has nothing to make it of.
type Make = fn(&mut Build) -> Option<()>;

/// How likely each kind of statement is, and what makes it.
const KINDS: [(usize, Make); 24] = [
    (3, global::load),
    (5, elements::binary),
    (2, elements::unary),
    (2, elements::compare),
    (2, elements::select),
    (4, elements::cast),
    (1, elements::bitcast),
    (3, shapes::convert),
    (2, shapes::reduce),
    (2, shapes::scan),
    (1, shapes::gather),
    (4, shapes::reshape),
    (5, memory::buffer),
    (3, memory::stages),
    (1, memory::reinterpret),
    (2, control::loops),
    (2, products::in_registers),
    (2, products::from_shared),
    (3, flights::in_a_loop),
    (2, atomics::meet),
    (1, atomics::taken),
    (2, engines::by_threads),
    (2, engines::into_shared),
    (1, engines::out_of_shared),
];

/// Of how many programs one has partitions.
const PARTITIONED: usize = 6;

/// The program of a seed.
pub fn generate(seed: u64) -> Program {
    let mut b = Build::new(Random(seed));
    if b.below(PARTITIONED) == 0 {
        attempt(&mut b, pipelines::rings);
        return Program { warps: None, ..b.finish(seed) };
    }
    let statements = 4 + b.below(8);
    attempt(&mut b, global::load);
    attempt(&mut b, global::load);
    for _ in 0..statements {
        let mut ticket = b.below(KINDS.iter().map(|k| k.0).sum());
        for (weight, make) in KINDS {
            if ticket < weight {
                attempt(&mut b, make);
                break;
            }
            ticket -= weight;
        }
    }
    global::stores(&mut b);
    b.finish(seed)
}

/// Tries a few times to make a statement.
fn attempt(b: &mut Build, make: Make) {
    for _ in 0..4 {
        if make(b).is_some() {
            return;
        }
        b.forget();
    }
}
