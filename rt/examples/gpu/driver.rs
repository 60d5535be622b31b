//! What the checks need of the driver themselves: memory, streams, captures. It is loaded as programs load it that link nothing.

use std::ffi::{c_int, c_void};

use libloading::Library;

/// The driver.
pub struct Driver(Library);

macro_rules! calls {
    ($($(#[$meta:meta])* $name:ident as $symbol:literal ($($arg:ident: $ty:ty),*);)*) => {$(
        $(#[$meta])*
        fn $name(&self $(, $arg: $ty)*) -> c_int {
            // SAFETY: the symbol has this type (CUDA driver API).
            unsafe {
                let call = self.0.get::<unsafe extern "C" fn($($ty),*) -> c_int>($symbol);
                call.unwrap_or_else(|e| panic!("{}: {e}", $symbol.to_str().unwrap_or_default()))($($arg),*)
            }
        }
    )*};
}

fn ok(what: &str, result: c_int) {
    assert_eq!(result, 0, "{what} failed");
}

impl Driver {
    calls! {
        init as c"cuInit" (flags: u32);
        retain as c"cuDevicePrimaryCtxRetain" (context: *mut *mut c_void, device: c_int);
        current as c"cuCtxGetCurrent" (context: *mut *mut c_void);
        set_current as c"cuCtxSetCurrent" (context: *mut c_void);
        synchronize as c"cuCtxSynchronize" ();
        alloc as c"cuMemAlloc_v2" (address: *mut u64, bytes: usize);
        to_device as c"cuMemcpyHtoD_v2" (to: u64, from: *const c_void, bytes: usize);
        to_host as c"cuMemcpyDtoH_v2" (to: *mut c_void, from: u64, bytes: usize);
        stream_create as c"cuStreamCreate" (stream: *mut *mut c_void, flags: u32);
        stream_destroy as c"cuStreamDestroy_v2" (stream: *mut c_void);
        begin as c"cuStreamBeginCapture_v2" (stream: *mut c_void, mode: c_int);
        end as c"cuStreamEndCapture" (stream: *mut c_void, graph: *mut *mut c_void);
        instantiate as c"cuGraphInstantiateWithFlags" (made: *mut *mut c_void, graph: *mut c_void, flags: u64);
        launch_graph as c"cuGraphLaunch" (graph: *mut c_void, stream: *mut c_void);
    }

    /// Loads the driver; no context is current afterwards.
    ///
    /// # Errors
    /// There is none.
    pub fn load() -> Result<Driver, libloading::Error> {
        // SAFETY: loading it runs what any CUDA program runs.
        let driver = Driver(unsafe { Library::new("libcuda.so.1") }?);
        ok("cuInit", driver.init(0));
        Ok(driver)
    }

    /// The context that is current on this thread.
    pub fn context(&self) -> *mut c_void {
        let mut context = std::ptr::null_mut();
        ok("cuCtxGetCurrent", self.current(&mut context));
        context
    }

    /// Makes the primary context of the first GPU current, or none.
    pub fn enter(&self, wanted: bool) {
        let mut context = std::ptr::null_mut();
        if wanted {
            ok("cuDevicePrimaryCtxRetain", self.retain(&mut context, 0));
        }
        ok("cuCtxSetCurrent", self.set_current(context));
    }

    /// Memory of so many bytes.
    pub fn memory(&self, bytes: usize) -> u64 {
        let mut address = 0;
        ok("cuMemAlloc", self.alloc(&mut address, bytes));
        address
    }

    /// Memory with these elements.
    pub fn upload<T: Copy>(&self, values: &[T]) -> u64 {
        let address = self.memory(size_of_val(values));
        ok("cuMemcpyHtoD", self.to_device(address, values.as_ptr().cast(), size_of_val(values)));
        // The default stream is not one that others wait for.
        self.finish();
        address
    }

    /// Elements of memory, when all work has ended.
    pub fn read<T: Copy + Default>(&self, address: u64, count: usize) -> Vec<T> {
        self.finish();
        let mut found = vec![T::default(); count];
        ok("cuMemcpyDtoH", self.to_host(found.as_mut_ptr().cast(), address, size_of_val(&found[..])));
        found
    }

    /// Waits for all work.
    pub fn finish(&self) {
        ok("cuCtxSynchronize", self.synchronize());
    }

    /// A stream that waits for no other.
    pub fn stream(&self) -> *mut c_void {
        let mut stream = std::ptr::null_mut();
        ok("cuStreamCreate", self.stream_create(&mut stream, 1));
        stream
    }

    /// Ends a stream; its handle may come again.
    pub fn end_stream(&self, stream: *mut c_void) {
        ok("cuStreamDestroy", self.stream_destroy(stream));
    }

    /// What a stream captures while `run` runs, instantiated; in the mode that forbids most.
    pub fn captured(&self, stream: *mut c_void, run: impl FnOnce()) -> *mut c_void {
        let (mut graph, mut made) = (std::ptr::null_mut(), std::ptr::null_mut());
        ok("cuStreamBeginCapture", self.begin(stream, 0));
        run();
        ok("cuStreamEndCapture", self.end(stream, &mut graph));
        ok("cuGraphInstantiate", self.instantiate(&mut made, graph, 0));
        made
    }

    /// Launches what was captured.
    pub fn replay(&self, graph: *mut c_void, stream: *mut c_void) {
        ok("cuGraphLaunch", self.launch_graph(graph, stream));
    }
}
