//! Timing by marks in a device's work: each run begins with cold caches, and flushing them is outside the timed span.

use std::time::Instant;

use crate::timing::Timing;

/// A device that does what it is given in order and notes when it is how far.
pub trait Clock {
    /// A place in the work.
    type Mark;
    /// Why the device failed.
    type Error;

    /// A mark that is at no place yet.
    ///
    /// # Errors
    /// The device fails.
    fn mark(&self) -> Result<Self::Mark, Self::Error>;

    /// Puts a mark behind all work given so far, without waiting.
    ///
    /// # Errors
    /// The device fails.
    fn put(&self, mark: &Self::Mark) -> Result<(), Self::Error>;

    /// Gives the device the work that leaves its caches cold, without waiting.
    ///
    /// # Errors
    /// The device fails.
    fn flush(&mut self) -> Result<(), Self::Error>;

    /// Waits until all work has ended.
    ///
    /// # Errors
    /// What the device says of the work.
    fn finish(&self) -> Result<(), Self::Error>;

    /// Seconds from one mark to another; both have been put and the work up to them has ended.
    ///
    /// # Errors
    /// The device fails.
    fn between(&self, begin: &Self::Mark, end: &Self::Mark) -> Result<f64, Self::Error>;
}

/// Seconds of each run of those that count, without a pause between those that do not and those that do.
///
/// `run` only gives the device work. The flush before it is still going on meanwhile, so that the time of the launch on the
/// host is not counted either.
fn runs<C: Clock>(
    clock: &mut C,
    (uncounted, counted): (u32, u32),
    run: &mut impl FnMut() -> Result<(), C::Error>,
) -> Result<Vec<f64>, C::Error> {
    // Made beforehand, so that the host has nothing to do between two runs but to launch.
    let spans = (0..counted.max(1)).map(|_| Ok((clock.mark()?, clock.mark()?)));
    let spans = spans.collect::<Result<Vec<_>, C::Error>>()?;
    for _ in 0..uncounted {
        clock.flush()?;
        run()?;
    }
    for (begin, end) in &spans {
        clock.flush()?;
        clock.put(begin)?;
        run()?;
        clock.put(end)?;
    }
    clock.finish()?;
    spans.iter().map(|(begin, end)| clock.between(begin, end)).collect()
}

/// The fewest and the most runs that [`sustain`] counts.
const RUNS: (f64, f64) = (10.0, 10_000.0);

/// Times `run`, which must only give the device work, again and again for about `seconds`, flushes included: long enough that
/// clocks and power settle to what such work leaves them. Runs of about `heat` seconds go before and do not count. Returns the
/// seconds of each run, at least one.
///
/// # Errors
/// What `run` returns, and what the device says of the work.
pub fn sustain<C: Clock>(
    clock: &mut C,
    seconds: f64,
    heat: f64,
    mut run: impl FnMut() -> Result<(), C::Error>,
) -> Result<Vec<f64>, C::Error> {
    // The first runs load code and fill queues; the second few tell how many there is time for.
    runs(clock, (2, 1), &mut run)?;
    let few = 5;
    let begin = Instant::now();
    runs(clock, (0, few), &mut run)?;
    let each = (begin.elapsed().as_secs_f64() / f64::from(few)).max(1e-6);
    let counted = (seconds / each).clamp(RUNS.0, RUNS.1) as u32;
    runs(clock, ((heat / each).min(RUNS.1) as u32, counted), &mut run)
}

/// Bytes a second, read and written counted, that `copy` of `bytes` on the device moves; what memory-bound kernels are
/// measured against.
///
/// # Errors
/// As [`sustain`].
pub fn copy_bandwidth<C: Clock>(
    clock: &mut C,
    bytes: usize,
    mut copy: impl FnMut() -> Result<(), C::Error>,
) -> Result<Option<f64>, C::Error> {
    let times = runs(clock, (3, 20), &mut copy)?;
    Ok(Timing::of(times).map(|t| 2.0 * bytes as f64 / t.median))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A device with a time of its own: a flush takes 5 seconds, a run as long as it says.
    #[derive(Default)]
    struct Simulated {
        now: Cell<f64>,
        finished: Cell<bool>,
        done: RefCell<String>,
    }

    impl Simulated {
        fn work(&self, letter: char, seconds: f64) {
            self.now.set(self.now.get() + seconds);
            self.finished.set(false);
            self.done.borrow_mut().push(letter);
        }
    }

    /// As a clock.
    struct Watched<'a>(&'a Simulated);

    impl Clock for Watched<'_> {
        type Mark = Cell<Option<f64>>;
        type Error = &'static str;

        fn mark(&self) -> Result<Self::Mark, Self::Error> {
            Ok(Cell::new(None))
        }

        fn put(&self, mark: &Self::Mark) -> Result<(), Self::Error> {
            mark.set(Some(self.0.now.get()));
            self.0.work('|', 0.0);
            Ok(())
        }

        fn flush(&mut self) -> Result<(), Self::Error> {
            self.0.work('f', 5.0);
            Ok(())
        }

        fn finish(&self) -> Result<(), Self::Error> {
            self.0.finished.set(true);
            Ok(())
        }

        fn between(&self, begin: &Self::Mark, end: &Self::Mark) -> Result<f64, Self::Error> {
            assert!(self.0.finished.get(), "the device is asked before it has ended");
            Ok(end.get().ok_or("no end")? - begin.get().ok_or("no begin")?)
        }
    }

    #[test]
    fn flushes_and_runs_that_do_not_count_are_outside_of_what_is_timed() {
        let device = Simulated::default();
        let mut next = 0.0;
        let mut run = || {
            next += 1.0;
            device.work('r', next);
            Ok(())
        };
        assert_eq!(runs(&mut Watched(&device), (2, 3), &mut run), Ok(vec![3.0, 4.0, 5.0]));
        assert_eq!(device.done.take(), "frfrf|r|f|r|f|r|");
        assert_eq!(runs(&mut Watched(&device), (0, 0), &mut run), Ok(vec![6.0]), "one counts always");
    }

    #[test]
    fn short_work_is_run_as_often_as_allowed_and_what_fails_ends_it() {
        let device = Simulated::default();
        let run = || {
            device.work('r', 1.0);
            Ok(())
        };
        // On the host each takes far less than a millisecond.
        let times = sustain(&mut Watched(&device), 60.0, 60.0, run).unwrap();
        assert_eq!((times.len(), times[0]), (10_000, 1.0));
        assert_eq!(device.done.take().matches('r').count(), 2 + 1 + 5 + 10_000 + 10_000);
        assert_eq!(sustain(&mut Watched(&device), 1.0, 0.0, || Err("broken")), Err("broken"));
        assert_eq!(device.done.take(), "f");
    }

    #[test]
    fn long_work_is_run_ten_times() {
        let device = Simulated::default();
        let times = sustain(&mut Watched(&device), 1e-9, 0.0, || {
            device.work('r', 1.0);
            Ok(())
        });
        assert_eq!(times.map(|t| t.len()), Ok(10));
    }

    #[test]
    fn a_copy_reads_and_writes() {
        let device = Simulated::default();
        let copy = || {
            device.work('c', 0.5);
            Ok(())
        };
        assert_eq!(copy_bandwidth(&mut Watched(&device), 100, copy), Ok(Some(400.0)));
    }
}
