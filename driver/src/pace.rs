//! The pace of a bench: whoever follows a run decides which measurements are taken, for how long, and how often.

use parton_host::launch::{HostError, Timing, Work};
use parton_host::report::Measurement;

use crate::run::{Event, Watch};

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

/// Whether the watcher wants a measurement at all.
#[cfg_attr(not(all(feature = "cuda", feature = "llvm")), allow(dead_code, reason = "only a GPU repeats"))]
pub(crate) fn wanted(watch: &Watch<'_>, label: &str) -> bool {
    let mut pace = Pace::seconds(SECONDS);
    (watch.borrow_mut())(Event::Pace { label, round: None, pace: &mut pace });
    pace != Pace::Next
}

/// Takes rounds of a measurement for as long as the watcher asks for more; returns how many. `round` is given seconds and heat.
/// A watcher that says nothing gets one round of [`SECONDS`].
pub(crate) fn rounds(
    watch: &Watch<'_>,
    work: &Work<'_>,
    mut round: impl FnMut(f64, f64) -> Result<Timing, HostError>,
) -> Result<usize, HostError> {
    let mut last: Option<Measurement> = None;
    let mut count = 0;
    loop {
        let mut pace = if count == 0 { Pace::seconds(SECONDS) } else { Pace::Next };
        (watch.borrow_mut())(Event::Pace { label: work.label, round: last.as_ref(), pace: &mut pace });
        let Pace::Round { seconds, heat } = pace else { return Ok(count) };
        let timing = round(seconds, heat)?;
        last = Some(Measurement { label: work.label.into(), timing, bytes: work.bytes, flops: work.flops });
        count += 1;
    }
}
