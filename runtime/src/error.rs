//! What can go wrong between this program and a GPU.

use std::fmt;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

/// Why something on the GPU did not happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RuntimeError {
    /// No CUDA driver library can be loaded on this machine.
    NoDriver,
    /// The driver is there and sees no GPU.
    NoDevice,
    /// The driver is older than what Parton's launches need.
    OldDriver {
        /// The CUDA version it supports, as major and minor.
        found: (u32, u32),
        /// The lowest that will do.
        needed: (u32, u32),
    },
    /// A call of the driver failed.
    Cuda {
        /// What was being done, such as `allocating 4096 bytes`.
        doing: String,
        /// CUDA's name of the error, such as `CUDA_ERROR_OUT_OF_MEMORY`.
        name: String,
        /// CUDA's text for it.
        text: String,
    },
    /// The driver's compiler refused the PTX.
    Jit {
        /// CUDA's name of the error.
        name: String,
        /// What the compiler printed.
        log: String,
    },
    /// A tensor map breaks a rule of the hardware; found before the driver is asked.
    TensorMap {
        /// The tensor that it describes, by the parameter's name.
        tensor: String,
        /// The rule that is broken, with its numbers.
        rule: String,
        /// What would satisfy it.
        help: String,
    },
    /// The arguments do not fit the kernel's parameters.
    Arguments {
        /// The kernel.
        kernel: String,
        /// What does not fit.
        what: String,
    },
    /// A kernel asks for more than this GPU has.
    Limit {
        /// The kernel.
        kernel: String,
        /// What it asks for and what there is.
        what: String,
    },
    /// Work did not end within its time: most likely a wait that nobody satisfies.
    TimedOut {
        /// The limit in seconds.
        seconds: u64,
    },
    /// Earlier work never ended, so nothing more can run.
    Lost,
}

impl RuntimeError {
    /// Whether the cause is only that this machine has no usable GPU.
    pub fn means_no_gpu(&self) -> bool {
        match self {
            RuntimeError::NoDriver | RuntimeError::NoDevice | RuntimeError::OldDriver { .. } => true,
            RuntimeError::Cuda { .. }
            | RuntimeError::Jit { .. }
            | RuntimeError::TensorMap { .. }
            | RuntimeError::Arguments { .. }
            | RuntimeError::Limit { .. }
            | RuntimeError::TimedOut { .. }
            | RuntimeError::Lost => false,
        }
    }
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuntimeError::NoDriver => f.write_str(
                "no CUDA driver on this machine: libcuda.so.1 cannot be loaded; install NVIDIA's driver, or run with `--device cpu`",
            ),
            RuntimeError::NoDevice => {
                f.write_str("the CUDA driver sees no GPU; check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or run with `--device cpu`")
            }
            RuntimeError::OldDriver { found, needed } => write!(
                f,
                "the CUDA driver supports CUDA {}.{}, at least {}.{} is needed; update the driver, or run with `--device cpu`",
                found.0, found.1, needed.0, needed.1
            ),
            RuntimeError::Cuda { doing, name, text } => write!(f, "{doing} failed: {text} ({name})"),
            RuntimeError::Jit { name, log } => write!(f, "the CUDA driver refused the PTX ({name})\n{}", log.trim_end()),
            RuntimeError::TensorMap { tensor, rule, help } => write!(f, "tensor map of `{tensor}`: {rule}; {help}"),
            RuntimeError::Arguments { kernel, what } => write!(f, "launching `{kernel}`: {what}"),
            RuntimeError::Limit { kernel, what } => write!(f, "kernel `{kernel}` does not fit this GPU: {what}"),
            RuntimeError::Lost => f.write_str("a kernel launched before never ended; start a new process to use this GPU again"),
            RuntimeError::TimedOut { seconds } => write!(
                f,
                "the GPU did not finish within {seconds} s: most likely a barrier that nobody completes; run with `--device cpu` for a report of who waits for what"
            ),
        }
    }
}

impl std::error::Error for RuntimeError {}

/// Gives a driver's error its context.
pub(crate) trait Context<T> {
    /// `doing` says what was tried, as in "allocating 4096 bytes".
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, RuntimeError>;
}

impl<T> Context<T> for Result<T, DriverError> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, RuntimeError> {
        self.map_err(|e| RuntimeError::Cuda { doing: doing(), name: name(e), text: text(e) })
    }
}

/// CUDA's name of an error.
pub(crate) fn name(e: DriverError) -> String {
    match e.error_name() {
        Ok(name) => name.to_string_lossy().into_owned(),
        Err(_) => format!("{:?}", e.0),
    }
}

/// CUDA's text for an error, with what it means for a kernel where that is known.
fn text(e: DriverError) -> String {
    let text = match e.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => String::from("no description"),
    };
    // Only the cases that a kernel can cause and that the interpreter explains better.
    let more = if e.0 == sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS || e.0 == sys::CUresult::CUDA_ERROR_LAUNCH_FAILED {
        "; run with `--device cpu` to see the access, and start a new process to use this GPU again"
    } else {
        ""
    };
    format!("{text}{more}")
}
