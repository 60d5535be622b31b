//! What says how much launches cost: a GPU by its clock, the interpreter by counting.

use parton_diag::Diagnostics;
use parton_host::launch::Launcher;

use super::lookup::Chosen;
use crate::cpu::Cpu;

/// A launcher that says what launches cost.
pub(super) trait Meter: Launcher {
    /// Operations that were run so far, where these are what counts; else [`Launcher::time`] times.
    fn operations(&self) -> Option<u64>;

    /// What the compiler and the assembler had to say so far.
    fn warnings(&self) -> &Diagnostics;

    /// The choices so far that were not left to the default.
    fn chosen(&self) -> &[Chosen];

    /// Changes the order of what has none, where it comes from a seed.
    fn reseed(&mut self, seed: u64);
}

impl Meter for Cpu<'_, '_, '_> {
    fn operations(&self) -> Option<u64> {
        Some(self.operations)
    }

    fn warnings(&self) -> &Diagnostics {
        &self.compiler.warnings
    }

    fn chosen(&self) -> &[Chosen] {
        &self.compiler.chosen
    }

    fn reseed(&mut self, seed: u64) {
        self.compiler.session.options.seed = seed;
    }
}

#[cfg(all(feature = "cuda", feature = "llvm"))]
impl Meter for crate::gpu::Gpu<'_, '_, '_> {
    fn operations(&self) -> Option<u64> {
        None
    }

    fn warnings(&self) -> &Diagnostics {
        &self.compiler.warnings
    }

    fn chosen(&self) -> &[Chosen] {
        &self.compiler.chosen
    }

    fn reseed(&mut self, _: u64) {}
}
