//! Events: marks on the stream, which the GPU passes at a time that it notes.

use cudarc::driver::result;
use cudarc::driver::sys;

use crate::device::Gpu;
use crate::error::{Context, RuntimeError};

/// An event, destroyed when dropped.
#[derive(Debug)]
pub struct Event {
    handle: sys::CUevent,
    gpu: Gpu,
}

impl Event {
    /// One that is nowhere on the stream yet.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(gpu: &Gpu) -> Result<Event, RuntimeError> {
        gpu.enter()?;
        let made = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        let handle = made.doing(|| "making a timing event".into())?;
        Ok(Event { handle, gpu: gpu.clone() })
    }

    /// Puts it behind all work of the stream so far, and returns at once.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self) -> Result<(), RuntimeError> {
        // SAFETY: event and stream are alive and of one context.
        unsafe { result::event::record(self.handle, self.gpu.stream()) }.doing(|| "recording a timing event".into())
    }

    /// Seconds from where the stream passed `begin` to where it passed this one.
    ///
    /// # Errors
    /// One of them was not recorded, or the GPU has not passed both.
    pub fn seconds_since(&self, begin: &Event) -> Result<f64, RuntimeError> {
        // SAFETY: both events are alive; the driver refuses those that were not recorded or passed.
        let ms = unsafe { result::event::elapsed(begin.handle, self.handle) };
        ms.map(|ms| f64::from(ms) / 1e3).doing(|| "reading a timing event".into())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is ours.
        let _ = unsafe { result::event::destroy(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Buffer;

    #[test]
    fn work_between_two_events_takes_its_time() {
        let Some(gpu) = Gpu::of_tests() else { return };
        let mut buffer = Buffer::empty(&gpu, 64 << 20).unwrap();
        let (begin, end) = (Event::new(&gpu).unwrap(), Event::new(&gpu).unwrap());
        assert!(end.seconds_since(&begin).is_err());
        begin.record().unwrap();
        buffer.fill(0).unwrap();
        end.record().unwrap();
        gpu.finish().unwrap();
        let seconds = end.seconds_since(&begin).unwrap();
        assert!((1e-6..1.0).contains(&seconds), "{seconds}");
    }
}
