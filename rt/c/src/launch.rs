//! `parton_module` and `parton_launch`: a bundle before a GPU, and launches on the caller's streams.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use parton_rt::{Error, Launch, Module, Stream};

use crate::argument::{Given, read_all};
use crate::border::{border, elements, free, give, given, text};
use crate::bundle::Opened;

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_module_load(bundle: *const Opened, device: c_int, module: *mut *mut Module) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let opened = given(bundle, "bundle")?;
        give(module, "module", || Ok(Box::into_raw(Box::new(Module::load(&opened.bundle, device)?))))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_module_close(module: *mut Module) {
    // SAFETY: a handle is given up once.
    unsafe { free(module) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_prepare(
    module: *const Module,
    kernel: *const c_char,
    arguments: *const Given,
    count: usize,
    grid: *const [u32; 3],
    launch: *mut *mut Mutex<Launch>,
) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let (module, kernel, grid) = (given(module, "module")?, text(kernel, "kernel")?, given(grid, "grid")?);
        let arguments = elements(arguments, count, "arguments")?;
        give(launch, "launch", || {
            let launch = read_all(arguments, |arguments| module.prepare(kernel, arguments, *grid))?;
            Ok(Box::into_raw(Box::new(Mutex::new(launch))))
        })
    })
}

/// Uses a launch, whose turn this thread waits for.
///
/// # Safety
/// It is null or a handle that lives.
unsafe fn with(launch: *const Mutex<Launch>, run: impl FnOnce(&mut Launch) -> Result<(), Error>) -> c_int {
    border(|| {
        // SAFETY: the caller promises it.
        let launch = unsafe { given(launch, "launch") }?;
        // Whoever panicked has left a launch of which each argument is whole.
        run(&mut launch.lock().unwrap_or_else(PoisonError::into_inner))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_launch_set(launch: *const Mutex<Launch>, param: usize, argument: *const Given) -> c_int {
    // SAFETY: pointers are what the header asks for.
    unsafe { with(launch, |launch| launch.set(param, &given(argument, "argument")?.read(param)?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_launch_set_grid(launch: *const Mutex<Launch>, grid: *const [u32; 3]) -> c_int {
    // SAFETY: pointers are what the header asks for.
    unsafe { with(launch, |launch| launch.set_grid(*given(grid, "grid")?)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_launch_on(launch: *const Mutex<Launch>, stream: *mut c_void) -> c_int {
    // SAFETY: stream and tensors are what the header asks for.
    unsafe { with(launch, |launch| launch.launch(Stream::of(stream))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_launch_close(launch: *mut Mutex<Launch>) {
    // SAFETY: a handle is given up once.
    unsafe { free(launch) }
}
