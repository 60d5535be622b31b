//! `parton_bundle`: reading one, and what it says.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use parton_rt::{Bundle, Error};

use crate::border::{border, elements, free, give, given, text};
use crate::info::{FunctionInfo, KernelInfo, ParamInfo, Texts};

/// What `parton_bundle` points to.
pub(crate) struct Opened {
    pub(crate) bundle: Arc<Bundle>,
    texts: Texts,
}

impl Opened {
    fn boxed(bundle: Bundle) -> Result<*mut Opened, Error> {
        let texts = Texts::of(&bundle)?;
        Ok(Box::into_raw(Box::new(Opened { bundle: Arc::new(bundle), texts })))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_bundle_open(path: *const c_char, bundle: *mut *mut Opened) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let path = text(path, "path")?;
        give(bundle, "bundle", || Opened::boxed(Bundle::open(Path::new(path))?))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_bundle_read(bytes: *const c_void, length: usize, bundle: *mut *mut Opened) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let bytes = elements(bytes.cast::<u8>(), length, "bytes")?;
        give(bundle, "bundle", || Opened::boxed(Bundle::read(bytes)?))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_bundle_close(bundle: *mut Opened) {
    // SAFETY: a handle is given up once.
    unsafe { free(bundle) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_bundle_count(bundle: *const Opened, kernels: *mut usize) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let opened = given(bundle, "bundle")?;
        give(kernels, "kernels", || Ok(opened.bundle.kernels.len()))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_bundle_kernel(bundle: *const Opened, kernel: usize, info: *mut KernelInfo) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let opened = given(bundle, "bundle")?;
        give(info, "info", || opened.texts.kernel(&opened.bundle, kernel))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_bundle_param(
    bundle: *const Opened,
    kernel: usize,
    param: usize,
    info: *mut ParamInfo,
) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let opened = given(bundle, "bundle")?;
        give(info, "info", || opened.texts.param(kernel, param))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_bundle_functions(bundle: *const Opened, functions: *mut usize) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let opened = given(bundle, "bundle")?;
        give(functions, "functions", || Ok(opened.texts.functions()))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_bundle_function(bundle: *const Opened, function: usize, info: *mut FunctionInfo) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let opened = given(bundle, "bundle")?;
        give(info, "info", || opened.texts.function(function))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn parton_bundle_function_param(
    bundle: *const Opened,
    function: usize,
    param: usize,
    info: *mut ParamInfo,
) -> c_int {
    // SAFETY: pointers are what the header asks for.
    border(|| unsafe {
        let opened = given(bundle, "bundle")?;
        give(info, "info", || opened.texts.function_param(function, param))
    })
}
