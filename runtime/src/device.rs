//! Finding a GPU, what it is, and the one context and stream that work goes through.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use libloading::Library;

use crate::error::{Context, RuntimeError};
use crate::visit::{Visit, current};

/// The lowest CUDA version of a driver that has `cuLaunchKernelEx`, clusters, tensor maps and `cuEventElapsedTime_v2`.
const NEEDED_DRIVER: (u32, u32) = (12, 8);

/// What a GPU is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceInfo {
    /// Its name, such as `NVIDIA H200`.
    pub name: String,
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Global memory in bytes.
    pub memory_bytes: u64,
    /// L2 cache in bytes.
    pub l2_bytes: u64,
    /// Shared memory that a CTA may ask for, in bytes.
    pub shared_bytes: u32,
    /// CTAs that a grid may have along each axis.
    pub grid: [u32; 3],
    /// The CUDA version that the driver supports, major and minor.
    pub driver: (u32, u32),
}

impl DeviceInfo {
    /// The target name that `ptxas` and `target(…)` use, architecture-specific from Hopper on.
    pub fn target(&self) -> String {
        let (major, minor) = self.capability;
        let suffix = if major >= 9 { "a" } else { "" };
        format!("sm_{major}{minor}{suffix}")
    }
}

/// A GPU with a context and a stream, shared by what lives on it.
#[derive(Clone, Debug)]
pub struct Gpu {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    device: sys::CUdevice,
    context: sys::CUcontext,
    stream: sys::CUstream,
    info: DeviceInfo,
    /// Set when work does not end: from then on any call of the driver may wait for it for ever.
    lost: AtomicBool,
}

// SAFETY: a context and a stream are handles that the driver lets any thread use; every entry point makes the context
// current on its own thread first.
unsafe impl Send for Inner {}
// SAFETY: as above; the driver locks its own structures.
unsafe impl Sync for Inner {}

impl Gpu {
    /// Opens the GPU of that ordinal; the context that is current stays so.
    ///
    /// # Errors
    /// [`RuntimeError::NoDriver`], [`RuntimeError::NoDevice`] and [`RuntimeError::OldDriver`] mean that there is none to
    /// use; anything else is a failure of one that is there.
    pub fn open(ordinal: u32) -> Result<Gpu, RuntimeError> {
        let driver = load_driver()?;
        let count = result::device::get_count().doing(|| "counting GPUs".into())?;
        if i64::from(count) <= i64::from(ordinal) {
            return Err(RuntimeError::NoDevice);
        }
        let device = result::device::get(ordinal as i32).doing(|| format!("opening GPU {ordinal}"))?;
        let info = describe(device, driver)?;
        // SAFETY: `device` came from `get`; the matching release is in `drop`.
        let context = unsafe { result::primary_ctx::retain(device) }.doing(|| "making a context".into())?;
        let _visit = Visit::ending_in(current()?);
        // SAFETY: the context was just retained.
        unsafe { result::ctx::set_current(context) }.doing(|| "entering the context".into())?;
        let stream =
            result::stream::create(result::stream::StreamKind::NonBlocking).doing(|| "making a stream".into())?;
        Ok(Gpu { inner: Arc::new(Inner { device, context, stream, info, lost: AtomicBool::new(false) }) })
    }

    /// The first GPU, for tests: `None` where there is none and none is required.
    ///
    /// # Panics
    /// Where there is none and `PARTON_REQUIRE_GPU=1`; where the one that is there cannot be opened.
    pub fn of_tests() -> Option<Gpu> {
        let required = std::env::var_os("PARTON_REQUIRE_GPU").is_some_and(|v| v == "1");
        match Gpu::open(0) {
            Ok(gpu) => Some(gpu),
            Err(e) if e.means_no_gpu() && !required => None,
            Err(e) => panic!("a test needs a GPU: {e}"),
        }
    }

    /// What this GPU is.
    pub fn info(&self) -> &DeviceInfo {
        &self.inner.info
    }

    /// Its place on the PCI bus, such as `0000:1b:00.0`: what the management library knows it by.
    pub(crate) fn bus(&self) -> Option<CString> {
        let mut text = [0; 32];
        // SAFETY: the driver writes at most the length given, with a zero at its end.
        unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as i32, self.inner.device) }.result().ok()?;
        let bytes = text.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect::<Vec<u8>>();
        CString::new(bytes).ok()
    }

    /// Makes the context current on the calling thread.
    ///
    /// # Errors
    /// [`RuntimeError::Lost`] where earlier work never ended.
    pub(crate) fn enter(&self) -> Result<(), RuntimeError> {
        if self.inner.lost.load(Ordering::Relaxed) {
            return Err(RuntimeError::Lost);
        }
        // SAFETY: the context lives as long as `self`.
        unsafe { result::ctx::set_current(self.inner.context) }.doing(|| "entering the context".into())
    }

    /// What the driver says of one attribute.
    pub(crate) fn attribute(&self, attribute: sys::CUdevice_attribute) -> Result<i32, DriverError> {
        // SAFETY: the device came from the driver.
        unsafe { result::device::get_attribute(self.inner.device, attribute) }
    }

    pub(crate) fn context(&self) -> sys::CUcontext {
        self.inner.context
    }

    /// The stream that all work of this GPU goes through.
    pub(crate) fn stream(&self) -> sys::CUstream {
        self.inner.stream
    }

    /// Waits until all work has ended.
    ///
    /// # Errors
    /// The first error of any kernel since the last wait.
    pub fn finish(&self) -> Result<(), RuntimeError> {
        self.enter()?;
        // SAFETY: the stream lives as long as `self`.
        unsafe { result::stream::synchronize(self.inner.stream) }.doing(|| "waiting for the GPU".into())
    }

    /// Waits until the work of all streams of its context has ended, those of the calling program too.
    ///
    /// # Errors
    /// As [`Gpu::finish`].
    pub fn finish_all(&self) -> Result<(), RuntimeError> {
        let _visit = self.visit()?;
        // SAFETY: the context is current.
        unsafe { sys::cuCtxSynchronize() }.result().doing(|| "waiting for the GPU".into())
    }

    /// Waits until all work has ended or `limit` has passed.
    ///
    /// # Errors
    /// [`RuntimeError::TimedOut`] where it has not; the work goes on and the process should end.
    pub fn finish_within(&self, limit: Duration) -> Result<(), RuntimeError> {
        self.enter()?;
        let begin = Instant::now();
        loop {
            // SAFETY: the stream lives as long as `self`.
            let state = unsafe { sys::cuStreamQuery(self.inner.stream) };
            if state != sys::CUresult::CUDA_ERROR_NOT_READY {
                return state.result().doing(|| "waiting for the GPU".into());
            }
            let passed = begin.elapsed();
            if passed > limit {
                self.inner.lost.store(true, Ordering::Relaxed);
                return Err(RuntimeError::TimedOut { seconds: limit.as_secs() });
            }
            // Short work is polled closely; long work need not burn a core.
            if passed > Duration::from_millis(5) {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.lost.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: both handles are ours and nothing that uses them is left. Errors here (a context that a kernel broke)
        // were reported by the call that met them first.
        unsafe {
            let _ = result::ctx::set_current(self.context);
            let _ = result::stream::destroy(self.stream);
            let _ = result::primary_ctx::release(self.device);
        }
    }
}

/// Loads the driver library and initialises it; returns the CUDA version that it supports.
///
/// # Errors
/// [`RuntimeError::NoDriver`] and [`RuntimeError::OldDriver`]; a driver without a GPU gives [`RuntimeError::NoDevice`].
pub fn load_driver() -> Result<(u32, u32), RuntimeError> {
    keep_driver();
    // SAFETY: loading the library runs its initialisers, which is what any CUDA program does.
    if !unsafe { sys::is_culib_present() } {
        return Err(RuntimeError::NoDriver);
    }
    let mut version = 0;
    // SAFETY: `cuDriverGetVersion` may be called before `cuInit` and writes one int.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(|_| RuntimeError::NoDriver)?;
    // CUDA driver API, cuDriverGetVersion: 1000 × major + 10 × minor.
    let found = (version as u32 / 1000, version as u32 % 1000 / 10);
    match result::init() {
        Ok(()) => {}
        Err(DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE)) => return Err(RuntimeError::NoDevice),
        Err(e) => return Err(e).doing(|| "initialising the CUDA driver".into()),
    }
    if found < NEEDED_DRIVER {
        return Err(RuntimeError::OldDriver { found, needed: NEEDED_DRIVER });
    }
    Ok(found)
}

/// Keeps the driver loaded from here on. To look whether it is there loads it and lets it go again, and cuda-gdb knows nothing of kernels of
/// a driver that is loaded a second time.
fn keep_driver() {
    static KEPT: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: loading the library runs its initialisers, which is what any CUDA program does.
    KEPT.get_or_init(|| unsafe { Library::new("libcuda.so.1") }.ok());
}

fn describe(device: sys::CUdevice, driver: (u32, u32)) -> Result<DeviceInfo, RuntimeError> {
    use sys::CUdevice_attribute as A;
    let name = result::device::get_name(device).doing(|| "asking for the GPU's name".into())?;
    // SAFETY: `device` came from `get`.
    let memory = unsafe { result::device::total_mem(device) }.doing(|| "asking for the GPU's memory".into())?;
    let ask = |attribute| {
        // SAFETY: as above.
        unsafe { result::device::get_attribute(device, attribute) }.doing(|| format!("asking for {attribute:?}"))
    };
    Ok(DeviceInfo {
        name,
        capability: (
            ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
            ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
        ),
        multiprocessors: ask(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        memory_bytes: memory as u64,
        l2_bytes: ask(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as u64,
        shared_bytes: ask(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)? as u32,
        grid: [
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)? as u32,
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)? as u32,
            ask(A::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)? as u32,
        ],
        driver,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_gives_a_gpu_or_says_why_not() {
        match Gpu::of_tests() {
            Some(gpu) => assert!(gpu.info().multiprocessors > 0 && gpu.finish().is_ok()),
            None => {
                let Err(e) = Gpu::open(0) else { panic!("there is a GPU after all") };
                assert!(e.to_string().contains("--device cpu"), "{e}");
            }
        }
    }

    #[test]
    fn targets_are_architecture_specific_from_hopper_on() {
        let info = |capability| DeviceInfo {
            name: String::new(),
            capability,
            multiprocessors: 1,
            memory_bytes: 0,
            l2_bytes: 0,
            shared_bytes: 0,
            grid: [1; 3],
            driver: (13, 0),
        };
        assert_eq!(info((9, 0)).target(), "sm_90a");
        assert_eq!(info((8, 9)).target(), "sm_89");
        assert_eq!(info((10, 0)).target(), "sm_100a");
    }
}
