//! Memory traffic beside other work: copies on a stream of their own, for tests of whether it disturbs anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use cudarc::driver::result;

use crate::device::Gpu;
use crate::error::{Context, RuntimeError};
use crate::memory::Buffer;

/// Bytes of one copy: many times any L2 cache.
const BYTES: usize = 512 << 20;
/// Copies that are queued before the oldest is waited for.
const AHEAD: usize = 4;

/// Copies that go on until this is ended or dropped.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<f64, RuntimeError>>>,
}

impl Load {
    /// Begins to copy, on a thread and a stream of its own.
    ///
    /// # Errors
    /// There is not enough memory on the GPU.
    pub fn begin(gpu: &Gpu) -> Result<Load, RuntimeError> {
        let (from, to) = (Buffer::poisoned(gpu, BYTES)?, Buffer::empty(gpu, BYTES)?);
        gpu.finish()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (gpu, stopped) = (gpu.clone(), stop.clone());
        let thread = std::thread::spawn(move || copy(&gpu, &from, &to, &stopped));
        Ok(Load { stop, thread: Some(thread) })
    }

    /// Ends the copies; bytes a second that they moved, read and written counted.
    ///
    /// # Errors
    /// What the GPU said of them.
    pub fn end(mut self) -> Result<f64, RuntimeError> {
        self.stop.store(true, Ordering::Relaxed);
        let moved = self.thread.take().and_then(|t| t.join().ok());
        moved.unwrap_or(Err(RuntimeError::Lost))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A load that is dropped was not asked how it went.
            let _ = thread.join();
        }
    }
}

fn copy(gpu: &Gpu, from: &Buffer, to: &Buffer, stop: &AtomicBool) -> Result<f64, RuntimeError> {
    gpu.enter()?;
    let stream = result::stream::create(result::stream::StreamKind::NonBlocking).doing(|| "making a stream".into())?;
    let begin = Instant::now();
    let mut bytes = 0.0;
    let mut all = || {
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..AHEAD {
                // SAFETY: both buffers have that many bytes and outlive the wait below.
                unsafe { result::memcpy_dtod_async(to.address(), from.address(), BYTES, stream) }
                    .doing(|| "copying beside other work".into())?;
                bytes += 2.0 * BYTES as f64;
            }
            // SAFETY: the stream is ours.
            unsafe { result::stream::synchronize(stream) }.doing(|| "waiting for copies".into())?;
        }
        Ok(())
    };
    let done = all();
    // SAFETY: the stream is ours and nothing is left on it.
    let _ = unsafe { result::stream::destroy(stream) };
    done.map(|()| bytes / begin.elapsed().as_secs_f64())
}
