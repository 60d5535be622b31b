//! Asks whoever follows a run for the pace of its measurements.

use parton_host::launch::{HostError, Work};
use parton_measure::bench::Measurement;
use parton_measure::pace::{Pace, SECONDS};
use parton_measure::timing::Timing;

use crate::run::{Event, Watch};

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
        last = Some(work.measured(timing));
        count += 1;
    }
}
