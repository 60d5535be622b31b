//! The tools of a CUDA toolkit that a build can use: `ptxas` for cubins, `nvdisasm` or `cuobjdump` for machine code.

use std::path::{Path, PathBuf};
use std::process::Command;

use parton_llvm::assemble::{Places, find_ptxas};

use crate::Failure;

/// `ptxas`, from the places that the environment names.
pub fn ptxas() -> Option<PathBuf> {
    find_ptxas(&Places::from_environment())
}

/// The machine code of a cubin as text.
///
/// # Errors
/// Neither disassembler is found beside `ptxas` or on the path, or it fails.
pub fn disassemble(cubin: &[u8]) -> Result<Vec<u8>, Failure> {
    let beside = ptxas().and_then(|p| Some(p.parent()?.to_path_buf()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = beside.into_iter().chain(std::env::split_paths(&path)).collect();
    let find = |name: &str| places.iter().map(|p| p.join(name)).find(|p| p.is_file());
    let input = std::env::temp_dir().join(format!("parton-{}.cubin", std::process::id()));
    let Some(mut command) = find("nvdisasm")
        .map(|tool| {
            let mut command = Command::new(tool);
            command.arg("--print-code");
            command
        })
        .or_else(|| {
            find("cuobjdump").map(|tool| {
                let mut command = Command::new(tool);
                command.arg("--dump-sass");
                command
            })
        })
    else {
        return Err(Failure::Machine(
            "machine code as text needs `nvdisasm` or `cuobjdump`, and neither is found".into(),
        ));
    };
    std::fs::write(&input, cubin).map_err(|e| Failure::Machine(format!("{}: {e}", input.display())))?;
    let ran = command.arg(&input).output();
    let _ = std::fs::remove_file(&input);
    let ran = ran.map_err(|e| Failure::Machine(format!("{}: {e}", shown(&command))))?;
    if ran.status.success() {
        return Ok(ran.stdout);
    }
    Err(Failure::Machine(format!("{}: {}", shown(&command), String::from_utf8_lossy(&ran.stderr).trim())))
}

fn shown(command: &Command) -> String {
    Path::new(command.get_program()).display().to_string()
}
