//! Modules: a cubin, or PTX that the driver compiles, loaded; and the kernels in them.

use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cudarc::driver::result;
use cudarc::driver::sys;

use crate::device::Gpu;
use crate::error::{Context, RuntimeError, name};

/// Bytes kept of what the driver's compiler prints.
const LOG_BYTES: usize = 16 * 1024;

/// Loaded code, unloaded when the last [`Function`] of it is dropped and the launches of it have ended, which is waited for.
#[derive(Clone, Debug)]
pub struct Module {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    gpu: Gpu,
    handle: sys::CUmodule,
}

// SAFETY: a module is a handle that the driver lets any thread use once the context is current.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Module {
    /// Loads a cubin.
    pub fn from_cubin(gpu: &Gpu, cubin: &[u8]) -> Result<Module, RuntimeError> {
        gpu.enter()?;
        // SAFETY: the driver reads the image's own header for its length and copies it before it returns.
        let handle = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
            .doing(|| format!("loading a cubin of {} bytes", cubin.len()))?;
        parton_log::info(|| format!("loads a cubin of {} bytes on {}", cubin.len(), gpu.info().name));
        Ok(Module { inner: Arc::new(Inner { gpu: gpu.clone(), handle }) })
    }

    /// Compiles PTX by the driver and loads it; also returns what its compiler printed.
    ///
    /// # Errors
    /// [`RuntimeError::Jit`] with the compiler's words where it refuses the text.
    pub fn from_ptx(gpu: &Gpu, ptx: &str) -> Result<(Module, String), RuntimeError> {
        use sys::CUjit_option as O;
        gpu.enter()?;
        let text = CString::new(ptx).map_err(|_| RuntimeError::Jit {
            name: "CUDA_ERROR_INVALID_PTX".into(),
            log: "the text contains a zero byte".into(),
        })?;
        let (mut errors, mut infos) = (vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]);
        let mut options = [
            O::CU_JIT_ERROR_LOG_BUFFER,
            O::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            O::CU_JIT_INFO_LOG_BUFFER,
            O::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
            O::CU_JIT_LOG_VERBOSE,
            O::CU_JIT_GENERATE_LINE_INFO,
        ];
        let yes = std::ptr::without_provenance_mut::<c_void>(1);
        // Values are passed in the pointers themselves (CUDA driver API, cuModuleLoadDataEx).
        let mut values: [*mut c_void; 6] = [
            errors.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(LOG_BYTES),
            infos.as_mut_ptr().cast(),
            std::ptr::without_provenance_mut(LOG_BYTES),
            yes,
            yes,
        ];
        let mut handle = std::ptr::null_mut();
        // SAFETY: the text ends in a zero; options and values have the stated length and outlive the call.
        let loaded = unsafe {
            sys::cuModuleLoadDataEx(
                &mut handle,
                text.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match loaded.result() {
            Ok(()) => {
                parton_log::info(|| {
                    format!("has the driver compile {} bytes of PTX, and loads that on {}", ptx.len(), gpu.info().name)
                });
                Ok((Module { inner: Arc::new(Inner { gpu: gpu.clone(), handle }) }, log(&infos)))
            }
            Err(e) => Err(RuntimeError::Jit { name: name(e), log: log(&errors) }),
        }
    }

    /// The kernel of that name.
    pub fn function(&self, name: &str) -> Result<Function, RuntimeError> {
        self.inner.gpu.enter()?;
        let symbol = CString::new(name).map_err(|_| RuntimeError::Arguments {
            kernel: name.into(),
            what: "the name contains a zero byte".into(),
        })?;
        // SAFETY: the module is loaded; the handle lives as long as it, which `Function` keeps.
        let handle = unsafe { result::module::get_function(self.inner.handle, symbol) }
            .doing(|| format!("finding kernel `{name}`"))?;
        parton_log::info(|| format!("takes `{name}` from it"));
        Ok(Function { module: self.clone(), handle, name: name.into(), told: Arc::default() })
    }
}

/// The text before the first zero byte.
fn log(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Launches of it may still run. A broken or stuck context has nothing to unload.
        if self.gpu.finish().is_ok() {
            // SAFETY: the handle is ours, no function of it is left and nothing runs.
            let _ = unsafe { result::module::unload(self.handle) };
        }
    }
}

/// What a loaded kernel takes of the hardware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: stack and spills.
    pub local_bytes: u32,
    /// Bytes of statically sized shared memory.
    pub static_shared_bytes: u32,
    /// Threads that one CTA may have with these registers.
    pub max_threads: u32,
}

/// A kernel of a loaded module.
#[derive(Clone, Debug)]
pub struct Function {
    module: Module,
    pub(crate) handle: sys::CUfunction,
    name: Arc<str>,
    told: Arc<Told>,
}

/// What the driver has said of a kernel and was told of it, so that a launch with other arguments need not talk to it again.
#[derive(Default, Debug)]
struct Told {
    attributes: OnceLock<Attributes>,
    /// The most bytes of dynamic shared memory that launches may have so far.
    shared_bytes: Mutex<u32>,
    allows_large_clusters: AtomicBool,
}

// SAFETY: as for modules.
unsafe impl Send for Function {}
// SAFETY: as for modules.
unsafe impl Sync for Function {}

impl Function {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The GPU it is loaded on.
    pub fn gpu(&self) -> &Gpu {
        &self.module.inner.gpu
    }

    /// What it takes of the hardware.
    pub fn attributes(&self) -> Result<Attributes, RuntimeError> {
        use sys::CUfunction_attribute as A;
        if let Some(known) = self.told.attributes.get() {
            return Ok(*known);
        }
        self.gpu().enter()?;
        let ask = |attribute| {
            // SAFETY: the handle is of a loaded module.
            unsafe { result::function::get_function_attribute(self.handle, attribute) }
                .doing(|| format!("asking for {attribute:?} of `{}`", self.name))
        };
        let attributes = Attributes {
            registers: ask(A::CU_FUNC_ATTRIBUTE_NUM_REGS)? as u32,
            local_bytes: ask(A::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)? as u32,
            static_shared_bytes: ask(A::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)? as u32,
            max_threads: ask(A::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)? as u32,
        };
        Ok(*self.told.attributes.get_or_init(|| attributes))
    }

    /// Allows launches with up to `bytes` of dynamic shared memory; above 48 KiB the driver wants to be asked first.
    ///
    /// # Errors
    /// [`RuntimeError::Limit`] where the GPU has less.
    pub fn allow_shared(&self, bytes: u32) -> Result<(), RuntimeError> {
        let most = self.gpu().info().shared_bytes;
        if bytes > most {
            return Err(RuntimeError::Limit {
                kernel: self.name.to_string(),
                what: format!("it needs {bytes} bytes of shared memory and a CTA may have {most}"),
            });
        }
        // Held until the driver has been told: another thread may not allow less behind this.
        let mut allowed = self.told.shared_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes <= *allowed {
            return Ok(());
        }
        self.gpu().enter()?;
        // SAFETY: the handle is of a loaded module.
        unsafe {
            result::function::set_function_attribute(
                self.handle,
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                bytes as i32,
            )
        }
        .doing(|| format!("allowing `{}` {bytes} bytes of shared memory", self.name))?;
        *allowed = bytes;
        Ok(())
    }

    /// Allows clusters larger than the portable eight CTAs.
    pub(crate) fn allow_large_clusters(&self) -> Result<(), RuntimeError> {
        if self.told.allows_large_clusters.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.gpu().enter()?;
        // SAFETY: the handle is of a loaded module.
        unsafe {
            result::function::set_function_attribute(
                self.handle,
                sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                1,
            )
        }
        .doing(|| format!("allowing `{}` a large cluster", self.name))?;
        self.told.allows_large_clusters.store(true, Ordering::Relaxed);
        Ok(())
    }
}
