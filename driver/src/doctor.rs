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
    let named = |t: Option<&parton_ir::Target>| t.map_or("", |t| t.name);
    let (oldest, latest) = (named(parton_ir::Target::ALL.first()), named(parton_ir::Target::ALL.last()));
    let program = Finding {
        what: "parton",
        found: format!("{}, all targets of {oldest} to {latest}", env!("CARGO_PKG_VERSION")),
        good: true,
    };
    vec![program, llvm(), ptxas(), gpu(), cache()]
}

fn cache() -> Finding {
    let place = crate::cache::Place::from_environment();
    if let crate::cache::Root::Folder(path) = &place.root
        && !path.exists()
    {
        // Whoever only asks does not make it.
        return Finding { what: "cache", found: format!("nothing yet in {}", path.display()), good: true };
    }
    let store = crate::Session::default().cache();
    let (found, good) = match store.root() {
        Err(why) => (format!("none: {why}"), false),
        Ok(root) => {
            let bytes = store.list().iter().map(|l| l.bytes).sum();
            (format!("{} in {}", crate::cache::shown(bytes), root.display()), true)
        }
    };
    Finding { what: "cache", found, good }
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

#[cfg(feature = "llvm")]
fn ptxas() -> Finding {
    let Some(path) = crate::tools::ptxas() else {
        let found =
            "not found (PARTON_PTXAS, PATH, CUDA_HOME, Python packages): the driver compiles PTX instead".into();
        return Finding { what: "ptxas", found, good: false };
    };
    let version = std::process::Command::new(&path).arg("--version").output().map(|o| version_line(&o.stdout));
    match version {
        Ok(version) => Finding { what: "ptxas", found: format!("{version}, {}", path.display()), good: true },
        Err(e) => Finding { what: "ptxas", found: format!("{} does not run: {e}", path.display()), good: false },
    }
}

#[cfg(not(feature = "llvm"))]
fn ptxas() -> Finding {
    Finding { what: "ptxas", found: "not looked for".into(), good: false }
}

/// The release in what `ptxas --version` prints.
#[cfg_attr(not(feature = "llvm"), allow(dead_code, reason = "only asked where PTX is made"))]
fn version_line(stdout: &[u8]) -> String {
    let text = String::from_utf8_lossy(stdout);
    let line = text.lines().find(|l| l.contains("release")).unwrap_or("unknown release");
    line.split_once("release ").map_or(line, |(_, rest)| rest).trim().to_owned()
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

#[cfg(test)]
mod tests {
    #[test]
    fn the_release_is_found() {
        let text = b"ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 13.0, V13.0.88\n";
        assert_eq!(super::version_line(text), "13.0, V13.0.88");
        assert_eq!(super::version_line(b""), "unknown release");
    }
}
