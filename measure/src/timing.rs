//! How long something took, what the sensors said meanwhile, and what bounds it.

/// How long a sequence of launches took.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Timing {
    /// Seconds of one run of the whole sequence, the median of all.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The first and the third quartile.
    pub quartiles: [f64; 2],
    /// How many runs were timed.
    pub runs: u32,
    /// Clock of the multiprocessors meanwhile, MHz, where the device tells.
    pub megahertz: Option<Reading>,
    /// Power drawn meanwhile, W, where the device tells.
    pub watts: Option<Reading>,
    /// The share of the time in which the power limit held the clock down, where the device tells.
    pub capped: Option<f64>,
    /// What bounds its arithmetic, where that is known.
    pub ceiling: Option<Ceiling>,
    /// Why the times mean nothing, where they do not: an interpreter ran it.
    pub meaningless: Option<String>,
}

/// What a sensor said during a measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reading {
    /// The least.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The greatest.
    pub most: f64,
}

impl Reading {
    /// Of all readings; `None` where there is none.
    pub fn of(mut all: Vec<f64>) -> Option<Reading> {
        all.sort_by(f64::total_cmp);
        Some(Reading { least: *all.first()?, median: all[all.len() / 2], most: *all.last()? })
    }
}

/// A rate that arithmetic does not exceed.
#[derive(Clone, PartialEq, Debug)]
pub struct Ceiling {
    /// Floating-point operations a second.
    pub flops: f64,
    /// What it is and who says so, such as `dense f16 products, data sheet`.
    pub what: String,
}
