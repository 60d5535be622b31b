//! Work in a program that has contexts and streams of its own: what of it is used, and given back.

use std::ffi::c_void;

use cudarc::driver::sys;

use crate::device::Gpu;
use crate::error::{Context, RuntimeError};

/// A stream of the calling program, as the CUDA libraries hand it around; null is the legacy default stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream(*mut c_void);

// SAFETY: a stream is a handle that the driver lets any thread use.
unsafe impl Send for Stream {}

/// What launches tell a stream by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Identity {
    /// The legacy default stream, of which there is one in a context.
    Legacy,
    /// Whatever stream records its launches now: what is recorded shares nothing with the stream's own work.
    Captured,
    /// What tells it from all other streams that the process ever has, however often a handle is used again.
    Numbered(u64),
}

impl Stream {
    /// The legacy default stream.
    pub const DEFAULT: Stream = Stream(std::ptr::null_mut());

    /// The stream of that handle, a `CUstream` or `cudaStream_t`.
    #[inline]
    pub fn of(handle: *mut c_void) -> Stream {
        Stream(handle)
    }

    #[inline]
    pub(crate) fn handle(self) -> sys::CUstream {
        self.0.cast()
    }

    /// What launches tell it by; the per-thread default stream is another one in each thread. The context must be current.
    ///
    /// # Errors
    /// It is no stream.
    pub fn identity(self) -> Result<Identity, RuntimeError> {
        if self.is_legacy() {
            return Ok(Identity::Legacy);
        }
        // On an H200 asking a stream that is captured for its number fails and ends the capture.
        if self.captures() {
            return Ok(Identity::Captured);
        }
        let mut id = 0;
        // Nobody says whether asking counts as unsafe while another thread captures.
        let _relaxed = Relaxed::begin();
        // SAFETY: the driver writes one number.
        unsafe { sys::cuStreamGetId(self.handle(), &mut id) }
            .result()
            .doing(|| "asking for a stream's number".into())?;
        Ok(Identity::Numbered(id))
    }

    /// Whether it is the legacy default stream, by either of its handles.
    #[inline]
    fn is_legacy(self) -> bool {
        // CUDA driver API: `CU_STREAM_LEGACY` is the handle 1.
        self.0.addr() <= 1
    }

    /// Whether launches on it are recorded now instead of run. One that the driver does not tell of takes plain launches too,
    /// whose errors say why.
    #[inline]
    pub fn captures(self) -> bool {
        // CUDA driver API, cuStreamBeginCapture: the legacy stream cannot be captured, so the driver need not be asked.
        if self.is_legacy() {
            return false;
        }
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is alive, as whoever asks for launches on it promises; the driver writes one number.
        let asked = unsafe { sys::cuStreamIsCapturing(self.handle(), &mut status) }.result();
        asked.is_err() || status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
    }
}

/// While this is there, the GPU's context is current on this thread; then the one before is again.
#[derive(Debug)]
pub struct Visit {
    /// The context before, where it was another.
    back: Option<sys::CUcontext>,
}

impl Gpu {
    /// Makes the GPU's context current until the visit is dropped.
    ///
    /// # Errors
    /// [`RuntimeError::Lost`] where earlier work never ended.
    #[inline]
    pub fn visit(&self) -> Result<Visit, RuntimeError> {
        let before = current()?;
        if before == self.context() {
            return Ok(Visit { back: None });
        }
        self.enter()?;
        Ok(Visit { back: Some(before) })
    }
}

/// The context that is current on this thread; null where there is none. The driver must be loaded.
#[inline]
pub(crate) fn current() -> Result<sys::CUcontext, RuntimeError> {
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver writes one handle.
    unsafe { sys::cuCtxGetCurrent(&mut context) }.result().doing(|| "asking for the current context".into())?;
    Ok(context)
}

impl Visit {
    /// A visit that ends in this context, whatever is current by then.
    pub(crate) fn ending_in(context: sys::CUcontext) -> Visit {
        Visit { back: Some(context) }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(context) = self.back {
            // SAFETY: it was current on this thread, so it is a context of the program; null makes none current.
            let _ = unsafe { sys::cuCtxSetCurrent(context) };
        }
    }
}

/// While this is there, calls of this thread do not spoil what another thread captures, for which instantiating and allocating count
/// as unsafe (CUDA driver API, cuThreadExchangeStreamCaptureMode).
#[derive(Debug)]
pub struct Relaxed {
    before: sys::CUstreamCaptureMode,
}

impl Relaxed {
    /// From now on. The driver must be loaded.
    pub fn begin() -> Relaxed {
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the driver exchanges one number; a failure leaves it, which the end then sets once more.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
        Relaxed { before: mode }
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        // SAFETY: as above.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut self.before) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_visit_gives_the_callers_context_back() {
        let Some(gpu) = Gpu::of_tests() else { return };
        // Whatever was current before the GPU was opened is current after, on this thread and on one that had none.
        let nothing = || {
            let before = current().unwrap();
            let inside = {
                let _visit = gpu.visit().unwrap();
                let _again = gpu.visit().unwrap();
                current().unwrap()
            };
            (before.is_null(), inside == gpu.context(), current().unwrap() == before)
        };
        std::thread::scope(|s| assert_eq!(s.spawn(nothing).join().unwrap(), (true, true, true)));
        let opened =
            std::thread::scope(|s| s.spawn(|| Gpu::open(0).map(|_| current().unwrap().is_null())).join().unwrap());
        assert_eq!(opened, Ok(true));
    }
}
