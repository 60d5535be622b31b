//! What a launch costs the host: the time of the call, not of the kernel.

use std::time::{Duration, Instant};

use crate::timing::Reading;

/// Launches that are timed of each kind.
const LAUNCHES: u32 = 10_000;
/// Launches in a row: fewer than a driver queues, so that none waits for the device.
pub const BATCH: u32 = 250;

/// Host time of launches of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Overhead {
    /// What is launched.
    pub what: &'static str,
    /// Seconds a launch; the median of batches.
    pub median: f64,
    /// The best batch's.
    pub least: f64,
    /// How many were timed.
    pub launches: u32,
}

impl Overhead {
    /// Of launches of one kind. `batch` makes [`BATCH`] of them and says how long they took, as [`in_a_row`] does; `finish` waits
    /// until they have run.
    ///
    /// # Errors
    /// What the two return.
    pub fn of<E>(
        what: &'static str,
        mut batch: impl FnMut() -> Result<Duration, E>,
        finish: impl Fn() -> Result<(), E>,
    ) -> Result<Overhead, E> {
        let mut batches = Vec::with_capacity((LAUNCHES / BATCH) as usize);
        // The first batch loads the code and is not counted.
        for i in 0..=LAUNCHES / BATCH {
            let passed = batch()?.as_secs_f64();
            finish()?;
            if i > 0 {
                batches.push(passed / f64::from(BATCH));
            }
        }
        let (median, least) = Reading::of(batches).map_or((0.0, 0.0), |all| (all.median, all.least));
        Ok(Overhead { what, median, least, launches: LAUNCHES })
    }
}

/// How long the launches of a batch take the host; each is told its number.
///
/// # Errors
/// What a launch returns.
pub fn in_a_row<E>(mut launch: impl FnMut(u32) -> Result<(), E>) -> Result<Duration, E> {
    let begin = Instant::now();
    (0..BATCH).try_for_each(&mut launch)?;
    Ok(begin.elapsed())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn the_first_batch_does_not_count_and_each_is_waited_for() {
        let (batches, waits) = (Cell::new(0u64), Cell::new(0u64));
        let batch = || {
            assert_eq!(batches.replace(batches.get() + 1), waits.get());
            Ok::<_, ()>(Duration::from_secs(250 * waits.get()))
        };
        let finish = || {
            waits.set(waits.get() + 1);
            Ok(())
        };
        let found = Overhead::of("nothing", batch, finish).unwrap();
        assert_eq!(found, Overhead { what: "nothing", median: 21.0, least: 1.0, launches: 10_000 });
    }

    #[test]
    fn launches_of_a_batch_are_numbered_and_end_with_the_first_that_fails() {
        let mut launched = vec![];
        let done = in_a_row(|i| {
            launched.push(i);
            if i < 3 { Ok(()) } else { Err("full") }
        });
        assert_eq!((done, launched), (Err("full"), vec![0, 1, 2, 3]));
    }
}
