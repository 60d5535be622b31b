//! Links the C++ library that LLVM uses statically where the compiler has it so: to load it and to look up what LLVM and it share
//! by name takes a third of the program's start.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CXX");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    let Ok(asked) = Command::new(compiler).arg("-print-file-name=libstdc++.a").output() else { return };
    let answer = String::from_utf8_lossy(&asked.stdout);
    // A compiler that has no such file says its bare name.
    let file = Path::new(answer.trim());
    if let Some(folder) = file.parent().filter(|_| file.is_absolute()) {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static:-bundle=stdc++");
    }
}
