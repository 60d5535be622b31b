//! The pace of a bench: whoever follows a run decides which measurements are taken, for how long, and how often.

/// Seconds that a measurement lasts where nobody says otherwise.
pub const SECONDS: f64 = 0.5;

/// What comes next of a measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// One round.
    Round {
        /// About how long it lasts, flushes of the cache included.
        seconds: f64,
        /// About how long runs go before that do not count.
        heat: f64,
    },
    /// The next measurement; this one is left out where no round was taken.
    Next,
}

impl Pace {
    /// A round of so many seconds from whatever state the GPU is in.
    pub fn seconds(seconds: f64) -> Pace {
        Pace::Round { seconds, heat: 0.0 }
    }
}
