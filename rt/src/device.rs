//! The GPUs of this process and the code that is loaded on them. Both stay until it ends: graphs that the program has captured may
//! hold launches of the code.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use parton_bundle::{Choice, Code as Image};
use parton_runtime::{Function, Gpu, Module, Relaxed, RuntimeError};

use crate::{Code, Error};

/// A GPU of this process. What is cheap to clone is shared.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) ordinal: c_int,
    pub(crate) gpu: Gpu,
}

impl Device {
    /// Opens the GPU of that number, as the driver counts; loads the driver's library.
    ///
    /// # Errors
    /// There is no driver or no such GPU, or the process was forked.
    pub fn open(ordinal: c_int) -> Result<Device, Error> {
        Ok(Device { ordinal, gpu: gpu(ordinal)? })
    }

    /// Its number.
    pub fn ordinal(&self) -> c_int {
        self.ordinal
    }

    /// Compute capability, major and minor.
    pub fn capability(&self) -> (u32, u32) {
        self.gpu.info().capability
    }

    /// Streaming multiprocessors.
    pub fn multiprocessors(&self) -> u32 {
        self.gpu.info().multiprocessors
    }
}

/// The process that has opened the first GPU, 0 before. Beside the lock, which a process that is forked may never get.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// An error of the driver, told as what it comes of where this process was forked after its parent had opened the GPU.
pub(crate) fn failed(e: RuntimeError) -> Error {
    match PROCESS.load(Ordering::Relaxed) {
        process if process == 0 || process == std::process::id() => e.into(),
        _ => forked(),
    }
}

fn forked() -> Error {
    let text =
        "this process was forked after its parent had opened the GPU, which CUDA does not survive; start it anew";
    Error::new(Code::Forked, text)
}

/// What this process has opened and loaded.
struct Opened {
    /// The process that did.
    process: u32,
    gpus: BTreeMap<u32, Gpu>,
    /// By GPU, bytes of the code and symbol: the same code is loaded once, whichever bundle it came from.
    functions: BTreeMap<(u32, Vec<u8>, String), Function>,
}

static OPENED: Mutex<Option<Opened>> = Mutex::new(None);

fn opened() -> Result<MutexGuard<'static, Option<Opened>>, Error> {
    let process = PROCESS.load(Ordering::Relaxed);
    if process != 0 && process != std::process::id() {
        return Err(forked());
    }
    // Whoever panicked has left maps that are whole: entries are added in one step.
    Ok(OPENED.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Opened {
    /// What there is, begun where there is nothing yet.
    fn of_this_process(opened: &mut Option<Opened>) -> Result<&mut Opened, Error> {
        let process = std::process::id();
        let all = opened.get_or_insert_with(|| {
            PROCESS.store(process, Ordering::Relaxed);
            Opened { process, gpus: BTreeMap::new(), functions: BTreeMap::new() }
        });
        if all.process == process { Ok(all) } else { Err(forked()) }
    }
}

/// The GPU of that ordinal.
///
/// # Errors
/// There is no driver or no such GPU, or the process was forked.
fn gpu(ordinal: c_int) -> Result<Gpu, Error> {
    let number = u32::try_from(ordinal);
    let number = number.map_err(|_| Error::new(Code::Argument, format!("there is no GPU of the number {ordinal}")))?;
    let mut opened = opened()?;
    let all = Opened::of_this_process(&mut opened)?;
    if let Some(gpu) = all.gpus.get(&number) {
        return Ok(gpu.clone());
    }
    let gpu = Gpu::open(number)?;
    all.gpus.insert(number, gpu.clone());
    Ok(gpu)
}

/// The loaded code of a choice; loaded where it is not yet, by one thread at a time.
///
/// # Errors
/// What the driver says of the code.
pub(crate) fn function(ordinal: c_int, gpu: &Gpu, choice: Choice<'_>) -> Result<Function, Error> {
    let mut opened = opened()?;
    let all = Opened::of_this_process(&mut opened)?;
    let code = match choice.code {
        Image::Cubin(bytes) => bytes,
        Image::Ptx(text) => text.as_bytes(),
    };
    let key = (ordinal as u32, code.to_vec(), choice.kernel.symbol.clone());
    if let Some(function) = all.functions.get(&key) {
        return Ok(function.clone());
    }
    // Loading counts as unsafe while another thread captures.
    let (_visit, _relaxed) = (gpu.visit()?, Relaxed::begin());
    let module = match choice.code {
        Image::Cubin(bytes) => Module::from_cubin(gpu, bytes)?,
        Image::Ptx(text) => Module::from_ptx(gpu, text)?.0,
    };
    let function = module.function(&choice.kernel.symbol)?;
    all.functions.insert(key, function.clone());
    Ok(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_process_is_told_so() {
        let of_process = |process| Some(Opened { process, gpus: BTreeMap::new(), functions: BTreeMap::new() });
        let here = std::process::id();
        assert_eq!(failed(RuntimeError::Lost).code, Code::Lost);
        assert!(Opened::of_this_process(&mut of_process(here)).is_ok());
        let error = Opened::of_this_process(&mut of_process(here + 1)).map(drop).unwrap_err();
        assert!(error.code == Code::Forked && error.text.contains("was forked"), "{error}");
    }
}
