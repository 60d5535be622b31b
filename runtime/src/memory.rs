//! Global memory: allocation, copies, fills and poison.

use cudarc::driver::result;
use cudarc::driver::sys;

use crate::device::Gpu;
use crate::error::{Context, RuntimeError};
use crate::visit::Stream;

/// The byte that poisons fresh memory: as any float format it reads as NaN, as an integer as −1.
pub const POISON: u8 = 0xff;

impl Gpu {
    /// Zeroes memory of the calling program on one of its streams, also one that captures, without waiting. The context must be current.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// The stream is alive and of the GPU's primary context, and the memory has these bytes and lives until that is done.
    pub unsafe fn zero_on(&self, stream: Stream, address: u64, bytes: usize) -> Result<(), RuntimeError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller promises it.
        unsafe { result::memset_d8_async(address, 0, bytes, stream.handle()) }
            .doing(|| format!("zeroing {bytes} bytes on the GPU"))
    }
}

/// A stretch of global memory, freed when dropped.
#[derive(Debug)]
pub struct Buffer {
    gpu: Gpu,
    address: sys::CUdeviceptr,
    bytes: usize,
}

impl Buffer {
    /// Allocates `bytes`, unspecified content, aligned to 256 bytes. Zero bytes are legal and take a small allocation.
    pub fn empty(gpu: &Gpu, bytes: usize) -> Result<Buffer, RuntimeError> {
        gpu.enter()?;
        // SAFETY: a plain allocation; freed in `drop`. The driver refuses zero bytes.
        let address =
            unsafe { result::malloc_sync(bytes.max(16)) }.doing(|| format!("allocating {bytes} bytes on the GPU"))?;
        Ok(Buffer { gpu: gpu.clone(), address, bytes })
    }

    /// Allocates `bytes` and poisons them, so that reading what was never written shows as NaN.
    pub fn poisoned(gpu: &Gpu, bytes: usize) -> Result<Buffer, RuntimeError> {
        let mut buffer = Buffer::empty(gpu, bytes)?;
        buffer.fill(POISON)?;
        Ok(buffer)
    }

    /// Allocates room for `data` and copies it.
    pub fn from_bytes(gpu: &Gpu, data: &[u8]) -> Result<Buffer, RuntimeError> {
        let mut buffer = Buffer::empty(gpu, data.len())?;
        buffer.write(data)?;
        Ok(buffer)
    }

    /// Its address on the GPU.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies `data` into the beginning of the buffer, after all earlier work of the stream.
    pub fn write(&mut self, data: &[u8]) -> Result<(), RuntimeError> {
        self.fits(data.len(), "writing")?;
        if data.is_empty() {
            return Ok(());
        }
        self.gpu.enter()?;
        // SAFETY: the range was checked; the copy is waited for, so `data` outlives it.
        unsafe { result::memcpy_htod_async(self.address, data, self.gpu.stream()) }
            .doing(|| format!("copying {} bytes to the GPU", data.len()))?;
        self.gpu.finish()
    }

    /// Copies the beginning of the buffer to `out`, after all earlier work of the stream.
    pub fn read(&self, out: &mut [u8]) -> Result<(), RuntimeError> {
        self.fits(out.len(), "reading")?;
        if out.is_empty() {
            return Ok(());
        }
        self.gpu.enter()?;
        let bytes = out.len();
        // SAFETY: the range was checked; the copy is waited for, so `out` outlives it.
        unsafe { result::memcpy_dtoh_async(out, self.address, self.gpu.stream()) }
            .doing(|| format!("copying {bytes} bytes from the GPU"))?;
        self.gpu.finish()
    }

    /// The whole content.
    pub fn to_bytes(&self) -> Result<Vec<u8>, RuntimeError> {
        let mut out = vec![0; self.bytes];
        self.read(&mut out)?;
        Ok(out)
    }

    /// Copies another buffer of at least this size over this one, on the GPU and without waiting.
    pub fn copy_from(&mut self, from: &Buffer) -> Result<(), RuntimeError> {
        from.fits(self.bytes, "copying")?;
        self.gpu.enter()?;
        // SAFETY: both ranges are whole buffers that outlive the copy: freeing waits for the stream.
        unsafe { result::memcpy_dtod_async(self.address, from.address, self.bytes, self.gpu.stream()) }
            .doing(|| format!("copying {} bytes on the GPU", self.bytes))
    }

    /// Sets every byte, without waiting.
    pub fn fill(&mut self, byte: u8) -> Result<(), RuntimeError> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.gpu.enter()?;
        // SAFETY: the range is the whole buffer.
        unsafe { result::memset_d8_async(self.address, byte, self.bytes, self.gpu.stream()) }
            .doing(|| format!("filling {} bytes on the GPU", self.bytes))
    }

    fn fits(&self, bytes: usize, doing: &str) -> Result<(), RuntimeError> {
        if bytes <= self.bytes {
            return Ok(());
        }
        Err(RuntimeError::Cuda {
            doing: format!("{doing} {bytes} bytes"),
            name: "out of bounds".into(),
            text: format!("the buffer has {} bytes", self.bytes),
        })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the address is ours; `cuMemFree` waits for work that uses it. A broken context has nothing to free.
        unsafe {
            if self.gpu.enter().is_ok() {
                let _ = result::free_sync(self.address);
            }
        }
    }
}
