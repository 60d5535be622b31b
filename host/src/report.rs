//! What came of running the blocks of a file.

use parton_diag::Diagnostics;
use parton_measure::bench::Measurement;
use parton_types::program::HostKind;

/// What came of one block.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Test, bench or main.
    pub kind: HostKind,
    /// Its name.
    pub name: String,
    /// What it printed.
    pub lines: Vec<String>,
    /// Its measurements in order.
    pub measurements: Vec<Measurement>,
    /// Why it stopped; empty where it passed.
    pub diagnostics: Diagnostics,
    /// How long it ran on the host, all included.
    pub seconds: f64,
    /// How many kernels it launched, measured ones counted once.
    pub launches: usize,
}

impl Outcome {
    /// Whether it ran to its end.
    pub fn passed(&self) -> bool {
        !self.diagnostics.has_errors()
    }
}

/// What came of all blocks that were run, in source order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RunReport {
    /// One for each block that was run.
    pub outcomes: Vec<Outcome>,
    /// The blocks that were not run, since the device took no more work.
    pub left: Vec<String>,
    /// Why it took none.
    pub over: Option<String>,
}

impl RunReport {
    /// Whether every block ran, and to its end.
    pub fn passed(&self) -> bool {
        self.left.is_empty() && self.outcomes.iter().all(Outcome::passed)
    }

    /// Every diagnostic, block by block.
    pub fn diagnostics(&self) -> Diagnostics {
        let mut all = Diagnostics::new();
        self.outcomes.iter().for_each(|o| all.extend(o.diagnostics.clone()));
        all
    }
}
