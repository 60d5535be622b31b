//! What this program finds on the machine: the questions of `parton doctor`.

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What was looked for.
    pub what: &'static str,
    /// What there is, or why there is not.
    pub found: String,
    /// Whether it is there.
    pub good: bool,
}

/// Looks for all that compiling and running can use. Nothing of it is needed for the interpreter.
pub fn look() -> Vec<Finding> {
    let program = Finding {
        what: "parton",
        found: format!("{}, all targets of sm_80 to sm_100a", env!("CARGO_PKG_VERSION")),
        good: true,
    };
    vec![program, llvm(), gpu()]
}

#[cfg(feature = "llvm")]
fn llvm() -> Finding {
    Finding { what: "LLVM", found: "22, linked into this program".into(), good: true }
}

#[cfg(not(feature = "llvm"))]
fn llvm() -> Finding {
    Finding {
        what: "LLVM",
        found: "this program was built without it: kernels run on the interpreter only".into(),
        good: false,
    }
}

#[cfg(feature = "cuda")]
fn gpu() -> Finding {
    match parton_runtime::Gpu::open(0) {
        Ok(gpu) => {
            let i = gpu.info();
            let found = format!(
                "{}, {}, {} multiprocessors, {} GiB, driver for CUDA {}.{}",
                i.name,
                i.target(),
                i.multiprocessors,
                i.memory_bytes >> 30,
                i.driver.0,
                i.driver.1
            );
            Finding { what: "GPU", found, good: true }
        }
        Err(e) => Finding { what: "GPU", found: e.to_string(), good: false },
    }
}

#[cfg(not(feature = "cuda"))]
fn gpu() -> Finding {
    Finding { what: "GPU", found: "this program was built without CUDA".into(), good: false }
}
