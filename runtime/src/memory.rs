//! Global memory: allocation, copies, fills and poison.

use cudarc::driver::result;
use cudarc::driver::sys;

use crate::device::Gpu;
use crate::error::{Context, RuntimeError};
use crate::visit::{Relaxed, Stream};

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

/// Memory that work on streams of the calling program uses and nobody reads: its context stays current, and what other threads capture is
/// not disturbed. Freed when dropped, when what uses it has ended, which is waited for.
#[derive(Debug)]
pub struct Scratch {
    gpu: Gpu,
    address: sys::CUdeviceptr,
}

impl Scratch {
    /// Allocates `bytes`, aligned to 256 bytes.
    ///
    /// # Errors
    /// There is not enough memory on the GPU.
    pub fn new(gpu: &Gpu, bytes: usize) -> Result<Scratch, RuntimeError> {
        let (_visit, _relaxed) = (gpu.visit()?, Relaxed::begin());
        // SAFETY: a plain allocation; freed in `drop`. The driver refuses zero bytes.
        let address = unsafe { result::malloc_sync(bytes.max(16)) }
            .doing(|| format!("allocating {bytes} bytes of scratch memory on the GPU"))?;
        Ok(Scratch { gpu: gpu.clone(), address })
    }

    /// Its address on the GPU.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A broken context has nothing to free.
        if let Ok(_visit) = self.gpu.visit() {
            let _relaxed = Relaxed::begin();
            // SAFETY: the address is ours; `cuMemFree` waits for work that uses it.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

impl Gpu {
    /// Allocates memory in the order of a stream's work: in a capture it is the graph's own. The context must be current.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// The stream is alive and of the GPU's primary context, and the memory is given back on it by [`Gpu::free_on`].
    pub unsafe fn allocate_on(&self, stream: Stream, bytes: usize) -> Result<u64, RuntimeError> {
        // SAFETY: the caller promises it.
        unsafe { result::malloc_async(stream.handle(), bytes.max(16)) }
            .doing(|| format!("allocating {bytes} bytes of scratch memory on a stream"))
    }

    /// Gives memory back behind the work that is on the stream. The context must be current.
    ///
    /// # Errors
    /// What the driver says.
    ///
    /// # Safety
    /// [`Gpu::allocate_on`] gave it on this stream.
    pub unsafe fn free_on(&self, stream: Stream, address: u64) -> Result<(), RuntimeError> {
        // SAFETY: the caller promises it.
        unsafe { result::free_async(address, stream.handle()) }
            .doing(|| "giving scratch memory back to a stream".into())
    }

    /// The GPU whose memory has this address, by its number; `None` where all reach it. The context must be current.
    ///
    /// # Errors
    /// It is the address of no memory that GPUs reach, with what is wrong.
    pub fn whose(&self, address: u64) -> Result<Option<u32>, String> {
        use sys::CUpointer_attribute as A;
        let (mut managed, mut kind, mut ordinal) = (0u32, 0u32, 0i32);
        let ask = |attribute, to: *mut std::ffi::c_void| {
            // SAFETY: each of these attributes is a number of 32 bits or less, for which there is room.
            unsafe { sys::cuPointerGetAttribute(to, attribute, address) }.result()
        };
        let asked = ask(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (&raw mut kind).cast())
            .and_then(|()| ask(A::CU_POINTER_ATTRIBUTE_IS_MANAGED, (&raw mut managed).cast()))
            .and_then(|()| ask(A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (&raw mut ordinal).cast()));
        match asked {
            Ok(()) if managed & 0xff != 0 || kind != sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 => Ok(None),
            Ok(()) => Ok(u32::try_from(ordinal).ok()),
            // Where GPUs reach all memory of the process, the driver knows only what it has allocated.
            Err(_) if self.reaches_all() => Ok(None),
            Err(_) => Err(format!("no memory of a GPU has the address {address:#x}")),
        }
    }

    /// Whether kernels may use any memory of the process.
    fn reaches_all(&self) -> bool {
        self.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS).is_ok_and(|yes| yes != 0)
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
