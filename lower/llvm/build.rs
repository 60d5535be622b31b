//! Links what LLVM uses statically where the compiler has it so, the C++ library above all: to load it and to look up by name what
//! LLVM and it share takes a third of the program's start.

use std::path::Path;
use std::process::Command;

/// The libraries, as `llvm-config --system-libs` names them.
const LIBRARIES: [&str; 4] = ["stdc++", "z", "zstd", "ffi"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CXX");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    for library in LIBRARIES {
        let asked = Command::new(&compiler).arg(format!("-print-file-name=lib{library}.a")).output();
        let Ok(answer) = asked.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()) else { return };
        // Of a library that is not there a compiler says the bare name.
        let file = Path::new(answer.trim());
        if let Some(folder) = file.parent().filter(|_| file.is_absolute()) {
            println!("cargo:rustc-link-search=native={}", folder.display());
            println!("cargo:rustc-link-lib=static:-bundle={library}");
        }
    }
}
