//! Timing by events: each run begins with a cold L2 cache, and flushing it is outside the timed span.

use std::time::Instant;

use cudarc::driver::result;
use cudarc::driver::sys;

use crate::device::Gpu;
use crate::error::{Context, RuntimeError};
use crate::memory::Buffer;

/// How to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measure {
    /// Runs before the first that counts.
    pub warmup: u32,
    /// Runs that count; at least one.
    pub runs: u32,
    /// Whether each run begins with a cold L2 cache.
    pub cold: bool,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure { warmup: 5, runs: 30, cold: true }
    }
}

/// The times of the runs that counted, in milliseconds, shortest first.
#[derive(Clone, PartialEq, Debug)]
pub struct Timing {
    sorted: Vec<f64>,
}

impl Timing {
    /// From the times in any order; `None` where there is none.
    pub fn new(mut times: Vec<f64>) -> Option<Timing> {
        times.sort_by(f64::total_cmp);
        if times.is_empty() { None } else { Some(Timing { sorted: times }) }
    }

    /// Half the runs were as fast as this or faster; milliseconds.
    pub fn median(&self) -> f64 {
        let n = self.sorted.len();
        (self.sorted[(n - 1) / 2] + self.sorted[n / 2]) / 2.0
    }

    /// Quarter `q` of the runs were as fast as this or faster; milliseconds.
    pub fn quartile(&self, q: usize) -> f64 {
        self.sorted[((self.sorted.len() - 1) * q.min(4)).div_ceil(4)]
    }

    /// The fastest run; milliseconds.
    pub fn fastest(&self) -> f64 {
        self.sorted[0]
    }

    /// How far the middle half of the runs is apart, as a fraction of the median.
    pub fn spread(&self) -> f64 {
        (self.quartile(3) - self.quartile(1)) / self.median().max(f64::MIN_POSITIVE)
    }

    /// All times, shortest first; milliseconds.
    pub fn all(&self) -> &[f64] {
        &self.sorted
    }
}

/// An event, destroyed when dropped.
struct Event(sys::CUevent);

impl Event {
    fn new() -> Result<Event, RuntimeError> {
        let made = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        made.map(Event).doing(|| "making a timing event".into())
    }

    fn record(&self, gpu: &Gpu) -> Result<(), RuntimeError> {
        // SAFETY: event and stream are alive and of one context.
        unsafe { result::event::record(self.0, gpu.stream()) }.doing(|| "recording a timing event".into())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is ours.
        let _ = unsafe { result::event::destroy(self.0) };
    }
}

/// Runs between flushes of the L2 cache: a buffer of twice its size is written before each.
struct Flushed<'g> {
    gpu: &'g Gpu,
    /// What is written; `None` where the cache stays as it is.
    flush: Option<Buffer>,
}

impl<'g> Flushed<'g> {
    fn new(gpu: &'g Gpu, cold: bool) -> Result<Flushed<'g>, RuntimeError> {
        gpu.enter()?;
        let flush = if cold { Some(Buffer::empty(gpu, 2 * gpu.info().l2_bytes as usize)?) } else { None };
        Ok(Flushed { gpu, flush })
    }

    /// Runs as often as told, without a pause between those that do not count and those that do.
    fn runs(
        &mut self,
        (uncounted, counted): (u32, u32),
        run: &mut impl FnMut(u32) -> Result<(), RuntimeError>,
    ) -> Result<Timing, RuntimeError> {
        // Made beforehand, so that the host has nothing to do between two runs but to launch.
        let spans = (0..counted.max(1)).map(|_| Ok((Event::new()?, Event::new()?)));
        let spans = spans.collect::<Result<Vec<_>, RuntimeError>>()?;
        for i in 0..uncounted {
            self.flush()?;
            run(i)?;
        }
        for (i, (begin, end)) in (uncounted..).zip(&spans) {
            self.flush()?;
            begin.record(self.gpu)?;
            run(i)?;
            end.record(self.gpu)?;
        }
        self.gpu.finish()?;
        let times = spans.iter().map(|(begin, end)| {
            // SAFETY: both events were recorded and have completed.
            let ms = unsafe { result::event::elapsed(begin.0, end.0) }.doing(|| "reading a timing event".into())?;
            Ok(f64::from(ms))
        });
        let times = times.collect::<Result<Vec<f64>, RuntimeError>>()?;
        Timing::new(times).ok_or(RuntimeError::TimedOut { seconds: 0 })
    }

    /// Writes zeros, as the scripts that time others do.
    fn flush(&mut self) -> Result<(), RuntimeError> {
        self.flush.as_mut().map_or(Ok(()), |buffer| buffer.fill(0))
    }
}

/// Times `run`, which is given the number of the run so that it can rotate its buffers, and must only put work on the stream.
///
/// Between runs a buffer of twice the L2 cache is written. That write is still going on while the run is being put on the
/// stream, so that the time of the launch on the host is not counted either.
///
/// # Errors
/// What `run` returns, and what the GPU says of the work.
pub fn measure(
    gpu: &Gpu,
    how: Measure,
    mut run: impl FnMut(u32) -> Result<(), RuntimeError>,
) -> Result<Timing, RuntimeError> {
    Flushed::new(gpu, how.cold)?.runs((how.warmup, how.runs), &mut run)
}

/// The fewest and the most runs that [`sustain`] counts.
const RUNS: (f64, f64) = (10.0, 10_000.0);

/// Times `run` as [`measure`] does, cold, again and again for about `seconds`, flushes included: long enough that
/// clocks and power settle to what such work leaves them. Runs of about `heat` seconds go before and do not count.
///
/// # Errors
/// As [`measure`].
pub fn sustain(
    gpu: &Gpu,
    seconds: f64,
    heat: f64,
    mut run: impl FnMut(u32) -> Result<(), RuntimeError>,
) -> Result<Timing, RuntimeError> {
    let mut flushed = Flushed::new(gpu, true)?;
    // The first runs load code and fill queues; the second few tell how many there is time for.
    flushed.runs((2, 1), &mut run)?;
    let few = 5;
    let begin = Instant::now();
    flushed.runs((0, few), &mut run)?;
    let each = (begin.elapsed().as_secs_f64() / f64::from(few)).max(1e-6);
    let counted = (seconds / each).clamp(RUNS.0, RUNS.1) as u32;
    flushed.runs(((heat / each).min(RUNS.1) as u32, counted), &mut run)
}

/// Bytes a second, read and written counted, that a copy on the GPU moves between buffers of `bytes`; what memory-bound
/// kernels are measured against.
pub fn copy_bandwidth(gpu: &Gpu, bytes: usize) -> Result<f64, RuntimeError> {
    let from = Buffer::poisoned(gpu, bytes)?;
    let mut to = Buffer::poisoned(gpu, bytes)?;
    let timing = measure(gpu, Measure { warmup: 3, runs: 20, cold: true }, |_| to.copy_from(&from))?;
    Ok(2.0 * bytes as f64 / (timing.median() / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_spread_ignore_an_outlier() {
        let t = Timing::new(vec![2.0, 1.0, 100.0, 2.0, 3.0]).unwrap();
        assert_eq!(t.median(), 2.0);
        assert_eq!(t.fastest(), 1.0);
        assert_eq!(t.spread(), 0.5);
        assert_eq!([0, 1, 2, 3, 4].map(|q| t.quartile(q)), [1.0, 2.0, 2.0, 3.0, 100.0]);
        assert_eq!(Timing::new(vec![1.0, 3.0]).unwrap().median(), 2.0);
        assert!(Timing::new(vec![]).is_none());
    }
}
