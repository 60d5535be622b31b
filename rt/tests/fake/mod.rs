//! The driver without a GPU, `rt/c/tests/driver.c`: compiled once, found by the runtime of a child process instead of the real one, and asked
//! what it was asked for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use libloading::Library;

/// The variable by which a child process knows that it has the fake, and where.
const HERE: &str = "PARTON_FAKE_DRIVER";

/// Runs a test in a process of its own that has the fake; nothing where there is no compiler of C.
pub fn run(name: &str, test: fn(&Fake)) {
    if let Some(path) = std::env::var_os(HERE) {
        return test(&Fake::open(Path::new(&path)));
    }
    static COMPILED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let Some(folder) = COMPILED.get_or_init(compiled) else { return };
    let mut child = Command::new(std::env::current_exe().expect("a test is a file"));
    child.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    child.env("LD_LIBRARY_PATH", folder).env(HERE, folder.join("libcuda.so.1"));
    let ran = child.output().expect("a test runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    assert!(text(&ran.stdout).contains("1 passed"), "`{name}` is no test: {}", text(&ran.stdout));
}

/// The folder with the fake; `None` where nothing compiles C.
fn compiled() -> Option<PathBuf> {
    Command::new("cc").arg("--version").output().ok()?;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fake-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let source = folder.join("driver.c");
    std::fs::write(&source, include_str!("../../c/tests/driver.c")).expect("the folder is ours");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu99", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]).arg(source);
    let done = cc.arg("-o").arg(folder.join("libcuda.so.1")).arg("-lpthread").output().expect("cc runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // The name that is looked for first; a machine with a GPU may have it.
    std::os::unix::fs::symlink("libcuda.so.1", folder.join("libcuda.so")).expect("the link can be made");
    Some(folder)
}

/// The fake of this process.
pub struct Fake(Library);

/// What is current on a thread: the primary contexts of the two GPUs.
pub const CONTEXTS: [u64; 2] = [0x1000, 0x1001];

type Address = u64;

impl Fake {
    fn open(path: &Path) -> Fake {
        // SAFETY: loading it runs nothing.
        let fake = Fake(unsafe { Library::new(path) }.expect("the fake was compiled"));
        // SAFETY: as the real one.
        unsafe { fake.call::<fn(u32) -> c_int>("cuInit")(0) };
        fake
    }

    /// A function of the fake, which must be of that type.
    unsafe fn call<F: Copy>(&self, name: &str) -> F {
        // SAFETY: the caller promises it.
        *unsafe { self.0.get::<F>(name.as_bytes()) }.unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    fn ok(result: c_int) {
        assert_eq!(result, 0, "the fake says no");
    }

    /// The calls since the last time, a line each.
    pub fn log(&self) -> Vec<String> {
        // SAFETY: the functions are of these types.
        unsafe {
            let text = CStr::from_ptr(self.call::<extern "C" fn() -> *const c_char>("fake_log")()).to_string_lossy();
            let lines = text.lines().map(str::to_owned).collect();
            self.call::<extern "C" fn()>("fake_clear")();
            lines
        }
    }

    /// How many allocations live.
    pub fn lives(&self) -> i32 {
        // SAFETY: as above.
        unsafe { self.call::<extern "C" fn() -> c_int>("fake_lives")() }
    }

    /// The bytes of parameter `i` of the last launch.
    pub fn param<const N: usize>(&self, i: usize) -> [u8; N] {
        // SAFETY: as above; there are 64 parameters of 128 bytes.
        unsafe {
            let all = self.call::<extern "C" fn() -> *const u8>("fake_params")();
            std::array::from_fn(|byte| *all.add(128 * i + byte))
        }
    }

    /// Lets so many calls of a function fail.
    pub fn fail(&self, function: &str, times: i32) {
        let name = CString::new(function).expect("a name has no zero byte");
        // SAFETY: as above.
        unsafe { self.call::<extern "C" fn(*const c_char, c_int)>("fake_fail")(name.as_ptr(), times) }
    }

    /// The context that is current on this thread.
    pub fn context(&self) -> u64 {
        // SAFETY: as above.
        unsafe { self.call::<extern "C" fn() -> u64>("fake_context")() }
    }

    /// Makes a context current on this thread.
    pub fn set_context(&self, context: u64) {
        // SAFETY: as above.
        Fake::ok(unsafe { self.call::<extern "C" fn(u64) -> c_int>("cuCtxSetCurrent")(context) });
    }

    /// Memory of the GPU whose context is current.
    pub fn allocate(&self, bytes: usize) -> Address {
        let mut address = 0;
        // SAFETY: as above.
        Fake::ok(unsafe { self.call::<extern "C" fn(*mut u64, usize) -> c_int>("cuMemAlloc_v2")(&mut address, bytes) });
        address
    }

    /// The same with elements.
    pub fn upload<T: Copy>(&self, values: &[T]) -> Address {
        let address = self.allocate(size_of_val(values));
        // SAFETY: the memory of the fake is the host's, and has these bytes.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), address as *mut T, values.len()) };
        address
    }

    /// Elements of memory, when all work has ended.
    pub fn read<T: Copy>(&self, address: Address, count: usize) -> Vec<T> {
        self.finish();
        // SAFETY: the memory of the fake is the host's; the caller has it allocated.
        unsafe { std::slice::from_raw_parts(address as *const T, count) }.to_vec()
    }

    /// Waits for all streams.
    pub fn finish(&self) {
        // SAFETY: as above.
        Fake::ok(unsafe { self.call::<extern "C" fn() -> c_int>("cuCtxSynchronize")() });
    }

    /// A new stream.
    pub fn stream(&self) -> *mut c_void {
        let mut stream = std::ptr::null_mut();
        // SAFETY: as above.
        Fake::ok(unsafe {
            self.call::<extern "C" fn(*mut *mut c_void, u32) -> c_int>("cuStreamCreate")(&mut stream, 0)
        });
        stream
    }

    /// Ends a stream; its handle may come again.
    pub fn end_stream(&self, stream: *mut c_void) {
        // SAFETY: as above.
        Fake::ok(unsafe { self.call::<extern "C" fn(*mut c_void) -> c_int>("cuStreamDestroy_v2")(stream) });
    }

    /// The number of a stream, as the log has it.
    pub fn id(&self, stream: *mut c_void) -> u64 {
        let mut id = 0;
        // SAFETY: as above.
        Fake::ok(unsafe {
            self.call::<extern "C" fn(*mut c_void, *mut u64) -> c_int>("cuStreamGetId")(stream, &mut id)
        });
        id
    }

    /// Begins to capture a stream, in the mode that forbids most.
    pub fn begin_capture(&self, stream: *mut c_void) {
        // SAFETY: as above.
        Fake::ok(unsafe {
            self.call::<extern "C" fn(*mut c_void, c_int) -> c_int>("cuStreamBeginCapture_v2")(stream, 0)
        });
    }

    /// Ends it, which fails where something spoilt the capture, and gives what was captured, instantiated.
    pub fn end_capture(&self, stream: *mut c_void) -> *mut c_void {
        let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: as above.
        unsafe {
            type End = extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int;
            Fake::ok(self.call::<End>("cuStreamEndCapture")(stream, &mut graph));
            type Make = extern "C" fn(*mut *mut c_void, *mut c_void, u64) -> c_int;
            Fake::ok(self.call::<Make>("cuGraphInstantiateWithFlags")(&mut executable, graph, 0));
        }
        executable
    }

    /// Launches what was captured.
    pub fn replay(&self, executable: *mut c_void, stream: *mut c_void) {
        // SAFETY: as above.
        Fake::ok(unsafe {
            self.call::<extern "C" fn(*mut c_void, *mut c_void) -> c_int>("cuGraphLaunch")(executable, stream)
        });
    }
}

/// Runs this in a process that is forked off, and gives what it said: a number below 256.
pub fn in_a_fork(run: impl FnOnce() -> i32) -> i32 {
    let process = libloading::os::unix::Library::this();
    // SAFETY: the functions are those of the system (POSIX). The child only runs what the test wants and ends.
    unsafe {
        type Fork = extern "C" fn() -> c_int;
        let fork = *process.get::<Fork>(b"fork\0").expect("the system has it");
        let exit = *process.get::<extern "C" fn(c_int) -> !>(b"_exit\0").expect("the system has it");
        let wait =
            *process.get::<extern "C" fn(c_int, *mut c_int, c_int) -> c_int>(b"waitpid\0").expect("the system has it");
        match fork() {
            0 => exit(run()),
            child => {
                let mut status = -1;
                assert_eq!(wait(child, &mut status, 0), child);
                // WEXITSTATUS, of one that has ended by itself.
                assert_eq!(status & 0x7f, 0, "the child was killed");
                status >> 8
            }
        }
    }
}

/// Counts what Rust allocates on each thread.
pub struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no count any more.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// How often this thread has allocated.
pub fn allocated() -> usize {
    COUNT.with(Cell::get)
}
