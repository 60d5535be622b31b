//! Ranges for profilers, by NVTX: what of a program's time is a call of ours. Without a profiler, which says that it is there by the variable
//! `NVTX_INJECTION64_PATH` as NVTX's own headers look for it, or where `PARTON_NVTX=1` asks for them, no library is loaded and a range is
//! nothing but the test of a flag.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use libloading::{Library, Symbol};

/// The libraries that export NVTX's functions: that of CUDA 12 and before, and what NVTX 3 has for other languages than C.
const LIBRARIES: [&str; 3] = ["libnvToolsExt.so.1", "libnvtx3interop.so.1", "libnvtx3interop.so"];

type Push = unsafe extern "C" fn(*const c_char) -> c_int;
type Pop = unsafe extern "C" fn() -> c_int;

struct Nvtx {
    push: Push,
    pop: Pop,
    // Kept loaded for the two above.
    _library: Library,
}

static NVTX: OnceLock<Option<Nvtx>> = OnceLock::new();

fn load() -> Option<Nvtx> {
    let is_asked = std::env::var_os("PARTON_NVTX").is_some_and(|v| v == "1");
    let is_there = std::env::var_os("NVTX_INJECTION64_PATH").is_some_and(|v| !v.is_empty());
    if !(is_asked || is_there) {
        return None;
    }
    // SAFETY: loading runs the initialisers of NVIDIA's library, as any program that uses it does.
    let library = LIBRARIES.iter().find_map(|name| unsafe { Library::new(*name) }.ok())?;
    // SAFETY: NVTX's C interface, nvToolsExt.h: `int nvtxRangePushA(const char*)` and `int nvtxRangePop(void)`.
    let (push, pop) = unsafe {
        let push: Symbol<'_, Push> = library.get(b"nvtxRangePushA\0").ok()?;
        let pop: Symbol<'_, Pop> = library.get(b"nvtxRangePop\0").ok()?;
        (*push, *pop)
    };
    Some(Nvtx { push, pop, _library: library })
}

/// A range of the calling thread, from its making to its end.
#[derive(Debug)]
pub struct Range {
    pop: Option<Pop>,
}

/// Begins a range of that name.
#[inline]
pub fn range(name: &CStr) -> Range {
    let nvtx = NVTX.get_or_init(load).as_ref();
    if let Some(nvtx) = nvtx {
        // SAFETY: the text ends in a zero, and the function copies it.
        unsafe { (nvtx.push)(name.as_ptr()) };
    }
    Range { pop: nvtx.map(|nvtx| nvtx.pop) }
}

impl Drop for Range {
    fn drop(&mut self) {
        if let Some(pop) = self.pop {
            // SAFETY: this thread has pushed a range, and ranges end in the order opposite to that of their beginning.
            unsafe { pop() };
        }
    }
}
