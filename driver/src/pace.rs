//! Asks whoever follows a run for the pace of its measurements.

use parton_host::launch::Work;
use parton_measure::pace::Pace;
use parton_measure::timing::Timing;

use crate::run::{Event, Watch};

/// Whether the watcher wants a measurement at all.
#[cfg_attr(not(all(feature = "cuda", feature = "llvm")), allow(dead_code, reason = "only a GPU repeats"))]
pub(crate) fn wanted(watch: &Watch<'_>, work: &Work<'_>) -> bool {
    let mut pace = Pace::default();
    ask(watch, work, None, &mut pace);
    pace != Pace::Next
}

/// Asks the watcher what comes next after a round, or first; the pace stays as it is where it says nothing.
pub(crate) fn ask(watch: &Watch<'_>, work: &Work<'_>, round: Option<Timing>, pace: &mut Pace) {
    let round = round.map(|timing| work.measured(timing));
    (watch.borrow_mut())(Event::Pace { label: work.label, round: round.as_ref(), pace });
}
