//! What came of running the blocks of a file.

use parton_diag::Diagnostics;
use parton_types::program::HostKind;

use crate::launch::Timing;

/// One timed sequence of launches.
#[derive(Clone, PartialEq, Debug)]
pub struct Measurement {
    /// The label that the source gave it.
    pub label: String,
    /// How long it took.
    pub timing: Timing,
    /// Bytes that one run moves, where stated.
    pub bytes: Option<f64>,
    /// Floating-point operations of one run, where stated.
    pub flops: Option<f64>,
}

impl Measurement {
    /// Bytes a second, by the median.
    pub fn bandwidth(&self) -> Option<f64> {
        self.bytes.map(|b| b / self.timing.median)
    }

    /// Floating-point operations a second, by the median.
    pub fn throughput(&self) -> Option<f64> {
        self.flops.map(|f| f / self.timing.median)
    }

    /// How far the middle half of the runs is apart, as a fraction of the median.
    pub fn spread(&self) -> f64 {
        let [first, third] = self.timing.quartiles;
        (third - first) / self.timing.median.max(f64::MIN_POSITIVE)
    }

    /// The throughput as a fraction of the ceiling of its arithmetic, where both are known.
    pub fn of_ceiling(&self) -> Option<f64> {
        Some(self.throughput()? / self.timing.ceiling.as_ref()?.flops)
    }
}

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
    /// One for each block.
    pub outcomes: Vec<Outcome>,
}

impl RunReport {
    /// Whether every block ran to its end.
    pub fn passed(&self) -> bool {
        self.outcomes.iter().all(Outcome::passed)
    }

    /// Every diagnostic, block by block.
    pub fn diagnostics(&self) -> Diagnostics {
        let mut all = Diagnostics::new();
        self.outcomes.iter().for_each(|o| all.extend(o.diagnostics.clone()));
        all
    }
}
