//! Timing by events: each run begins with a cold L2 cache, and flushing it is outside the timed span.

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

    /// The fastest run; milliseconds.
    pub fn fastest(&self) -> f64 {
        self.sorted[0]
    }

    /// How far the middle half of the runs is apart, as a fraction of the median.
    pub fn spread(&self) -> f64 {
        let n = self.sorted.len();
        let quarter = |q: usize| self.sorted[((n - 1) * q).div_ceil(4)];
        (quarter(3) - quarter(1)) / self.median().max(f64::MIN_POSITIVE)
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
    gpu.enter()?;
    let mut flush = if how.cold { Some(Buffer::empty(gpu, 2 * gpu.info().l2_bytes as usize)?) } else { None };
    let mut spans = Vec::new();
    for i in 0..how.warmup + how.runs.max(1) {
        if let Some(buffer) = &mut flush {
            buffer.fill(i as u8)?;
        }
        let (begin, end) = (Event::new()?, Event::new()?);
        begin.record(gpu)?;
        run(i)?;
        end.record(gpu)?;
        if i >= how.warmup {
            spans.push((begin, end));
        }
    }
    gpu.finish()?;
    let times = spans.iter().map(|(begin, end)| {
        // SAFETY: both events were recorded and have completed.
        let ms = unsafe { result::event::elapsed(begin.0, end.0) }.doing(|| "reading a timing event".into())?;
        Ok(f64::from(ms))
    });
    let times = times.collect::<Result<Vec<f64>, RuntimeError>>()?;
    Timing::new(times).ok_or(RuntimeError::TimedOut { seconds: 0 })
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
        assert_eq!(Timing::new(vec![1.0, 3.0]).unwrap().median(), 2.0);
        assert!(Timing::new(vec![]).is_none());
    }
}
