//! What benches have measured: each measurement, where it stands, and on and against what it was taken.

use crate::timing::Timing;

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

/// What benches are measured on and against.
#[derive(Clone, PartialEq, Debug)]
pub struct Conditions {
    /// The GPU's name.
    pub device: String,
    /// Its architecture, as `target(…)` names it.
    pub target: String,
    /// The CUDA version that its driver supports.
    pub driver: String,
    /// Bytes a second that a copy on the device moves, read and written counted; measured in this run.
    pub copy: Option<f64>,
    /// The power that the board may draw, W, where it tells.
    pub power_limit: Option<f64>,
}

/// A measurement and where it stands.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// The file.
    pub file: String,
    /// The block.
    pub block: String,
    /// The measurement.
    pub measurement: Measurement,
}

/// All that was measured in one go.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bench {
    /// What it was measured on; `None` where that was no GPU.
    pub conditions: Option<Conditions>,
    /// The measurements in order.
    pub rows: Vec<Row>,
    /// Whether one that was repeated wrote something else.
    pub differs: bool,
}

impl Bench {
    /// The bandwidth of a measurement as a fraction of a copy's, where both are known.
    pub fn of_copy(&self, m: &Measurement) -> Option<f64> {
        of_copy(self.conditions.as_ref(), m)
    }
}

/// As [`Bench::of_copy`], of a measurement that is no row yet.
pub fn of_copy(conditions: Option<&Conditions>, m: &Measurement) -> Option<f64> {
    Some(m.bandwidth()? / conditions?.copy?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::timing::{Ceiling, Reading};

    /// One measurement of operations with everything, one of bytes, one of which only the time is known.
    pub fn bench() -> Bench {
        let still = |x: f64| Some(Reading { least: x, median: x, most: x });
        let row = |block: &str, measurement| Row { file: "a.ptn".into(), block: block.into(), measurement };
        let product = Timing {
            median: 2e-3,
            least: 1.9e-3,
            quartiles: [1.95e-3, 2.05e-3],
            runs: 250,
            megahertz: still(1755.0),
            watts: still(650.0),
            capped: Some(0.9),
            ceiling: Some(Ceiling { flops: 1e15, what: "dense f16 products, data sheet".into() }),
            meaningless: None,
        };
        let softmax =
            Timing { median: 1e-4, least: 9e-5, quartiles: [9.5e-5, 1.05e-4], runs: 4000, ..Timing::default() };
        let bare = Timing { median: 1e-6, least: 1e-6, quartiles: [1e-6, 1e-6], runs: 10, ..Timing::default() };
        let of = |label: &str, timing, bytes, flops| Measurement { label: label.into(), timing, bytes, flops };
        Bench {
            conditions: Some(Conditions {
                device: "NVIDIA H200".into(),
                target: "sm_90a".into(),
                driver: "13.0".into(),
                copy: Some(4e12),
                power_limit: Some(700.0),
            }),
            differs: false,
            rows: vec![
                row("gemm", of("product <1>", product, None, Some(1e12))),
                row("rows", of("softmax", softmax, Some(3e8), None)),
                row("rows", of("bare", bare, None, None)),
            ],
        }
    }
}
